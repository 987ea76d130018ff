"""Pictures of an export: each once, by its content, and each looked into before a trainer is."""

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
from webtraj.training.samples import Sample

__all__ = ["PictureReader", "Pictures", "WORKERS", "images_of", "picture_error"]

# Whether a picture can be shown: all of it is unpacked, and nothing kept.

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


_KEPT = 64
_NAME = re.compile(r"images/([0-9a-f]{64})\.(?:png|jpg|gif|webp)")
WORKERS = min(max(4, os.cpu_count() or 1), 16)
"""How many look into pictures at the same time."""


class Pictures:
    """Writes pictures below a folder. A picture that cannot be shown is refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # By the bytes of their SHA-256: there may be a million of them. Where a thread is looking
        # still, what it will find.
        self._errors: dict[bytes, str | Future[str]] = {}
        self._written: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._written)

    def looked_into(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yields samples as they come, their pictures looked into ahead, several at a time."""

        def look(sample: Sample) -> Sample:
            # One that another thread looks into is not waited for here: this sample may show more.
            for image in images_of(sample):
                self._found(image)
            return sample

        for shows, some in itertools.groupby(samples, lambda sample: bool(images_of(sample))):
            run = map_in_order(look, some, workers=WORKERS) if shows else some  # noqa: B031
            yield from run

    def check(self, image: Image) -> None:
        """Looks into a picture, unless it was looked into.

        Raises:
            CorruptDataError: It cannot be decoded.
        """
        found = self._found(image)
        if problem := found if isinstance(found, str) else found.result():
            raise errors.CorruptDataError(problem)

    def put(self, image: Image) -> str:
        """Writes a picture, unless it is there, and returns its path below the folder.

        It is compared with its hash when the rows are read back: see `PictureReader`.

        Raises:
            CorruptDataError: It cannot be decoded.
        """
        self.check(image)
        kind = image_kind(image.data)
        assert kind is not None, "What is no picture was refused."
        name = f"images/{image.uuid}.{kind[0]}"
        key = bytes.fromhex(image.uuid)
        if key not in self._written:
            path = self._folder / name
            if not self._written:
                path.parent.mkdir(exist_ok=True)
            path.write_bytes(image.data)
            self._written.add(key)
        return name

    def _found(self, image: Image) -> str | Future[str]:
        """Returns what is wrong with a picture, looking into it if no one has begun to."""
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
    """Reads pictures of an export by their paths; a picture that rows share is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: OrderedDict[str, Image] = OrderedDict()

    def get(self, name: str) -> Image:
        """Returns a picture.

        Raises:
            CorruptDataError: There is none of that name, or it is another one.
        """
        image = self._last.get(name)
        if image is None:
            named = _NAME.fullmatch(name)
            if named is None:  # Such as a path that leads elsewhere.
                raise errors.CorruptDataError(
                    f"A row names the picture {name!r:.200}; expected images/<sha256>.png."
                )
            try:
                image = Image((self._folder / name).read_bytes())
            except OSError as error:
                raise errors.CorruptDataError(
                    f"A row names the picture {name!r:.200}, which cannot be read: {error}."
                ) from error
            if image.uuid != named[1]:
                raise errors.CorruptDataError(f"The picture {name!r} is damaged.")
            self._last[name] = image
            if len(self._last) > _KEPT:
                self._last.popitem(last=False)
        return image


def images_of(sample: Sample) -> list[Image]:
    """Returns all pictures of a sample's prompt, in order."""
    return [part for m in sample.messages for part in m.parts if isinstance(part, Image)]
