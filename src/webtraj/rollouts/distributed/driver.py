"""The driver: hands out leases, takes results, and sees to it that every row is played once.

A row is out with one node at a time. It is over when the record of its end is in the store, not
when a node says that it ended: a node that dies in between takes the record with it, for a while or
for good. What a node had out when it was lost is looked for in the store; what is not there is
played elsewhere, as the next try. The driver holds rows and results, and no trajectory.
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
from webtraj.rollouts.distributed.ledger import Ledger, Member, Members, Record, Shares
from webtraj.rollouts.distributed.messages import Cluster, Failure, NodeLostError, Place, Report
from webtraj.rollouts.results import EpisodeResult, RolloutObserver
from webtraj.rollouts.runs import TRIES_A_SESSION, Run
from webtraj.rollouts.sampling import Blocklist
from webtraj.rollouts.scheduling import Turn
from webtraj.rollouts.settings import RolloutSettings

__all__ = ["Away", "Driver", "NOTE_INTERVAL", "Underway", "UnderwayNote", "read_underway"]

# What is under way on which machine: a note of the driver's, for those who watch.
#
# It lies beside the plan and is written anew every few seconds::
#
#     <dataset>/runs/<run id>/underway.json
#
# Journals of open episodes lie on the machines that play them, where nobody else sees them; the
# driver knows which rows it has handed out. Nothing goes by the note but what is shown: a driver
# that cannot write it plays on, and one that dies leaves an old one behind, which its time tells.

_logger = logging.getLogger(__name__)

NOTE_INTERVAL = 10.0
"""Seconds after which the note is written anew."""
_OLD = 3
"""A note is old after so many intervals."""


@dataclasses.dataclass(frozen=True, slots=True)
class Away:
    """An episode that a machine is taken to play."""

    machine: str
    """The machine's name."""
    since: float
    """When the driver found it to be the machine's next, in seconds since the epoch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Underway:
    """What a note says."""

    time: float
    """When it was written, in seconds since the epoch, by the driver's clock."""
    interval: float
    """After how many seconds the next one was to be written."""
    episodes: Mapping[str, Away]
    """By the ids of the episodes, which tell their rows (`Run.place_of`)."""

    def is_old(self, now: float) -> bool:
        """Returns whether the driver should have written a newer one long ago: it is gone.

        >>> Underway(100.0, 10.0, {}).is_old(120.0), Underway(100.0, 10.0, {}).is_old(131.0)
        (False, True)
        """
        return now - self.time > _OLD * self.interval

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Returns what `to_data` made data of.

        Raises:
            KeyError: It is no such data.
            TypeError: Likewise.
            ValueError: Likewise.
        """
        episodes = {
            str(episode_id): Away(str(away["machine"]), float(away["since"]))
            for episode_id, away in dict(data["episodes"]).items()
        }
        return cls(float(data["time"]), float(data["interval"]), episodes)


def read_underway(run: Run) -> Underway | None:
    """Returns what the note of a run says; None if there is none, or none that can be read.

    Raises:
        StorageError: The store cannot be read.
    """
    try:
        return Underway.from_data(orjson.loads(run.storage.read(_key(run))))
    except errors.StorageMissingError:
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # It is for show, and another is written soon.


class UnderwayNote:
    """Writes the note of a run. Its methods block; they may be called on any thread.

    Args:
        run: The run.
        interval: After how many seconds the next one is to be written.
        clock: The time, in seconds since the epoch.
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
        self._written = False  # Whether the last note that was written names an episode.

    def of(self, members: Iterable[Member]) -> Underway:
        """Returns what is under way: of each lease the first turn, since they go one by one."""
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
        """Writes it, unless all is over; a store that does not take it is no trouble."""
        with self._lock:
            if not self._over:
                self._write(underway)

    def finish(self) -> None:
        """Notes that nothing is under way any more, if there was a note. Idempotent."""
        with self._lock:
            if not self._over and self._written:
                self._write(Underway(self._clock(), self.interval, {}))
            self._over = True

    def _write(self, underway: Underway) -> None:
        self._written = bool(underway.episodes)
        try:
            self._run.storage.write(_key(self._run), orjson.dumps(underway.to_data()))
        except errors.StorageError as error:
            _logger.debug("What is under way could not be noted: %s", error)


def _key(run: Run) -> str:
    return f"runs/{run.run_id}/underway.json"


_STARTS = 3
"""How often a node of one machine may fail in a row before the machine is left alone."""


@dataclasses.dataclass(kw_only=True)
class Driver:
    """Plays turns on the nodes of a cluster."""

    cluster: Cluster
    run: Run
    record: Record
    settings: RolloutSettings
    observer: RolloutObserver
    lease: float
    """Seconds of silence after which a node is lost."""
    parallel: int | None = None
    """How many episodes to play at once in all; None for as many as the machines can."""
    rows_per_lease: int = 8
    """At most; the last leases are smaller, so that no node has much left when others are done."""
    join_timeout: float = 300.0
    """Seconds to wait for a machine where there is none, and for a node to begin."""
    blocklist: Blocklist | None = None
    note_interval: float = NOTE_INTERVAL
    """Seconds after which is noted again what is under way, for those who watch."""

    def __post_init__(self) -> None:
        self.lost_nodes = 0
        """How many nodes were lost. The index may lack episodes of theirs."""
        self._members = Members(self.parallel)
        self._ledger = Ledger(
            run=self.run,
            settings=self.settings,
            observer=self.observer,
            members=self._members,
            rows_per_lease=self.rows_per_lease,
            blocklist=self.blocklist,
        )
        self._shares = Shares()
        self._note = UnderwayNote(self.run, interval=self.note_interval)
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._lonely_since = time.monotonic()
        self._others: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stop()

    async def gather(self) -> None:
        """Starts a node on every machine that there is, and waits until each is ready, or failed.

        What waited in their spools is in the store then, and in the count of what is left to play.

        Raises:
            WebtrajError: No node can play.
        """
        for place in await self.cluster.places():
            self._serve_at(place)
        while self._ledger.raised is None and self._serving.keys() - self._members.keys:
            await self._members.changed()
        if self._ledger.raised is not None:
            raise self._ledger.raised

    async def play(self, turns: Sequence[Turn], *, session: int) -> list[EpisodeResult]:
        """Plays all turns.

        Args:
            turns: The next try of every row that is not over.
            session: The number of the session's first tries, as `Run.begin_session` returned it.

        Returns:
            The result of every episode of this session that is on record, in the order of their
            ends.

        Raises:
            RolloutStoppedError: Too many episodes failed one after the other, there is no machine
                left to play on, or another driver has taken the run over.
            CollectorError: Everything is played, and the store does not take all of it.
            WebtrajError: What no node would be spared.
        """
        end = self.settings.deadlines.run
        loop = asyncio.get_running_loop()
        timer = (
            None if end is None else loop.call_later(end, self._ledger.cut, f"{end:g} s are over")
        )
        self._lonely_since = time.monotonic()
        self._do(self._discover())
        self._do(self._keep_note())
        self._ledger.begin(turns, session)
        try:
            await self._ledger.over.wait()
        finally:
            if timer is not None:
                timer.cancel()
            await self._stop()
        if self._ledger.raised is not None:
            raise self._ledger.raised
        return list(self._ledger.results.values())

    # Nodes: found, served, lost.

    async def _discover(self) -> None:
        """Starts a node on every machine that comes, or comes back. Ray tells of none by itself."""
        while True:
            try:
                for place in await self.cluster.places():
                    self._serve_at(place)
            except NodeLostError as error:
                _logger.warning("The cluster does not say which machines it has: %s", error)
            if self._serving:
                self._lonely_since = time.monotonic()
            elif time.monotonic() - self._lonely_since > self.join_timeout:
                self._ledger.fail(
                    errors.RolloutStoppedError(
                        f"There was no machine to play on for {self.join_timeout:g} s, with "
                        f"{self._ledger.left}. Resume the run when there are some."
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
            self._ledger.fail(error)

    async def _serve(self, place: Place) -> None:
        member: Member | None = None
        try:
            node = await self.cluster.start(place)
            opened = await node.open()
            if opened.failure is not None:
                self._blame(place, opened.failure)
                return
            # What came before the begin is in the store, and so in the count of what is left.
            found = opened.found if self._ledger.begun.is_set() else ()
            self._shares.join(place.key, place.episodes)
            member = self._members.add(place, node, opened.room)
            await self._listen(member, found)
        except NodeLostError as error:
            self._failures[place.key] = self._failures.get(place.key, 0) + 1
            self.lost_nodes += 1
            _logger.warning("The node at %s is lost: %s", place.name, error)
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
        """Tells a node what part of all limits it has, whenever that changes."""
        while True:
            share = self._shares.offer(member.place.key)
            if share is None:
                await self._members.changed()
                continue
            await member.node.allow(share)
            self._shares.told(member.place.key, share)
            self._members.wake()

    def _blame(self, place: Place, failure: Failure) -> None:
        """Leaves a machine alone that cannot play; ends the rollout if no other can either."""
        self._failures[place.key] = _STARTS
        error = failure.to_error(place.name)
        _logger.warning("%s", error)
        others = [key for key in self._serving if self._failures.get(key, 0) < _STARTS]
        if failure.concerns_all or not others:
            self._ledger.fail(error)

    async def _play_elsewhere(self, member: Member) -> None:
        """Finds out what became of the turns that a node had, and hands out again what is open."""
        if member.turns and not self._ledger.over.is_set():
            self._ledger.lose(member, await self._on_record(member.turns))

    async def _on_record(self, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
        """Asks the store, for as long as it takes: without an answer, rows may be played twice."""
        while True:
            try:
                if (
                    await asyncio.to_thread(self.run.sessions) * TRIES_A_SESSION
                    > self._ledger.next_session
                ):
                    raise errors.RolloutStoppedError(
                        f"Another rollout has taken over the run {self.run.run_id!r}, so this one "
                        "ends."
                    )
                return await asyncio.to_thread(self.record.results, turns)
            except errors.StorageUnavailableError as error:
                _logger.warning("What lost nodes have recorded is not known yet: %s", error)
            await asyncio.sleep(self.lease / 2)

    async def _feed(self, member: Member, found: Sequence[str]) -> None:
        await self._ledger.begun.wait()
        if brought := self._ledger.open_turns(found):
            self._ledger.bring(await self._on_record(brought))
        while not self._shares.has_any(member.place.key):
            await self._members.changed()
        while True:
            async with self._members.lane(member) as lease:
                await self._ledger.fill(lease)
                if not lease.turns:
                    return
                await member.node.accept(tuple(lease.turns.values()))

    def _take(self, member: Member, report: Report) -> None:
        self._ledger.take(member, report)
        if not self._ledger.waits_for_the_store():
            return
        # Nodes are asked to hurry, or to say what is wrong.
        for member in self._members:
            if member.unstored and not member.flushing:
                member.flushing = True
                self._do(self._flush(member))

    async def _flush(self, member: Member) -> None:
        try:
            if why := await member.node.flush():
                self._ledger.fail(errors.CollectorError(f"On {member.place.name}: {why}"))
        except NodeLostError:
            pass  # Who listens to it finds that out too.
        finally:
            member.flushing = False

    async def _keep_note(self) -> None:
        """Notes what is under way, again and again."""
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
            self._ledger.fail(error)

    async def _stop(self) -> None:
        """Closes every node in good order; each has a time limit of its own. Idempotent."""
        self._ledger.stop()
        members = list(self._members)
        if tasks := {*self._serving.values(), *self._others}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await asyncio.to_thread(self._note.finish)
        for error in await asyncio.gather(*map(self._close, members)):
            self._ledger.raised = self._ledger.raised or error

    async def _close(self, member: Member) -> errors.CollectorError | None:
        """Returns an error if records stay with the node."""
        try:
            self._take(member, await member.node.close(member.reports))
        except NodeLostError as error:
            _logger.warning("The node at %s could not be closed: %s", member.place.name, error)
        if not member.unstored:
            return None
        some = next(iter(member.unstored))
        return errors.CollectorError(
            f"On {member.place.name} are {len(member.unstored)} episodes, such as {some!r}, that "
            "have not come to the store. They are in that machine's spool; run `webtraj push` "
            "there, or resume the run."
        )
