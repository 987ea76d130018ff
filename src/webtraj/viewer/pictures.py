"""Pictures as a browser shows them: their kind and size, and arrays of pixels made into PNG."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from webtraj.datasets.exporters.plain import image_kind

__all__ = ["array_png", "media_type", "size_of"]

_PNG = b"\x89PNG\r\n\x1a\n"
_SHOWN = frozenset(("image/png", "image/jpeg", "image/webp"))
_NO_SIZES = frozenset((0xC4, 0xC8, 0xCC))
"""JPEG's markers among those of frames that begin no frame."""


def media_type(data: bytes) -> str:
    r"""Returns the media type of a picture that may be shown; empty for all else, SVG too.

    >>> media_type(b"\xff\xd8\xff..."), media_type(b"<svg>")
    ('image/jpeg', '')
    """
    kind = image_kind(data)
    return kind[1] if kind is not None and kind[1] in _SHOWN else ""


def size_of(data: bytes) -> tuple[int, int] | None:
    """Returns the width and height that a picture's header says; None if it says none."""
    try:
        match media_type(data):
            case "image/png" if data[12:16] == b"IHDR":
                return struct.unpack(">II", data[16:24])
            case "image/jpeg":
                return _jpeg_size(data)
            case "image/webp":
                return _webp_size(data)
    except (struct.error, IndexError):  # It is cut short.
        pass
    return None


def array_png(array: Any) -> bytes | None:
    """Returns an array of pixels as a PNG; None if it is no picture.

    A picture has the shape (height, width), (height, width, 1), (height, width, 3) or
    (height, width, 4) and is of bytes.
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.ndim not in (2, 3):
        return None
    channels = 1 if array.ndim == 2 else array.shape[2]
    colour = {1: 0, 3: 2, 4: 6}.get(channels)
    height, width = array.shape[:2]
    if colour is None or min(height, width) < 8:  # Narrower ones are data, not pictures.
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
