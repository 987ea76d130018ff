"""`collect`: run a whole rollout in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webtraj.agents import base as agents_lib
from webtraj.environments.tasks import TaskSpec
from webtraj.rollouts.configuration.builder import build_rollout
from webtraj.rollouts.results import RolloutObserver, RolloutSummary
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.spec import RunSpec

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.judging.base import Judge

__all__ = ["collect"]


async def collect(
    spec: RunSpec,
    *,
    agent: agents_lib.Agent | agents_lib.Act | None = None,
    tasks: Sequence[TaskSpec] | Sequence[PlannedEpisode] | None = None,
    judge: Judge | None = None,
    pool: BrowserPool | None = None,
    trajectory_collector: TrajectoryCollector | None = None,
    observer: RolloutObserver | None = None,
    run_id: str | None = None,
    resume: bool | str = False,
) -> RolloutSummary:
    """Run an agent on many episodes and record each one.

    All workers share one browser pool. The choice of episodes and their seeds does not depend on
    the number of workers (`runs.plan`). An episode that fails with an error is recorded as
    ERRORED, counted and given no reward; the rollout continues with the next. If the task is
    cancelled, open episodes are sealed as CANCELLED, and everything opened here is closed.

    With `spec.out`, the plan is written there before the first episode, so that `resume` can play
    exactly the remaining episodes after a crash (`runs.run`). The run's metrics are written
    beside the plan at the end (`metrics`).

    Args:
        spec: The settings, such as the presets, the agent, the limits and the dataset.
        agent: An agent, or a function from an observation to an action, that plays instead of the
            one that `spec` names. It is left open.
        tasks: Tasks from `read_tasks` or a sampler, or a plan, instead of `spec.preset`.
        judge: Judges the episodes once all are played instead of the one that `spec` names, and
            is left open. The verdicts are stored beside the episodes and are in the summary's
            `judged`.
        pool: A browser pool to use and leave open; by default one is made as large as needed.
        trajectory_collector: Records the episodes of a `spec` without `out`, and is left open.
            Without either, nothing is recorded.
        observer: Called when episodes end.
        run_id: Name of the run in `spec.out`; a new one by default.
        resume: The id of a run in `spec.out` to resume, or True for the latest. Its plan and
            settings are read; `spec` needs only `out` and the settings to change.

    Returns:
        Every result and the totals, including earlier results of a resumed run.

    Raises:
        InvalidInputError: An argument is invalid, or the agent cannot play a task at all.
        UnknownPresetError: No preset has that name.
        RolloutStoppedError: Too many episodes in a row failed.
        CollectorError: An episode could not be recorded.
        StorageConflictError: There is a run of that id in `out` already, or another process plays
            the run to resume.
        BrowserNotFoundError: A preset needs a browser, and none is installed.
    """
    rollout = await asyncio.to_thread(
        build_rollout,
        spec,
        resume=resume,
        run_id=run_id,
        tasks=tasks,
        agent=None if agent is None else agents_lib.as_agent(agent),
        judge=judge,
        pool=pool,
        trajectory_collector=trajectory_collector,
    )
    return await rollout.play(observer=observer)
