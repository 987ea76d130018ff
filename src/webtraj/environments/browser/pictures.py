"""Encoded pictures: scaled, and drawn on. Pillow is loaded when one is first worked on."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from webtraj import errors as errors_lib

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["PictureFormat", "rework"]

PictureFormat = Literal["jpeg", "png"]

_NO_PILLOW = "Set-of-marks pictures and scaled screenshots need Pillow"


def rework(
    picture: bytes,
    *,
    picture_format: PictureFormat,
    quality: int,
    scale: float = 1.0,
    draw: Callable[[Image.Image], None] | None = None,
) -> bytes:
    """Returns a picture that was drawn on and then scaled. Takes tens of ms: not for the loop.

    Args:
        picture: A JPEG or PNG.
        picture_format: The format to return it in.
        quality: 1 to 100, for JPEG.
        scale: Its size beside that of `picture`; above 0, at most 1.
        draw: Draws on it, in RGB, before it is scaled.

    Raises:
        MissingDependencyError: Pillow is not installed.
        OSError: `picture` cannot be read.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise errors_lib.missing_dependency(_NO_PILLOW, "web") from error
    with Image.open(io.BytesIO(picture)) as opened:
        width, height = opened.size
        size = max(1, round(width * scale)), max(1, round(height * scale))
        if draw is None:
            opened.draft("RGB", size)  # A JPEG is decoded no larger than it needs to be.
        image = opened.convert("RGB")
    if draw is not None:
        draw(image)
    if image.size != size:
        image = image.resize(size, Image.Resampling.BOX, reducing_gap=2.0)
    encoded = io.BytesIO()
    options = {"quality": quality} if picture_format == "jpeg" else {"compress_level": 1}
    image.save(encoded, format=picture_format, **options)
    return encoded.getvalue()
