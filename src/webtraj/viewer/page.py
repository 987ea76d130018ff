"""An episode as one HTML file: nothing else is needed to look at it, and nothing else is loaded.

What the episode holds is data in the page, never markup or script. The page may run its own script
and no other: its Content-Security-Policy names that by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store.blobs import LazyBlob
from webtraj.viewer import pictures
from webtraj.viewer.bundling import bundle
from webtraj.viewer.episode import episode_data

__all__ = ["episode_html"]

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
    media_type = pictures.media_type(data)
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}" if media_type else ""


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
