"""The driver: hands out leases, takes results, and sees to it that every row is played once.

A row is out with one node at a time. It is over when the record of its end is in the store, not
when a node says that it ended: a node that dies in between takes the record with it, for a while or
for good. What a node had out when it was lost is looked for in the store; what is not there is
played elsewhere, as the next try. The driver holds rows and results, and no trajectory.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import random
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self

from webtraj import errors
from webtraj.rollouts.distributed.members import Lease, Member, Members
from webtraj.rollouts.distributed.messages import Failure, Report
from webtraj.rollouts.distributed.nodes import Cluster, NodeLostError, Place
from webtraj.rollouts.distributed.record import Record
from webtraj.rollouts.observer import RolloutObserver
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.runs import TRIES_A_SESSION, Run
from webtraj.rollouts.sampling.blocklist import Blocklist
from webtraj.rollouts.scheduling import Politeness, Scheduler, Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.trajectory import Outcome

__all__ = ["Driver"]

_logger = logging.getLogger(__name__)

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

    def __post_init__(self) -> None:
        self.lost_nodes = 0
        """How many nodes were lost. The index may lack episodes of theirs."""
        self._results: dict[str, EpisodeResult] = {}
        self._members = Members(self.parallel)
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._open: dict[int, Turn] = {}
        self._scheduler = Scheduler(())
        self._session = 0
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._raised: BaseException | None = None
        self._errors_in_a_row = 0
        self._rows = 0
        self._random = random.Random()  # For pauses alone; no episode follows from it.
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
        while self._raised is None and self._serving.keys() - self._members.keys:
            await self._members.changed()
        if self._raised is not None:
            raise self._raised

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
        turns = [dataclasses.replace(turn, number=max(turn.number, session)) for turn in turns]
        self._session = session
        self._rows = len(turns)
        self._open = {turn.planned.row: turn for turn in turns}
        self._scheduler = Scheduler(
            turns, order=self.settings.order, politeness=self.settings.politeness
        )
        if not turns:
            self._over.set()
        end = self.settings.deadlines.run
        loop = asyncio.get_running_loop()
        timer = None if end is None else loop.call_later(end, self._cut, f"{end} s are over")
        self._lonely_since = time.monotonic()
        self._do(self._discover())
        self._begun.set()
        try:
            await self._over.wait()
        finally:
            if timer is not None:
                timer.cancel()
            await self._stop()
        if self._raised is not None:
            raise self._raised
        return list(self._results.values())

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
                self._fail(
                    errors.RolloutStoppedError(
                        f"There was no machine to play on for {self.join_timeout:g} s, with "
                        f"{len(self._open)} of {self._rows} rows left. Resume the run when there "
                        "are some."
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
            self._fail(error)

    async def _serve(self, place: Place) -> None:
        member: Member | None = None
        try:
            node = await self.cluster.start(place)
            opened = await node.open()
            if opened.failure is not None:
                self._blame(place, opened.failure)
                return
            # What came before the begin is in the store, and so in the count of what is left.
            found = opened.found if self._begun.is_set() else ()
            member = self._members.add(place, node)
            await self._listen(member, found)
        except NodeLostError as error:
            self._failures[place.key] = self._failures.get(place.key, 0) + 1
            self.lost_nodes += 1
            _logger.warning("The node at %s is lost: %s", place.name, error)
        finally:
            if member is not None:
                self._members.remove(member)
        if member is not None:
            await self._play_elsewhere(member)

    async def _listen(self, member: Member, found: Sequence[str]) -> None:
        feeder = asyncio.create_task(self._feed(member, found))
        try:
            while True:
                report = await member.node.report(member.reports)
                self._failures.pop(member.place.key, None)
                self._take(member, report)
                if report.failure is not None:
                    self._blame(member.place, report.failure)
                    self._take(member, await member.node.close(member.reports))
                    return
                if feeder.done():
                    feeder.result()
        finally:
            feeder.cancel()
            await asyncio.wait({feeder})

    def _blame(self, place: Place, failure: Failure) -> None:
        """Leaves a machine alone that cannot play; ends the rollout if no other can either."""
        self._failures[place.key] = _STARTS
        error = failure.to_error(place.name)
        _logger.warning("%s", error)
        others = [key for key in self._serving if self._failures.get(key, 0) < _STARTS]
        if failure.concerns_all or not others:
            self._fail(error)

    async def _play_elsewhere(self, member: Member) -> None:
        """Finds out what became of the turns that a node had, and hands out again what is open."""
        lost = member.turns
        if not lost or self._over.is_set():
            return
        found = await self._on_record(lost)
        for episode_id, turn in lost.items():
            ended = episode_id in member.unstored
            self._results.pop(episode_id, None)
            result = found.get(episode_id)
            if result is not None:
                self._keep(episode_id, result, told=ended)
            again = result is None or (not ended and self._is_open(turn, result))
            self._end_turn(turn, result, again=again)

    async def _on_record(self, turns: Mapping[str, Turn]) -> dict[str, EpisodeResult]:
        """Asks the store, for as long as it takes: without an answer, rows may be played twice."""
        while True:
            try:
                if (
                    await asyncio.to_thread(self.run.sessions) * TRIES_A_SESSION
                    > self._next_session
                ):
                    raise errors.RolloutStoppedError(
                        f"Another rollout has taken over the run {self.run.run_id!r}, so this one "
                        "ends."
                    )
                return await asyncio.to_thread(self.record.results, turns)
            except errors.StorageUnavailableError as error:
                _logger.warning("What lost nodes have recorded is not known yet: %s", error)
            await asyncio.sleep(self.lease / 2)

    async def _note_found(self, episode_ids: Iterable[str]) -> None:
        """Counts what a machine brings that comes back in the middle of the rollout."""
        turns = {}
        for episode_id in episode_ids:
            place = self.run.place_of(episode_id)
            if place is not None and place[0] in self._open:
                turns[episode_id] = dataclasses.replace(self._open[place[0]], number=place[1])
        found = await self._on_record(turns) if turns else {}
        for episode_id, result in found.items():
            self._keep(episode_id, result, told=episode_id in self._results)
            if result.finished and result.row not in self._members.rows:
                self._row_over(result.row)

    # Leases out, results in.

    async def _feed(self, member: Member, found: Sequence[str]) -> None:
        await self._begun.wait()
        await self._note_found(found)
        while True:
            async with self._members.lane(member) as lease:
                try:
                    await self._fill(lease)
                except BaseException:
                    for turn in lease.turns.values():
                        self._scheduler.done(turn, turn)
                    lease.turns.clear()
                    raise
                if not lease.turns:
                    return
                await member.node.accept(tuple(lease.turns.values()))

    async def _fill(self, lease: Lease) -> None:
        size = 1
        while len(lease.turns) < size:
            turn = await self._next_turn(wait=not lease.turns)
            if turn is None:
                return
            lease.turns[self.run.episode_id(turn)] = turn
            size = self._lease_size()

    async def _next_turn(self, *, wait: bool) -> Turn | None:
        while True:
            turn = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait else 0):
                    turn = await self._scheduler.take()
            if turn is None or turn.planned.row in self._open:
                return turn
            self._scheduler.done(turn)  # It is over: a machine came back, and had it.

    def _lease_size(self) -> int:
        if self.settings.politeness != Politeness():
            return 1  # A turn that waits in a lease would keep others from its site.
        lanes = max(self._members.capacity, 1)
        return max(min(self.rows_per_lease, self._scheduler.left // (2 * lanes)), 1)

    def _take(self, member: Member, report: Report) -> None:
        member.reports = report.number
        for ended in report.ended:
            episode_id = self.run.episode_id(ended.turn)
            self._keep(episode_id, ended.result)
            self._count_errors(ended.result)
            if ended.again and not self._over.is_set():
                # It need not wait for its record: it is not over anyhow.
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
                if not self._over.is_set():
                    self._end_turn(ended_turn, self._results[episode_id], again=False)
        self._members.wake()
        self._flush_if_all_ended()

    def _flush_if_all_ended(self) -> None:
        """Asks nodes to hurry, or to say what is wrong, when only the store is waited for."""
        if self._scheduler.left or not self._begun.is_set() or self._over.is_set():
            return
        if any(member.plays for member in self._members):
            return
        for member in self._members:
            if member.unstored and not member.flushing:
                member.flushing = True
                self._do(self._flush(member))

    async def _flush(self, member: Member) -> None:
        try:
            if why := await member.node.flush():
                self._fail(errors.CollectorError(f"On {member.place.name}: {why}"))
        except NodeLostError:
            pass  # Who listens to it finds that out too.
        finally:
            member.flushing = False

    def _keep(self, episode_id: str, result: EpisodeResult, *, told: bool = False) -> None:
        self._results[episode_id] = result
        if told:
            return
        self.observer.episode_ended(result)
        if result.outcome is Outcome.BLOCKED and self.blocklist is not None and result.site:
            self.blocklist.add(result.site, task=result.task, episode_id=result.episode_id)

    def _is_open(self, turn: Turn, result: EpisodeResult) -> bool:
        if result.finished:
            return False
        return not result.failed or self.settings.retry.retries(result.outcome, turn.failures + 1)

    def _end_turn(self, turn: Turn, result: EpisodeResult | None, *, again: bool) -> None:
        """Gives a turn back; `result` is None if there is no record of it, for now."""
        if not again or turn.planned.row not in self._open:
            self._scheduler.done(turn)
            self._row_over(turn.planned.row)
            return
        number = turn.number + 1
        if number == self._next_session:
            self._scheduler.done(turn)
            self._fail(
                errors.RolloutStoppedError(
                    f"The row {turn.planned.row} was begun {TRIES_A_SESSION} times and never came "
                    "to an end; resume the run to go on."
                )
            )
            return
        failed = result is not None and result.failed
        failures = turn.failures + failed
        following = Turn(
            planned=turn.planned,
            number=number,
            failures=failures,
            retry_of=self.run.episode_id(turn),
        )
        delay = self.settings.retry.delay(failures, self._random) if failed else 0.0
        self._scheduler.done(turn, following, delay=delay)

    @property
    def _next_session(self) -> int:
        return self._session + TRIES_A_SESSION

    def _row_over(self, row: int) -> None:
        if self._open.pop(row, None) is None:
            return
        if not self._open:
            self._over.set()
            return
        completion = self.settings.completion
        enough, over = completion.threshold * self._rows, self._rows - len(self._open)
        if over - 1 < enough <= over:
            told = f"{over} of {self._rows} rows were over {completion.grace} s ago"
            asyncio.get_running_loop().call_later(completion.grace, self._cut, told)

    def _count_errors(self, result: EpisodeResult) -> None:
        self._errors_in_a_row = self._errors_in_a_row + 1 if result.failed else 0
        most = max(self.settings.patience, 2 * self._members.capacity)
        if self._errors_in_a_row < (self.settings.max_consecutive_errors or most):
            return
        self._fail(
            errors.RolloutStoppedError(
                f"{self._errors_in_a_row} episodes in a row ended in an error, so the rollout was "
                f"stopped with {len(self._open)} of {self._rows} rows left. The last, of task "
                f"{result.task!r}, with {result.error}"
            )
        )

    # The end.

    def _cut(self, why: str) -> None:
        if not self._over.is_set():
            _logger.warning("The rollout ends before all is played: %s.", why)
            self._over.set()

    def _fail(self, error: BaseException) -> None:
        self._raised = self._raised or error
        self._over.set()
        self._members.wake()

    def _do(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._others.add(task)
        task.add_done_callback(self._did)

    def _did(self, task: asyncio.Task[None]) -> None:
        self._others.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _stop(self) -> None:
        """Closes every node in good order; each has a time limit of its own. Idempotent."""
        self._over.set()
        self._scheduler.stop()
        members = list(self._members)
        if tasks := {*self._serving.values(), *self._others}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for error in await asyncio.gather(*map(self._close, members)):
            self._raised = self._raised or error

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
