"""Values as plain JSON data, for readers that do not know webtraj.

Arrays, tuples and lists become lists, numpy numbers become numbers, and named tuples become
objects; the original types are lost. Values that JSON cannot express become objects with the key
`$`, as in `webtraj.store.values`: NaN, integers beyond 64 bits, text with lone surrogates, sets,
dates, records, and mappings with keys other than text.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from webtraj import errors
from webtraj.environments.actions import Action, format_action
from webtraj.errors import UnsupportedActionError
from webtraj.store.encoding import Encoder
from webtraj.store.values import TAG
from webtraj.trajectory import ModelCall

__all__ = [
    "FilesBeside",
    "action_text",
    "answer",
    "filled_fields",
    "image_kind",
    "is_blank",
    "is_unicode",
    "plain",
    "to_json",
    "unicode_text",
]

_DEEP = 60
"""From this depth on, the encoder takes over; it can nest deeper than JSON."""

OnBytes = Callable[[bytes], Any]


def plain(value: Any, on_bytes: OnBytes | None = None) -> Any:
    """Return a value as JSON data that orjson can write.

    >>> plain({"box": np.ones(2), "reward": float("nan")})
    {'box': [1.0, 1.0], 'reward': {'$': 'float', 'v': 'nan'}}

    Args:
        value: Any value that a dataset can hold.
        on_bytes: Returns the replacement for bytes. Default: base64.
    """
    return _plain(value, on_bytes or _tagged, 0)


def to_json(value: Any, on_bytes: OnBytes | None = None) -> str:
    """Return a value as JSON text."""
    return orjson.dumps(plain(value, on_bytes)).decode()


def action_text(action: Any) -> str | None:
    """Return an action as one line: webtraj's action text, the given text, or JSON.

    >>> from webtraj.environments.actions import Click
    >>> action_text(Click("12")), action_text(3), action_text(None)
    ("click('12')", '3', None)
    """
    if action is None or isinstance(action, str):
        return action
    if isinstance(action, Action):
        try:
            return format_action(action)
        except UnsupportedActionError:  # An InvalidAction has no action text.
            return to_json(action)
    return to_json(action)


def is_blank(value: Any) -> bool:
    """Return whether a value is empty: None, or an empty text, tuple, list or mapping."""
    return value is None or (isinstance(value, (str, tuple, list, Mapping)) and not value)


def filled_fields(record: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a record that are not blank, except those in `without`."""
    names = [field.name for field in dataclasses.fields(record) if field.name not in without]
    values = {name: getattr(record, name) for name in names}
    return {name: value for name, value in values.items() if not is_blank(value)}


def answer(calls: Sequence[ModelCall]) -> ModelCall | None:
    """Return the model call that was acted on: the last one without an error."""
    return next((call for call in reversed(calls) if not call.error), None)


def is_unicode(text: str) -> bool:
    """Return whether a text can be UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unicode_text(text: str) -> str:
    """Return a text with lone surrogates replaced by question marks."""
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any, on_bytes: OnBytes, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if depth > _DEEP:
        return _tagged(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return on_bytes(bytes(value))
    if isinstance(value, np.generic):
        return _scalar(value, on_bytes, depth)
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and -(2**63) <= value < 2**64:
        return value
    if type(value) is str and is_unicode(value):
        return value
    if isinstance(value, np.ndarray):
        return _array(value, on_bytes, depth)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        value = dict(zip(value._fields, value, strict=True))
    if type(value) in (list, tuple):
        return [_plain(item, on_bytes, depth + 1) for item in value]
    if isinstance(value, Mapping) and TAG not in value and all(map(_is_key, value)):
        return {key: _plain(item, on_bytes, depth + 1) for key, item in value.items()}
    return _tagged(value)


def _scalar(value: np.generic, on_bytes: OnBytes, depth: int) -> Any:
    if (value.dtype.kind in "biufSU" and value.dtype.itemsize <= 8) or value.dtype.kind in "SU":
        return _plain(value.item(), on_bytes, depth)
    return _tagged(value)


def _array(value: Any, on_bytes: OnBytes, depth: int) -> Any:
    kind = value.dtype.kind
    if (
        type(value) is not np.ndarray
        or kind not in "biufUO"
        or (value.dtype.itemsize == 16 and (kind == "f"))
    ):
        return _tagged(value)
    if kind in "biu" or (kind == "f" and np.isfinite(value).all()):
        return value.tolist()
    return _plain(value.tolist(), on_bytes, depth)


def _is_key(key: Any) -> bool:
    return type(key) is str and is_unicode(key)


def _tagged(value: Any) -> Any:
    return Encoder(careful=True).encode(value)


# Bytes in separate files, each stored once under its hash.

_STARTS = {
    b"\x89PNG\r\n\x1a\n": ("png", "image/png"),
    b"\xff\xd8\xff": ("jpg", "image/jpeg"),
    b"GIF8": ("gif", "image/gif"),
}


def image_kind(data: bytes) -> tuple[str, str] | None:
    r"""Return a picture's extension and media type by its first bytes; None if it is not one.

    >>> image_kind(b"\xff\xd8\xff..."), image_kind(b"%PDF")
    (('jpg', 'image/jpeg'), None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp", "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)


class FilesBeside:
    """Writes bytes as files in a folder, and reads them back to check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def put(self, data: bytes) -> str:
        """Write bytes, unless they exist already, and return their path in the folder."""
        kind = image_kind(data)
        sub, ext = ("images", kind[0]) if kind else ("blobs", "bin")
        name = f"{sub}/{hashlib.sha256(data).hexdigest()}.{ext}"
        if name not in self._written:
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            if path.read_bytes() != data:
                raise errors.StorageError(f"{name!r} reads back differently from what was written.")
            self._written.add(name)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._written
