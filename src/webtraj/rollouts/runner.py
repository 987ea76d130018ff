"""The runner: plays a whole rollout, several episodes at a time, and accounts for every one."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.environments import base as environment_lib
from webtraj.environments.browser.lease import OperationLimits
from webtraj.rollouts import episode as episode_lib
from webtraj.rollouts.deadlines import Deadline, GuardedEnvironment, NotMade
from webtraj.rollouts.episode_environment import close_quietly, make_environment
from webtraj.rollouts.forks import ForkAgent, ForkedEnvironment, WorldCopies
from webtraj.rollouts.results import RolloutObserver
from webtraj.rollouts.scheduler import (
    ErrorStreak,
    Politeness,
    RetryPolicy,
    Scheduler,
    Turn,
    grace_begins,
)
from webtraj.runs.plan import ForkPoint, PlannedEpisode
from webtraj.runs.run import EpisodeResult, Run, options_on_record
from webtraj.runs.spec import RunSpec
from webtraj.trajectory import EpisodeInfo, new_episode_id

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["Runner"]

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True)
class Runner:
    """Plays turns until none is left.

    Workers take turns from a scheduler. Each keeps its environment while the task and its options
    stay the same. An exception in a worker ends the rollout, and so does a cancellation; both leave
    every episode sealed and every environment closed.
    """

    agent: agents_lib.Agent
    turns: Sequence[Turn]
    spec: RunSpec
    """The limits, the order and the retries."""
    parallel: int
    """Episodes to play at a time."""
    observer: RolloutObserver
    run: Run | None = None
    """Names the episodes; None if the rollout cannot be resumed."""
    trajectory_collector: TrajectoryCollector | None = None
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    browser_pool: BrowserPool | None = None
    scheduler: Scheduler | None = None
    """Hands out the turns; by default one of `turns`, in the order of the settings."""

    def __post_init__(self) -> None:
        self.results: list[EpisodeResult] = []
        self._scheduler = self.scheduler or Scheduler(
            self.turns, order=self.spec.task_order, politeness=Politeness.of(self.spec)
        )
        may_copy = isinstance(self.agent, ForkAgent) and self.agent.copies
        self._copies = WorldCopies() if may_copy else None
        self._forks = collections.Counter(turn.planned.fork for turn in self.turns)
        self._streak = ErrorStreak()
        self._rows_over = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._cut_off = False
        self._random = random.Random()  # For pauses only; episodes do not depend on it.
        self._group = self.run.run_id if self.run is not None else new_episode_id()

    async def play(self) -> list[EpisodeResult]:
        """Play all turns.

        Returns:
            The result of every started episode, in the order in which they ended.

        Raises:
            RolloutStoppedError: Too many episodes in a row failed.
            Exception: An error that would end every other episode too.
        """
        if self.spec.operation_limits and self.browser_pool is not None:
            limits: Mapping[Any, int] = self.spec.operation_limits
            self.browser_pool.operations.limit(OperationLimits(**limits))
        number = self.parallel
        if self.scheduler is None:
            number = min(number, len(self.turns))
        loop = asyncio.get_running_loop()
        self._workers = [loop.create_task(self._play_turns()) for _ in range(number)]
        if (end := self.spec.run_timeout) is not None:
            self._cut_after(end, f"its limit of {end:g} s is up")
        try:
            await self._until_all_are_done()
        finally:
            for timer in self._timers:
                timer.cancel()
        return self.results

    async def _until_all_are_done(self) -> None:
        pending = set(self._workers)
        raised: BaseException | None = None
        while pending:
            try:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as cancelled:
                # Pass each one on, including those of someone who presses Ctrl-C again.
                raised = cancelled
                self._cancel(pending)
                continue
            failures = [failure for failure in map(self._failure_of, done) if failure is not None]
            if failures and raised is None:
                raised = failures[0]
                self._cancel(pending)
        if raised is not None:
            raise raised

    def _failure_of(self, worker: asyncio.Task[None]) -> BaseException | None:
        if not worker.cancelled():
            return worker.exception()
        return None if self._cut_off else asyncio.CancelledError()

    def _cancel(self, workers: Iterable[asyncio.Task[None]]) -> None:
        self._scheduler.stop()
        for worker in workers:
            worker.cancel()

    def _cut_after(self, seconds: float, why: str) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._cut, why)
        self._timers.append(timer)

    def _cut(self, why: str) -> None:
        """End the rollout early, in good order."""
        if self._cut_off:
            return
        _logger.warning("The rollout ends early: %s.", why)
        self._cut_off = True
        self._cancel(self._workers)

    async def _play_turns(self) -> None:
        """Play until no turn is left."""
        async with contextlib.AsyncExitStack() as stack:
            kind = environment = None
            agent: Any = self.agent
            while (turn := await self._scheduler.take()) is not None:
                planned = turn.planned
                if environment is None or (planned.spec, planned.options) != kind:
                    await stack.aclose()
                    kind = planned.spec, planned.options
                    made = self._make(planned)
                    environment = GuardedEnvironment(made)
                    agent = _Nobody(self.agent.name) if isinstance(made, NotMade) else self.agent
                    stack.push_async_callback(close_quietly, environment)
                again: Turn | None = None
                delay = 0.0
                try:
                    result = await self._play(turn, environment, agent)
                    again, delay = self._retry(turn, result)
                finally:
                    self._scheduler.finish(turn, again, delay=delay)
                if result.failed:
                    environment = None
                self._give_up_after_too_many(result)
                self._note_over(turn, again)

    def _make(self, planned: PlannedEpisode) -> Any:
        try:
            return make_environment(planned, self.environment_options, self.browser_pool)
        except (errors.InvalidInputError, *episode_lib.FATAL):
            raise
        except Exception as error:
            _logger.info("An environment of %s could not be made.", planned.task, exc_info=True)
            return NotMade(error, planned.spec.preset)

    async def _play(
        self, turn: Turn, guarded: GuardedEnvironment, agent: agents_lib.Agent
    ) -> EpisodeResult:
        planned = turn.planned
        deadline = None
        if self.spec.step_timeout is not None or self.spec.timeout is not None:
            deadline = Deadline(step=self.spec.step_timeout, episode=self.spec.timeout)
        guarded.deadline = deadline
        environment: environment_lib.Environment = guarded
        forked: ForkedEnvironment | None = None
        if planned.fork is not None:
            if not isinstance(self.agent, ForkAgent):
                raise errors.InvalidInputError(
                    f"Row {planned.row} of the plan forks the episode {planned.fork.episode_id!r}: "
                    "wrap the agent in ForkAgent(agent, dataset), with the dataset that has it."
                )
            parent = self.agent.parent(planned.fork)
            forked = environment = ForkedEnvironment(
                guarded, parent, planned.fork.step, copies=self._copies_at(planned.fork)
            )
        episode_id = ""
        if self.trajectory_collector is not None:
            from webtraj.environments.collecting_environment import TrajectoryCollectingEnvironment

            info = self._info(turn, environment)
            episode_id = info.episode_id
            environment = TrajectoryCollectingEnvironment(
                environment,
                self.trajectory_collector,
                episode_info=functools.partial(next, _infos(info)),
            )
        play = episode_lib.EpisodePlay(
            planned=planned,
            environment=environment,
            agent=agent,
            episode_id=episode_id,
            number=turn.number,
            max_steps=planned.spec.max_steps or self.spec.max_steps,
            max_repetitive_actions=self.spec.max_repetitive_actions,
            deadline=deadline,
        )
        try:
            return await play.run(self._report)
        finally:
            if forked is not None:
                forked.settle()

    def _copies_at(self, point: ForkPoint) -> WorldCopies | None:
        """Return a store for copies of worlds, if several turns fork at the same step."""
        several = self.scheduler is not None or self._forks[point] > 1
        return self._copies if several else None

    def _info(self, turn: Turn, environment: environment_lib.Environment) -> EpisodeInfo:
        planned = turn.planned
        place: dict[str, Any] = {"row": planned.row, "try": turn.number}
        if self.run is not None:
            place["run"] = self.run.run_id
        if planned.fork is not None:
            place["fork"] = planned.fork.step
        if options := {**planned.options, **self.spec.environment_options}:
            place["options"] = options_on_record(options)
        metadata: dict[str, Any] = {"rollout": place}
        if planned.spec.is_described:
            metadata["task"] = planned.spec.to_data()
        named: dict[str, Any] = (
            {} if self.run is None else {"episode_id": self.run.episode_id(turn)}
        )
        return EpisodeInfo(
            # The environment's own description is more precise, and fills what is left open here.
            task="" if hasattr(environment, "describe_episode") else planned.task,
            seed=planned.seed if hasattr(environment, "set_seed") else None,
            policy=self.agent.name,
            group_id=f"{self._group}/{planned.task}"
            + ("" if planned.group is None else f"/{planned.group}"),
            attempt=planned.attempt,
            parent_episode_id="" if planned.fork is None else planned.fork.episode_id,
            retry_of=turn.retry_of,
            metadata=metadata,
            **named,
        )

    def _retry(self, turn: Turn, result: EpisodeResult) -> tuple[Turn | None, float]:
        failures = turn.failures + 1
        retry = RetryPolicy.of(self.spec)
        if not result.failed or not retry.leaves_open(result, failures):
            return None, 0.0
        again = dataclasses.replace(
            turn, number=turn.number + 1, failures=failures, retry_of=result.episode_id
        )
        return again, retry.delay(failures, self._random)

    def _report(self, result: EpisodeResult) -> None:
        _logger.info(
            "Episode %s of %s: %s, %s, steps: %d.", result.episode_id or "(not recorded)",
            result.task, result.end_reason.name.lower(), result.outcome.name.lower(),
            result.num_steps,
        )  # fmt: skip
        # A node plays for long, and exceptions hold the frames that they passed.
        kept = result if self.scheduler is None else dataclasses.replace(result, cause=None)
        self.results.append(kept)
        self.observer.episode_ended(result)

    def _note_over(self, turn: Turn, again: Turn | None) -> None:
        """Count done rows. When enough are done, give the rest a grace period."""
        if again is not None:
            return
        self._rows_over += 1
        if grace_begins(self.spec, self._rows_over, len(self.turns)):
            grace = self.spec.completion_grace_period
            self._cut_after(
                grace, f"{self._rows_over} of {len(self.turns)} episodes were done {grace:g} s ago"
            )

    def _give_up_after_too_many(self, result: EpisodeResult) -> None:
        longest = ErrorStreak.longest(self.spec, self.parallel)
        if not self._streak.count(result) or self._streak.length != longest:
            return
        self._scheduler.stop()  # Otherwise other workers would start new turns.
        raise errors.RolloutStoppedError(
            f"The rollout stopped after {len({r.row for r in self.results})} of {len(self.turns)} "
            f"episodes, because {self._streak.length} in a row ended in an error. The last "
            f"error, in task {result.task!r}: {result.error}"
        )


@dataclasses.dataclass(slots=True)
class _Nobody:
    """A stand-in for the agent if no environment could be made. It decides nothing."""

    name: str

    def begin_episode(self, environment: environment_lib.Environment) -> agents_lib.Act:
        async def act(observation: Any) -> Any:
            raise AssertionError("An environment that was not made has no observations.")

        return act


def _infos(info: EpisodeInfo) -> Iterator[EpisodeInfo]:
    """Yield `info`, and then copies with new ids.

    An environment may start a second episode by itself, which is then recorded too.
    """
    yield info
    while True:
        yield dataclasses.replace(info, episode_id=new_episode_id(), retry_of="")
