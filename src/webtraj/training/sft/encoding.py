"""Encoding of samples as token ids, with a mask of the trained ones.

Recorded token ids are used unchanged: the model saw and sampled exactly these. Without them, the
model's chat template is used, and the prompt is tokenised apart from the reply, as a server does.
A sample is never cut.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text
from webtraj.agents.models.messages import for_template, functions_of
from webtraj.agents.models.names import looks_like_a_path
from webtraj.training.samples import Sample
from webtraj.training.sft.failures import PictureMismatchError
from webtraj.training.sft.pictures import OF_TOKENS, ImageTokens, open_image
from webtraj.trajectory import Ending, ending_of

__all__ = [
    "Encoded",
    "Encoder",
    "ModelTools",
    "check_pictures",
    "image_tokens_of",
    "load_tools",
    "name_of",
]

# The tokenizer, processor and configuration that prepare samples for a model.


@dataclasses.dataclass(frozen=True, slots=True)
class ModelTools:
    """A model's tokenizer, processor and configuration."""

    config: Any
    """The transformers configuration."""
    tokenizer: Any
    processor: Any = None
    """The processor of text and images; None if the model takes no images."""

    @property
    def vocab_size(self) -> int:
        """The number of token ids that the model knows."""
        return int(self.config.get_text_config().vocab_size)

    @property
    def context_len(self) -> int | None:
        """The model's context length in tokens; None if not stated."""
        length = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return None if length is None else int(length)

    @property
    def image_token(self) -> str | None:
        """The processor's mark for an image in a text; None if it has none."""
        return getattr(self.processor, "image_token", None)

    @property
    def image_token_id(self) -> int | None:
        """The token that stands for a part of an image; None if there is none."""
        for name in ("image_token_id", "image_token_index"):
            if isinstance(value := getattr(self.config, name, None), int):
                return value
        mark = self.image_token
        return None if mark is None else int(self.tokenizer.convert_tokens_to_ids(mark))

    @property
    def why_no_images(self) -> str:
        """The reason why samples for the model cannot show images; empty if they can."""
        if self.processor is None:
            return "the model takes none"
        if self.image_token is None:
            return f"its processor, {type(self.processor).__name__}, has no image token"
        return ""

    @property
    def renderer(self) -> Any:
        """The processor or tokenizer with the chat template."""
        has_one = self.processor is not None and getattr(self.processor, "chat_template", None)
        return self.processor if has_one else self.tokenizer

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write tokenizer and processor to a folder."""
        (self.processor or self.tokenizer).save_pretrained(folder)


def load_tools(
    model: str | os.PathLike[str], *, image_backend: Literal["auto", "pil", "torchvision"] = "auto"
) -> ModelTools:
    """Load a model's tokenizer, processor and configuration.

    Args:
        model: A folder, or a name on the Hub.
        image_backend: See `SftSettings.image_backend`.

    Raises:
        InvalidInputError: There is no such model, or it does not reply to text.
        MissingDependencyError: transformers is not installed, or torchvision, if it is asked for.
    """
    name = os.fspath(model)
    if looks_like_a_path(name) and not (name and Path(name).exists()):
        # The Hub would be asked for it, which takes most of a minute.
        raise errors.InvalidInputError(
            f"No model folder at {name!r}{_why_a_path(name)}. Expected a folder that transformers "
            "can load, with a tokenizer, or a name on the Hub."
        )
    try:
        import transformers
        from transformers.utils import is_torchvision_available
    except ImportError as error:
        raise errors.missing_dependency(
            "Training needs PyTorch and transformers", "train"
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        if takes_images(config):
            if image_backend == "torchvision" and not is_torchvision_available():
                raise errors.missing_dependency("This image_backend needs torchvision", "train")
            processor = transformers.AutoProcessor.from_pretrained(name)
            if image_backend != "auto":  # Of images alone: those of videos have only torchvision.
                processor.image_processor = transformers.AutoImageProcessor.from_pretrained(
                    name, backend=image_backend
                )
            return ModelTools(config, processor.tokenizer, processor)
        return ModelTools(config, transformers.AutoTokenizer.from_pretrained(name))
    except (OSError, ValueError, KeyError) as error:
        raise errors.InvalidInputError(
            f"The model {name!r} cannot be loaded: {' '.join(str(error).split())[:500]} Expected a "
            "folder that transformers can load, with a tokenizer, or a name on the Hub."
        ) from error


def _why_a_path(name: str) -> str:
    """Return why a name was read as a path, if that is not obvious."""
    if name.startswith("~"):
        return ": ~ is not expanded here, write the path in full"
    first = name.partition("/")[0]
    if name.count("/") == 1 and first not in ("", ".", ".."):
        return f" (a path and not a name on the Hub, since the folder {first!r} exists)"
    return ""


def takes_images(config: Any) -> bool:
    """Return whether a model with this configuration takes images."""
    import transformers

    return type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING


_Ids = list[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """A sample as tokens."""

    name: str
    """The sample's name in errors."""
    input_ids: npt.NDArray[np.int32]
    """Token ids of prompt and reply."""
    trained: npt.NDArray[np.bool_]
    """Mask of the tokens to predict; never the first one."""
    weight: float
    """The weight of each trained token."""
    recorded: bool
    """Whether the token ids are the recorded ones."""
    mass: float
    """Its share of the loss's denominator."""
    advantage: float | None = None
    """The advantage of its episode, for policy-gradient training; None imitates the reply."""
    behaviour: npt.NDArray[np.float32] | None = None
    """The log-probability of each token under the weights that sampled it; 0 in the prompt."""
    proximal: npt.NDArray[np.float32] | None = None
    """The log-probability of each token under this run's starting weights; 0 in the prompt."""

    def __len__(self) -> int:
        return len(self.input_ids)


class Encoder:
    """An encoder of samples for a model.

    Args:
        tools: The model's tokenizer and processor.
        loss_on: "completion" trains on the reply, "all_turns" also on the replies in the prompt.
        token_ids: "recorded" refuses samples without recorded ids, "template" ignores recorded ids,
            and "auto" uses recorded ids if there are any.
        template_options: Extra arguments for the chat template.
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
        """Return a sample as tokens.

        Raises:
            PictureMismatchError: Its image tokens and pictures do not fit together.
            InvalidInputError: A picture is damaged; or the model does not know an id, takes no
                images, or has no chat template. All messages name the sample.
        """
        name = name_of(sample)
        images = sample.images
        if images and (why := self.tools.why_no_images):
            raise errors.InvalidInputError(
                f"{name} shows {len(images)} images, and {why}. Use a vision-language model whose "
                "prompts have a token for images."
            )
        try:
            self._image_tokens.check(images)
        except errors.InvalidInputError as error:
            raise errors.InvalidInputError(f"{name} has a damaged picture. {error}") from error
        on_record = bool(sample.prompt_token_ids and sample.completion_token_ids)
        if self._token_ids == "recorded" and not on_record:
            raise errors.InvalidInputError(
                f"{name} has no recorded token ids. Record them, or train with token_ids: auto."
            )
        recorded = on_record and self._token_ids != "template"
        if sample.mask and not recorded:
            raise errors.InvalidInputError(
                f"{name} has a mask for its recorded token ids. Train with token_ids: recorded, or "
                "leave the mask out."
            )
        if recorded:
            prompt, reply = list(sample.prompt_token_ids), list(sample.completion_token_ids)
            self._check_ids(prompt + reply, name)
        else:
            text, suffix = self._render(sample, name)
            prompt = self._prompt_ids(text, images, name)
            reply = self._reply_ids(suffix)
            if ending_of(sample.finish_reason) is Ending.CUT and self._ends & {*reply[-1:]}:
                reply.pop()  # The template ends the turn, and the model did not.
        why = self._image_tokens.departure(sample) if recorded else ""
        if why := why or self._image_tokens.misfit(prompt + reply, images):
            raise PictureMismatchError(
                f"{name} has pictures that do not fit its token ids: {why}. A picture is missing "
                "or was changed, a text holds an image token, or the server had another processor: "
                "then train with token_ids: template."
            )
        trained = np.zeros(len(prompt) + len(reply), dtype=bool)
        trained[len(prompt) :] = sample.mask or True
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
        """Return the model's inputs besides token ids: tensors of the samples' images.

        Inputs per token are left out, since the token ids are known already.
        """
        shown = [sample.images for sample in samples]
        if not any(shown):
            return {}
        made = self.tools.processor(
            text=[str(self.tools.image_token) * len(images) for images in shown if images],
            images=[[open_image(image) for image in images] for images in shown if images],
            return_tensors="pt",
            padding=True,
        )
        return {key: value for key, value in made.items() if key not in OF_TOKENS}

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, without special tokens."""
        return str(self.tools.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _weight(self, sample: Sample, name: str) -> float:
        weight = float(sample.loss_weight)
        if not (np.isfinite(weight) and weight >= 0):
            raise errors.InvalidInputError(
                f"{name} has the loss_weight {weight}; expected 0 or more. To make a reply less "
                "likely, use preference training such as DPO."
            )
        return weight

    def _check_ids(self, ids: _Ids, name: str) -> None:
        size = self.tools.vocab_size
        wrong = next((token for token in ids if not 0 <= token < size), None)
        if wrong is not None:
            raise errors.InvalidInputError(
                f"{name} has the recorded token id {wrong}, and the model knows ids below {size}: "
                "it was recorded with another tokenizer. Train with token_ids: template."
            )

    def _render(self, sample: Sample, name: str) -> tuple[str, str]:
        """Return the texts of the prompt and the reply, rendered by the template."""
        reply = Message("assistant", (Text(sample.completion),), sample.calls)
        prompt = self._apply_template(sample.messages, name, sample.tools, ask=True)
        whole = self._apply_template((*sample.messages, reply), name, sample.tools, ask=False)
        if not whole.startswith(prompt):
            raise errors.InvalidInputError(
                f"{name}: the model's chat template does not render the conversation as its prompt "
                "followed by the reply. Set template_options that make both agree, such as "
                "enable_thinking: false, or use samples with recorded token ids."
            )
        return prompt, whole[len(prompt) :]

    def _apply_template(
        self, messages: Sequence[Message], name: str, tools: Sequence[Any], *, ask: bool
    ) -> str:
        functions = functions_of(tools)
        if functions is None:
            raise errors.InvalidInputError(
                f"{name} was offered a tool of the provider's own, which no chat template has. "
                "Leave it out."
            )
        renderer = self.tools.renderer
        if not getattr(renderer, "chat_template", None):
            raise errors.InvalidInputError(
                f"{name} has no usable token ids, and the model has no chat template. "
                "Use samples with recorded token ids, or a model with a template."
            )
        parts = renderer is self.tools.processor
        return str(
            renderer.apply_chat_template(
                [for_template(message, in_parts=parts) for message in messages],
                tokenize=False,
                add_generation_prompt=ask,
                **({"tools": list(functions)} if functions else {}),
                **self._template_options,
            )
        )

    def _prompt_ids(self, text: str, images: Sequence[Image], name: str) -> _Ids:
        token = self.tools.image_token
        if token is None:
            return self._image_tokens.ids(text, ())
        found = text.count(token)
        if found != len(images):
            raise PictureMismatchError(
                f"{name} shows {len(images)} images, and its prompt has {found} times "
                f"{token!r}: the text contains it too. Remove it there."
            )
        return self._image_tokens.ids(text, images)

    def _reply_ids(self, suffix: str) -> _Ids:
        """Return the ids up to the end of the turn. Nothing is sampled after it."""
        ids = self._image_tokens.ids(suffix, ())
        last = max((i for i, token in enumerate(ids) if token in self._ends), default=len(ids) - 1)
        return ids[: last + 1]

    def _earlier_replies(
        self, sample: Sample, prompt: _Ids, images: Sequence[Image], name: str
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the prompt's tokens that belong to replies."""
        text = self._apply_template(sample.messages, name, sample.tools, ask=True)
        encoded = self.tools.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        starts = np.asarray([start for start, _ in encoded["offset_mapping"]])
        flags = np.zeros(len(starts), dtype=bool)
        for position, message in enumerate(sample.messages):
            if message.role != "assistant":
                continue
            before = self._apply_template(sample.messages[:position], name, sample.tools, ask=True)
            until = self._apply_template(
                sample.messages[: position + 1], name, sample.tools, ask=False
            )
            if not (text.startswith(until) and until.startswith(before)):
                raise errors.InvalidInputError(
                    f"{name}: the model's chat template renders message {position} differently if "
                    "others follow. Train with loss_on: completion."
                )
            span = (starts >= len(before)) & (starts < len(until))
            inside = np.flatnonzero(span).tolist()
            ends = [i for i in inside if encoded["input_ids"][i] in self._ends]
            flags[inside] = True
            if ends:
                flags[[i for i in inside if i > ends[-1]]] = False
        return _spread(encoded["input_ids"], flags, prompt, self.tools.image_token_id, name)


def name_of(sample: Sample) -> str:
    """Return a sample's name for errors."""
    key = sample.key
    call = f", call {key.call}" if key.call else ""
    return f"The sample of {key.episode_id:.100}, step {key.step}{call},"


def _spread(
    ids: _Ids, flags: npt.NDArray[np.bool_], prompt: _Ids, image: int | None, name: str
) -> npt.NDArray[np.bool_]:
    """Expand a mask to the prompt in which each image token is expanded into many."""
    spread = np.zeros(len(prompt), dtype=bool)
    position = 0
    cuts = [i for i, token in enumerate(ids) if token == image]
    for start, end in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(ids)], strict=True):
        chunk = ids[start:end]
        while prompt[position : position + len(chunk)] != chunk:
            position += 1
            if position + len(chunk) > len(prompt) or not cuts:
                raise errors.InvalidInputError(
                    f"{name}: the recorded ids differ from those of the model's chat template, so "
                    "earlier replies cannot be located. Train with loss_on: completion."
                )
        spread[position : position + len(chunk)] = flags[start:end]
        position += len(chunk)
    return spread


def _ends_of_turns(tools: ModelTools) -> frozenset[int]:
    """Return the tokens that end a reply."""
    said = [tools.tokenizer.eos_token_id, getattr(tools.config, "eos_token_id", None)]
    said.append(getattr(tools.config.get_text_config(), "eos_token_id", None))
    flat = [t for item in said for t in (item if isinstance(item, list) else [item])]
    return frozenset(token for token in flat if isinstance(token, int))


@functools.lru_cache(maxsize=2)
def image_tokens_of(model: str) -> ImageTokens:
    """Load a model's image processing.

    Raises:
        InvalidInputError: See `load_tools`.
        MissingDependencyError: See `load_tools`.
    """
    return ImageTokens(load_tools(model))


def check_pictures(sample: Sample, model: str = "") -> str:
    """Process the pictures of a row again, and return what differs from the row.

    The processor's settings and each picture's grid and number of tokens are compared, except
    settings that only one version of transformers knows. If the row has no processor, only the
    tokens are compared.

    Args:
        sample: A row of token ids with its pictures, read from an export of tokens.
        model: The model whose processor is run. Default: the model that the row names.

    Returns:
        The first difference, empty if there is none.

    Raises:
        InvalidInputError: The row names no model, or a picture or the model cannot be read.
        MissingDependencyError: transformers is not installed.
    """
    model = model or str(sample.processor.get("model") or "")
    if not (model or sample.processor or sample.images):
        return ""
    if not model:
        raise errors.InvalidInputError(
            "The row does not name its model. Pass the model that replied, or export the tokens "
            "with --set model=FOLDER."
        )
    return image_tokens_of(model).departure_again(sample)
