"""Pictures of an export: stored once by content, and checked before a trainer reads them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import itertools
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType

from webtraj import errors
from webtraj.agents.models.base import Image
from webtraj.datasets.exporters.plain import image_kind
from webtraj.datasets.place import map_in_order
from webtraj.training.rows import read_picture
from webtraj.training.samples import Sample

__all__ = ["PictureReader", "Pictures", "WORKERS", "picture_error"]

# The check of a picture: unpacks all of it and keeps nothing.

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Channels per pixel of a PNG, by colour type."""
_LAST_FILTER = 4
_AT_ONCE = 8192
"""Packed bytes to unpack at once: 8 MB unpacked at most, mostly within the cache."""


def picture_error(data: bytes) -> str:
    """Return why a picture cannot be decoded; empty if it decodes to the last row.

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
            # Reads all of a JPEG, and decodes it at a small size.
            image.draft("L", (image.width // 8, image.height // 8))
            image.load()
    except Exception as error:  # Pillow's decoders raise anything.
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def _check_png(data: bytes, size: tuple[int, int]) -> None:
    """Check everything that can be wrong with a PNG: chunk checksums, packed rows, row filters.

    Pillow takes much longer, since it also undoes the filters, which never fails.

    Raises:
        ValueError: The PNG is damaged or incomplete.
        zlib.error: The same. (zlib-ng has an error of its own.)
    """
    depth, channels = data[24], _CHANNELS[data[25]]
    row = 1 + (size[0] * channels * depth + 7) // 8
    unpacker = import_zlib().decompressobj()
    expected, found = row * size[1], 0
    for packed in _read_packed_rows(data):
        rows = unpacker.decompress(packed)
        # Each row starts with its filter.
        if max(rows[-found % row :: row], default=0) > _LAST_FILTER:
            raise ValueError("a row has a filter that there is not")
        found += len(rows)
        if found > expected:
            break
    if not unpacker.eof or found != expected:
        raise ValueError(f"its rows have {found} bytes; expected {expected}")


def _read_packed_rows(data: bytes) -> Iterator[memoryview]:
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
def import_zlib() -> ModuleType:
    """Return zlib-ng, which takes a quarter of the time, or zlib if zlib-ng is not installed."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("zlib_ng.zlib_ng")
    return zlib


_KEPT = 64
_NAME = re.compile(r"images/[0-9a-f]{64}\.(?:png|jpg|gif|webp)")
WORKERS = min(max(4, os.cpu_count() or 1), 16)
"""The number of threads that check pictures."""


class Pictures:
    """A writer of pictures below a folder. It refuses pictures that cannot be decoded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Keys are raw SHA-256 bytes: there may be a million pictures. A future stands for a check
        # in progress.
        self._errors: dict[bytes, str | Future[str]] = {}
        self._written: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._written)

    def check_ahead(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield samples in order, and check their pictures ahead in several threads."""

        def look(sample: Sample) -> Sample:
            # Do not wait for a check in another thread: this sample may show more pictures.
            for image in sample.images:
                self._find_error(image)
            return sample

        for shows, some in itertools.groupby(samples, lambda sample: bool(sample.images)):
            run = map_in_order(look, some, workers=WORKERS) if shows else some  # noqa: B031
            yield from run

    def check(self, image: Image) -> None:
        """Check a picture, unless it was checked before.

        Raises:
            CorruptDataError: It cannot be decoded.
        """
        found = self._find_error(image)
        if problem := found if isinstance(found, str) else found.result():
            raise errors.CorruptDataError(problem)

    def put(self, image: Image) -> str:
        """Write a picture, unless it exists, and return its path below the folder.

        `PictureReader` compares it with its hash when the rows are read back.

        Raises:
            CorruptDataError: It cannot be decoded.
        """
        self.check(image)
        kind = image_kind(image.data)
        assert kind is not None, "Pictures of unknown kinds were refused."
        name = f"images/{image.uuid}.{kind[0]}"
        key = bytes.fromhex(image.uuid)
        if key not in self._written:
            path = self._folder / name
            if not self._written:
                path.parent.mkdir(exist_ok=True)
            path.write_bytes(image.data)
            self._written.add(key)
        return name

    def _find_error(self, image: Image) -> str | Future[str]:
        """Return what is wrong with a picture. Start the check if no thread has."""
        key = bytes.fromhex(image.uuid)
        ours: Future[str] = Future()
        found = self._errors.setdefault(key, ours)
        if found is not ours:
            return found
        try:
            problem = picture_error(image.data)
        except BaseException as error:
            ours.set_exception(error)
            raise
        ours.set_result(problem)
        self._errors[key] = problem
        return problem


class PictureReader:
    """A reader of an export's pictures by path. A picture shared by rows is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: OrderedDict[str, Image] = OrderedDict()

    def get(self, name: str) -> Image:
        """Return a picture.

        Raises:
            CorruptDataError: The picture is missing, or its content does not match its name.
        """
        image = self._last.get(name)
        if image is None:
            if _NAME.fullmatch(name) is None:  # Such as a path out of the folder.
                raise errors.CorruptDataError(
                    f"A row names the picture {name!r:.100}; expected images/<sha256>.png."
                )
            try:
                image = read_picture(self._folder / name)
            except OSError as error:
                raise errors.CorruptDataError(
                    f"Cannot read the picture {name!r:.100} of a row: {errors.reason(error)}."
                ) from error
            self._last[name] = image
            if len(self._last) > _KEPT:
                self._last.popitem(last=False)
        return image
