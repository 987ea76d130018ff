"""Machines as the driver sees them, whatever they are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from webtraj.rollouts.distributed.messages import Opened, Report
from webtraj.rollouts.scheduling import Turn

__all__ = ["Cluster", "Node", "NodeLostError", "Place"]


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
