"""The agents that can be had by name, as on the command line.

Installed packages offer more by the entry-point group `webtraj.agents`: a name for a dataclass that
is an agent. Its fields are the options; one called `seed` gets the rollout's seed.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.base import Agent, as_agent
from webtraj.agents.oracle import OracleAgent
from webtraj.agents.random import RandomAgent
from webtraj.named import make_of, offered

__all__ = ["AGENTS", "ENTRY_POINT_GROUP", "AgentKind", "make_agent"]

ENTRY_POINT_GROUP = "webtraj.agents"


@dataclasses.dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of agent."""

    summary: str
    """What it does, in a line."""
    make: Callable[[int, Mapping[str, Any]], Agent]
    """Makes it from a seed and its options. Raises InvalidInputError on options it does not take.
    """
    takes: str = ""
    """What its options are, in a line; empty if it has none."""


def make_agent(name: str, *, seed: int = 0, options: Mapping[str, Any] | None = None) -> Agent:
    """Makes an agent by name.

    An agent with a method `aclose` holds connections; who makes it closes it.

    >>> make_agent("random", seed=3)
    RandomAgent(seed=3, name='random', untouched=0.0)

    Args:
        name: A key of `AGENTS`, or what an installed package offers.
        seed: For agents that choose by chance.
        options: What else it is to know: `AgentKind.takes`.

    Raises:
        InvalidInputError: There is no agent of that name, or it does not take such options.
    """
    if name in AGENTS:
        return AGENTS[name].make(seed, options or {})
    others = offered(ENTRY_POINT_GROUP)
    if name in others:
        made = make_of(others[name], name, options, kind="agent", defaults={"seed": seed})
        return as_agent(made)
    known = (*AGENTS, *others)
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
    raise errors.InvalidInputError(
        f"No agent is named {name!r}. {hint}Choose one of: {', '.join(known)}."
    )


def _oracle(seed: int, options: Mapping[str, Any]) -> Agent:
    _check("oracle", options)
    return OracleAgent()


def _random(seed: int, options: Mapping[str, Any]) -> Agent:
    _check("random", options, optional=("untouched",))
    return RandomAgent(seed, untouched=options.get("untouched", 0.0))


def _model(seed: int, options: Mapping[str, Any]) -> Agent:
    from webtraj.agents.options import read_options

    return read_options(options).make()


def _pointing(seed: int, options: Mapping[str, Any]) -> Agent:
    from webtraj.agents.pointing import make_pointing_agent

    return make_pointing_agent(seed, options)


def _scripted(seed: int, options: Mapping[str, Any]) -> Agent:
    from webtraj.agents.scripted import ScriptedAgent, read_script

    _check("scripted", options, required=("script",))
    return ScriptedAgent(read_script(str(options["script"])))


def _replay(seed: int, options: Mapping[str, Any]) -> Agent:
    from webtraj.agents.replay import ReplayAgent
    from webtraj.datasets.dataset import open_dataset

    _check("replay", options, required=("dataset",), optional=("episode",))
    dataset = open_dataset(str(options["dataset"]))
    if "episode" in options:
        return ReplayAgent.of([dataset[str(options["episode"])]])
    return ReplayAgent.of(dataset)


def _check(
    name: str,
    options: Mapping[str, Any],
    *,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> None:
    unknown = [option for option in options if option not in (*required, *optional)]
    missing = [option for option in required if option not in options]
    if unknown or missing:
        problem = f"does not take {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
        raise errors.InvalidInputError(
            f"The agent {name!r} {problem}; its options: {AGENTS[name].takes or 'none'}."
        )


AGENTS: Mapping[str, AgentKind] = {
    "oracle": AgentKind("Does what the environment's own solution says.", _oracle),
    "random": AgentKind(
        "Does at random what fits the page's elements.",
        _random,
        "untouched (how often it picks what it has not acted on, from 0, the default, to 1)",
    ),
    "model": AgentKind(
        "Asks a model.", _model, "model, base_url and those of webtraj.agents.options.ModelOptions"
    ),
    "pointing": AgentKind(
        "Asks a small model, by webtraj.agents.pointing.",
        _pointing,
        "model, base_url and those of webtraj.agents.pointing.OPTIONS",
    ),
    "scripted": AgentKind(
        "Does what a file says, an action a line.", _scripted, "script (the file)"
    ),
    "replay": AgentKind(
        "Acts recorded episodes out again, each for its task and seed.",
        _replay,
        "dataset (its folder), episode (the id of the one to act out)",
    ),
}
"""Every kind of agent by name."""
