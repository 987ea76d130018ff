"""A model's tokenizer, processor and configuration: what is needed to prepare samples for it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.model_names import looks_like_a_path

__all__ = ["ModelTools", "load_tools"]


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
