"""Pictures of an export: each once, by its content, and each looked into before a trainer is."""

from __future__ import annotations

import itertools
import os
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path

from webtraj import errors
from webtraj.agents.models.base import Image
from webtraj.datasets.exporters.plain import image_kind
from webtraj.datasets.parallel import map_in_order
from webtraj.training.export.picture_checks import picture_error
from webtraj.training.samples import Sample

__all__ = ["WORKERS", "PictureReader", "Pictures", "images_of", "picture_error"]

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
