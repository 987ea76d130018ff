"""Pictures of an export: each once, by its content, and each looked into before a trainer is."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path

from webtraj import errors
from webtraj.agents.models.base import Image
from webtraj.datasets.exporters.files_beside import FilesBeside, image_kind

__all__ = ["PictureReader", "Pictures", "picture_error"]

_KEPT = 64


class Pictures:
    """Writes pictures below a folder. A picture that cannot be shown is refused."""

    def __init__(self, folder: Path) -> None:
        self._beside = FilesBeside(folder)
        self._names: dict[str, str] = {}
        self._errors: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._names)

    def put(self, image: Image) -> str:
        """Writes a picture, unless it is there, and returns its path below the folder.

        Raises:
            CorruptDataError: It cannot be decoded.
        """
        if image.uuid in self._names:
            return self._names[image.uuid]
        if image.uuid not in self._errors:
            self._errors[image.uuid] = picture_error(image.data)
        if self._errors[image.uuid]:
            raise errors.CorruptDataError(self._errors[image.uuid])
        self._names[image.uuid] = name = self._beside.put(image.data)
        return name


class PictureReader:
    """Reads pictures of an export by their paths; a picture that rows share is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: OrderedDict[str, Image] = OrderedDict()

    def get(self, name: str) -> Image:
        """Returns a picture.

        Raises:
            CorruptDataError: There is none of that name.
        """
        image = self._last.get(name)
        if image is None:
            try:
                image = Image((self._folder / name).read_bytes())
            except (OSError, ValueError) as error:
                raise errors.CorruptDataError(
                    f"A row names the picture {name!r:.200}, which cannot be read: {error}."
                ) from error
            self._last[name] = image
            if len(self._last) > _KEPT:
                self._last.popitem(last=False)
        return image


def picture_error(data: bytes) -> str:
    """Returns why a picture cannot be decoded; empty if it can, to the last row.

    Raises:
        MissingDependencyError: Pillow is not installed.
    """
    try:
        from PIL import Image as Pillow
    except ImportError as error:
        raise errors.MissingDependencyError(
            "Pictures are looked into with Pillow, which is not installed: "
            'pip install "webtraj[browser]"'
        ) from error
    if image_kind(data) is None:
        return "no PNG, JPEG, GIF or WebP"
    try:
        with Pillow.open(io.BytesIO(data)) as image:
            image.load()
    except Exception as error:  # Whatever Pillow's decoders raise.
        return f"{type(error).__name__}: {error}"[:200]
    return ""
