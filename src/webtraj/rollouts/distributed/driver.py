"""The driver: hands out leases, collects results, and makes sure that every row is played once.

One node at a time has a row. A row is done when the record of its end is in the store, not when a
node reports the end, since a node that fails in between takes the record with it. When a node is
lost, the driver looks for its turns in the store; what is missing is played elsewhere, as the next
try. The driver holds rows and results, but no trajectories.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self

import orjson

from webtraj import errors
from webtraj.rollouts.distributed.ledger import Ledger, Member, Shares
from webtraj.rollouts.distributed.messages import Cluster, Failure, NodeLostError, Place, Report
from webtraj.rollouts.scheduling import Turn
from webtraj.runs.run import TRIES_A_SESSION, EpisodeResult, Run
from webtraj.store import records

__all__ = ["Away", "Driver", "NOTE_INTERVAL", "Underway", "UnderwayNote", "read_underway"]

# The note: what is running on which machine, for monitoring.
#
# It lies beside the plan and is rewritten every few seconds::
#
#     <dataset>/runs/<run id>/underway.json
#
# Journals of open episodes are on the machines that play them, out of sight for others, but the
# driver knows which rows it has handed out. The note is only for display: a driver that cannot
# write it continues, and one that fails leaves an old note behind, recognizable by its time.

_logger = logging.getLogger(__name__)

NOTE_INTERVAL = 10.0
"""Seconds between notes."""
_OLD = 3
"""Intervals after which a note is old."""


@dataclasses.dataclass(frozen=True, slots=True)
class Away:
    """An episode that a machine is presumably playing."""

    machine: str
    """Name of the machine."""
    since: float
    """When the driver first saw it as the machine's next, in seconds since the epoch."""


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
        return records.read_object(Underway, orjson.loads(run.storage.read(_key(run))))
    except (errors.StorageMissingError, ValueError):
        return None  # For display only; the next one follows soon.


class UnderwayNote:
    """Writes a run's note. Its methods block and may be called on any thread.

    Args:
        run: The run.
        interval: Seconds between notes.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        run: Run,
        *,
        interval: float = NOTE_INTERVAL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self.interval = interval
        self._clock = clock
        self._known: dict[str, Away] = {}
        self._lock = threading.Lock()
        self._over = False
        self._written = False  # Whether the last note names an episode.

    def of(self, members: Iterable[Member]) -> Underway:
        """Return what is running: the first turn of each lease, since turns go one by one."""
        now = self._clock()
        found = {}
        for member in members:
            for lease in member.leases:
                if episode_id := next(iter(lease.turns), None):
                    machine = member.place.name
                    before = self._known.get(episode_id)
                    known = before is not None and before.machine == machine
                    found[episode_id] = before if known and before else Away(machine, now)
        self._known = found
        return Underway(now, self.interval, found)

    def write(self, underway: Underway) -> None:
        """Write a note unless the run has finished. Errors of the store are only logged."""
        with self._lock:
            if not self._over:
                self._write(underway)

    def finish(self) -> None:
        """Write that nothing is running any more, if there was a note. Idempotent."""
        with self._lock:
            if not self._over and self._written:
                self._write(Underway(self._clock(), self.interval, {}))
            self._over = True

    def _write(self, underway: Underway) -> None:
        self._written = bool(underway.episodes)
        try:
            self._run.storage.write(_key(self._run), orjson.dumps(underway))
        except errors.StorageError as error:
            _logger.debug("Could not write the note of running episodes: %s", error)


def _key(run: Run) -> str:
    return f"runs/{run.run_id}/underway.json"


_STARTS = 3
"""Failures in a row of one machine's node after which the machine is left alone."""


@dataclasses.dataclass(kw_only=True)
class Driver:
    """Plays turns on the nodes of a cluster."""

    cluster: Cluster
    ledger: Ledger
    recorded: Callable[[Mapping[str, Turn]], dict[str, EpisodeResult]]
    """Returns the results of the turns that have a record in the store; see `ledger.recorded`."""
    lease: float
    """Seconds of silence after which a node counts as lost."""
    join_timeout: float = 300.0
    """Seconds to wait for a machine when there is none, and for a node to start."""
    note_interval: float = NOTE_INTERVAL
    """Seconds between notes of what is running."""

    def __post_init__(self) -> None:
        self.lost_nodes = 0
        """Number of lost nodes. The index may lack their episodes."""
        self._members = self.ledger.members
        self._shares = Shares()
        self._note = UnderwayNote(self.ledger.run, interval=self.note_interval)
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._lonely_since = time.monotonic()
        self._others: set[asyncio.Task[Any]] = set()

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
        while self.ledger.raised is None and self._serving.keys() - self._members.keys:
            await self._members.changed()
        if self.ledger.raised is not None:
            raise self.ledger.raised

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
        self._lonely_since = time.monotonic()
        self._do(self._discover())
        self._do(self._keep_note())
        if (end := self.ledger.settings.deadlines.run) is not None:
            self._do(self._end_after(end))
        self.ledger.begin(turns, session)
        try:
            await self.ledger.over.wait()
        finally:
            await self._stop()
        if self.ledger.raised is not None:
            raise self.ledger.raised
        return list(self.ledger.results.values())

    async def _end_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.ledger.cut(f"its limit of {seconds:g} s is up")

    # Nodes: discovered, served, lost.

    async def _discover(self) -> None:
        """Start a node on every new or returning machine, by polling, since Ray does not notify."""
        while True:
            try:
                for place in await self.cluster.places():
                    self._serve_at(place)
            except NodeLostError as error:
                _logger.warning("Could not list the cluster's machines: %s", error)
            if self._serving:
                self._lonely_since = time.monotonic()
            elif time.monotonic() - self._lonely_since > self.join_timeout:
                self.ledger.fail(
                    errors.RolloutStoppedError(
                        f"The rollout stopped because no machine was available for "
                        f"{self.join_timeout:g} s, with {self.ledger.left}. Resume the run when "
                        "there are machines."
                    )
                )
            await asyncio.sleep(self.lease / 10)

    def _serve_at(self, place: Place) -> None:
        if place.key in self._serving or self._failures.get(place.key, 0) >= _STARTS:
            return
        task = asyncio.create_task(self._serve(place))
        self._serving[place.key] = task
        task.add_done_callback(lambda done: self._served(place.key, done))

    def _served(self, key: str, task: asyncio.Task[None]) -> None:
        self._serving.pop(key, None)
        self._members.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ledger.fail(error)

    async def _serve(self, place: Place) -> None:
        member: Member | None = None
        try:
            node = await self.cluster.start(place)
            opened = await node.open()
            if opened.failure is not None:
                self._blame(place, opened.failure)
                return
            # Records sent before the start are in the store, and so already counted.
            found = opened.stored if self.ledger.begun.is_set() else ()
            self._shares.join(place.key, place.episodes)
            member = self._members.add(place, node, opened.room)
            await self._listen(member, found)
        except NodeLostError as error:
            self._failures[place.key] = self._failures.get(place.key, 0) + 1
            self.lost_nodes += 1
            _logger.warning("Lost the node at %s: %s", place.name, error)
        finally:
            if member is not None:
                self._shares.leave(place.key)
                self._members.remove(member)
        if member is not None:
            await self._play_elsewhere(member)

    async def _listen(self, member: Member, found: Sequence[str]) -> None:
        helpers = {
            asyncio.create_task(self._feed(member, found)),
            asyncio.create_task(self._share_out(member)),
        }
        try:
            while True:
                report = await member.node.report(member.reports)
                self._failures.pop(member.place.key, None)
                self._take(member, report)
                if report.failure is not None:
                    self._blame(member.place, report.failure)
                    self._take(member, await member.node.close(member.reports))
                    return
                for helper in helpers:
                    if helper.done():
                        helper.result()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)

    async def _share_out(self, member: Member) -> None:
        """Tell a node its share of all limits whenever that changes."""
        while True:
            share = self._shares.offer(member.place.key)
            if share is None:
                await self._members.changed()
                continue
            await member.node.allow(share)
            self._shares.told(member.place.key, share)
            self._members.wake()

    def _blame(self, place: Place, failure: Failure) -> None:
        """Leave a machine alone that cannot play; end the rollout if no other can either."""
        self._failures[place.key] = _STARTS
        error = failure.to_error(place.name)
        _logger.warning("%s", error)
        others = [key for key in self._serving if self._failures.get(key, 0) < _STARTS]
        if failure.concerns_all or not others:
            self.ledger.fail(error)

    async def _play_elsewhere(self, member: Member) -> None:
        """Find out what became of a lost node's turns, and hand out the open ones again."""
        if member.turns and not self.ledger.over.is_set():
            self.ledger.lose(member, await self._on_record(member.turns))

    async def _on_record(self, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
        """Ask the store until it answers; without an answer, rows might be played twice."""
        while True:
            try:
                sessions = await asyncio.to_thread(self.ledger.run.sessions)
                if sessions * TRIES_A_SESSION > self.ledger.next_session:
                    raise errors.RolloutStoppedError(
                        f"This rollout stopped because another one has taken over the run "
                        f"{self.ledger.run.run_id!r}."
                    )
                return await asyncio.to_thread(self.recorded, turns)
            except errors.StorageUnavailableError as error:
                _logger.warning("Cannot yet tell what lost nodes have recorded: %s", error)
            await asyncio.sleep(self.lease / 2)

    async def _feed(self, member: Member, found: Sequence[str]) -> None:
        await self.ledger.begun.wait()
        if brought := self.ledger.open_turns(found):
            self.ledger.bring(await self._on_record(brought))
        while not self._shares.has_any(member.place.key):
            await self._members.changed()
        while True:
            async with self._members.lane(member) as lease:
                await self.ledger.fill(lease)
                if not lease.turns:
                    return
                await member.node.accept(tuple(lease.turns.values()))

    def _take(self, member: Member, report: Report) -> None:
        self.ledger.take(member, report)
        if not self.ledger.waits_for_the_store():
            return
        # Ask nodes to hurry, or to report what is wrong.
        for member in self._members:
            if member.unstored and not member.flushing:
                member.flushing = True
                self._do(self._flush(member))

    async def _flush(self, member: Member) -> None:
        try:
            if why := await member.node.flush():
                self.ledger.fail(errors.CollectorError(f"On {member.place.name}: {why}"))
        except NodeLostError:
            pass  # `_listen` notices that too.
        finally:
            member.flushing = False

    async def _keep_note(self) -> None:
        """Write the note at each interval."""
        while True:
            await asyncio.sleep(self.note_interval)
            await asyncio.to_thread(self._note.write, self._note.of(self._members))

    # The end.

    def _do(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._others.add(task)
        task.add_done_callback(self._did)

    def _did(self, task: asyncio.Task[None]) -> None:
        self._others.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.ledger.fail(error)

    async def _stop(self) -> None:
        """Close every node in good order, each within its own time limit. Idempotent."""
        self.ledger.stop()
        members = list(self._members)
        if tasks := {*self._serving.values(), *self._others}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await asyncio.to_thread(self._note.finish)
        for error in await asyncio.gather(*map(self._close, members)):
            self.ledger.raised = self.ledger.raised or error

    async def _close(self, member: Member) -> errors.CollectorError | None:
        """Close a node; return an error if records remain there."""
        try:
            self._take(member, await member.node.close(member.reports))
        except NodeLostError as error:
            _logger.warning("Could not close the node at %s: %s", member.place.name, error)
        if not member.unstored:
            return None
        some = next(iter(member.unstored))
        return errors.CollectorError(
            f"{len(member.unstored)} episodes on {member.place.name}, such as {some!r}, have not "
            "reached the store. They are in that machine's spool; run `webtraj push` there, or "
            "resume the run."
        )
