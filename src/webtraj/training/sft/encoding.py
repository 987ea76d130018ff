"""A sample as token ids, and which of them are trained on.

Recorded token ids are taken as they are: they are what the model saw and sampled. Where there are
none, the model's chat template makes them, and the prompt is tokenised apart from the reply, as it
is when a model is asked. A sample is never cut.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text
from webtraj.model_names import looks_like_a_path
from webtraj.training.samples import Sample

__all__ = ["Encoded", "Encoder", "ImageTokens", "ModelTools", "load_tools", "name_of", "opened"]

# A model's tokenizer, processor and configuration: what is needed to prepare samples for it.


@dataclasses.dataclass(frozen=True, slots=True)
class ModelTools:
    """What a model comes with, besides its weights."""

    config: Any
    """transformers' configuration."""
    tokenizer: Any
    processor: Any = None
    """Makes tokens and pixels of text and images; None if the model takes no images."""

    @property
    def vocab_size(self) -> int:
        """How many token ids the model knows."""
        return int(self.config.get_text_config().vocab_size)

    @property
    def context_len(self) -> int | None:
        """How many tokens it can attend to, as far as it says."""
        length = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return None if length is None else int(length)

    @property
    def image_token_id(self) -> int | None:
        """The token that stands for a part of an image."""
        for name in ("image_token_id", "image_token_index"):
            if isinstance(value := getattr(self.config, name, None), int):
                return value
        return None

    @property
    def renderer(self) -> Any:
        """What has the chat template."""
        has_one = self.processor is not None and getattr(self.processor, "chat_template", None)
        return self.processor if has_one else self.tokenizer

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes tokenizer and processor to a folder."""
        (self.processor or self.tokenizer).save_pretrained(folder)


def load_tools(model: str | os.PathLike[str]) -> ModelTools:
    """Loads what a model comes with, besides its weights.

    Raises:
        InvalidInputError: There is no such model, or it is none that replies to text.
        MissingDependencyError: transformers is not installed.
    """
    name = os.fspath(model)
    if looks_like_a_path(name) and not (name and Path(name).exists()):
        # As a name on the Hub it would be asked for there, for most of a minute.
        raise errors.InvalidInputError(
            f"There is no folder {name!r}{_why_a_path(name)}. Expected a folder that transformers "
            "can load, with a tokenizer, or a name on the Hub."
        )
    try:
        import transformers
    except ImportError as error:
        raise errors.missing_dependency(
            "Training needs PyTorch and transformers", "train"
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        if takes_images(config):
            processor = transformers.AutoProcessor.from_pretrained(name)
            return ModelTools(config, processor.tokenizer, processor)
        return ModelTools(config, transformers.AutoTokenizer.from_pretrained(name))
    except (OSError, ValueError, KeyError) as error:
        raise errors.InvalidInputError(
            f"The model {name!r} cannot be loaded: {' '.join(str(error).split())[:500]} Expected a "
            "folder that transformers can load, with a tokenizer, or a name on the Hub."
        ) from error


def _why_a_path(name: str) -> str:
    """Says what is not plain from a name itself."""
    if name.startswith("~"):
        return ", as ~ is not followed here: write the path in full"
    first = name.partition("/")[0]
    if name.count("/") == 1 and first not in ("", ".", ".."):
        return f", though there is one {first!r}, so that it is taken for no name on the Hub"
    return ""


def takes_images(config: Any) -> bool:
    """Returns whether a model of this configuration replies to images too."""
    import transformers

    return type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING


# Which tokens stand for an image in a prompt, found out once for each size of images.
#
# A processor tells by scaling the image and making its pixels, which takes most of the time that
# preparing samples takes; but its tokens depend on the size alone.

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


_Ids = list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """A sample as tokens."""

    name: str
    """Says which sample it is."""
    input_ids: npt.NDArray[np.int32]
    """Prompt and reply."""
    trained: npt.NDArray[np.bool_]
    """Which of them are to be predicted. The first never is: nothing stands before it."""
    weight: float
    """How much each of its trained tokens counts."""
    recorded: bool
    """Whether its ids are those on record."""
    mass: float
    """Its share of the loss's denominator."""
    advantage: float | None = None
    """How much better its episode was than its group, for policy-gradient training; None to imitate
    the reply."""
    behaviour: npt.NDArray[np.float32] | None = None
    """The log-probability of each token under the weights that sampled it; 0 in the prompt."""
    proximal: npt.NDArray[np.float32] | None = None
    """Likewise, under the weights that this run starts from."""

    def __len__(self) -> int:
        return len(self.input_ids)


class Encoder:
    """Encodes samples for a model.

    Args:
        tools: The model's tokenizer and processor.
        loss_on: "completion" trains on the reply, "all_turns" on those in the prompt as well.
        token_ids: "recorded" refuses samples without ids on record, "template" ignores those that
            are, "auto" takes them where they are.
        template_options: More arguments of the chat template.
    """

    def __init__(
        self,
        tools: ModelTools,
        *,
        loss_on: Literal["completion", "all_turns"] = "completion",
        token_ids: Literal["auto", "recorded", "template"] = "auto",
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.tools = tools
        self._all_turns = loss_on == "all_turns"
        self._token_ids = token_ids
        self._template_options = dict(template_options or {})
        self._image_tokens = ImageTokens(tools)
        self._ends = _ends_of_turns(tools)

    def encode(self, sample: Sample) -> Encoded:
        """Returns a sample as tokens.

        Raises:
            InvalidInputError: It cannot be: ids that the model does not know, images that it does
                not take or whose number differs, no chat template. The message names the sample.
        """
        name = name_of(sample)
        images = images_of(sample)
        if images and self.tools.processor is None:
            raise errors.InvalidInputError(
                f"{name} shows {len(images)} images, and the model takes none; expected a "
                "vision-language model."
            )
        on_record = bool(sample.prompt_token_ids and sample.completion_token_ids)
        if self._token_ids == "recorded" and not on_record:
            raise errors.InvalidInputError(
                f"{name} has no token ids on record; record them, or train with token_ids: auto."
            )
        recorded = on_record and self._token_ids != "template"
        if recorded:
            prompt, reply = list(sample.prompt_token_ids), list(sample.completion_token_ids)
            self._check_ids(prompt + reply, name)
            if images:
                self._check_images(prompt, images, name)
        else:
            text, suffix = self._render(sample, name)
            prompt = self._prompt_ids(text, images, name)
            reply = self._reply_ids(suffix)
        trained = np.zeros(len(prompt) + len(reply), dtype=bool)
        trained[len(prompt) :] = True
        if self._all_turns and any(message.role == "assistant" for message in sample.messages):
            trained[: len(prompt)] = self._earlier_replies(sample, prompt, images, name)
        trained[:1] = False
        if not trained.any():
            raise errors.InvalidInputError(f"{name} has no reply to train on.")
        ids = np.asarray(prompt + reply, dtype=np.int32)
        weight = self._weight(sample, name)
        behaviour = None
        if recorded and sample.logprobs:
            behaviour = np.zeros(len(ids), dtype=np.float32)
            behaviour[len(prompt) :] = sample.logprobs
        mass = weight * int(np.count_nonzero(trained))
        return Encoded(name, ids, trained, weight, recorded, mass, behaviour=behaviour)

    def pixels(self, samples: Sequence[Sample]) -> dict[str, Any]:
        """Returns what the model takes besides token ids: tensors of the samples' images.

        What the processor gives for each token is left out, since the ids on record count.
        """
        shown = [images_of(sample) for sample in samples]
        processor = self.tools.processor
        if processor is None or not any(shown):
            return {}
        placeholder = processor.image_token
        made = processor(
            text=[placeholder * len(images) for images in shown if images],
            images=[[opened(image) for image in images] for images in shown if images],
            return_tensors="pt",
            padding=True,
        )
        of_tokens = {"input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"}
        return {key: value for key, value in made.items() if key not in of_tokens}

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, without special tokens."""
        return str(self.tools.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _weight(self, sample: Sample, name: str) -> float:
        weight = float(sample.loss_weight)
        if not (np.isfinite(weight) and weight >= 0):
            raise errors.InvalidInputError(
                f"{name} has the loss_weight {weight}; expected a number of 0 or more. What shall "
                "become less likely is for preference training, such as DPO."
            )
        return weight

    def _check_ids(self, ids: _Ids, name: str) -> None:
        size = self.tools.vocab_size
        wrong = next((token for token in ids if not 0 <= token < size), None)
        if wrong is not None:
            raise errors.InvalidInputError(
                f"{name} has the token id {wrong} on record, and the model knows ids below {size}: "
                "it was recorded with another tokenizer. Train with token_ids: template."
            )

    def _check_images(self, prompt: _Ids, images: Sequence[Image], name: str) -> None:
        token = self.tools.image_token_id
        expected = self._image_tokens.ids(self.tools.processor.image_token * len(images), images)
        wanted, found = expected.count(token or -1), prompt.count(token or -1)
        if wanted != found:
            raise errors.InvalidInputError(
                f"{name} has {found} image tokens on record, and its {len(images)} images make "
                f"{wanted}: it was recorded with another processor. Train with token_ids: template."
            )

    def _render(self, sample: Sample, name: str) -> tuple[str, str]:
        """Returns the prompt's text, and what the template makes of the reply after it."""
        reply = Message.of("assistant", sample.completion)
        prompt = self._templated(sample.messages, name, ask=True)
        whole = self._templated((*sample.messages, reply), name, ask=False)
        if not whole.startswith(prompt):
            raise errors.InvalidInputError(
                f"{name}: the model's chat template writes a reply otherwise than after the prompt "
                "that asks for it; give template_options that make both agree, such as "
                "enable_thinking: false, or samples with token ids on record."
            )
        return prompt, whole[len(prompt) :]

    def _templated(self, messages: Sequence[Message], name: str, *, ask: bool) -> str:
        renderer = self.tools.renderer
        if not getattr(renderer, "chat_template", None):
            raise errors.InvalidInputError(
                f"{name} has no token ids that are to be used, and the model has no chat template; "
                "give samples with token ids on record, or a model with a template."
            )
        parts = renderer is self.tools.processor
        return str(
            renderer.apply_chat_template(
                [_shaped(message, in_parts=parts) for message in messages],
                tokenize=False,
                add_generation_prompt=ask,
                **self._template_options,
            )
        )

    def _prompt_ids(self, text: str, images: Sequence[Image], name: str) -> _Ids:
        if not images:
            return self._image_tokens.ids(text, ())
        found = text.count(self.tools.processor.image_token)
        if found != len(images):
            raise errors.InvalidInputError(
                f"{name} shows {len(images)} images, and its prompt has {found} times "
                f"{self.tools.processor.image_token!r}: the text has it too. Take it out of there."
            )
        return self._image_tokens.ids(text, images)

    def _reply_ids(self, suffix: str) -> _Ids:
        """Returns the ids up to the one that ends the turn: after it, nothing is sampled."""
        ids = self._image_tokens.ids(suffix, ())
        last = max((i for i, token in enumerate(ids) if token in self._ends), default=len(ids) - 1)
        return ids[: last + 1]

    def _earlier_replies(
        self, sample: Sample, prompt: _Ids, images: Sequence[Image], name: str
    ) -> npt.NDArray[np.bool_]:
        """Returns which tokens of the prompt are of replies in it."""
        text = self._templated(sample.messages, name, ask=True)
        encoded = self.tools.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        starts = np.asarray([start for start, _ in encoded["offset_mapping"]])
        flags = np.zeros(len(starts), dtype=bool)
        for position, message in enumerate(sample.messages):
            if message.role != "assistant":
                continue
            before = self._templated(sample.messages[:position], name, ask=True)
            until = self._templated(sample.messages[: position + 1], name, ask=False)
            if not (text.startswith(until) and until.startswith(before)):
                raise errors.InvalidInputError(
                    f"{name}: the model's chat template writes message {position} otherwise once "
                    "others follow; train with loss_on: completion."
                )
            span = (starts >= len(before)) & (starts < len(until))
            inside = np.flatnonzero(span).tolist()
            ends = [i for i in inside if encoded["input_ids"][i] in self._ends]
            flags[inside] = True
            if ends:
                flags[[i for i in inside if i > ends[-1]]] = False
        return _spread(encoded["input_ids"], flags, prompt, self.tools.image_token_id, name)


def name_of(sample: Sample) -> str:
    """Returns how errors name a sample."""
    key = sample.key
    call = f", call {key.call}" if key.call else ""
    return f"The sample of {key.episode_id}, step {key.step}{call},"


def images_of(sample: Sample) -> list[Image]:
    """Returns the images of a sample's prompt, in order."""
    return [
        part for message in sample.messages for part in message.parts if isinstance(part, Image)
    ]


def _spread(
    ids: _Ids, flags: npt.NDArray[np.bool_], prompt: _Ids, image: int | None, name: str
) -> npt.NDArray[np.bool_]:
    """Carries flags over to the prompt, in which each image's one token has become many."""
    spread = np.zeros(len(prompt), dtype=bool)
    position = 0
    cuts = [i for i, token in enumerate(ids) if token == image]
    for start, end in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(ids)], strict=True):
        chunk = ids[start:end]
        while prompt[position : position + len(chunk)] != chunk:
            position += 1
            if position + len(chunk) > len(prompt) or not cuts:
                raise errors.InvalidInputError(
                    f"{name}: the ids on record are not those of the model's chat template, so "
                    "where earlier replies stand is not known; train with loss_on: completion."
                )
        spread[position : position + len(chunk)] = flags[start:end]
        position += len(chunk)
    return spread


def _shaped(message: Message, *, in_parts: bool) -> dict[str, Any]:
    if not in_parts:
        text = "".join(part.text for part in message.parts if isinstance(part, Text))
        return {"role": message.role, "content": text}
    return {
        "role": message.role,
        "content": [
            {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
            for part in message.parts
        ],
    }


def _ends_of_turns(tools: ModelTools) -> frozenset[int]:
    """Returns the tokens that end a reply."""
    said = [tools.tokenizer.eos_token_id, getattr(tools.config, "eos_token_id", None)]
    said.append(getattr(tools.config.get_text_config(), "eos_token_id", None))
    flat = [t for item in said for t in (item if isinstance(item, list) else [item])]
    return frozenset(token for token in flat if isinstance(token, int))
