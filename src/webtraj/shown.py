"""How values and records show themselves: short in a console, as a table in a notebook.

A repr never contains large data: a picture, an array or a long text is shown by its size. In HTML
every text is escaped, and pictures are small thumbnails.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import html
import io
import types
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

__all__ = ["Shown", "as_html", "one_line", "short", "short_record", "thumbnail"]

_WIDTH = 80
"""Characters of a text within a repr."""
_MOST_ITEMS = 8
"""Items of a container within a repr."""
_DEPTH = 3
_LONGEST = 1200
"""Characters of a whole repr."""
_SHOWN_ROWS = 50
_THUMBNAIL = (160, 120)
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF")


class Shown:
    """A dataclass with a short repr, which leaves out fields that have their default value.

    Give the dataclass `repr=False`, so that it keeps this repr.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return short_record(self)


def one_line(text: Any, longest: int | None = None) -> str:
    """Return a text as one line with single spaces, of at most `longest` characters and `...`.

    >>> one_line("a long  text", 8)
    'a long t...'
    """
    line = " ".join(str(text).split())
    return line if longest is None or len(line) <= longest else f"{line[:longest]}..."


def short_record(record: Any, *, depth: int = _DEPTH) -> str:
    """Return a dataclass on one line, without fields that have their default value."""
    shown = []
    for field in dataclasses.fields(record):
        # A dataclass with slots may lack a field while it is being made or unpickled.
        value = getattr(record, field.name, field.default)
        if field.repr and not _is_default(field, value):
            shown.append(f"{field.name}={short(value, depth=depth - 1)}")
    return _cut(f"{type(record).__name__}({', '.join(shown)})", _LONGEST)


def short(value: Any, *, width: int = _WIDTH, depth: int = _DEPTH, most: int = _MOST_ITEMS) -> str:
    """Return a value on one line. A long value is shown by its start or its size.

    >>> short({"title": "Shop", "screenshot": bytes(5000), "seen": list(range(100))})
    "{'title': 'Shop', 'screenshot': <5,000 bytes>, 'seen': [0, 1, 2, 3, 4, 5, 6, 7, ...]}"
    """
    match value:
        case str() if not _has_own_repr(value):
            return repr(value if len(value) <= width else value[: width - 1] + "…")
        case bytes() | bytearray() | memoryview():
            return repr(value) if len(value) <= width // 4 else f"<{len(value):,} bytes>"
        case np.ndarray() if value.size > _MOST_ITEMS:
            return f"<{value.dtype} array {'x'.join(map(str, value.shape))}>"
        case enum.Enum():
            return value.name
        case int() if value.bit_length() > 4096:  # Python refuses to print it in decimal.
            return f"<an integer of {value.bit_length():,} bits>"
    if issubclass(type(value), Shown):
        return _cut(repr(value), _LONGEST)
    if _is_record(value) and type(value).__module__.startswith("webtraj."):
        return "..." if depth < 1 else short_record(value, depth=depth)
    if isinstance(value, (Mapping, list, tuple, Set)) and not _has_own_repr(value):
        if value and depth < 1:
            return "..."
        return _container(value, width, depth - 1, most)
    return _own(value, width)


def _own(value: Any, width: int) -> str:
    """Return an object's own repr, which may hide secrets."""
    try:
        return _cut(" ".join(repr(value).split()), 4 * width)
    except Exception as error:  # A foreign object's repr may run any code.
        return f"<repr failed: {type(error).__name__}>"


def _has_own_repr(value: Any) -> bool:
    """Return whether a value's class has a repr that is written in Python."""
    return isinstance(type(value).__repr__, types.FunctionType)


def _container(value: Any, width: int, depth: int, most: int) -> str:
    shown = []
    for number, item in enumerate(value.items() if isinstance(value, Mapping) else value):
        if number == most:
            shown.append("...")
            break
        if isinstance(value, Mapping):
            key, inner = item
            shown.append(f"{short(key)}: {short(inner, width=width, depth=depth, most=most)}")
        else:
            shown.append(short(item, width=width, depth=depth, most=most))
    left, right = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    more = "," if isinstance(value, tuple) and len(value) == 1 else ""
    return f"{left}{', '.join(shown)}{more}{right}"


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        return isinstance(value, (Mapping, list, tuple)) and not value
    if default is dataclasses.MISSING:
        return False
    return value is default or (type(value) is type(default) and bool(value == default))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# In notebooks.


def as_html(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, total: int | None = None
) -> str:
    """Return a table as HTML for a notebook.

    Args:
        title: The line above it.
        columns: The columns' names. A column without a value in any row is left out.
        rows: The cells of each row: text, or bytes of a small picture (see `thumbnail`). At most
            50 are shown.
        total: The number of rows, if there are more than the given ones.
    """
    given = list(rows)
    shown = given[:_SHOWN_ROWS]
    kept = [at for at in range(len(columns)) if any(row[at] not in ("", None) for row in shown)]
    head = "".join(f"<th>{html.escape(columns[at])}</th>" for at in kept)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(row[at])}</td>' for at in kept)}</tr>" for row in shown
    )
    more = (total or len(given)) - len(shown)
    rest = f"<p>... and {more:,} more</p>" if more > 0 else ""
    return (
        f"<div><p>{html.escape(title)}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}</div>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        data = base64.b64encode(value).decode()
        return f'<img alt="screenshot" src="data:image/jpeg;base64,{data}">'
    text = "" if value is None else str(value)
    return html.escape(text.encode("utf-8", "replace").decode())


def thumbnail(observation: Any) -> bytes | None:
    """Return the first picture of an observation as a small JPEG.

    A picture is an encoded JPEG, PNG or WebP, or an array of height, width and three channels of
    uint8. None if there is none, it cannot be read, or Pillow is missing.
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    picture: Image.Image
    channels = observation.values() if isinstance(observation, Mapping) else (observation,)
    for value in channels:
        try:
            value = value.load() if hasattr(value, "blob") and not value.text else value
            if isinstance(value, bytes) and value.startswith(_PICTURES):
                picture = Image.open(io.BytesIO(value), formats=("JPEG", "PNG", "WEBP"))
            elif isinstance(value, np.ndarray) and value.dtype == np.uint8 and _is_rgb(value):
                picture = Image.fromarray(value)
            else:
                continue
            picture.thumbnail(_THUMBNAIL)
            made = io.BytesIO()
            picture.convert("RGB").save(made, "JPEG", quality=75)
        except Exception:  # A file from elsewhere may be damaged in any way.
            continue
        return made.getvalue()
    return None


def _is_rgb(value: np.ndarray[Any, Any]) -> bool:
    return value.ndim == 3 and value.shape[2] == 3 and min(value.shape) > 0
