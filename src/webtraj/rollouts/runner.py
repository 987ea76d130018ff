"""Playing a whole rollout: many episodes, a few at a time, every one accounted for."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog
from webtraj.environments import base as environment_lib
from webtraj.environments import bridges
from webtraj.rollouts import episode as episode_lib
from webtraj.rollouts.observer import NullRolloutObserver, RolloutObserver
from webtraj.rollouts.plan import PlannedEpisode, plan_episodes
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.summary import RolloutSummary
from webtraj.trajectory import EpisodeInfo, new_episode_id

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["collect"]

_logger = logging.getLogger(__name__)

_CONTEXTS_PER_BROWSER = 16
_MAX_CONSECUTIVE_ERRORS = 10


async def collect(
    presets: str | Sequence[str],
    agent: agents_lib.Agent | str,
    *,
    episodes: int | None = None,
    parallel: int = 1,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    trajectory_collector: TrajectoryCollector | None = None,
    max_steps: int | None = None,
    environment_options: Mapping[str, Any] | None = None,
    browser_pool: BrowserPool | None = None,
    max_consecutive_errors: int | None = None,
    observer: RolloutObserver | None = None,
) -> RolloutSummary:
    """Lets an agent play episodes of presets and records them.

    All workers share one browser pool. Which episodes are played, and their seeds, do not depend on
    how many workers there are (`rollouts.plan`). An episode that an error ends is recorded as
    ERRORED, counted, has no reward, and the next is played. If the task is cancelled, open
    episodes are sealed as CANCELLED, and everything that was opened here is closed.

    Args:
        presets: A selector or several: `miniwob/click-test`, `miniwob/all@2/8`.
        agent: Who plays: an agent, or the name of one (`webtraj.agents.catalog`), which is then
            seeded with `seed`.
        episodes: How many to play in all, dealt out evenly to the tasks; by default one each.
        parallel: How many to play at a time.
        seed: The run's seed.
        out: A folder to record to; a dataset in it is added to.
        trajectory_collector: Records instead, and is left open. With neither, nothing is recorded.
        max_steps: Truncates an episode after so many steps; None leaves that to the environment.
        environment_options: For the presets' factories.
        browser_pool: Shared and left open; by default one is made for as many as are needed.
        max_consecutive_errors: Gives up after so many episodes in a row that an error ended. By
            default 10, or twice `parallel` if that is more: a browser that dies takes every episode
            in it along, and is replaced.
        observer: Is told what happens.

    Returns:
        Every result, and what follows from them.

    Raises:
        InvalidInputError: An argument is wrong, or the agent cannot play a task at all.
        UnknownPresetError: There is no preset of that name.
        RolloutStoppedError: Too many episodes failed one after the other.
        CollectorError: What was played could not be recorded.
        BrowserNotFoundError: A preset needs a browser, and there is none.
    """
    _check("parallel", parallel)
    if max_consecutive_errors is None:
        max_consecutive_errors = max(_MAX_CONSECUTIVE_ERRORS, 2 * parallel)
    _check("max_consecutive_errors", max_consecutive_errors)
    if max_steps is not None:
        _check("max_steps", max_steps)
    if out is not None and trajectory_collector is not None:
        raise errors.InvalidInputError(
            f"Give out={os.fspath(out)!r} or a trajectory_collector, not both."
        )
    if isinstance(agent, str):
        agent = catalog.make_agent(agent, seed=seed)
    plan = plan_episodes(presets, episodes=episodes, seed=seed)
    observer = observer or NullRolloutObserver()
    observer.rollout_planned(plan)
    async with contextlib.AsyncExitStack() as stack:
        if out is not None:
            trajectory_collector = await stack.enter_async_context(_open_collector(out))
        if browser_pool is None and any(planned.selection.uses_browser for planned in plan):
            browser_pool = await stack.enter_async_context(_open_pool(parallel))
        rollout = _Rollout(
            agent=agent,
            plan=plan,
            trajectory_collector=trajectory_collector,
            max_steps=max_steps,
            environment_options=environment_options or {},
            browser_pool=browser_pool,
            max_consecutive_errors=max_consecutive_errors,
            observer=observer,
        )
        start = time.perf_counter()
        await rollout.run(min(parallel, len(plan)))
        seconds = time.perf_counter() - start
    return RolloutSummary(results=tuple(rollout.results), seconds=seconds)


@dataclasses.dataclass(kw_only=True)
class _Rollout:
    """The queue of planned episodes, and the workers that empty it."""

    agent: agents_lib.Agent
    plan: Sequence[PlannedEpisode]
    trajectory_collector: TrajectoryCollector | None
    max_steps: int | None
    environment_options: Mapping[str, Any]
    browser_pool: BrowserPool | None
    max_consecutive_errors: int
    observer: RolloutObserver

    def __post_init__(self) -> None:
        self.results: list[EpisodeResult] = []
        self._queue = collections.deque(self.plan)
        self._errors_in_a_row = 0
        self._run_id = new_episode_id()

    async def run(self, workers: int) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work())
        except BaseExceptionGroup as raised:
            # The first ended the others; a caller wants to catch it by its type.
            raise raised.exceptions[0] from None

    async def _work(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            spec = environment = None
            while self._queue:
                planned = self._queue.popleft()
                if environment is None or planned.spec != spec:
                    await stack.aclose()
                    spec = planned.spec
                    environment = self._make(planned)
                    stack.push_async_callback(_close, environment)
                result = await self._play(planned, environment)
                if result.failed:
                    environment = None
                self._give_up_after_too_many(result)

    def _make(self, planned: PlannedEpisode) -> environment_lib.Environment:
        options = dict(self.environment_options)
        selection = planned.selection
        if selection.uses_browser:
            options["pool"] = self.browser_pool
        return bridges.as_async(selection.make(**options))

    async def _play(
        self, planned: PlannedEpisode, environment: environment_lib.Environment
    ) -> EpisodeResult:
        if self.trajectory_collector is not None:
            from webtraj.environments.collecting import TrajectoryCollectingEnvironment

            environment = TrajectoryCollectingEnvironment(
                environment,
                self.trajectory_collector,
                episode_info=self._info(planned, environment),
            )
        return await episode_lib.play_episode(
            planned, environment, self.agent, report=self._report, max_steps=self.max_steps
        )

    def _info(
        self, planned: PlannedEpisode, environment: environment_lib.Environment
    ) -> EpisodeInfo:
        return EpisodeInfo(
            # What an environment says of itself is known better, and fills what is left open here.
            task="" if hasattr(environment, "describe_episode") else planned.task,
            seed=planned.seed if hasattr(environment, "set_seed") else None,
            policy=self.agent.name,
            group_id=f"{self._run_id}/{planned.task}",
            attempt=planned.attempt,
        )

    def _report(self, result: EpisodeResult) -> None:
        self.results.append(result)
        self.observer.episode_ended(result)

    def _give_up_after_too_many(self, result: EpisodeResult) -> None:
        self._errors_in_a_row = self._errors_in_a_row + 1 if result.failed else 0
        if self._errors_in_a_row < self.max_consecutive_errors:
            return
        raise errors.RolloutStoppedError(
            f"{self._errors_in_a_row} episodes in a row ended in an error, so the rollout was "
            f"stopped after {len(self.results)} of {len(self.plan)}. The last, of task "
            f"{result.task!r}, with {result.error}"
        )


async def _close(environment: environment_lib.Environment) -> None:
    """Closes an environment between episodes, none of which its failure can be told by."""
    try:
        await environment.close()
    except Exception:
        _logger.warning("An environment could not be closed.", exc_info=True)


def _check(name: str, value: int) -> None:
    if value < 1:
        raise errors.InvalidInputError(f"{name} must be 1 or more; got {value}.")


def _open_collector(out: str | os.PathLike[str]) -> TrajectoryCollector:
    from webtraj.collectors.json import JsonTrajectoryCollector

    return JsonTrajectoryCollector(Path(out))


def _open_pool(parallel: int) -> BrowserPool:
    from webtraj.environments.browser.pool import BrowserPool

    browsers = math.ceil(parallel / _CONTEXTS_PER_BROWSER)
    return BrowserPool(browsers, math.ceil(parallel / browsers))
