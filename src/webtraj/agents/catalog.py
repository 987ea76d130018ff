"""The agents that can be had by name, as on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from webtraj import errors
from webtraj.agents.base import Agent
from webtraj.agents.oracle import OracleAgent
from webtraj.agents.random import RandomAgent

__all__ = ["AGENTS", "make_agent"]

AGENTS: Mapping[str, Callable[[int], Agent]] = {
    "oracle": lambda seed: OracleAgent(),
    "random": RandomAgent,
}
"""Each agent's name, and what makes it from a seed."""


def make_agent(name: str, *, seed: int = 0) -> Agent:
    """Makes an agent by name.

    >>> make_agent("random", seed=3)
    RandomAgent(seed=3, name='random')

    Raises:
        InvalidInputError: There is no agent of that name.
    """
    if name not in AGENTS:
        nearest = difflib.get_close_matches(name, AGENTS, n=1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        raise errors.InvalidInputError(
            f"No agent is named {name!r}. {hint}Choose one of: {', '.join(AGENTS)}."
        )
    return AGENTS[name](seed)
