"""The driver: hands out turns, collects results, and makes sure that every row is played once.

What a row passes::

    scheduler.take -> node.play -> result -> record in the store -> scheduler.done
    (_hand_out)       (_play)      (_keep)   (_beat, _settle)       (_end_turn)

A row belongs to one node at a time. A row is done when the record of its end is in the store, not
when a node reports the end, since a node that fails in between takes the record with it. When a
node is lost, the driver looks for its turns in the store; what is missing is played elsewhere, as
the next try. The driver holds rows and results, but no trajectories.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from webtraj import errors
from webtraj.datasets.dataset import summarize_file
from webtraj.datasets.place import map_in_order, open_place
from webtraj.datasets.recovery import recover
from webtraj.rollouts.distributed.node import (
    NodeLostError,
    NodeRunner,
    Place,
    Played,
    Status,
    Work,
)
from webtraj.rollouts.results import RolloutObserver
from webtraj.rollouts.scheduler import (
    ErrorStreak,
    Politeness,
    RetryPolicy,
    Scheduler,
    Turn,
    grace_begins,
)
from webtraj.runs.run import TRIES_A_SESSION, EpisodeResult
from webtraj.runs.underway import NOTE_INTERVAL, Away, Underway, write_underway

if TYPE_CHECKING:
    from webtraj.rollouts.distributed.cluster import RayCluster

__all__ = ["Driver", "Member", "share_of"]

_logger = logging.getLogger(__name__)

_BEATS = 10
"""Signs of life within one lease."""
_STARTS = 3
"""Failures in a row of one machine's node after which the machine is left alone."""
_EXACT = 1e-9
"""The error of sums of shares."""
_WORKERS = 16
"""Files of lost nodes to read at a time."""


@dataclasses.dataclass(slots=True, eq=False)
class Member:
    """A node and its turns."""

    place: Place
    node: NodeRunner
    tasks: asyncio.TaskGroup
    """What is done with the node; whatever fails ends all of it."""
    ready: bool = False
    """Whether it may get turns."""
    taken: int = 0
    """How many of its places are taken."""
    share: float = 0.0
    """Its share of the limits that apply to all machines together. While a change is on its way to
    it, the larger of the two shares."""
    turns: dict[str, Turn] = dataclasses.field(default_factory=dict)
    """The turns that it has, by episode id."""
    ended: dict[str, Played] = dataclasses.field(default_factory=dict)
    """Those that ended and wait for their records."""
    stored: set[str] = dataclasses.field(default_factory=set)
    """Those whose records are in the store."""
    closed: bool = False
    """Whether it was closed in good order."""


def share_of(member: Member, members: Iterable[Member]) -> float:
    """Return the share of common limits to give to a member now.

    The share is proportional to the member's size. A member whose share grows keeps its old share
    until the others have released theirs, because they may still use what they were given before.
    So shares never add up to more than the whole. A share grows in one step, not bit by bit, so no
    request waits long for a tiny share.
    """
    others = [other for other in members if other is not member]
    size = member.place.episodes + sum(other.place.episodes for other in others)
    free = 1.0 - sum(other.share for other in others)
    due = member.place.episodes / size
    return due if due <= free + _EXACT else member.share


@dataclasses.dataclass(kw_only=True)
class Driver:
    """Plays turns on the nodes of a cluster."""

    cluster: RayCluster
    work: Work
    observer: RolloutObserver
    note_interval: float = NOTE_INTERVAL
    """Seconds between notes of what is running."""

    def __post_init__(self) -> None:
        self.run = self.work.open_run()
        self.lost_nodes = 0
        """Number of lost nodes. The index may lack their episodes."""
        self._lease = self.work.cluster.lease
        parallel = self.work.spec.parallel
        # In all; None for as many as the machines' sizes allow.
        self._parallel = parallel if isinstance(parallel, int) else None
        self._results: dict[str, EpisodeResult] = {}
        """Results by episode id, in the order in which the episodes ended."""
        self._told: set[str] = set()
        """Episodes reported to the observer, even if their records were lost later."""
        self._members: dict[str, Member] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: collections.Counter[str] = collections.Counter()
        self._away: dict[str, Away] = {}
        self._noted = False
        self._notes = concurrent.futures.ThreadPoolExecutor(1)  # One after the other.
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        """Set when nothing more will be played, for whatever reason."""
        self._raised: BaseException | None = None
        """The reason, if it is an error."""
        self._open: dict[int, Turn] = {}
        """The first turn of every row that is not done."""
        self._scheduler = Scheduler(())
        self._rows = self._next_session = 0
        self._lonely_since = time.monotonic()
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
        await self._discover()
        await self._until(lambda: self._raised or not self._serving.keys() - self._members.keys())
        if self._raised is not None:
            raise self._raised

    async def play(self, turns: Sequence[Turn], *, session: int) -> list[EpisodeResult]:
        """Play all turns.

        Args:
            turns: The next try of every row that is not done.
            session: The number of the session's first tries, from `Run.begin_session`, above all
                earlier ones.

        Returns:
            The result of every recorded episode of this session, in the order in which they ended.

        Raises:
            RolloutStoppedError: Too many episodes in a row failed, no machine is left, or another
                driver has taken over the run.
            CollectorError: Everything is played, but the store does not accept all of it.
            WebtrajError: An error that would end every other node too.
        """
        spec = self.work.spec
        turns = [dataclasses.replace(turn, number=session) for turn in turns]
        self._next_session = session + TRIES_A_SESSION
        self._rows = len(turns)
        self._open = {turn.planned.row: turn for turn in turns}
        self._scheduler = Scheduler(turns, order=spec.task_order, politeness=Politeness.of(spec))
        self._lonely_since = time.monotonic()
        self._do(self._hand_out())
        self._do(self._every(self._lease / _BEATS, self._discover))
        self._do(self._every(self._lease, self._check_session))
        self._do(self._every(self.note_interval, self._note))
        if spec.run_timeout is not None:
            self._cut_after(spec.run_timeout, f"its limit of {spec.run_timeout:g} s is up")
        try:
            if turns:
                await self._over.wait()
        finally:
            await self._stop()
        if self._raised is not None:
            raise self._raised
        return list(self._results.values())

    # Machines.

    async def _discover(self) -> None:
        """Start a node on every new or returning machine. Polled, since Ray does not notify."""
        for place in await self.cluster.places():
            key = place.key
            free = key not in self._serving and not self._over.is_set()
            if free and self._failures[key] < _STARTS:
                self._serving[key] = self._do(self._serve(place))
        if self._serving:
            self._lonely_since = time.monotonic()
        elif time.monotonic() - self._lonely_since > self.work.cluster.join_timeout:
            why = f"no machine was available for {self.work.cluster.join_timeout:g} s"
            raise self._make_error(f"{why}. Resume the run when there are machines.")

    async def _serve(self, place: Place) -> None:
        """Start a node and give it turns until it is lost. Then find out what happened to them."""
        member: Member | None = None
        try:
            node, status = await self.cluster.start(place)
            self._check(place, status)
            async with asyncio.TaskGroup() as tasks:
                member = self._members[place.key] = Member(place, node, tasks)
                self._wake()
                tasks.create_task(self._beat(member))
                tasks.create_task(self._join(member, status.stored))
        except* NodeLostError as lost:
            if member is None or not (member.closed and self._over.is_set()):
                self._failures[place.key] += 1
                self.lost_nodes += 1
                _logger.warning("Lost the node at %s: %s", place.name, lost.exceptions[0])
        finally:
            self._members.pop(place.key, None)
            self._wake()
        if member is not None and member.turns and not self._over.is_set():
            await self._play_elsewhere(member)

    def _check(self, place: Place, status: Status) -> None:
        """Stop using a machine that cannot play. If no machine can play, end the rollout.

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

    async def _join(self, member: Member, episode_ids: Iterable[str]) -> None:
        """Count the records that a machine sent before it joined. Then it may play."""
        turns = {}
        for episode_id in episode_ids:
            row, number = self.run.place_of(episode_id) or (-1, 0)
            if row in self._open:
                turns[episode_id] = dataclasses.replace(self._open[row], number=number)
        for episode_id, result in (await self._on_record(turns) if turns else {}).items():
            self._keep(episode_id, result)
            if result.counts:
                self._row_over(result.row)
        member.ready = True
        self._wake()

    async def _beat(self, member: Member) -> None:
        """Exchange heartbeats with a node, and learn which records are in the store."""
        try:
            while True:
                share, before = share_of(member, self._members.values()), member.share
                member.share = max(share, before)
                # If nothing else is left to do, records are sent at once.
                status = await member.node.beat(share, self._idle)
                member.share = share
                self._failures.pop(member.place.key, None)
                self._settle(member, status.stored)
                if status.unsent:  # Other machines would play the rows again, to no better end.
                    self._fail(errors.CollectorError(f"On {member.place.name}: {status.unsent}"))
                if status.failure is not None:
                    await self._close(member)
                self._check(member.place, status)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._lease / _BEATS):
                        await self._until(lambda: self._idle and member.ended)
        finally:
            member.ready = False

    @property
    def _idle(self) -> bool:
        return not self._scheduler.left and not self._away

    async def _check_session(self) -> None:
        """End the rollout if another driver has taken over the run."""
        with contextlib.suppress(errors.StorageError):  # Ask again later.
            if await asyncio.to_thread(self.run.sessions) * TRIES_A_SESSION > self._next_session:
                raise self._make_error("another driver has taken over the run.")

    # Rows.

    async def _hand_out(self) -> None:
        """Give every turn to the node that has most room."""
        while True:
            await self._until(self._freest)
            if (turn := await self._scheduler.take()) is None:
                return
            if turn.planned.row not in self._open:
                self._scheduler.finish(turn)  # A returning machine had its record.
                continue
            while (member := self._freest()) is None:  # The node was lost meanwhile.
                await self._changed.wait()
            member.taken += 1
            member.turns[self.run.episode_id(turn)] = turn
            member.tasks.create_task(self._play(member, turn))

    def _freest(self) -> Member | None:
        """Return the node with the largest share of free places; None if no turn may start."""
        members = self._members.values()
        if self._parallel and sum(member.taken for member in members) >= self._parallel:
            return None
        free = [m for m in members if m.ready and m.share and m.taken < m.place.episodes]
        return min(free, key=lambda m: m.taken / m.place.episodes, default=None)

    async def _play(self, member: Member, turn: Turn) -> None:
        episode_id = self.run.episode_id(turn)
        self._away[episode_id] = Away(member.place.name, time.time())
        played = None
        try:
            played = await member.node.play(turn)
        finally:
            member.ready &= played is not None
            del self._away[episode_id]
            self._wake()
        if played is None:  # The node ends: its next status says why, and then others play it.
            return
        member.taken -= 1
        member.ended[episode_id] = played
        self._keep(episode_id, played.result)
        self._count_errors(played.result)
        self._settle(member, [episode_id] if played.stored else ())

    def _settle(self, member: Member, stored: Iterable[str]) -> None:
        """End the turns whose records are in the store.

        If another try follows, there is no need to wait for the record.
        """
        # The node's answer may still be on its way.
        member.stored.update(member.turns.keys() & set(stored))
        for episode_id, played in list(member.ended.items()):
            if episode_id in member.stored or (played.again and not self._over.is_set()):
                del member.ended[episode_id]
                member.stored.discard(episode_id)
                self._end_turn(member.turns.pop(episode_id), played.result, again=played.again)
        self._wake()

    async def _play_elsewhere(self, member: Member) -> None:
        """Find out what happened to a lost node's turns, and hand out the open ones again."""
        found = await self._on_record(member.turns)
        for episode_id, turn in member.turns.items():
            ended = self._results.pop(episode_id, None) is not None
            result = found.get(episode_id)
            if result is not None:
                self._keep(episode_id, result)
            # An end that the node did not report may be the node's own failure.
            again = result is None or not (ended or result.counts)
            self._end_turn(turn, result, again=again)

    async def _on_record(self, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
        """Ask the store until it answers. Without the answer, rows might be played twice."""
        while True:
            await self._check_session()
            try:
                return await asyncio.to_thread(_find_recorded, self.work, turns)
            except errors.StorageUnavailableError as error:
                _logger.warning("Cannot yet tell what lost nodes have recorded: %s", error)
            await asyncio.sleep(self._lease / 2)

    def _keep(self, episode_id: str, result: EpisodeResult) -> None:
        self._results[episode_id] = result
        if episode_id not in self._told:
            self._told.add(episode_id)
            self.observer.episode_ended(result)

    def _end_turn(self, turn: Turn, result: EpisodeResult | None, *, again: bool) -> None:
        """Return a turn to the scheduler. `result` is None if there is no record yet."""
        if not again or turn.planned.row not in self._open:
            self._scheduler.finish(turn)
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
            self._fail(self._make_error(f"row {turn.planned.row} never ends."))
        retry = RetryPolicy.of(self.work.spec)
        delay = retry.delay(following.failures, self._random) if failed else 0.0
        self._scheduler.finish(turn, following, delay=delay)

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
        room = sum(member.place.episodes for member in self._members.values())
        at_once = max(min(room, self._parallel or room), 1)
        if self._streak.length >= ErrorStreak.longest(self.work.spec, at_once):
            self._fail(
                self._make_error(
                    f"{self._streak.length} episodes in a row ended in an error. The last error, "
                    f"in task {result.task!r}: {result.error}"
                )
            )

    # The note, and the end.

    async def _note(self) -> None:
        """Note what is running where, for monitoring."""
        if self._away or self._noted:
            self._noted = bool(self._away)
            note = Underway(time.time(), self.note_interval, dict(self._away))
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._notes, write_underway, self.run, note)

    def _make_error(self, why: str) -> errors.RolloutStoppedError:
        return errors.RolloutStoppedError(
            f"The run {self.run.run_id!r} stopped with {len(self._open)} of {self._rows} rows "
            f"left, because {why}"
        )

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

    async def _until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            await self._changed.wait()

    async def _every(self, seconds: float, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            await call()
            await asyncio.sleep(seconds)

    def _do(self, call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside; its errors end the rollout."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._did)
        return task

    def _did(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._serving = {key: one for key, one in self._serving.items() if one is not task}
        self._wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            self._fail(error)

    async def _stop(self) -> None:
        """Close every node cleanly, each within its own time limit. Idempotent."""
        self._over.set()
        self._scheduler.stop()
        for error in await asyncio.gather(*map(self._close, list(self._members.values()))):
            self._raised = self._raised or error
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._note()

    async def _close(self, member: Member) -> errors.CollectorError | None:
        """Close a node; return an error if records remain there."""
        try:
            status = await member.node.close()
            # The answers of its last episodes may come later.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease):
                    await self._until(lambda: not member.turns.keys() & self._away.keys())
            self._settle(member, status.stored)
            member.closed = True
            await self.cluster.end(member.node)
        except NodeLostError as error:
            _logger.warning("Could not close the node at %s: %s", member.place.name, error)
        if not member.ended:
            return None
        return errors.CollectorError(
            f"{len(member.ended)} episodes on {member.place.name}, such as "
            f"{next(iter(member.ended))!r}, have not reached the store. They are in that "
            "machine's spool; run `webtraj push` there, or resume the run."
        )


def _find_recorded(work: Work, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
    """Return the results of turns that have a record in the store, by episode id. Blocks.

    In a folder, journals that crashed writers left open are sealed first.

    Raises:
        StorageError: The store cannot be read.
        CollectorError: The folder cannot be written.
    """
    try:
        place = open_place(work.out, storage_options=work.spec.storage_options)
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
