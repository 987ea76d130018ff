"""The viewer's page as one self-contained HTML file, for an episode or a report.

The content is data in the page, never markup or script. The page's
Content-Security-Policy allows only its own script, by hash.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, ClassVar

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import base
from webtraj.store.blobs import LazyBlob
from webtraj.view import values
from webtraj.view.episode import episode_data

__all__ = ["HtmlExporter", "bundle", "episode_html", "page_html"]

# Bundle the page's modules into one script, for a page without a server.
#
# This works only for the modules of `static/`, which follow rules that are checked: each import is
# on one line and keeps its names; `export` precedes the declaration; top-level names start in the
# first column, and no two modules share one.

_IMPORT = re.compile(r'import \{ (\w+(?:, \w+)*) \} from "\./(\w+\.js)";')
_NAME = re.compile(r"(?:async )?(?:function\*? ?|const |let |class )(\w+)\b")
_BESIDE_NAMES = re.compile(r"(?:import|export|var)\b|(?:const|let) [\[{]")


def bundle(entry: str, read: Callable[[str], str]) -> str:
    r"""Return a module and its imports as one script, in execution order.

    >>> files = {
    ...     "a.js": 'import { two } from "./b.js";\nconsole.log(two());\n',
    ...     "b.js": "export function two() {\n  return 2;\n}\n",
    ... }
    >>> print(bundle("a.js", files.__getitem__))
    function two() {
      return 2;
    }
    console.log(two());
    <BLANKLINE>

    Args:
        entry: The name of the module to run.
        read: Returns a module's text by its name.

    Raises:
        ValueError: A module breaks the rules.
    """
    made: list[str] = []
    owners: dict[str, str] = {}
    _add(entry, read, made, owners, set())
    return "".join(made)


def _add(
    name: str,
    read: Callable[[str], str],
    made: list[str],
    owners: dict[str, str],
    seen: set[str],
) -> None:
    seen.add(name)
    kept: list[str] = []
    for number, line in enumerate(read(name).splitlines(), start=1):
        if (found := _IMPORT.fullmatch(line)) is not None:
            if found[2] not in seen:
                _add(found[2], read, made, owners, seen)
            continue
        told = line.removeprefix("export ")
        if (declared := _NAME.match(told)) is not None:
            owner = owners.setdefault(declared[1], name)
            if owner != name:
                raise ValueError(f"{name}:{number}: {owner} also declares {declared[1]!r}.")
        elif _BESIDE_NAMES.match(told) or told != line:
            raise ValueError(f"{name}:{number}: cannot bundle the line {line!r:.100}.")
        kept.append(told)
    made.append("\n".join(kept) + "\n")


_ENTRY = "app.js"
_MARKERS = re.compile(r"/\*\{\{(css|js)\}\}\*/|\{\{(data)\}\}")
_CHARSET = '<meta charset="utf-8">'
_HARMFUL = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_HARMFUL_IN_JSON = str.maketrans(_HARMFUL)


def episode_html(trajectory: trajectory_lib.EpisodeTrajectory) -> str:
    """Return an episode as an HTML file that needs no server, with its images.

    Other bytes, such as downloads, are left out; the page shows their sizes.
    """
    return page_html(episode_data(trajectory, _data_uri))


def page_html(data: Mapping[str, Any], *, mark: str = "") -> str:
    """Return the viewer's page for an episode or a report, as an HTML file that needs no server.

    Args:
        data: From `episode_data` or `report_data`.
        mark: A comment to put after the document's type.
    """
    static = resources.files("webtraj.view") / "static"

    def read(name: str) -> str:
        return (static / name).read_text(encoding="utf-8")

    parts = {"css": read("style.css"), "js": bundle(_ENTRY, read)}
    for name, end in (("css", "</style"), ("js", "</script"), ("js", "<!--")):
        if end in parts[name].lower():
            raise RuntimeError(f"The page's {name} contains {end!r}, which would end its element.")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(parts['js'])}'",
            f"style-src '{_hash(parts['css'])}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts["data"] = orjson.dumps(data).decode().translate(_HARMFUL_IN_JSON)
    template = read("export.html")
    if template.count(_CHARSET) != 1 or len(_MARKERS.findall(template)) != len(parts):
        raise RuntimeError("export.html lacks a marker or repeats one.")
    meta = f'{_CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    # In one pass, because the data's text may look like a marker.
    filled = _MARKERS.sub(lambda found: parts[found[1] or found[2]], template)
    head, body = filled.split(_CHARSET, 1)
    head = head.replace("\n", f"\n{mark}\n", 1) if mark else head
    return head + meta + body


def _data_uri(value: bytes | LazyBlob) -> str:
    try:
        data = value.load() if isinstance(value, LazyBlob) else value
    except errors.WebtrajError:  # The page shows that it cannot be read.
        return ""
    media_type = values.media_type(data)
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}" if media_type else ""


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# Export episodes as self-contained HTML files, `<episode id>.html`.


@dataclasses.dataclass(frozen=True, kw_only=True)
class HtmlExporter:
    """Exporter of HTML files."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        if job.name.endswith((".html", ".htm")):
            raise errors.InvalidInputError(
                f"--out {job.name!r:.100} names a file, but the HTML export is a folder with one "
                "page per episode, named by its id. Give a folder, such as pages."
            )
        for episode in job.episodes:
            name = f"{episode.episode_id}.html"
            content = episode_html(episode).encode()
            path = job.folder / name
            path.write_bytes(content)
            if path.read_bytes() != content:
                raise base.unequal(name, "content")
            job.ledger.wrote(episode)
