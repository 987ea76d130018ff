"""The formats of training data by name; a module is imported when its format is used."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import pydantic

from webtraj import errors
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
        near = difflib.get_close_matches(name.lower(), FORMATS, n=1, cutoff=0.5)
        raise errors.InvalidInputError(
            f"There is no format {name!r:.60} of training data. "
            + (f"Did you mean {near[0]!r}? " if near else "")
            + f"The formats are {', '.join(FORMATS)}."
        )
    module, _, class_name = FORMATS[name][0].partition(":")
    format_class = getattr(importlib.import_module(module), class_name)
    known = [field.name for field in dataclasses.fields(format_class)]
    for option in options or ():
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            raise errors.InvalidInputError(
                f"The format {name!r} has no option {option!r:.60}; "
                + (f"did you mean {near[0]!r}? " if near else "")
                + f"It has {', '.join(known) or 'none'}."
            )
    try:
        made: SampleFormat = pydantic.TypeAdapter(format_class).validate_python(dict(options or {}))
    except pydantic.ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise errors.InvalidInputError(
            f"The option {where}={wrong['input']!r:.100} of the format {name!r} does not do: "
            f"{wrong['msg']}."
        ) from error
    return made
