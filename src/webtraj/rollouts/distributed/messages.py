"""What driver and nodes say to each other, and what a node is to the driver, whatever it runs on.

Rows there, results back; never a trajectory.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from webtraj import errors
from webtraj.agents.base import Agent
from webtraj.rollouts.making import Browsers
from webtraj.rollouts.recording import EpisodeFormat
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.scheduling import Turn
from webtraj.rollouts.settings import RolloutSettings

__all__ = [
    "Cluster",
    "Ended",
    "Failure",
    "Node",
    "NodeLostError",
    "Opened",
    "Place",
    "Report",
    "Work",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a node has to know before its first row."""

    run_id: str
    out: str
    """The shared store: a bucket's URL, or a folder that all machines have at the same path."""
    agent: str | Callable[[], Agent]
    """Who plays: a name of `webtraj.agents.catalog`, or what makes an agent."""
    seed: int = 0
    agent_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    storage_options: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    format: EpisodeFormat = "json"
    """What episodes are written as."""
    browsers: Browsers = dataclasses.field(default_factory=Browsers)
    """What pages come from on each machine."""
    settings: RolloutSettings = dataclasses.field(default_factory=RolloutSettings)
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Environment variables to set there, such as keys of model servers."""
    setup: Callable[[], object] | None = None
    """Called first on each node: to register presets, for example."""
    lease: float = 30.0
    """Seconds of silence after which driver and node give each other up."""
    close_timeout: float = 60.0
    """Seconds that a node has, at its end, to send what waits in its spool."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """An error, in a shape that any process can read."""

    type: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Returns what to say of an error."""
        return cls(type(error).__name__, str(error))

    @property
    def concerns_all(self) -> bool:
        """Whether every other node would fail likewise: the input is wrong."""
        return issubclass(self._class, (errors.InvalidInputError, errors.UnknownPresetError))

    def to_error(self, where: str) -> errors.WebtrajError:
        """Returns an error of the same type, if that is one of webtraj's own."""
        if issubclass(self._class, errors.WebtrajError):
            return self._class(f"On {where}: {self.message}")
        return errors.RolloutStoppedError(f"On {where}: {self.type}: {self.message}")

    @property
    def _class(self) -> builtins.type[Exception]:
        found = getattr(errors, self.type, None)
        if isinstance(found, builtins.type) and issubclass(found, errors.WebtrajError):
            return found
        return Exception


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """That a node is ready, or why it is not."""

    found: tuple[str, ...] = ()
    """The ids of the run's episodes that had waited there, and are in the store now."""
    failure: Failure | None = None
    room: int | None = None
    """How many episodes it plays at once, to begin with; None for as many as its size says."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A turn that was begun, and what came of it."""

    turn: Turn
    result: EpisodeResult
    again: bool
    """Whether another try may mend it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What happened on a node since the last one that the driver got; also a sign of life."""

    number: int = 0
    ended: tuple[Ended, ...] = ()
    returned: tuple[Turn, ...] = ()
    """Turns that were not begun, and will not be."""
    stored: tuple[str, ...] = ()
    """The ids of episodes whose record has reached the store."""
    failure: Failure | None = None
    """Why the node can play no more."""
    room: int | None = None
    """How many episodes it plays at once now; None for as many as its size says."""

    @classmethod
    def joined(cls, reports: Sequence[Report]) -> Report:
        """Returns one report that says what several say."""
        return cls(
            reports[-1].number,
            tuple(ended for report in reports for ended in report.ended),
            tuple(turn for report in reports for turn in report.returned),
            tuple(one for report in reports for one in report.stored),
            reports[-1].failure,
            reports[-1].room,
        )


# Machines as the driver sees them, whatever they are made of.


class NodeLostError(Exception):
    """A node does not answer any more. What it had open is played elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A machine on which a node can be."""

    key: str
    """Names it, as long as it lives."""
    name: str
    """For people: its address."""
    episodes: int
    """How many episodes it plays at once."""


class Node(Protocol):
    """A `node.NodeRunner` on another machine. Every call may raise `NodeLostError`."""

    async def open(self) -> Opened:
        """See `NodeRunner`, as for all the others."""

    async def accept(self, turns: Sequence[Turn]) -> None:
        """Takes a lease."""

    async def report(self, got: int) -> Report:
        """Tells what happened."""

    async def allow(self, share: float) -> None:
        """Sets its part of limits."""

    async def flush(self) -> str:
        """Waits for the store."""

    async def close(self, got: int) -> Report:
        """Ends."""


class Cluster(Protocol):
    """The machines that there are."""

    async def places(self) -> Sequence[Place]:
        """Returns those that live."""

    async def start(self, place: Place) -> Node:
        """Starts a node.

        Raises:
            NodeLostError: The machine is gone.
        """
