"""What a user may set about a pointing agent by name, as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.options import read_options
from webtraj.agents.pointing.agent import PointingAgent

__all__ = ["OPTIONS", "make_pointing_agent"]

OPTIONS = (
    "model", "base_url", "provider", "api_key_variable", "max_concurrency", "requests_per_minute",
    "temperature", "max_tokens", "seed", "max_invalid_actions", "timeout",
)  # fmt: skip


def make_pointing_agent(seed: int, options: Mapping[str, Any]) -> PointingAgent:
    """Makes an agent with a client of its own.

    Args:
        seed: Unless the options have one.
        options: Those of `webtraj.agents.options.ModelOptions` that are named in `OPTIONS`.

    Raises:
        InvalidInputError: An option is not known, or its value makes no sense.
    """
    if unknown := [name for name in options if name not in OPTIONS]:
        raise errors.InvalidInputError(
            f"The agent 'pointing' does not take {unknown[0]!r}; its options: {', '.join(OPTIONS)}."
        )
    read = read_options(options)
    return PointingAgent(
        client=read.make_client(),
        temperature=read.temperature or 0.0,
        seed=seed if read.seed is None else read.seed,
        max_tokens=read.max_tokens or 2,
        max_invalid_actions=read.max_invalid_actions,
        timeout=read.timeout,
    )
