"""The nodes that take part, and what each of them has out."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator

from webtraj.rollouts.distributed.nodes import Node, Place
from webtraj.rollouts.scheduling import Turn

__all__ = ["Lease", "Member", "Members"]


@dataclasses.dataclass(slots=True)
class Lease:
    """Turns that a node plays one after the other."""

    turns: dict[str, Turn] = dataclasses.field(default_factory=dict)
    """Those that have not ended, by the id of their episode."""
    filling: bool = True
    """Whether it was not handed out yet."""


@dataclasses.dataclass(slots=True)
class Member:
    """A node, and the turns that it has."""

    place: Place
    node: Node
    leases: list[Lease] = dataclasses.field(default_factory=list)
    unstored: dict[str, Turn] = dataclasses.field(default_factory=dict)
    """The turns that have ended, and whose record is not in the store yet."""
    reports: int = 0
    """The number of the last report that arrived."""
    flushing: bool = False
    room: int | None = None
    """How many episodes it says that it plays at once; None for as many as its size says."""

    @property
    def lanes(self) -> int:
        """How many leases it may have."""
        size = self.place.episodes
        return size if self.room is None else min(self.room, size)

    @property
    def turns(self) -> dict[str, Turn]:
        """All turns that it has, by the id of their episode."""
        turns = dict(self.unstored)
        for lease in self.leases:
            turns.update(lease.turns)
        return turns

    @property
    def plays(self) -> bool:
        """Whether it has turns that have not ended."""
        return any(lease.turns for lease in self.leases)

    def ended(self, episode_id: str) -> None:
        """Notes that a turn has ended, though its record may not be in the store."""
        turn = self.drop(episode_id)
        if turn is not None:
            self.unstored[episode_id] = turn

    def drop(self, episode_id: str) -> Turn | None:
        """Forgets a turn, and a lease that has none left; returns it if it was there."""
        turn = self.unstored.pop(episode_id, None)
        for lease in self.leases:
            turn = lease.turns.pop(episode_id, None) or turn
        self.tidy()
        return turn

    def tidy(self) -> None:
        """Forgets leases of which nothing is left."""
        self.leases = [lease for lease in self.leases if lease.turns or lease.filling]


class Members:
    """All of them, and how the lanes are shared out."""

    def __init__(self, parallel: int | None) -> None:
        self._parallel = parallel
        self._members: dict[str, Member] = {}
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    @property
    def keys(self) -> frozenset[str]:
        """The keys of their places."""
        return frozenset(self._members)

    @property
    def capacity(self) -> int:
        """How many episodes they play at once."""
        size = sum(member.lanes for member in self)
        return size if self._parallel is None else min(size, self._parallel)

    @property
    def rows(self) -> frozenset[int]:
        """The rows that are out."""
        return frozenset(turn.planned.row for one in self for turn in one.turns.values())

    def add(self, place: Place, node: Node, room: int | None = None) -> Member:
        """Takes a node in."""
        member = self._members[place.key] = Member(place, node, room=room)
        self.wake()
        return member

    def remove(self, member: Member) -> None:
        """Forgets a node."""
        self._members.pop(member.place.key, None)
        self.wake()

    def wake(self) -> None:
        """Lets those look again who wait for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self) -> None:
        """Waits for a change."""
        await self._changed.wait()

    @contextlib.asynccontextmanager
    async def lane(self, member: Member) -> AsyncIterator[Lease]:
        """Waits for a lane; gives a lease to fill, which holds the lane until all of it ended."""
        while not self._has_room(member):
            await self.changed()
        lease = Lease()
        member.leases.append(lease)
        try:
            yield lease
        finally:
            lease.filling = False
            member.tidy()

    def _has_room(self, member: Member) -> bool:
        busy = len(member.leases)
        if busy >= member.lanes:
            return False
        if self._parallel is None:
            return True
        if sum(len(one.leases) for one in self) >= self._parallel:
            return False
        # Each has a share in proportion to its size.
        size = sum(one.place.episodes for one in self)
        return busy < max(self._parallel * member.place.episodes / size, 1)
