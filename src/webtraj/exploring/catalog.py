"""Explorers and proposers by name, as on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog as agents_catalog
from webtraj.agents import prompts as prompts_lib
from webtraj.agents.model import ModelAgent
from webtraj.agents.options import read_options
from webtraj.exploring.base import Proposer

__all__ = ["EXPLORERS", "PROPOSERS", "make_explorer", "make_proposer"]

EXPLORERS = ("model", "curious", "random", "scripted")
PROPOSERS = ("model", "hindsight")

_PROPOSING = ("max_attempts", "page_tokens", "text_tokens", "prompt")
"""Options that a proposer takes itself; all others are those of a model."""


def make_explorer(
    name: str, *, seed: int = 0, options: Mapping[str, Any] | None = None
) -> agents_lib.Agent:
    """Makes an explorer by name.

    >>> make_explorer("curious", seed=3).seed
    3

    Args:
        name: One of `EXPLORERS`: `model` asks a model, with the prompt `explore` by default.
        seed: For those that choose by chance.
        options: What else it is to know; for `model`, `webtraj.agents.options.ModelOptions`.

    Raises:
        InvalidInputError: There is none of that name, or it does not take such options.
    """
    options = dict(options or {})
    _check(name, EXPLORERS, "explorer")
    if name == "curious":
        from webtraj.exploring.curious import CuriousAgent

        if "avoid" in options and not _are_words(options["avoid"]):
            raise errors.InvalidInputError(
                f"The option 'avoid' is a list of words; got {options['avoid']!r:.100}."
            )
        if unknown := sorted(options.keys() - {"avoid"}):
            raise errors.InvalidInputError(
                f"The explorer 'curious' does not take {unknown[0]!r}; its options: avoid."
            )
        if "avoid" in options:
            return CuriousAgent(seed, tuple(options["avoid"]))
        return CuriousAgent(seed)
    if name == "model":
        from webtraj.exploring.explorer import ExplorerAgent

        return ExplorerAgent.of(_model({"prompt": "explore", **options}, "explorer"))
    return agents_catalog.make_agent(name, seed=seed, options=options)


def make_proposer(name: str, *, options: Mapping[str, Any] | None = None) -> Proposer:
    """Makes a proposer by name. One with a method `aclose` holds connections.

    >>> make_proposer("hindsight").model
    ''

    Args:
        name: One of `PROPOSERS`.
        options: For `model`: `model`, `base_url` and the like, as an agent takes them; and
            `max_attempts`, `page_tokens`, `text_tokens`, and `prompt`, a file.

    Raises:
        InvalidInputError: There is none of that name, or it does not take such options.
    """
    options = dict(options or {})
    _check(name, PROPOSERS, "proposer")
    if name == "hindsight":
        from webtraj.exploring.hindsight import HindsightProposer

        if options:
            raise errors.InvalidInputError(
                f"The proposer 'hindsight' takes no options; got {min(options)!r}."
            )
        return HindsightProposer()
    from webtraj.exploring.asking import ModelProposer

    own = {name: options.pop(name) for name in _PROPOSING if name in options}
    if "prompt" in own:
        if not str(own["prompt"]).endswith(".txt"):
            raise errors.InvalidInputError(
                f"A proposer's prompt is the path of a .txt file; got {own['prompt']!r:.100}."
            )
        own["prompt"] = prompts_lib.load_prompt(str(own["prompt"]))
    agent = _model({"temperature": 0.0, **options}, "proposer")
    assert agent.sampling is not None
    return ModelProposer(client=agent.client, sampling=agent.sampling, timeout=agent.timeout, **own)


def _model(options: Mapping[str, Any], what: str) -> ModelAgent:
    return read_options(options, who=f"the {what} 'model'").make()


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        raise errors.InvalidInputError(
            f"No {what} is named {name!r:.60}. {hint}Choose one of: {', '.join(known)}."
        )


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word for word in value)
