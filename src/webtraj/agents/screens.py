"""The dialect that fits an episode's viewport, or the picture that the model sees."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.environments.actions import dialects as dialects_lib

__all__ = ["dialect_for", "viewport_of"]

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
    if name in _WITHOUT_SCREEN or name not in dialects_lib.DIALECTS:
        return dialects_lib.make_dialect(name)
    if viewport is None:
        raise errors.InvalidInputError(
            f"The dialect {name!r} needs the size of the viewport. Observe the channel 'scroll', "
            "or give the agent viewport=(width, height)."
        )
    # These use pixels of the picture, which may be smaller than the viewport.
    if name == "anthropic":
        return dialects_lib.AnthropicDialect(viewport, shown=_size_of(image))
    if name == "openai":
        return dialects_lib.OpenAIDialect(viewport, shown=_size_of(image))
    return dialects_lib.make_dialect(name, viewport)


def viewport_of(observation: Any) -> tuple[int, int] | None:
    """Return the viewport's size from an observation; None if it is not there.

    >>> viewport_of({"scroll": {"width": 1280.0, "height": 720.0}})
    (1280, 720)
    """
    scroll = observation.get("scroll") if isinstance(observation, Mapping) else None
    if not isinstance(scroll, Mapping) or "width" not in scroll or "height" not in scroll:
        return None
    return round(float(scroll["width"])), round(float(scroll["height"]))


def _size_of(image: bytes) -> tuple[int, int] | None:
    if not image:
        return None
    try:
        from PIL import Image
    except ImportError as error:
        raise errors.missing_dependency("Measuring screenshots needs Pillow", "web") from error
    with Image.open(io.BytesIO(image)) as picture:
        return picture.size
