"""Messages between driver and nodes, and the driver's view of nodes and clusters.

Rows go to the nodes and results come back, but no trajectories.
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
from webtraj.rollouts.scheduling import Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.run import EpisodeResult

__all__ = [
    "Cluster",
    "Ended",
    "Failure",
    "Node",
    "NodeLostError",
    "Place",
    "Report",
    "Work",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Everything that a node needs before its first row."""

    run_id: str
    out: str
    """The shared store: a bucket URL, or a folder at the same path on all machines."""
    agent: Callable[[], Agent]
    """Makes an agent."""
    storage_options: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    format: EpisodeFormat = "json"
    """Format of the episodes."""
    browsers: Browsers = dataclasses.field(default_factory=Browsers)
    """Browser settings of each machine."""
    settings: RolloutSettings = dataclasses.field(default_factory=RolloutSettings)
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Environment variables to set on the node, such as keys of model servers."""
    setup: Callable[[], object] | None = None
    """Called first on each node, for example to register presets."""
    lease: float = 30.0
    """Seconds of silence after which driver and node give each other up."""
    close_timeout: float = 60.0
    """Seconds that a closing node has to send its spool."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """An error in a form that any process can read."""

    type: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return an error as a failure."""
        return cls(type(error).__name__, str(error))

    @property
    def concerns_all(self) -> bool:
        """Whether every other node would fail likewise, because the input is wrong."""
        return issubclass(self._class, (errors.InvalidInputError, errors.UnknownPresetError))

    def to_error(self, where: str) -> errors.WebtrajError:
        """Return an error of the same type, if webtraj defines it."""
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
class Ended:
    """A started turn and its result."""

    turn: Turn
    result: EpisodeResult
    again: bool
    """Whether another try may help."""


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Events on a node since the driver's last received report; also a sign of life.

    The first, from `open`, says what waited in the node's spool, or why the node cannot start.
    """

    number: int = 0
    ended: tuple[Ended, ...] = ()
    returned: tuple[Turn, ...] = ()
    """Turns that were not started and will not be."""
    stored: tuple[str, ...] = ()
    """Ids of the run's episodes whose records have reached the store."""
    failure: Failure | None = None
    """Why the node can no longer play."""
    room: int | None = None
    """Episodes that it plays at a time now; None for as many as its size allows."""


# The driver's view of machines, whatever they run on.


class NodeLostError(Exception):
    """A node stopped answering. Its open turns are played elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A machine that can run a node."""

    key: str
    """Identifier, valid while the machine lives."""
    name: str
    """Address, for people."""
    episodes: int
    """Episodes that it plays at a time."""


class Node(Protocol):
    """A `node.NodeRunner` on another machine. Every call may raise `NodeLostError`."""

    async def open(self) -> Report:
        """See `NodeRunner`, as for the other methods."""

    async def accept(self, turns: Sequence[Turn]) -> None:
        """Accept a lease."""

    async def report(self, got: int) -> Report:
        """Return what happened."""

    async def allow(self, share: float) -> None:
        """Set the node's share of limits."""

    async def flush(self) -> str:
        """Wait until records are stored."""

    async def close(self, got: int) -> Report:
        """Close the node."""


class Cluster(Protocol):
    """The available machines."""

    async def places(self) -> Sequence[Place]:
        """Return the live machines."""

    async def start(self, place: Place) -> Node:
        """Start a node.

        Raises:
            NodeLostError: The machine is gone.
        """
