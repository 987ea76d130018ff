"""The agents available by name, as on the command line.

Installed packages add more through the entry-point group `webtraj.agents`: a name for a dataclass
that is an agent, or for an `AgentKind`. A dataclass's fields are its options; a field `seed` gets
the rollout's seed. `register` gives an agent of a program or of an imported module a name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from webtraj import errors
from webtraj.agents.base import Agent, as_agent
from webtraj.agents.oracle import OracleAgent
from webtraj.agents.random import SHARES, RandomAgent
from webtraj.settings.named import class_at, find_offered, make_of, nearest, register_as

__all__ = [
    "AGENTS", "ENTRY_POINT_GROUP", "AgentKind", "agent_names", "check_agent_name", "make_agent",
    "register", "shared_options",
]  # fmt: skip

ENTRY_POINT_GROUP = "webtraj.agents"

_Made = TypeVar("_Made")


@dataclasses.dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of agent."""

    summary: str
    """A one-line description."""
    make: Callable[[int, Mapping[str, Any]], Agent]
    """Makes it from a seed and options. Raises InvalidInputError for options it does not take."""
    takes: str = ""
    """A one-line description of its options; empty if it has none."""
    shared: tuple[str, ...] = ()
    """Options that it has in common with the agent `model`, such as `model`, `base_url` and
    `temperature`. A rollout's configuration and a loop set them by their own keys. An agent with
    `temperature` records the tokens that it samples, so that a loop can train by policy
    gradient."""


def agent_names() -> tuple[str, ...]:
    """Return the names of the built-in agents and those of installed packages."""
    return (*AGENTS, *find_offered(ENTRY_POINT_GROUP, AGENTS))


def check_agent_name(name: str) -> str:
    """Return a known agent's name unchanged.

    Raises:
        InvalidInputError: No agent has that name.
    """
    if name not in AGENTS and name not in (known := agent_names()):
        raise errors.InvalidInputError(
            f"No agent is named {name!r}. {nearest(name, known)}Choose one of: {', '.join(known)}; "
            "to use an agent of your own, import the module that registers it (--import)."
        )
    return name


def shared_options(name: str) -> tuple[str, ...]:
    """Return an agent's `AgentKind.shared`; empty for an unknown one."""
    if name == "model":
        from webtraj.agents.options import ModelOptions

        return tuple(ModelOptions.model_fields)
    return _kind_of(name).shared if name in agent_names() else ()


def register(name: str) -> Callable[[_Made], _Made]:
    """Return a decorator that gives an agent a name, for `--agent` and wherever agents have names.

    It takes a dataclass, whose fields are the options, another class, an agent, or a function from
    an observation to an action.

    >>> @register("example-waits")
    ... def wait(observation):
    ...     return "noop()"
    >>> make_agent("example-waits").name
    'wait'

    Raises:
        InvalidInputError: The name is built in.
    """
    return register_as(ENTRY_POINT_GROUP, name, AGENTS)


def make_agent(name: str, *, seed: int = 0, options: Mapping[str, Any] | None = None) -> Agent:
    """Make an agent by name.

    If the agent has `aclose`, it holds connections; the caller must close it.

    >>> make_agent("random", seed=3, options={"fields": 0.5}).fields
    0.5

    Args:
        name: A key of `AGENTS`, or an agent of an installed package.
        seed: The seed of agents that choose at random.
        options: The agent's options; see `AgentKind.takes`.

    Raises:
        InvalidInputError: The agent is unknown, or does not take these options.
    """
    return _kind_of(check_agent_name(name)).make(seed, options or {})


def _kind_of(name: str) -> AgentKind:
    if name in AGENTS:
        return AGENTS[name]
    home = find_offered(ENTRY_POINT_GROUP, AGENTS)[name]
    found = class_at(home)
    if isinstance(found, AgentKind):
        return found

    def make(seed: int, options: Mapping[str, Any]) -> Agent:
        return as_agent(make_of(home, name, options, kind="agent", defaults={"seed": seed}))

    return AgentKind("An agent of another package.", make)


def _oracle(seed: int, options: Mapping[str, Any]) -> Agent:
    _check("oracle", options)
    return OracleAgent()


def _random(seed: int, options: Mapping[str, Any]) -> Agent:
    _check("random", options, optional=SHARES)
    return RandomAgent(seed, **options)


def _model(seed: int, options: Mapping[str, Any]) -> Agent:
    from webtraj.agents.options import read_options

    return read_options(options).make()


def _make_scripted(seed: int, options: Mapping[str, Any]) -> Agent:
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


def _broken(seed: int, options: Mapping[str, Any]) -> Agent:
    from webtraj.agents.broken import BrokenAgent
    from webtraj.datasets.dataset import open_dataset

    _check("broken", options, required=("dataset", "fault"))
    return BrokenAgent.of(open_dataset(str(options["dataset"])), str(options["fault"]))


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
    "oracle": AgentKind("Takes the actions of the environment's own solution.", _oracle),
    "random": AgentKind(
        "Takes random actions that fit the page's elements.",
        _random,
        f"{', '.join(SHARES)} (probabilities from 0 to 1, default 0; see "
        "webtraj.agents.random.RandomAgent)",
    ),
    "model": AgentKind(
        "Asks a model.", _model, "model, base_url and those of webtraj.agents.options.ModelOptions"
    ),
    "scripted": AgentKind(
        "Takes the actions listed in a file, one per line.", _make_scripted, "script (the file)"
    ),
    "replay": AgentKind(
        "Replays recorded episodes, each for its task and seed.",
        _replay,
        "dataset (its folder), episode (the id of the episode to replay)",
    ),
    "broken": AgentKind(
        "Repeats recorded successes with a fault, so that judges can be measured.",
        _broken,
        "dataset (its folder), fault (wrong-value, side-effect, stops-early or answer-only)",
    ),
}
"""Every kind of agent by name."""
