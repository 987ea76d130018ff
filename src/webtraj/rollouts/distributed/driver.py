"""The driver: hands out turns, collects results, and makes sure that every row is played once.

One node at a time has a row. A row is done when the record of its end is in the store, not when a
node reports the end, since a node that fails in between takes the record with it. When a node is
lost, the driver looks for its turns in the store; what is missing is played elsewhere, as the next
try. The driver holds rows and results, but no trajectories.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import logging
import operator
import random
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import orjson

from webtraj import errors
from webtraj.datasets.dataset import summarize_file
from webtraj.datasets.place import map_in_order, open_place
from webtraj.datasets.recovery import recover
from webtraj.rollouts.distributed.node import NodeLostError, NodeRunner, Place, Status, Work
from webtraj.rollouts.results import RolloutObserver
from webtraj.rollouts.scheduling import (
    ErrorStreak,
    Politeness,
    RetryPolicy,
    Scheduler,
    Turn,
    grace_begins,
)
from webtraj.runs.run import TRIES_A_SESSION, EpisodeResult, Run
from webtraj.store import records
from webtraj.store.places import open_storage

if TYPE_CHECKING:
    from webtraj.rollouts.distributed.cluster import RayCluster

__all__ = ["Away", "Driver", "Member", "NOTE_INTERVAL", "Underway", "next_share", "read_underway"]

_logger = logging.getLogger(__name__)

# The note: what is running on which machine, for monitoring.
#
# It lies beside the plan and is rewritten every few seconds::
#
#     <dataset>/runs/<run id>/underway.json
#
# Journals of open episodes are on the machines that play them, out of sight for others, but the
# driver knows which rows it has handed out. The note is only for display: a driver that cannot
# write it continues, and one that fails leaves an old note behind, recognizable by its time.

NOTE_INTERVAL = 10.0
"""Seconds between notes."""
_OLD = 3
"""Intervals after which a note is old."""


@dataclasses.dataclass(frozen=True, slots=True)
class Away:
    """An episode that a machine is playing."""

    machine: str
    """Name of the machine."""
    since: float
    """When it was handed out, in seconds since the epoch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Underway:
    """Content of a note."""

    time: float
    """When it was written, in seconds since the epoch, by the driver's clock."""
    interval: float
    """Seconds until the next note."""
    episodes: Mapping[str, Away]
    """Running episodes by id, from which `Run.place_of` gives their rows."""

    def is_old(self, now: float) -> bool:
        """Return whether a newer note is long overdue, so that the driver must be gone.

        >>> Underway(100.0, 10.0, {}).is_old(120.0), Underway(100.0, 10.0, {}).is_old(131.0)
        (False, True)
        """
        return now - self.time > _OLD * self.interval


def read_underway(run: Run) -> Underway | None:
    """Return a run's note; None if it is missing or unreadable.

    Raises:
        StorageError: The store cannot be read.
    """
    try:
        return records.read_object(Underway, orjson.loads(run.storage.read(_note_key(run))))
    except (errors.StorageMissingError, ValueError):
        return None  # For display only; the next one follows soon.


def write_underway(run: Run, underway: Underway) -> None:
    """Write a run's note. Blocks; errors of the store are only logged."""
    try:
        run.storage.write(_note_key(run), orjson.dumps(underway))
    except errors.StorageError as error:
        _logger.debug("Could not write the note of running episodes: %s", error)


def _note_key(run: Run) -> str:
    return f"runs/{run.run_id}/underway.json"


# Records in the store of episodes whose machine has gone silent.

_WORKERS = 16


def _recorded(work: Work, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
    """Return the results of those turns that have a record in the store, by episode id. Blocks.

    In a folder, journals that crashed writers left open are sealed first.

    Raises:
        StorageError: The store cannot be read.
        CollectorError: The folder cannot be written.
    """
    try:
        place = open_place(work.out, storage_options=work.storage_options)
        if place.layout is not None:
            recover(work.out)
    except errors.NotADatasetError:
        return {}  # Nothing is recorded there yet.

    def result(item: tuple[str, Turn]) -> EpisodeResult | None:
        episode_id, turn = item
        try:
            summary = summarize_file(place, episode_id, place.header.format)
        except errors.DatasetError:
            return None  # Missing, or `verify` reports it; the row is played again.
        return EpisodeResult.of_summary(summary, turn.planned, turn.number)

    found = map_in_order(result, turns.items(), workers=_WORKERS)
    return {result.episode_id: result for result in found if result is not None}


# The nodes.

_BEATS = 10
"""Signs of life within one lease."""
_STARTS = 3
"""Failures in a row of one machine's node after which the machine is left alone."""
_EXACT = 1e-9


@dataclasses.dataclass(slots=True, eq=False)
class Member:
    """A node and its turns."""

    place: Place
    node: NodeRunner
    room: int = 0
    """Episodes that it plays at a time now."""
    taken: int = 0
    """How many places are taken, by an episode or while waiting for one."""
    share: float = 0.0
    """Its share of the limits that apply to all machines together."""
    turns: dict[str, Turn] = dataclasses.field(default_factory=dict)
    """The turns that it has, by episode id."""
    unstored: dict[str, asyncio.Future[None]] = dataclasses.field(default_factory=dict)
    """Those that ended: futures that are done when their records are in the store."""
    stored: set[str] = dataclasses.field(default_factory=set)
    """Those with a record in the store although the node's answer is still on its way."""
    closed: bool = False
    """Whether it was closed in good order."""


def next_share(members: Iterable[Member]) -> tuple[Member, float] | None:
    """Return the next member to tell a share, and the share; None if each has what is due to it.

    A share is proportional to a node's size. Whoever gets less is told first, so that the shares
    never add up to more than the whole.
    """
    members = list(members)
    size = sum(member.place.episodes for member in members)
    changes = [(member.place.episodes / size - member.share, member) for member in members]
    changes = [(change, member) for change, member in changes if abs(change) > _EXACT]
    if not changes:
        return None
    change, member = min(changes, key=operator.itemgetter(0))
    return member, member.share + change


@dataclasses.dataclass(kw_only=True)
class Driver:
    """Plays turns on the nodes of a cluster."""

    cluster: RayCluster
    work: Work
    observer: RolloutObserver
    note_interval: float = NOTE_INTERVAL
    """Seconds between notes of what is running."""

    def __post_init__(self) -> None:
        self.run = Run(open_storage(self.work.out, self.work.storage_options), self.work.run_id)
        # In all; None for as many as the machines can bear.
        parallel = self.work.spec.parallel
        self._parallel = parallel if isinstance(parallel, int) else None
        self.lost_nodes = 0
        """Number of lost nodes. The index may lack their episodes."""
        self._results: dict[str, EpisodeResult] = {}
        """Results by episode id, in the order in which the episodes ended."""
        self._told: set[str] = set()
        """Episodes that the observer was told, even if their records were lost then."""
        self._members: dict[str, Member] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: collections.Counter[str] = collections.Counter()
        self._away: dict[str, Away] = {}
        self._noted = False
        self._notes = concurrent.futures.ThreadPoolExecutor(1)  # One after the other.
        self._changed = asyncio.Event()
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        """Set when nothing more will be played, for whatever reason."""
        self._raised: BaseException | None = None
        """The reason, if it is an error."""
        self._open: dict[int, Turn] = {}
        """The first turn of every row that is not done."""
        self._scheduler = Scheduler(())
        self._rows = self._next_session = 0
        self._streak = ErrorStreak()
        self._random = random.Random()  # For pauses only; episodes do not depend on it.

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def gather(self) -> None:
        """Start a node on every machine, and wait until each is ready or has failed.

        Afterwards the records that waited in their spools are in the store, so that the remaining
        turns can be counted.

        Raises:
            WebtrajError: No node can start.
        """
        for place in await self.cluster.places():
            self._serve_at(place)
        while self._raised is None and self._serving.keys() - self._members.keys():
            await self._changed.wait()
        if self._raised is not None:
            raise self._raised

    async def play(self, turns: Sequence[Turn], *, session: int) -> list[EpisodeResult]:
        """Play all turns.

        Args:
            turns: The next try of every row that is not done.
            session: The number of the session's first tries, from `Run.begin_session`.

        Returns:
            The result of every recorded episode of this session, in the order in which they ended.

        Raises:
            RolloutStoppedError: Too many episodes in a row failed, no machine is left, or another
                driver has taken over the run.
            CollectorError: Everything is played, but the store does not accept all of it.
            WebtrajError: An error that would end every other node too.
        """
        turns = [dataclasses.replace(turn, number=max(turn.number, session)) for turn in turns]
        self._next_session = session + TRIES_A_SESSION
        self._rows = len(turns)
        self._open = {turn.planned.row: turn for turn in turns}
        self._scheduler = Scheduler(
            turns, order=self.work.spec.task_order, politeness=Politeness.of(self.work.spec)
        )
        self._begun.set()
        for call in (self._discover(), self._share_out(), self._keep_note(), self._make_way()):
            self._do(call)
        if (end := self.work.spec.run_timeout) is not None:
            self._cut_after(end, f"its limit of {end:g} s is up")
        try:
            if turns:
                await self._over.wait()
        finally:
            await self._stop()
        if self._raised is not None:
            raise self._raised
        return list(self._results.values())

    async def _discover(self) -> None:
        """Start a node on every new or returning machine, by polling, since Ray does not notify."""
        lonely_since = time.monotonic()
        while True:
            for place in await self.cluster.places():
                self._serve_at(place)
            if self._serving:
                lonely_since = time.monotonic()
            elif time.monotonic() - lonely_since > self.work.join_timeout:
                why = f"no machine was available for {self.work.join_timeout:g} s"
                self._fail(self._stopped(f"{why}. Resume the run when there are machines."))
            await asyncio.sleep(self.work.lease / _BEATS)

    async def _make_way(self) -> None:
        """End the rollout if another driver has taken over the run."""
        while True:
            await asyncio.sleep(self.work.lease)
            with contextlib.suppress(errors.StorageError):  # Ask again later.
                await asyncio.to_thread(self._check_session)

    def _check_session(self) -> None:
        if self.run.sessions() * TRIES_A_SESSION > self._next_session:
            raise self._stopped("another driver has taken over the run.")

    def _serve_at(self, place: Place) -> None:
        key = place.key
        free = key not in self._serving and not self._over.is_set()
        if free and self._failures[key] < _STARTS:
            self._serving[key] = task = self._do(self._serve(place))
            task.add_done_callback(lambda _: self._serving.pop(key))

    async def _serve(self, place: Place) -> None:
        """Start a node and give it turns until it is lost; then find out what became of them."""
        member: Member | None = None
        try:
            node, status = await self.cluster.start(place)
            self._check(place, status)
            # Records sent before the start are in the store, and so already counted.
            found = status.stored if self._begun.is_set() else ()
            member = self._members[place.key] = Member(place, node, status.room)
            self._wake()
            async with asyncio.TaskGroup() as tasks:  # Whichever fails ends all others.
                tasks.create_task(self._beat(member))
                tasks.create_task(self._feed(member, found, tasks))
        except* NodeLostError as lost:
            if member is None or not (member.closed and self._over.is_set()):
                self._failures[place.key] += 1
                self.lost_nodes += 1
                _logger.warning("Lost the node at %s: %s", place.name, lost.exceptions[0])
        finally:
            self._members.pop(place.key, None)
            self._wake()
        if member is not None and self._begun.is_set() and not self._over.is_set():
            await self._play_elsewhere(member)

    def _check(self, place: Place, status: Status) -> None:
        """Leave a machine alone that cannot play; end the rollout if no other can either.

        Raises:
            NodeLostError: The machine cannot play.
        """
        failure = status.failure
        if failure is None:
            return
        self._failures[place.key] = _STARTS
        same = isinstance(failure, errors.InvalidInputError | errors.UnknownPresetError)
        if same or not any(self._failures[key] < _STARTS for key in self._serving):
            self._fail(type(failure)(f"On {place.name}: {failure}"))
        raise NodeLostError(f"{type(failure).__name__}: {failure}")

    async def _beat(self, member: Member) -> None:
        """Exchange signs of life with a node."""
        while True:
            # If nothing else is left to do, records are sent at once.
            status = await member.node.beat(self._idle)
            self._failures.pop(member.place.key, None)
            self._take(member, status)
            if status.unsent:  # Other machines would play the rows again, to no better end.
                self._fail(errors.CollectorError(f"On {member.place.name}: {status.unsent}"))
            if status.failure is not None:
                await self._close(member)
            self._check(member.place, status)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.work.lease / _BEATS):
                    while not (self._idle and member.unstored and member.room):
                        await self._changed.wait()

    @property
    def _idle(self) -> bool:
        return not self._scheduler.left and not self._away

    async def _share_out(self) -> None:
        """Tell nodes their shares of common limits."""
        while True:
            with contextlib.suppress(NodeLostError):  # `_beat` notices that too.
                while (told := next_share(self._members.values())) is not None:
                    member, share = told
                    await member.node.limit(share)
                    member.share = share
                    self._wake()
            await self._changed.wait()

    async def _feed(self, member: Member, found: Iterable[str], tasks: asyncio.TaskGroup) -> None:
        """Give a node turns as long as it has room."""
        await self._begun.wait()
        await self._bring(found)
        while True:
            while not self._has_room(member):
                await self._changed.wait()
            member.taken += 1
            turn = await self._scheduler.take()
            while turn is not None and turn.planned.row not in self._open:
                self._scheduler.done(turn)  # A returning machine had its record.
                turn = await self._scheduler.take()
            if turn is None:
                return
            member.turns[self.run.episode_id(turn)] = turn
            tasks.create_task(self._play(member, turn))

    def _has_room(self, member: Member) -> bool:
        if not member.share or member.taken >= member.room:
            return False
        if self._parallel is None:
            return True
        if sum(one.taken for one in self._members.values()) >= self._parallel:
            return False
        return member.taken < max(self._parallel * member.share, 1)

    async def _play(self, member: Member, turn: Turn) -> None:
        episode_id = self.run.episode_id(turn)
        self._away[episode_id] = Away(member.place.name, time.time())
        try:
            played = await member.node.play(turn)
        finally:
            del self._away[episode_id]
            member.taken -= 1
            self._wake()
        if played is None:  # The node ends: its next status says why, and then others play it.
            member.room = 0
            return
        self._keep(episode_id, played.result)
        self._count_errors(played.result)
        # If another try follows, there is no need to wait for the record.
        stored_already = played.stored or episode_id in member.stored
        if not stored_already and (self._over.is_set() or not played.again):
            stored = member.unstored[episode_id] = asyncio.Future()
            await stored
        self._end_turn(turn, played.result, again=played.again)
        del member.turns[episode_id]

    def _take(self, member: Member, status: Status) -> None:
        member.room = status.room
        for episode_id in status.stored:
            stored = member.unstored.pop(episode_id, None)
            if stored is not None and not stored.done():  # Done if cancelled with a lost node.
                stored.set_result(None)
            elif stored is None and episode_id in member.turns:
                member.stored.add(episode_id)
        self._wake()

    async def _play_elsewhere(self, member: Member) -> None:
        """Find out what became of a lost node's turns, and hand out the open ones again."""
        found = await self._on_record(member.turns)
        for episode_id, turn in member.turns.items():
            ended = self._results.pop(episode_id, None) is not None
            result = found.get(episode_id)
            if result is not None:
                self._keep(episode_id, result)
            # An end that the node did not report may be the node's own failure.
            again = result is None or not (ended or result.counts)
            self._end_turn(turn, result, again=again)

    async def _bring(self, episode_ids: Iterable[str]) -> None:
        """Count the records that a machine had sent before it joined."""
        turns = {}
        for episode_id in episode_ids:
            row, number = self.run.place_of(episode_id) or (-1, 0)
            if row in self._open:
                turns[episode_id] = dataclasses.replace(self._open[row], number=number)
        for episode_id, result in (await self._on_record(turns) if turns else {}).items():
            self._keep(episode_id, result)
            if result.counts:
                self._row_over(result.row)

    async def _on_record(self, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
        """Ask the store until it answers; without an answer, rows might be played twice."""
        while True:
            try:
                await asyncio.to_thread(self._check_session)
                return await asyncio.to_thread(_recorded, self.work, turns)
            except errors.StorageUnavailableError as error:
                _logger.warning("Cannot yet tell what lost nodes have recorded: %s", error)
            await asyncio.sleep(self.work.lease / 2)

    # Rows.

    def _keep(self, episode_id: str, result: EpisodeResult) -> None:
        self._results[episode_id] = result
        if episode_id not in self._told:
            self._told.add(episode_id)
            self.observer.episode_ended(result)

    def _end_turn(self, turn: Turn, result: EpisodeResult | None, *, again: bool) -> None:
        """Return a turn to the scheduler; `result` is None if it has no record so far."""
        if not again or turn.planned.row not in self._open:
            self._scheduler.done(turn)
            self._row_over(turn.planned.row)
            return
        failed = result is not None and result.failed
        following = dataclasses.replace(
            turn,
            number=turn.number + 1,
            failures=turn.failures + failed,
            retry_of=self.run.episode_id(turn),
        )
        if following.number == self._next_session:
            self._fail(self._stopped(f"row {turn.planned.row} never ends."))
        retry = RetryPolicy.of(self.work.spec)
        delay = retry.delay(following.failures, self._random) if failed else 0.0
        self._scheduler.done(turn, following, delay=delay)

    def _row_over(self, row: int) -> None:
        if self._open.pop(row, None) is None:
            return
        if not self._open:
            self._over.set()
        over = self._rows - len(self._open)
        if grace_begins(self.work.spec, over, self._rows):
            grace = self.work.spec.completion_grace_period
            self._cut_after(grace, f"{over} of {self._rows} rows were done {grace:g} s ago")

    def _count_errors(self, result: EpisodeResult) -> None:
        self._streak.count(result)
        room = sum(member.room for member in self._members.values())
        at_once = max(min(room, self._parallel or room), 1)
        if self._streak.length >= ErrorStreak.longest(self.work.spec, at_once):
            self._fail(
                self._stopped(
                    f"{self._streak.length} episodes in a row ended in an error. The last error, "
                    f"in task {result.task!r}: {result.error}"
                )
            )

    def _stopped(self, why: str) -> errors.RolloutStoppedError:
        return errors.RolloutStoppedError(
            f"The run {self.run.run_id!r} stopped with {len(self._open)} of {self._rows} rows "
            f"left, because {why}"
        )

    # The note, and the end.

    async def _keep_note(self) -> None:
        while True:
            await asyncio.sleep(self.note_interval)
            if self._away or self._noted:
                self._noted = True
                await self._note()

    async def _note(self) -> None:
        note = Underway(time.time(), self.note_interval, dict(self._away))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._notes, write_underway, self.run, note)

    def _cut_after(self, seconds: float, why: str) -> None:
        """End the rollout early, in good order."""

        def cut() -> None:
            if not self._over.is_set():
                _logger.warning("The rollout ends early: %s.", why)
                self._over.set()

        asyncio.get_running_loop().call_later(seconds, cut)

    def _fail(self, error: BaseException) -> None:
        """End the rollout with an error."""
        self._raised = self._raised or error
        self._over.set()
        self._wake()

    def _wake(self) -> None:
        """Wake everyone who waits for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _do(self, call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside; its errors end the rollout."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._did)
        return task

    def _did(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            self._fail(error)

    async def _stop(self) -> None:
        """Close every node in good order, each within its own time limit. Idempotent."""
        self._over.set()
        self._scheduler.stop()
        for error in await asyncio.gather(*map(self._close, list(self._members.values()))):
            self._raised = self._raised or error
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._noted:
            self._noted = False
            await self._note()

    async def _close(self, member: Member) -> errors.CollectorError | None:
        """Close a node; return an error if records remain there."""
        try:
            status = await member.node.close()
            # The answers of its last episodes may come later.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.work.lease):
                    while member.turns.keys() & self._away.keys():
                        await self._changed.wait()
            self._take(member, status)
            member.closed = True
            await self.cluster.end(member.node)
        except NodeLostError as error:
            _logger.warning("Could not close the node at %s: %s", member.place.name, error)
        if not member.unstored:
            return None
        return errors.CollectorError(
            f"{len(member.unstored)} episodes on {member.place.name}, such as "
            f"{next(iter(member.unstored))!r}, have not reached the store. They are in that "
            "machine's spool; run `webtraj push` there, or resume the run."
        )
