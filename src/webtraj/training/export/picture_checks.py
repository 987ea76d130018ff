"""Whether a picture can be shown: all of it is unpacked, and nothing kept."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import zlib
from collections.abc import Iterator
from types import ModuleType

from webtraj import errors
from webtraj.datasets.exporters.plain import image_kind

__all__ = ["picture_error"]

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Numbers in a pixel of a PNG, by its kind of colour."""
_LAST_FILTER = 4
_AT_ONCE = 8192
"""Packed bytes that are unpacked at once: they make 8 MB at most, and stay in the cache mostly."""


def picture_error(data: bytes) -> str:
    """Returns why a picture cannot be decoded; empty if it can, to the last row.

    Raises:
        MissingDependencyError: Pillow is not installed.
    """
    try:
        from PIL import Image as Pillow
    except ImportError as error:
        raise errors.missing_dependency("Checking pictures needs Pillow", "web") from error
    if image_kind(data) is None:
        return "no PNG, JPEG, GIF or WebP"
    try:
        with Pillow.open(io.BytesIO(data)) as image:
            if data.startswith(_PNG) and not image.info.get("interlace"):
                _check_png(data, image.size)
                return ""
            # Of a JPEG all is read, and a small one made of it.
            image.draft("L", (image.width // 8, image.height // 8))
            image.load()
    except Exception as error:  # Whatever Pillow's decoders raise.
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def _check_png(data: bytes, size: tuple[int, int]) -> None:
    """Looks at all that can be wrong with a PNG: sums of chunks, rows unpacked, their filters.

    Pillow takes much longer, since it also undoes the filters, which cannot fail.

    Raises:
        ValueError: It is damaged or incomplete.
        zlib.error: Likewise. (zlib-ng has an error of its own.)
    """
    depth, channels = data[24], _CHANNELS[data[25]]
    row = 1 + (size[0] * channels * depth + 7) // 8
    unpacker = unpacking().decompressobj()
    expected, found = row * size[1], 0
    for packed in _packed_rows(data):
        rows = unpacker.decompress(packed)
        # Each row begins with its filter.
        if max(rows[-found % row :: row], default=0) > _LAST_FILTER:
            raise ValueError("a row has a filter that there is not")
        found += len(rows)
        if found > expected:
            break
    if not unpacker.eof or found != expected:
        raise ValueError(f"its rows have {found} bytes; expected {expected}")


def _packed_rows(data: bytes) -> Iterator[memoryview]:
    view, start, kind = memoryview(data), len(_PNG), b""
    while kind != b"IEND":
        end = start + 8 + int.from_bytes(view[start : start + 4])
        if end + 4 > len(data):
            raise ValueError("it ends before its last chunk")
        kind = bytes(view[start + 4 : start + 8])
        if zlib.crc32(view[start + 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise ValueError(f"its chunk {kind!r} is damaged")
        if kind == b"IDAT":
            for at in range(start + 8, end, _AT_ONCE):
                yield view[at : min(at + _AT_ONCE, end)]
        start = end + 4


@functools.cache
def unpacking() -> ModuleType:
    """Returns zlib-ng, which takes a quarter of the time, or zlib where it is not installed."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("zlib_ng.zlib_ng")
    return zlib
