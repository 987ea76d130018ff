"""Values of an episode as plain JSON data for the page. Nothing is dropped.

Values that JSON cannot express are objects with the key `$`, as in `webtraj.store.values`. Two are
specific to the viewer::

    {"$": "picture", "url": ..., "width": ..., "height": ..., "content": [160, 210]}
    {"$": "bytes", "url": ..., "size": ...}

The caller chooses the `url`. `content` is there if the rest of a small picture is empty (see
`content_of`). Arrays of more than `MANY` elements that are not images are shortened
to the first: `{"$": "array", "dtype": ..., "shape": [...], "first": [...]}`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from webtraj import errors
from webtraj.datasets.exporters.plain import action_text, image_kind, plain, unicode_text
from webtraj.environments.actions import Action
from webtraj.store.blobs import LazyBlob
from webtraj.store.foreign import ReprOnly
from webtraj.store.values import OpaqueRecord, name_of
from webtraj.trajectory import reward_value

__all__ = [
    "BlobUrl",
    "MANY",
    "Values",
    "array_png",
    "content_of",
    "exact",
    "media_type",
    "number",
    "size_of",
    "small_webp",
]

# Images for a browser: media types, sizes, and pixel arrays as PNG.

_PNG = b"\x89PNG\r\n\x1a\n"
_SHOWN = frozenset(("image/png", "image/jpeg", "image/webp"))
_NO_SIZES = frozenset((0xC4, 0xC8, 0xCC))
"""JPEG markers in the range of frame markers that do not start a frame."""


def media_type(data: bytes) -> str:
    r"""Return the media type of an image that may be shown; empty for anything else, even SVG.

    >>> media_type(b"\xff\xd8\xff..."), media_type(b"<svg>")
    ('image/jpeg', '')
    """
    kind = image_kind(data)
    return kind[1] if kind is not None and kind[1] in _SHOWN else ""


def size_of(data: bytes) -> tuple[int, int] | None:
    """Return the width and height in an image's header; None if it has none."""
    try:
        match media_type(data):
            case "image/png" if data[12:16] == b"IHDR":
                return struct.unpack(">II", data[16:24])
            case "image/jpeg":
                return _jpeg_size(data)
            case "image/webp":
                return _webp_size(data)
    except (struct.error, IndexError):  # It is truncated.
        pass
    return None


def array_png(array: Any) -> bytes | None:
    """Return an array of pixels as a PNG; None if it is not an image.

    An image has the dtype uint8 and the shape (height, width), (height, width, 1),
    (height, width, 3) or (height, width, 4), with sides of at least 8 pixels.
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim not in (2, 3):
        return None
    channels = 1 if array.ndim == 2 else array.shape[2]
    colour = {1: 0, 3: 2, 4: 6}.get(channels)
    height, width = array.shape[:2]
    if colour is None or min(height, width) < 8:  # Smaller arrays are data, not images.
        return None
    rows = np.ascontiguousarray(array).reshape(height, width * channels)
    filtered = np.concatenate((np.zeros((height, 1), np.uint8), rows), axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    packed = zlib.compress(filtered.tobytes(), 6)
    return _PNG + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # Padding.
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        return width, height
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


_SMALL = 640
"""The longest side of a picture that is cropped, in pixels."""
_ALIKE = 24
"""How far the same colour may differ in a JPEG."""


def content_of(image: Any) -> tuple[int, int] | None:
    """Return the width and height of the part of a small picture that is not empty.

    Pages such as MiniWoB++'s are smaller than any window, so the right and the bottom of their
    pictures are empty, in one colour. The viewer hides the empty part; it stays stored.

    Args:
        image: A Pillow image.

    Returns:
        None if the picture is large, or if less than a quarter of it is empty.

    Raises:
        OSError: The image is damaged.
    """
    if max(image.size) > _SMALL:
        return None
    pixels = np.asarray(image.convert("RGB"), np.int16)
    drawn = (np.abs(pixels - pixels[-1, -1]) > _ALIKE).any(axis=2)
    columns, rows = (np.flatnonzero(drawn.any(axis=axis)) for axis in (0, 1))
    if not len(columns):
        return None
    width, height = int(columns[-1]) + 1, int(rows[-1]) + 1
    return (width, height) if 4 * width * height <= 3 * drawn.size else None


def _content_of_data(data: bytes) -> tuple[int, int] | None:
    size = size_of(data)
    if size is None or max(size) > _SMALL:
        return None
    try:
        from PIL import Image

        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            return content_of(image)
    except (ImportError, *_UNREADABLE):
        return None


_FORMATS = "PNG", "JPEG", "WEBP"
_UNREADABLE = OSError, ValueError, SyntaxError
"""What Pillow raises for damaged images."""

THUMBNAIL = 104, 64
"""The largest width and height of a thumbnail, in pixels."""


def small_webp(data: bytes) -> bytes | None:
    """Return an image scaled down to a WebP thumbnail; None if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            content = content_of(image)
            if content is None:
                image.draft("RGB", THUMBNAIL)
            small = image.convert("RGB")
        if content is not None:
            small = small.crop((0, 0, *content))
        small.thumbnail(THUMBNAIL)
        made = io.BytesIO()
        small.save(made, "WEBP", quality=70, method=0)
    except (*_UNREADABLE, Image.DecompressionBombError):
        return None
    return made.getvalue()


BlobUrl = Callable[[bytes | LazyBlob], str]
"""Returns the URL of bytes; empty if they have none."""

MANY = 2000
"""The most elements of an array that is shown completely."""
_FIRST = 100
_DEEP = 40
_LONG_REPR = 10_000
_EXACT = 2**53 - 1
_DECIMAL_BITS = 10_000
"""Longer integers stay hexadecimal: Python refuses to write very long ones in decimal."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    media_type: str
    size: tuple[int, int] | None
    content: tuple[int, int] | None


class Values:
    """Converter of one episode's values to JSON data."""

    def __init__(self, blob_url: BlobUrl) -> None:
        self._blob_url = blob_url
        self._kinds: dict[str, _Kind] = {}
        self._unreadable: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """The values that could not be read, in order."""
        return list(self._unreadable.values())

    def text(self, value: Any) -> str:
        """Return a value as text that UTF-8 can encode. A value that is not text becomes JSON."""
        if value is None:
            return ""
        if isinstance(value, LazyBlob) and value.text:
            value = self._read(value)
        if isinstance(value, str):
            return unicode_text(value)
        import orjson

        return orjson.dumps(self.data(value), option=orjson.OPT_INDENT_2).decode()

    def texts(self, record: Any, *names: str) -> dict[str, str]:
        """Return the texts of a record's fields, or of a mapping's keys."""
        mapping = isinstance(record, Mapping)
        return {n: self.text(record.get(n) if mapping else getattr(record, n)) for n in names}

    def picture(self, value: Any) -> dict[str, Any] | None:
        """Return an image as `{"url", "width", "height"}`; None if the value is not an image.

        `content` says which part of a small picture is not empty; see `content_of`.
        """
        if isinstance(value, np.ndarray):
            value = array_png(value)
        if not value or not isinstance(value, (bytes, LazyBlob)):
            return None
        kind = self._kind(value)
        if isinstance(kind, str):
            return {"url": "", "width": None, "height": None, "error": kind}
        if not kind.media_type:
            return None
        width, height = kind.size or (None, None)
        shown = {"url": self._blob_url(value), "width": width, "height": height}
        return shown if kind.content is None else {**shown, "content": list(kind.content)}

    def data(self, value: Any) -> Any:
        """Return a value as JSON data for orjson."""
        return self._data(value, 0)

    def _data(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return unicode_text(value)
        if type(value) is float and math.isfinite(value):
            return value
        if isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64):
            return exact(int(value))
        if depth > _DEEP:
            return {"$": "deep", "v": unicode_text(repr(value)[:_LONG_REPR])}
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(bytes(value))
        if isinstance(value, LazyBlob):
            return self._read(value) if value.text else self._bytes(value)
        if isinstance(value, np.ndarray):
            return self._array(value, depth)
        if isinstance(value, Mapping):
            return {_key(key): self._data(item, depth + 1) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._data(dict(zip(value._fields, value, strict=True)), depth)
        if isinstance(value, (list, tuple)):
            return [self._data(item, depth + 1) for item in value]
        if isinstance(value, Action) and (said := action_text(value)) is not None:
            return unicode_text(said)
        if isinstance(value, ReprOnly):
            return self._record(value.type_name, {"repr": value.repr}, depth)
        if isinstance(value, OpaqueRecord):
            return self._record(value.type_name, value.fields, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return self._record(name_of(type(value)), fields, depth)
        return plain(value)

    def _record(self, name: str, fields: Mapping[str, Any], depth: int) -> dict[str, Any]:
        return {"$": "record", "type": unicode_text(name), "fields": self._data(fields, depth + 1)}

    def _bytes(self, value: bytes | LazyBlob) -> dict[str, Any]:
        shown = self.picture(value)
        if shown is not None:
            return {"$": "picture", **shown}
        size = len(value) if isinstance(value, bytes) else value.blob.size
        return {"$": "bytes", "url": self._blob_url(value) if value else "", "size": size}

    def _array(self, value: Any, depth: int) -> Any:
        if array_png(value) is not None:
            return self._bytes(array_png(value) or b"")
        if value.dtype == object:
            return [self._data(item, depth + 1) for item in value.ravel()[:MANY]]
        if value.size <= MANY:
            return self._elements(value)
        first = self._elements(value.ravel()[:_FIRST])
        return {"$": "array", "dtype": str(value.dtype), "shape": list(value.shape), "first": first}

    def _elements(self, value: Any) -> Any:
        return self._data(value.tolist(), 0) if value.dtype.kind in "iu" else plain(value)

    def _kind(self, value: bytes | LazyBlob) -> _Kind | str:
        """Return the kind of some bytes, or the error if they cannot be read."""
        if isinstance(value, LazyBlob):
            key, data = value.blob.sha256, None
        else:
            key, data = hashlib.sha256(value).hexdigest(), value
        if key not in self._kinds:
            data = self._read(value) if isinstance(value, LazyBlob) else data
            if not isinstance(data, bytes):
                return str(data)
            self._kinds[key] = _Kind(media_type(data), size_of(data), _content_of_data(data))
        return self._kinds[key]

    def _read(self, value: LazyBlob) -> Any:
        """Return a blob's content, or a text with the error if it cannot be read."""
        key = value.blob.sha256
        if key in self._unreadable:
            return self._unreadable[key]
        try:
            found = value.load()
        except errors.WebtrajError as error:
            self._unreadable[key] = unicode_text(str(error))
            return self._unreadable[key]
        return unicode_text(found) if isinstance(found, str) else found


def exact(value: int) -> Any:
    """Return an integer as JSON data, or as text if browsers would round it.

    >>> exact(7), exact(2**53 + 1)
    (7, '9007199254740993')
    """
    if abs(value) <= _EXACT:
        return value
    return str(value) if value.bit_length() <= _DECIMAL_BITS else plain(value)


def number(value: Any) -> float | None:
    """Return a reward, discount or time as a finite number; None for all else.

    >>> number(np.float32(0.5)), number(float("nan")), number(None)
    (0.5, None, None)
    """
    if value is None:
        return None
    found = reward_value(value)
    return found if math.isfinite(found) else None


def _key(key: Any) -> str:
    return unicode_text(key if isinstance(key, str) else repr(key))
