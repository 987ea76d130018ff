"""An episode as one HTML file: nothing else is needed to look at it, and nothing else is loaded.

What the episode holds is data in the page, never markup or script. The page may run its own script
and no other: its Content-Security-Policy names that by its hash.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections.abc import Callable
from importlib import resources
from typing import ClassVar

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import base
from webtraj.store.blobs import LazyBlob
from webtraj.viewer import values
from webtraj.viewer.episode import episode_data

__all__ = ["HtmlExporter", "bundle", "episode_html"]

# The page's modules as one script, for a page without a server.
#
# It is no bundler for anything else. The modules of `static/` keep to rules, and what does not is
# refused: an import stands on one line and keeps its names; an export stands before what it
# exports; top-level names begin in the first column, and no two modules share one.

_IMPORT = re.compile(r'import \{ (\w+(?:, \w+)*) \} from "\./(\w+\.js)";')
_NAME = re.compile(r"(?:async )?(?:function\*? ?|const |let |class )(\w+)\b")
_BESIDE_NAMES = re.compile(r"(?:import|export|var)\b|(?:const|let) [\[{]")


def bundle(entry: str, read: Callable[[str], str]) -> str:
    r"""Returns a module and all that it imports as one script, in the order in which they run.

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
        entry: The name of the module that is run.
        read: Returns a module's text by its name.

    Raises:
        ValueError: A module does not keep to the rules.
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
                raise ValueError(f"{name}:{number}: {owner} has a {declared[1]!r}, too.")
        elif _BESIDE_NAMES.match(told) or told != line:
            raise ValueError(f"{name}:{number}: {line!r:.100} is not understood here.")
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
    """Returns an episode as an HTML file that needs no server. Pictures are in it.

    Other bytes, such as downloads, are not: their sizes are told.
    """
    data = orjson.dumps(episode_data(trajectory, _data_uri)).decode()
    static = resources.files("webtraj.viewer") / "static"

    def read(name: str) -> str:
        return (static / name).read_text(encoding="utf-8")

    parts = {"css": read("style.css"), "js": bundle(_ENTRY, read)}
    for name, end in (("css", "</style"), ("js", "</script"), ("js", "<!--")):
        if end in parts[name].lower():
            raise RuntimeError(f"The page's {name} holds {end!r}, and cannot stand in a page.")
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
    parts["data"] = data.translate(_HARMFUL_IN_JSON)
    template = read("export.html")
    if template.count(_CHARSET) != 1 or len(_MARKERS.findall(template)) != len(parts):
        raise RuntimeError("export.html lacks a marker, or has one twice.")
    meta = f'{_CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    # In one pass: what an episode says may look like a marker.
    filled = _MARKERS.sub(lambda found: parts[found[1] or found[2]], template)
    head, body = filled.split(_CHARSET, 1)
    return head + meta + body


def _data_uri(value: bytes | LazyBlob) -> str:
    try:
        data = value.load() if isinstance(value, LazyBlob) else value
    except errors.WebtrajError:  # The page says that it cannot be read.
        return ""
    media_type = values.media_type(data)
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}" if media_type else ""


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# Episodes as HTML files, `<episode id>.html`, each of which needs nothing else.


@dataclasses.dataclass(frozen=True, kw_only=True)
class HtmlExporter:
    """Writes HTML."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        if job.name.endswith((".html", ".htm")):
            raise errors.InvalidInputError(
                f"{job.name!r:.100} would be a folder, with a page an episode in it; name it as "
                "one, such as pages. The page of a single episode is in it by the episode's id."
            )
        for episode in job.episodes:
            name = f"{episode.episode_id}.html"
            content = episode_html(episode).encode()
            path = job.folder / name
            path.write_bytes(content)
            if path.read_bytes() != content:
                raise base.unequal(name, "content")
            job.ledger.wrote(episode)
