"""Compression, and decompression that no small file can make take much memory."""

from __future__ import annotations

import lzma
from collections.abc import Callable

import zstandard

from webtraj import errors
from webtraj.store import budget
from webtraj.store.formats import unreadable

__all__ = ["FLOOR", "MAX_RATIO", "MAX_SIZE", "compress_zst", "decompress"]

MAX_SIZE = 2**31 - 1
"""Bytes of the largest message that Protobuf can read or write."""
MAX_RATIO = budget.RATIO
"""How much larger than the file its content may be,"""
FLOOR = 16 * 2**20
"""if it is larger than so many bytes at all. Messages made to do harm take 60 times that memory."""

_LEVEL = 3
_WINDOW = 2**27
# No input of this size can become more than 32 MiB at once, which is then found too much.
_CHUNK = 1024
_XZ_PART = 2**16
_MAX_FRAMES = 10_000
"""More than any tool cuts a file into. Empty ones take time, and no other limit counts them."""
_SKIPPABLE = b"\x50\x2a\x4d\x18"


def compress_zst(data: bytes) -> bytes:
    """Returns data as Zstandard frames which `decompress` will take."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    frame = compressor.compress(data)
    missing = -(-len(data) // MAX_RATIO) - len(frame) if len(data) > FLOOR else 0
    if missing <= 0:
        return frame
    # Data so repetitive looks like an attack to the reader. A frame that decoders skip is the
    # format's own way to make a file longer.
    return frame + _SKIPPABLE + missing.to_bytes(4, "little") + bytes(missing)


def decompress(
    content: bytes, compression: str, where: str, *, max_size: int | None = None
) -> bytes:
    """Returns what compressed content stands for.

    Args:
        content: All of a file.
        compression: "zst" or "xz"; empty for none.
        where: Names the file in errors.
        max_size: The bytes that it may hold; None for what a file of its size may by the rule.

    Raises:
        CorruptDataError: It is not so compressed, breaks off, or holds more than it may.
    """
    read = {"": _plain, "zst": _zst, "xz": _xz}[compression]
    usual = max(FLOOR, MAX_RATIO * len(content))
    limit = min(MAX_SIZE, usual if max_size is None else max_size)
    try:
        return read(content, _Output(limit, where))
    except (zstandard.ZstdError, lzma.LZMAError, EOFError, MemoryError) as error:
        raise unreadable(where, error) from error


class _Output:
    """Takes what comes out, up to a limit."""

    def __init__(self, limit: int, where: str) -> None:
        self.limit = limit
        self.data = bytearray()
        self._where = where

    def take(self, part: bytes) -> None:
        self.data += part
        self.check(len(self.data))

    def check(self, size: int) -> None:
        if size > self.limit:
            raise errors.CorruptDataError(
                f"{self._where!r} holds more than the {self.limit} bytes that it may: usually at "
                f"most {MAX_RATIO} times its own size or {FLOOR}, and never more than {MAX_SIZE}. "
                "If it comes from a source that you trust, decompress it by the compression's own "
                "tool."
            )


def _plain(content: bytes, output: _Output) -> bytes:
    output.check(len(content))
    return content


def _zst(content: bytes, output: _Output) -> bytes:
    position = frames = 0
    while position < len(content):
        frames += 1
        if frames > _MAX_FRAMES:
            raise EOFError(f"it has more than {_MAX_FRAMES} frames")
        header = content[position : position + 8]
        if len(header) == 8 and header[1:4] == _SKIPPABLE[1:] and header[0] & 0xF0 == 0x50:
            position += 8 + int.from_bytes(header[4:], "little")
            if position > len(content):
                raise EOFError("the last frame breaks off")
            continue
        declared = zstandard.get_frame_parameters(content[position : position + 64]).content_size
        if declared not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            output.check(len(output.data) + declared)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        position = _feed(content, position, decompressor.decompress, decompressor, output)
    return bytes(output.data)


def _feed(
    content: bytes,
    position: int,
    decompress_part: Callable[[bytes], bytes],
    state: zstandard.ZstdDecompressionObj,
    output: _Output,
) -> int:
    """Decompresses one frame; returns where the next begins."""
    while not state.eof:
        part = content[position : position + _CHUNK]
        if not part:
            raise EOFError("the last frame breaks off")
        position += len(part)
        output.take(decompress_part(part))
    return position - len(state.unused_data)


def _xz(content: bytes, output: _Output) -> bytes:
    position = 0
    for _ in range(_MAX_FRAMES):
        while content[position : position + 4] == bytes(4):  # Streams may be padded, by fours.
            position += 4
        if position >= len(content):
            return bytes(output.data)
        decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=2 * _WINDOW)
        while not decompressor.eof:
            part = b""
            if decompressor.needs_input:
                part = content[position : position + _XZ_PART]
                position += len(part)
                if not part:
                    raise EOFError("the last stream breaks off")
            output.take(decompressor.decompress(part, max_length=2**20))
        position -= len(decompressor.unused_data)
    raise EOFError(f"it has more than {_MAX_FRAMES} streams")
