"""Lengths of samples in tokens, and the treatment of those that are too long for a trainer.

Tokens are counted in the first available way: by the recorded token ids; by the model's chat
template, tokenizer and processor; or by an estimate, which is reported as such. A trainer's
template may add a few tokens to the model's own, so leave some room.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import pydantic

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text
from webtraj.agents.models.messages import estimate_tokens, for_template
from webtraj.training.export.base import LeftOut, Row, SampleFormat, copies_of
from webtraj.training.export.conversations import Conversation, conversation_of, digest_of
from webtraj.training.export.pictures import Pictures
from webtraj.training.export.preferences import find_rejected, with_reasoning
from webtraj.training.samples import Sample

if TYPE_CHECKING:
    from webtraj.training.sft.encoding import ModelTools

__all__ = ["LengthOptions", "ModelCounter", "Prepared", "WeightOptions"]


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A sample that fits, in turns."""

    conversation: Conversation
    changes: Mapping[str, int]
    """See `Row.changes`."""
    sample: Sample
    """The sample as it is written: shortened, with its reasoning, or unchanged."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LengthOptions(SampleFormat):
    """Options of formats of conversations, which have a length limit."""

    keeps_tools: ClassVar[bool] = False
    """Whether the format has tool calls and their results."""

    cutoff_len: Annotated[int, pydantic.Field(ge=0)] = 0
    """The most tokens in a sample, reply included; 0 is no limit, and nothing is counted."""
    model: str = ""
    """The folder of the model to train, for exact counts."""
    image_max_pixels: Annotated[int, pydantic.Field(ge=0)] = 0
    """The size to which the trainer scales larger pictures down; 0 if it does not."""
    over_length: Literal["leave_out", "shorten"] = "leave_out"
    """Leave out a sample that is too long; or remove its oldest turns, each with its reply and
    pictures, until it fits. Samples with tool calls are left out."""
    reasoning: Literal["leave_out", "think"] = "leave_out"
    """What becomes of reasoning that the server separated from the reply: leave it out, or write it
    before the reply between `<think>` and `</think>`, as Qwen's and DeepSeek's models say it."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        copies = self._copies(sample)
        if isinstance(copies, LeftOut):
            return copies
        prepared = self.prepare(sample)
        if isinstance(prepared, LeftOut):
            return prepared
        try:
            row = self._row(prepared, pictures)
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        if isinstance(row, LeftOut):
            return row
        return Row(row.data, copies, {**prepared.changes, **row.changes}, prepared.sample)

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        return digest_of(sample)

    def prepare(self, sample: Sample) -> Prepared | LeftOut:
        """Return a sample as a conversation that fits, or the reason why it is left out."""
        if sample.uses_tools and not self.keeps_tools:
            return LeftOut("it has tool calls, which only the format openai keeps")
        if sample.mask:
            return LeftOut(
                "its mask trains a part of its reply, which only the format tokens keeps"
            )
        conversation = conversation_of(sample)
        if isinstance(conversation, LeftOut):
            return conversation
        changes = {
            "merged_messages": conversation.merged,
            "left_out_tools": len(sample.tools) * (not self.keeps_tools),
        }
        if self.reasoning == "think":
            sample = with_reasoning(sample)
        else:
            changes["left_out_reasoning"] = int(bool(sample.metadata.get("reasoning")))
        if not self.cutoff_len:
            return Prepared(conversation, _some(changes), sample)
        recorded = _recorded_length(sample)
        length, exact = (recorded, True) if recorded else self._count(conversation, sample)
        shortened = 0
        while length > self.cutoff_len:
            said = f"{self.cutoff_len} tokens" + ("" if exact else ", by an estimate")
            if self.over_length == "leave_out" or sample.uses_tools:
                return LeftOut(f"it is longer than {said}")
            if len(conversation.turns) < 3:
                return LeftOut(f"its last turn alone is longer than {said}")
            shortened += 2
            conversation = dataclasses.replace(conversation, turns=conversation.turns[2:])
            length, exact = self._count(conversation, sample)
        changes |= {
            "estimated_lengths": int(not exact),
            "shortened_prompts": int(shortened > 0),
            "dropped_turns": shortened,
        }
        if not shortened:
            return Prepared(conversation, _some(changes), sample)
        # Its token ids and log-probabilities belong to the longer prompt.
        left = dataclasses.replace(
            sample,
            messages=conversation.messages(),
            prompt_token_ids=(),
            completion_token_ids=(),
            logprobs=(),
        )
        return Prepared(conversation, _some(changes), left)

    def _copies(self, sample: Sample) -> int | LeftOut:
        """Return how many times a sample is written, or the reason why it is left out."""
        return 1

    def _row(self, prepared: Prepared, pictures: Pictures) -> Row | LeftOut:
        """Return the row of a sample that fits.

        Raises:
            CorruptDataError: A picture cannot be decoded.
        """
        raise NotImplementedError

    def _count(self, conversation: Conversation, sample: Sample) -> tuple[int, bool]:
        """Return a length, and whether it is exact."""
        counter = _counter(self.model, self.image_max_pixels) if self.model else None
        count = estimate_tokens if counter is None else counter.count
        rejected = find_rejected(sample)
        replies = [sample.completion, *([] if rejected is None else [rejected.completion])]
        lengths = [
            count((*conversation.messages(), Message("assistant", (Text(reply),), sample.calls)))
            for reply in replies
        ]
        return max(lengths), counter is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightOptions(LengthOptions):
    """Options of formats whose rows have weights."""

    weights: Literal["copies", "column"] = "copies"
    """Whether weights are written as copies (a sample of weight 2 twice), or only as the column
    `loss_weight`, which LLaMA-Factory's normal engine ignores."""
    seed: int = 0
    """Seed for rounding fractional weights."""

    def _copies(self, sample: Sample) -> int | LeftOut:
        return copies_of(sample, self.seed, column=self.weights == "column")

    def _weight(self, sample: Sample) -> float:
        """Return the value of `loss_weight`."""
        return sample.loss_weight if self.weights == "column" else 1.0


class ModelCounter:
    """A counter of tokens with the model's own template and processor. It decodes no picture."""

    def __init__(self, tools: ModelTools, *, image_max_pixels: int = 0) -> None:
        from webtraj.training.sft.pictures import ImageTokens

        self._tools = tools
        self._max_pixels = image_max_pixels
        self._tokens = ImageTokens(tools)

    def count(self, messages: Sequence[Message]) -> int:
        """Return the number of tokens in a conversation.

        Raises:
            InvalidInputError: The model has no chat template, or takes no pictures.
        """
        renderer = self._tools.renderer
        in_parts = renderer is self._tools.processor
        images = [part for m in messages for part in m.parts if isinstance(part, Image)]
        lacks = "" if getattr(renderer, "chat_template", None) else "has no chat template"
        if images and (self._tools.why_no_images or not in_parts):
            lacks = f"takes no pictures: {self._tools.why_no_images or 'its template shows none'}"
        if lacks:
            raise errors.InvalidInputError(
                f"The model for counting tokens {lacks}. Pass the folder of the model to train, "
                "with its processor."
            )
        text = renderer.apply_chat_template(
            [for_template(message, in_parts=in_parts) for message in messages],
            tokenize=False,
        )
        return self._tokens.count(str(text), list(map(self._size, images)))

    def _size(self, image: Image) -> tuple[int, int]:
        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(image.data)) as opened:
            width, height = opened.size
        if self._max_pixels and width * height > self._max_pixels:
            factor = math.sqrt(self._max_pixels / (width * height))
            width, height = int(width * factor), int(height * factor)
        return max(width, 1), max(height, 1)


@functools.lru_cache(maxsize=2)
def _counter(model: str, image_max_pixels: int) -> ModelCounter:
    from webtraj.training.sft.encoding import load_tools

    return ModelCounter(load_tools(model), image_max_pixels=image_max_pixels)


def _recorded_length(sample: Sample) -> int:
    """Return the number of recorded token ids; 0 if the prompt or the reply has none."""
    ids = sample.prompt_token_ids, sample.completion_token_ids
    if not (sample.recorded and all(ids)) or find_rejected(sample) is not None:
        return 0
    return sum(map(len, ids))


def _some(changes: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in changes.items() if count}
