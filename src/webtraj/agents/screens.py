"""The dialect that fits an episode's viewport, or the picture that the model sees."""

from __future__ import annotations

import io
import math
from typing import Any

from webtraj import errors
from webtraj.environments.actions import dialects as dialects_lib
from webtraj.environments.browser import recorded_channels

__all__ = ["dialect_for", "enlarge", "viewport_of"]

_WITHOUT_SCREEN = ("webtraj", "browsergym")


def dialect_for(
    name: str, viewport: tuple[int, int] | None, image: bytes = b""
) -> dialects_lib.Dialect:
    """Return a dialect for what a model sees.

    Args:
        name: The dialect's name.
        viewport: Width and height in CSS pixels; None if unknown.
        image: The picture that the model sees; empty if there is none.

    Raises:
        InvalidInputError: The dialect is unknown, or needs a viewport.
    """
    if name in _WITHOUT_SCREEN or name.partition(":")[0] not in dialects_lib.DIALECTS:
        return dialects_lib.make_dialect(name)
    if viewport is None:
        raise errors.InvalidInputError(
            f"The dialect {name!r} needs the size of the viewport. Observe the channel 'scroll', "
            "or give the agent viewport=(width, height)."
        )
    # Providers' tools use pixels of the picture, which may be smaller than the viewport.
    by_pixel = name.partition(":")[0] in dialects_lib.TOOL_DIALECTS
    return dialects_lib.make_dialect(name, viewport, shown=_size_of(image) if by_pixel else None)


def enlarge(image: bytes, region: tuple[float, ...], viewport: tuple[int, int] | None) -> bytes:
    """Return a part of a screenshot, enlarged to the screenshot's width or height.

    Args:
        image: The screenshot.
        region: The part (left, top, right, bottom), in CSS pixels.
        viewport: Width and height in CSS pixels; None if equal to the screenshot's.
    """
    with _open_image(image) as picture:
        width, height = viewport or picture.size
        across, down = picture.width / width, picture.height / height
        left, top, right, bottom = region
        part = picture.crop(
            (
                min(int(left * across), picture.width - 1),
                min(int(top * down), picture.height - 1),
                min(math.ceil(right * across), picture.width),
                min(math.ceil(bottom * down), picture.height),
            )
        )
        scale = min(picture.width / part.width, picture.height / part.height)
        size = (max(round(part.width * scale), 1), max(round(part.height * scale), 1))
        written = io.BytesIO()
        part.convert("RGB").resize(size).save(written, "PNG")
        return written.getvalue()


def viewport_of(observation: Any) -> tuple[int, int] | None:
    """Return the viewport's size from an observation; None if it has none.

    >>> viewport_of({"scroll": {"width": 1280.0, "height": 720.0}})
    (1280, 720)
    """
    scroll = recorded_channels.channel_of(observation, "scroll")
    width, height = (recorded_channels.number_of(scroll, side) for side in ("width", "height"))
    if width is None or height is None or min(width, height) < 1:
        return None
    return round(width), round(height)


def _size_of(image: bytes) -> tuple[int, int] | None:
    if not image:
        return None
    with _open_image(image) as picture:
        return picture.size[0], picture.size[1]


def _open_image(image: bytes) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise errors.missing_dependency("Reading screenshots needs Pillow", "web") from error
    return Image.open(io.BytesIO(image))
