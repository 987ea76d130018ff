"""Which tokens stand for an image in a prompt, found out once for each size of images.

A processor tells by scaling the image and making its pixels, which takes most of the time that
preparing samples takes; but its tokens depend on the size alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image
from webtraj.training.preparing.tools import ModelTools

__all__ = ["ImageTokens", "opened"]

_BEFORE, _AFTER = "a", "\nb"


class ImageTokens:
    """Tokenises text with images.

    Args:
        tools: The model's tokenizer and processor.
    """

    def __init__(self, tools: ModelTools) -> None:
        self._tools = tools
        self._sizes: dict[str, tuple[int, int]] = {}
        self._spelled: dict[tuple[int, int], list[int] | None] = {}

    def ids(self, text: str, images: Sequence[Image]) -> list[int]:
        """Returns a text's tokens, as the processor makes them of text and images.

        Raises:
            InvalidInputError: An image cannot be read.
        """
        if not images:
            made = self._tools.tokenizer(text, add_special_tokens=False)["input_ids"]
            return [int(token) for token in made]
        spelled = [self._spelling(image) for image in images]
        bare = self.ids(text, ())
        mark = self._tools.tokenizer.convert_tokens_to_ids(self._tools.processor.image_token)
        if any(one is None for one in spelled) or bare.count(mark) != len(images):
            return self._processed(text, [opened(image) for image in images])
        left = iter(spelled)
        return [t for token in bare for t in (next(left) or () if token == mark else (token,))]

    def _spelling(self, image: Image) -> list[int] | None:
        """Returns what stands for an image; None if that depends on the text around it."""
        size = self._sizes.get(image.uuid)
        shown = None
        if size is None:
            shown = opened(image)  # Decoded whole: one that is broken is an error before training.
            size = self._sizes[image.uuid] = shown.size
        if size not in self._spelled:
            self._spelled[size] = self._spell(shown or opened(image))
        return self._spelled[size]

    def _spell(self, shown: Any) -> list[int] | None:
        tools = self._tools
        made = self._processed(f"{_BEFORE}{tools.processor.image_token}{_AFTER}", [shown])
        before, after = self.ids(_BEFORE, ()), self.ids(_AFTER, ())
        between = made[len(before) : len(made) - len(after)]
        # Added tokens never join with the text beside them.
        fixed = tools.tokenizer.added_tokens_decoder
        known = between and between[0] in fixed and between[-1] in fixed
        return between if known and made == [*before, *between, *after] else None

    def _processed(self, text: str, shown: Sequence[Any]) -> list[int]:
        made = self._tools.processor(text=[text], images=[list(shown)], add_special_tokens=False)
        return [int(token) for token in made["input_ids"][0]]


def opened(image: Image) -> Any:
    """Returns an image's pixels, as Pillow has them.

    Raises:
        InvalidInputError: It cannot be read.
    """
    from PIL import Image as Pillow

    try:
        return Pillow.open(io.BytesIO(image.data)).convert("RGB")
    except (OSError, ValueError) as error:
        raise errors.InvalidInputError(
            f"An image of {len(image.data)} bytes cannot be read: {error}."
        ) from error
