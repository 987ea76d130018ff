"""The ledger: which rows are open, which node has them, and the results of the done ones.

It interprets reports, and never waits except for a turn to hand out.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import summarize_file
from webtraj.datasets.place import map_in_order, open_place
from webtraj.datasets.recovery import recover
from webtraj.rollouts.distributed.messages import Node, Place, Report
from webtraj.rollouts.results import RolloutObserver
from webtraj.rollouts.scheduling import ErrorStreak, Politeness, Scheduler, Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.run import TRIES_A_SESSION, EpisodeResult, Run
from webtraj.store.layout import episode_key

__all__ = ["Lease", "Ledger", "Member", "Members", "Shares", "recorded"]

# Records in the store of episodes whose machine has gone silent.

_WORKERS = 16


def recorded(
    out: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    turns: Mapping[str, Turn],
) -> dict[str, EpisodeResult]:
    """Return the results of those turns that have a record in the store, by episode id. Blocks.

    In a folder, journals that crashed writers left open are sealed first.

    Raises:
        StorageError: The store cannot be read.
        CollectorError: The folder cannot be written.
    """
    try:
        place = open_place(out, storage_options=storage_options)
        if place.layout is not None:
            recover(out)
    except errors.NotADatasetError:
        return {}  # Nothing is recorded there yet.
    name = place.header.format

    def result(item: tuple[str, Turn]) -> EpisodeResult | None:
        episode_id, turn = item
        if place.storage.size(episode_key(episode_id, name)) is None:
            return None
        try:
            summary = summarize_file(place, episode_id, name)
        except errors.DatasetError:
            return None  # `verify` reports it; the row is played again.
        return EpisodeResult.of_summary(summary, turn.planned, turn.number)

    found = map_in_order(result, turns.items(), workers=_WORKERS)
    return {result.episode_id: result for result in found if result is not None}


# Shares: each node's part of the limits that apply to all machines together.
#
# A node's share is proportional to its size. When a node joins, the others' shares shrink first,
# and only what they have confirmed to give up is reassigned. So the shares never add up to more
# than the whole, whatever the order of messages.

_EXACT = 1e-9


class Shares:
    """Each node's share of common limits."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._taken: dict[str, float] = {}
        """Most that each node may be using, given what it was told or is being told."""
        self._told: dict[str, float] = {}

    def join(self, key: str, size: int) -> None:
        """Add a node, without a share yet."""
        self._sizes[key] = size

    def leave(self, key: str) -> None:
        """Remove a node that no longer uses anything."""
        for known in (self._sizes, self._taken, self._told):
            known.pop(key, None)

    def has_any(self, key: str) -> bool:
        """Return whether a node has been told a share."""
        return key in self._told

    def offer(self, key: str) -> float | None:
        """Return the share to tell a node now, followed by `told`; None if nothing changed.

        >>> shares = Shares()
        >>> shares.join("a", 3), shares.offer("a"), shares.told("a", 1.0)
        (None, 1.0, None)
        >>> shares.join("b", 1), shares.offer("b"), shares.offer("a"), shares.told("a", 0.75)
        (None, None, 0.75, None)
        >>> shares.offer("b")
        0.25
        """
        due = self._sizes[key] / sum(self._sizes.values())
        free = 1.0 - sum(taken for other, taken in self._taken.items() if other != key)
        share, had = min(due, free), self._told.get(key, 0.0)
        if share < _EXACT or abs(share - had) < _EXACT:
            return None
        self._taken[key] = max(share, had)
        return share

    def told(self, key: str, share: float) -> None:
        """Record that a node applies its share from now on."""
        if key in self._sizes:
            self._taken[key] = self._told[key] = share


# Members: the nodes that take part, and the turns that each has.


@dataclasses.dataclass(slots=True, eq=False)
class Lease:
    """Turns that a node plays in sequence."""

    turns: dict[str, Turn] = dataclasses.field(default_factory=dict)
    """Turns that have not ended, by episode id."""


@dataclasses.dataclass(slots=True)
class Member:
    """A node and its turns."""

    place: Place
    node: Node
    leases: list[Lease] = dataclasses.field(default_factory=list)
    unstored: dict[str, Turn] = dataclasses.field(default_factory=dict)
    """Ended turns whose records are not in the store yet, by episode id."""
    reports: int = 0
    """Number of the last report received."""
    flushing: bool = False
    room: int | None = None
    """Episodes that the node plays at a time; None for as many as its size allows."""

    @property
    def lanes(self) -> int:
        """Number of leases that it may have."""
        size = self.place.episodes
        return size if self.room is None else min(self.room, size)

    @property
    def turns(self) -> dict[str, Turn]:
        """All its turns, by episode id."""
        turns = dict(self.unstored)
        for lease in self.leases:
            turns.update(lease.turns)
        return turns

    @property
    def plays(self) -> bool:
        """Whether it has turns that have not ended."""
        return any(lease.turns for lease in self.leases)

    def ended(self, episode_id: str) -> None:
        """Record that a turn has ended, although its record may not be in the store."""
        turn = self.drop(episode_id)
        if turn is not None:
            self.unstored[episode_id] = turn

    def drop(self, episode_id: str) -> Turn | None:
        """Forget a turn, and its lease if now empty; return the turn if it was there."""
        for lease in self.leases:
            if episode_id in lease.turns:
                turn = lease.turns.pop(episode_id)
                if not lease.turns:
                    self.leases.remove(lease)
                return turn
        return self.unstored.pop(episode_id, None)


class Members:
    """All members, and the lanes distributed over them."""

    def __init__(self, parallel: int | None) -> None:
        self._parallel = parallel
        self._members: dict[str, Member] = {}
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the members' places."""
        return frozenset(self._members)

    @property
    def capacity(self) -> int:
        """Episodes that they play at a time in all."""
        size = sum(member.lanes for member in self)
        return size if self._parallel is None else min(size, self._parallel)

    @property
    def rows(self) -> frozenset[int]:
        """Rows that are handed out."""
        return frozenset(turn.planned.row for one in self for turn in one.turns.values())

    def add(self, place: Place, node: Node, room: int | None = None) -> Member:
        """Add a node."""
        member = self._members[place.key] = Member(place, node, room=room)
        self.wake()
        return member

    def remove(self, member: Member) -> None:
        """Remove a node."""
        self._members.pop(member.place.key, None)
        self.wake()

    def wake(self) -> None:
        """Wake everyone who waits for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self) -> None:
        """Wait for a change."""
        await self._changed.wait()

    @contextlib.asynccontextmanager
    async def lane(self, member: Member) -> AsyncIterator[Lease]:
        """Wait for a lane; yield a lease to fill, which holds the lane until all its turns end."""
        while not self._has_room(member):
            await self.changed()
        lease = Lease()
        member.leases.append(lease)
        try:
            yield lease
        finally:
            if not lease.turns and lease in member.leases:
                member.leases.remove(lease)

    def _has_room(self, member: Member) -> bool:
        busy = len(member.leases)
        if busy >= member.lanes:
            return False
        if self._parallel is None:
            return True
        if sum(len(one.leases) for one in self) >= self._parallel:
            return False
        # Each member's share is proportional to its size.
        size = sum(one.place.episodes for one in self)
        return busy < max(self._parallel * member.place.episodes / size, 1)


_logger = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True)
class Ledger:
    """The rows of a session and their results."""

    run: Run
    settings: RolloutSettings
    observer: RolloutObserver
    parallel: int | None = None
    """Episodes to play at a time in all; None for as many as the machines can bear."""
    rows_per_lease: int = 8
    """Most rows in a lease. The last leases are smaller, so that all nodes finish together."""

    def __post_init__(self) -> None:
        self.members = Members(self.parallel)
        """The nodes that take part."""
        self.results: dict[str, EpisodeResult] = {}
        """Results by episode id, in the order in which the episodes ended."""
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        """Set when nothing more will be played, for whatever reason."""
        self.raised: BaseException | None = None
        """The reason, if it is an error."""
        self._open: dict[int, Turn] = {}
        self._scheduler = Scheduler(())
        self._session = 0
        self._rows = 0
        self._streak = ErrorStreak()
        self._random = random.Random()  # For pauses only; episodes do not depend on it.

    @property
    def left(self) -> str:
        """Text that says how many rows are left."""
        return f"{len(self._open)} of {self._rows} rows left"

    @property
    def next_session(self) -> int:
        """Number of the first tries of the next session."""
        return self._session + TRIES_A_SESSION

    def begin(self, turns: Sequence[Turn], session: int) -> None:
        """Start with the next try of every row that is not done."""
        turns = [dataclasses.replace(turn, number=max(turn.number, session)) for turn in turns]
        self._session = session
        self._rows = len(turns)
        self._open = {turn.planned.row: turn for turn in turns}
        self._scheduler = Scheduler(
            turns, order=self.settings.order, politeness=self.settings.politeness
        )
        if not turns:
            self.over.set()
        self.begun.set()

    def stop(self) -> None:
        """Hand out no more turns."""
        self.over.set()
        self._scheduler.stop()

    def waits_for_the_store(self) -> bool:
        """Return whether everything is played and only records are missing in the store."""
        if self._scheduler.left or not self.begun.is_set() or self.over.is_set():
            return False
        return not any(member.plays for member in self.members)

    async def fill(self, lease: Lease) -> None:
        """Wait for a turn and add it, with further available ones, to a lease; none at the end."""
        size = 1
        try:
            while len(lease.turns) < size:
                turn = await self._next_turn(wait=not lease.turns)
                if turn is None:
                    return
                lease.turns[self.run.episode_id(turn)] = turn
                size = self._lease_size()
        except BaseException:
            for turn in lease.turns.values():
                self._scheduler.done(turn, turn)
            lease.turns.clear()
            raise

    async def _next_turn(self, *, wait: bool) -> Turn | None:
        while True:
            turn = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait else 0):
                    turn = await self._scheduler.take()
            if turn is None or turn.planned.row in self._open:
                return turn
            self._scheduler.done(turn)  # Done: a returning machine had its record.

    def _lease_size(self) -> int:
        if self.settings.politeness != Politeness():
            return 1  # A turn waiting in a lease would block others from its site.
        lanes = max(self.members.capacity, 1)
        return max(min(self.rows_per_lease, self._scheduler.left // (2 * lanes)), 1)

    def take(self, member: Member, report: Report) -> None:
        """Process a report."""
        member.reports = report.number
        member.room = report.room
        for ended in report.ended:
            episode_id = self.run.episode_id(ended.turn)
            self._keep(episode_id, ended.result)
            self._count_errors(ended.result)
            if ended.again and not self.over.is_set():
                # No need to wait for its record, since the row is not done anyway.
                member.drop(episode_id)
                self._end_turn(ended.turn, ended.result, again=True)
            else:
                member.ended(episode_id)
        for turn in report.returned:
            if member.drop(self.run.episode_id(turn)):
                self._scheduler.done(turn, turn)
        for episode_id in report.stored:
            if (ended_turn := member.unstored.get(episode_id)) is not None:
                member.drop(episode_id)
                if not self.over.is_set():
                    self._end_turn(ended_turn, self.results[episode_id], again=False)
        self.members.wake()

    def lose(self, member: Member, found: Mapping[str, EpisodeResult]) -> None:
        """Hand out a lost node's turns again, except those with a record in the store."""
        for episode_id, turn in member.turns.items():
            ended = episode_id in member.unstored
            self.results.pop(episode_id, None)
            result = found.get(episode_id)
            if result is not None:
                self._keep(episode_id, result, told=ended)
            again = result is None or (
                not ended and self.settings.retry.leaves_open(result, turn.failures + 1)
            )
            self._end_turn(turn, result, again=again)

    def open_turns(self, episode_ids: Iterable[str]) -> dict[str, Turn]:
        """Return the tries among those episodes whose rows are not done."""
        turns = {}
        for episode_id in episode_ids:
            place = self.run.place_of(episode_id)
            if place is not None and place[0] in self._open:
                turns[episode_id] = dataclasses.replace(self._open[place[0]], number=place[1])
        return turns

    def bring(self, found: Mapping[str, EpisodeResult]) -> None:
        """Count the records of a machine that returns during the rollout."""
        for episode_id, result in found.items():
            self._keep(episode_id, result, told=episode_id in self.results)
            if result.counts and result.row not in self.members.rows:
                self._row_over(result.row)

    def cut(self, why: str) -> None:
        """End the rollout early, in good order."""
        if not self.over.is_set():
            _logger.warning("The rollout ends early: %s.", why)
            self.over.set()

    def fail(self, error: BaseException) -> None:
        """End the rollout with an error."""
        self.raised = self.raised or error
        self.over.set()
        self.members.wake()

    def _keep(self, episode_id: str, result: EpisodeResult, *, told: bool = False) -> None:
        self.results[episode_id] = result
        if not told:
            self.observer.episode_ended(result)

    def _end_turn(self, turn: Turn, result: EpisodeResult | None, *, again: bool) -> None:
        """Return a turn to the scheduler; `result` is None if it has no record so far."""
        if not again or turn.planned.row not in self._open:
            self._scheduler.done(turn)
            self._row_over(turn.planned.row)
            return
        number = turn.number + 1
        if number == self.next_session:
            self._scheduler.done(turn)
            self.fail(
                errors.RolloutStoppedError(
                    f"Row {turn.planned.row} was started {TRIES_A_SESSION} times without ending. "
                    "Resume the run to try again."
                )
            )
            return
        failed = result is not None and result.failed
        failures = turn.failures + failed
        following = dataclasses.replace(
            turn, number=number, failures=failures, retry_of=self.run.episode_id(turn)
        )
        delay = self.settings.retry.delay(failures, self._random) if failed else 0.0
        self._scheduler.done(turn, following, delay=delay)

    def _row_over(self, row: int) -> None:
        if self._open.pop(row, None) is None:
            return
        if not self._open:
            self.over.set()
            return
        completion, over = self.settings.completion, self._rows - len(self._open)
        if completion.begins(over, self._rows):
            why = f"{over} of {self._rows} rows were done {completion.grace:g} s ago"
            asyncio.get_running_loop().call_later(completion.grace, self.cut, why)

    def _count_errors(self, result: EpisodeResult) -> None:
        self._streak.count(result)
        most = max(self.settings.patience, 2 * self.members.capacity)
        if self._streak.length < (self.settings.max_consecutive_errors or most):
            return
        self.fail(
            errors.RolloutStoppedError(
                f"The rollout stopped with {self.left}, because {self._streak.length} episodes "
                f"in a row ended in an error. The last error, in task {result.task!r}: "
                f"{result.error}"
            )
        )
