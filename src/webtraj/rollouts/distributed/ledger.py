"""The ledger: which rows are open, who has them, and what came of those that are over.

It decides what a report means; it waits for nothing but a turn to hand out.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import Iterable, Mapping, Sequence

from webtraj import errors
from webtraj.rollouts.distributed.members import Lease, Member, Members
from webtraj.rollouts.distributed.messages import Report
from webtraj.rollouts.observer import RolloutObserver
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.runs import TRIES_A_SESSION, Run
from webtraj.rollouts.sampling.blocklist import Blocklist
from webtraj.rollouts.scheduling import Politeness, Scheduler, Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.trajectory import Outcome

__all__ = ["Ledger"]

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True)
class Ledger:
    """The rows of a session, and their results."""

    run: Run
    settings: RolloutSettings
    observer: RolloutObserver
    members: Members
    rows_per_lease: int
    blocklist: Blocklist | None

    def __post_init__(self) -> None:
        self.results: dict[str, EpisodeResult] = {}
        """By the id of the episode, in the order of their ends."""
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        """Whether no more is to be played, for whatever reason."""
        self.raised: BaseException | None = None
        """The reason, if it is an error."""
        self._open: dict[int, Turn] = {}
        self._scheduler = Scheduler(())
        self._session = 0
        self._rows = 0
        self._errors_in_a_row = 0
        self._random = random.Random()  # For pauses alone; no episode follows from it.

    @property
    def left(self) -> str:
        """Says how many rows are left."""
        return f"{len(self._open)} of {self._rows} rows left"

    @property
    def next_session(self) -> int:
        """The number that the first tries of the next session have."""
        return self._session + TRIES_A_SESSION

    def begin(self, turns: Sequence[Turn], session: int) -> None:
        """Begins with the next try of every row that is not over."""
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
        """Hands out no more turns."""
        self.over.set()
        self._scheduler.stop()

    def waits_for_the_store(self) -> bool:
        """Returns whether all is played, and only records are still under way."""
        if self._scheduler.left or not self.begun.is_set() or self.over.is_set():
            return False
        return not any(member.plays for member in self.members)

    async def fill(self, lease: Lease) -> None:
        """Waits for a turn, and puts it and what else there is into a lease; none in the end."""
        try:
            await self._fill(lease)
        except BaseException:
            for turn in lease.turns.values():
                self._scheduler.done(turn, turn)
            lease.turns.clear()
            raise

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
        lanes = max(self.members.capacity, 1)
        return max(min(self.rows_per_lease, self._scheduler.left // (2 * lanes)), 1)

    def take(self, member: Member, report: Report) -> None:
        """Takes a report in."""
        member.reports = report.number
        member.room = report.room
        for ended in report.ended:
            episode_id = self.run.episode_id(ended.turn)
            self._keep(episode_id, ended.result)
            self._count_errors(ended.result)
            if ended.again and not self.over.is_set():
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
                if not self.over.is_set():
                    self._end_turn(ended_turn, self.results[episode_id], again=False)
        self.members.wake()

    def lose(self, member: Member, found: Mapping[str, EpisodeResult]) -> None:
        """Hands out again what a lost node had, but for what the store has a record of."""
        for episode_id, turn in member.turns.items():
            ended = episode_id in member.unstored
            self.results.pop(episode_id, None)
            result = found.get(episode_id)
            if result is not None:
                self._keep(episode_id, result, told=ended)
            again = result is None or (not ended and self._is_open(turn, result))
            self._end_turn(turn, result, again=again)

    def open_turns(self, episode_ids: Iterable[str]) -> dict[str, Turn]:
        """Returns the tries among those episodes that are of rows which are not over."""
        turns = {}
        for episode_id in episode_ids:
            place = self.run.place_of(episode_id)
            if place is not None and place[0] in self._open:
                turns[episode_id] = dataclasses.replace(self._open[place[0]], number=place[1])
        return turns

    def bring(self, found: Mapping[str, EpisodeResult]) -> None:
        """Counts what a machine brings that comes back in the middle of the rollout."""
        for episode_id, result in found.items():
            self._keep(episode_id, result, told=episode_id in self.results)
            if result.counts and result.row not in self.members.rows:
                self._row_over(result.row)

    def cut(self, why: str) -> None:
        """Ends the rollout before its time, in good order."""
        if not self.over.is_set():
            _logger.warning("The rollout ends before all is played: %s.", why)
            self.over.set()

    def fail(self, error: BaseException) -> None:
        """Ends the rollout by an error."""
        self.raised = self.raised or error
        self.over.set()
        self.members.wake()

    def _keep(self, episode_id: str, result: EpisodeResult, *, told: bool = False) -> None:
        self.results[episode_id] = result
        if told:
            return
        self.observer.episode_ended(result)
        if result.outcome is Outcome.BLOCKED and self.blocklist is not None and result.site:
            self.blocklist.add(result.site, task=result.task, episode_id=result.episode_id)

    def _is_open(self, turn: Turn, result: EpisodeResult) -> bool:
        if result.counts:
            return False
        return not result.failed or self.settings.retry.retries(result.outcome, turn.failures + 1)

    def _end_turn(self, turn: Turn, result: EpisodeResult | None, *, again: bool) -> None:
        """Gives a turn back; `result` is None if there is no record of it, for now."""
        if not again or turn.planned.row not in self._open:
            self._scheduler.done(turn)
            self._row_over(turn.planned.row)
            return
        number = turn.number + 1
        if number == self.next_session:
            self._scheduler.done(turn)
            self.fail(
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

    def _row_over(self, row: int) -> None:
        if self._open.pop(row, None) is None:
            return
        if not self._open:
            self.over.set()
            return
        completion = self.settings.completion
        enough, over = completion.threshold * self._rows, self._rows - len(self._open)
        if over - 1 < enough <= over:
            told = f"{over} of {self._rows} rows were over {completion.grace:g} s ago"
            asyncio.get_running_loop().call_later(completion.grace, self.cut, told)

    def _count_errors(self, result: EpisodeResult) -> None:
        self._errors_in_a_row = self._errors_in_a_row + 1 if result.broke else 0
        most = max(self.settings.patience, 2 * self.members.capacity)
        if self._errors_in_a_row < (self.settings.max_consecutive_errors or most):
            return
        self.fail(
            errors.RolloutStoppedError(
                f"{self._errors_in_a_row} episodes in a row ended in an error, so the rollout was "
                f"stopped with {self.left}. The last, of task "
                f"{result.task!r}, with {result.error}"
            )
        )
