"""The formats of training data by name; a module is imported when its format is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.named import make_of, nearest
from webtraj.training.export.base import SampleFormat

__all__ = ["FORMATS", "make_format"]

_HERE = "webtraj.training.export"

FORMATS: Mapping[str, tuple[str, str]] = {
    "sharegpt": (f"{_HERE}.sharegpt:ShareGptFormat", "ShareGPT, for LLaMA-Factory"),
    "openai": (f"{_HERE}.openai:OpenAIFormat", "OpenAI's messages, a conversation a line"),
    "trl": (f"{_HERE}.trl:TrlFormat", "prompt and completion with images in Parquet, for TRL"),
    "preferences": (f"{_HERE}.ranking:RankingFormat", "pairs of replies, for LLaMA-Factory's DPO"),
    "trl-preferences": (f"{_HERE}.trl:TrlPreferencesFormat", "pairs in Parquet, for TRL's DPO"),
    "tokens": (f"{_HERE}.tokens:TokensFormat", "exact token ids with log-probabilities, for RL"),
    "pointing": (
        f"{_HERE}.pointing:PointingFormat",
        "token ids of pointing prompts, names dealt anew, for models made from scratch",
    ),
}
"""The class of each, as `module:Class`, and what it is in a line."""


def make_format(name: str, options: Mapping[str, Any] | None = None) -> SampleFormat:
    """Returns a format.

    Args:
        name: A key of `FORMATS`.
        options: Values of its fields; text is converted, as from a command line.

    Raises:
        InvalidInputError: There is no such format or option, or a value does not do.
    """
    if name not in FORMATS:
        raise errors.InvalidInputError(
            f"There is no format {name!r:.60} of training data. "
            f"{nearest(name, FORMATS, cutoff=0.5)}The formats are {', '.join(FORMATS)}."
        )
    made: SampleFormat = make_of(FORMATS[name][0], name, options)
    return made
