"""`collect`: run a whole rollout in one call."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.agents import catalog
from webtraj.agents.models.base import check_keys
from webtraj.environments.tasks import TaskSpec
from webtraj.judging.base import PARALLEL
from webtraj.rollouts.adapting import Adaptive
from webtraj.rollouts.judging import judge_rollout
from webtraj.rollouts.making import Browsers, check_environments, check_tasks
from webtraj.rollouts.recording import EpisodeFormat, open_collector, settle_format
from webtraj.rollouts.results import RolloutObserver, RolloutSummary, TeeRolloutObserver
from webtraj.rollouts.runner import Runner
from webtraj.rollouts.scheduling import Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.plan import PlannedEpisode, plan_episodes, plan_tasks
from webtraj.runs.run import Progress, Run, progress_of, run_of
from webtraj.runs.spec import RunSpec, When
from webtraj.store.places import open_storage

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.judging.base import Judge
    from webtraj.rollouts.sampling import Blocklist
    from webtraj.store.index import EpisodeSummary

__all__ = ["Playable", "collect", "episodes_on_record", "keep_metrics", "plan_of"]

_logger = logging.getLogger(__name__)

Playable = str | Sequence[str] | Sequence[TaskSpec] | Sequence[PlannedEpisode]
"""Input of a rollout: one or several preset selectors, tasks, or a plan."""


async def collect(
    tasks: Playable | RunSpec,
    agent: agents_lib.Agent | agents_lib.Act | str = "",
    *,
    episodes: int | None = None,
    attempts: int = 1,
    group_size: int = 1,
    parallel: int | Adaptive | Literal["auto"] | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    trajectory_collector: TrajectoryCollector | None = None,
    run_id: str | None = None,
    resume: bool | str = False,
    max_steps: int | None = None,
    max_consecutive_errors: int | None = None,
    settings: RolloutSettings | None = None,
    environment_options: Mapping[str, Any] | None = None,
    browser_pool: BrowserPool | None = None,
    blocklist: Blocklist | None = None,
    observer: RolloutObserver | None = None,
    format: EpisodeFormat | None = None,  # noqa: A002
    judge: Judge | None = None,
    judge_when: When = "unknown",
    judge_parallel: int = PARALLEL,
) -> RolloutSummary:
    """Run an agent on many episodes and record each one.

    All workers share one browser pool. The choice of episodes and their seeds does not depend on
    the number of workers (`runs.plan`). An episode that fails with an error is recorded as
    ERRORED, counted and given no reward; the rollout continues with the next. `settings.retry`
    decides whether it is tried again. If the task is cancelled, open episodes are sealed as
    CANCELLED, and everything opened here is closed.

    With `out`, the plan is written there before the first episode, so that `resume` can play
    exactly the remaining episodes after a crash (`runs.run`). The run's metrics are written
    beside the plan at the end (`metrics`).

    Args:
        tasks: One or several selectors, such as `miniwob/click-test` or `miniwob/all@2/8`; tasks
            from `read_tasks` or a sampler; or a plan. Or a `RunSpec`, the settings of
            `webtraj rollout`, which has all else but `resume`, `observer` and an agent of your own.
        agent: An agent, a function from an observation to an action, or the name of an agent
            (`webtraj.agents.catalog`), which is then seeded with `seed`.
        episodes: For selectors: how many episodes to play in all, spread evenly over the tasks;
            one for each task by default.
        attempts: For tasks: how often to play each one, with different seeds.
        group_size: How many episodes share a task and a seed and differ only in the agent's
            sampling, for policy-gradient training. `episodes` counts all of them.
        parallel: How many episodes to play at a time, or "auto" for as many as the machine can
            bear (`rollouts.adapting`); `settings.parallel` by default.
        seed: The run's seed.
        out: A folder or bucket URL to record to. An existing dataset there is extended.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        trajectory_collector: Records the episodes instead of `out`, and is left open. Without
            either, nothing is recorded.
        run_id: Name of the run in `out`; a new one by default.
        resume: The id of a run in `out` to resume, or True for the latest. Its plan is read, so
            `tasks`, `episodes`, `attempts`, `group_size` and `seed` do not count.
        max_steps: Overrides `settings.max_steps`.
        max_consecutive_errors: Overrides `settings.max_consecutive_errors`.
        settings: Limits, order and retries.
        environment_options: For the presets' factories.
        browser_pool: A pool to use and leave open; by default one is made as large as needed.
        blocklist: Receives the sites that refused the agent.
        observer: Called when episodes end.
        format: For `out`: the format of the episodes, "json", "pb" or "pb.zst". By default the
            dataset's own, or "json" for a new dataset. A dataset has a single format.
        judge: Judges the episodes once all are played, and is left open. The verdicts are stored
            beside the episodes and are in the summary's `judged`.
        judge_when: "unknown" to judge only episodes whose outcome the environment does not know,
            or "always".
        judge_parallel: How many episodes to judge at a time.

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
    if isinstance(tasks, RunSpec):
        _check_alone(locals())
        from webtraj.rollouts.configuration.building import build_rollout

        own = None if isinstance(agent, str) else agents_lib.as_agent(agent)
        built = await asyncio.to_thread(build_rollout, tasks, resume=resume, agent=own)
        return await built.play(observer=observer)
    if isinstance(agent, str) and not agent:
        raise errors.InvalidInputError("The agent is missing; give an agent or its name.")
    overrides: dict[str, Any] = {
        "parallel": parallel,
        "max_steps": max_steps,
        "max_consecutive_errors": max_consecutive_errors,
    }
    settings = dataclasses.replace(
        settings or RolloutSettings(),
        **{name: value for name, value in overrides.items() if value is not None},
    )
    if out is not None and trajectory_collector is not None:
        raise errors.InvalidInputError(
            f"Got out={os.fspath(out)!r} and a trajectory_collector; give only one of them."
        )
    for name, value in (
        ("resume", resume), ("run_id", run_id), ("format", format), ("judge", judge)
    ):  # fmt: skip
        if out is None and value:
            raise errors.InvalidInputError(
                f"{name} works only with out, the place where the run is recorded."
            )
    if judge is not None:
        from webtraj.judging.judged import check_judging

        check_judging(judge, when=judge_when, parallel=judge_parallel)
        check_keys(judge)
    if isinstance(agent, str):
        agent = catalog.make_agent(agent, seed=seed)
    agent = agents_lib.as_agent(agent)
    check_keys(agent)
    plan = (
        ()
        if resume
        else plan_of(tasks, episodes=episodes, attempts=attempts, seed=seed, group_size=group_size)
    )
    observer = TeeRolloutObserver(observer, blocklist)
    async with contextlib.AsyncExitStack() as stack:
        run, progress = None, Progress((), tuple(Turn(planned=planned) for planned in plan))
        if out is not None:
            storage = open_storage(out, storage_options)
            retries = settings.retry.max_retries
            run = run_of(storage, run_id=run_id, resume=resume, max_retries=retries)
            if resume:
                plan = run.read_plan()
                stack.enter_context(run.playing())
            else:
                await check_environments(plan, environment_options or {})
                await check_tasks(plan, agent, environment_options or {})
            written = settle_format(format, out, storage_options, run=run if resume else None)
            trajectory_collector = await stack.enter_async_context(
                open_collector(out, storage_options, written)
            )
            if resume:
                spool = getattr(trajectory_collector, "spool", None)
                on_record = episodes_on_record(out, storage_options, spool)
                progress = progress_of(run, plan, on_record, settings.retry)
            else:
                about = {**dataclasses.asdict(settings), "format": written}
                run.write_plan(plan, seed=seed, settings=about)
                stack.enter_context(run.playing())
        turns = progress.left
        observer.rollout_planned([turn.planned for turn in turns])
        if browser_pool is None and any(turn.planned.selection.uses_browser for turn in turns):
            browser_pool = await stack.enter_async_context(Browsers().open(settings.parallel))
        runner = Runner(
            agent=agent,
            turns=turns,
            settings=settings,
            observer=observer,
            run=run,
            trajectory_collector=trajectory_collector,
            environment_options=environment_options or {},
            browser_pool=browser_pool,
        )
        start = time.perf_counter()
        results = await runner.play()
        seconds = time.perf_counter() - start
    if run is not None and out is not None:
        await asyncio.to_thread(keep_metrics, run, out, storage_options)
    summary = RolloutSummary(
        results=(*progress.done, *results), seconds=seconds, earlier=len(progress.done)
    )
    if run is None or out is None or judge is None:
        return summary
    judged = await judge_rollout(
        out,
        run.run_id,
        judge,
        plan=plan,
        when=judge_when,
        parallel=judge_parallel,
        storage_options=storage_options,
        blocklist=blocklist,
    )
    return dataclasses.replace(summary, judged=judged)


def _check_alone(given: Mapping[str, Any]) -> None:
    """Check that nothing is given beside a `RunSpec` that it has itself."""
    defaults = dict(collect.__kwdefaults__ or {}, agent="")
    for name, default in defaults.items():
        own = name == "agent" and not isinstance(given[name], str)
        if name not in ("resume", "observer") and not own and given[name] != default:
            there = name in RunSpec.model_fields
            raise errors.InvalidInputError(
                f"{name} cannot be given beside a RunSpec"
                + ("; set it there." if there else ", which has no such field.")
            )


def plan_of(
    tasks: Playable, *, episodes: int | None, attempts: int, seed: int, group_size: int = 1
) -> tuple[PlannedEpisode, ...]:
    """Return the plan that `collect` makes of its arguments.

    Raises:
        InvalidInputError: The arguments do not make a plan.
    """
    if isinstance(tasks, str):
        tasks = [tasks]
    try:
        items: list[Any] = list(tasks)
    except TypeError:
        raise errors.InvalidInputError(
            "A rollout plays presets by name, such as 'miniwob/click-test', or TaskSpecs; got "
            f"{tasks!r:.200}. Name your own environment with webtraj.register."
        ) from None
    if all(isinstance(item, str) for item in items):
        if attempts != 1 and episodes is not None:
            raise errors.InvalidInputError(
                f"Got episodes={episodes!r} and attempts={attempts!r}; give either episodes, for "
                "all tasks, or attempts, for each."
            )
        if attempts != 1 and episodes is None:
            episodes = attempts * group_size * len(plan_episodes(items))
        return plan_episodes(items, episodes=episodes, seed=seed, group_size=group_size)
    if episodes is not None:
        raise errors.InvalidInputError(
            "episodes applies to presets only. To play each task several times, use attempts."
        )
    if all(isinstance(item, TaskSpec) for item in items):
        return plan_tasks(items, attempts=attempts, seed=seed, group_size=group_size)
    if all(isinstance(item, PlannedEpisode) for item in items):
        return tuple(items)
    kinds = ", ".join(sorted({type(item).__name__ for item in items}))
    raise errors.InvalidInputError(
        f"A rollout plays selectors, TaskSpecs or PlannedEpisodes, all of one kind; got {kinds}."
    )


def keep_metrics(
    run: Run, out: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> None:
    """Write a run's metrics. A failure is logged, since they can be computed again."""
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics import measure, write_metrics

    try:
        dataset = open_dataset(out, storage_options=storage_options)
        write_metrics(run, measure(dataset, run=run.run_id))
    except (errors.WebtrajError, OSError):
        _logger.warning(
            "Could not write the metrics of run %r. Compute them again with `webtraj metrics %s "
            "--run %s --write`.", run.run_id, run.storage.url, run.run_id, exc_info=True,
        )  # fmt: skip


def episodes_on_record(
    out: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    spool: Path | None = None,
) -> Sequence[EpisodeSummary]:
    """Return the summaries of all episodes, including those of crashed writers.

    Raises:
        CollectorError: Episodes in the spool cannot be sent, or the folder cannot be written.
        StorageError: The store cannot be read or written.
    """
    from webtraj.datasets.dataset import open_dataset
    from webtraj.datasets.recovery import recover
    from webtraj.datasets.transfer import push

    if spool is not None:
        report = push(spool, storage_options=storage_options)
        if not report.complete:
            raise errors.CollectorError(
                f"Cannot resume yet: episodes of {str(spool)!r} could not be sent to "
                f"{report.destination!r}. Run `{errors.command('push', spool)}`, then resume."
            )
    try:
        recover(out, storage_options=storage_options)
        return open_dataset(out, storage_options=storage_options).summaries
    except errors.NotADatasetError:
        return ()  # A bucket receives the plan before its first episode.
