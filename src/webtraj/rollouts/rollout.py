"""A rollout: the plan, agent, judge and proposer of a run, ready to be played or resumed.

The settings are kept beside the plan, so that the run can be resumed::

    <dataset>/runs/<run id>/settings.json   the `RunSpec`, and the configuration it was made from
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from webtraj import errors
from webtraj.agents.models.base import check_keys
from webtraj.judging.base import PARALLEL
from webtraj.metrics.facts import EpisodeFacts
from webtraj.metrics.live import MetricsObserver, open_metrics
from webtraj.rollouts.episode_environment import Browsers, check_environments, check_tasks
from webtraj.rollouts.judging import judge_rollout
from webtraj.rollouts.node_size import episodes_here
from webtraj.rollouts.recipes import Proposing
from webtraj.rollouts.recording import open_collector, settle_format
from webtraj.rollouts.results import RolloutObserver, RolloutSummary, TeeRolloutObserver
from webtraj.rollouts.runner import Runner
from webtraj.rollouts.samplers import Blocklist
from webtraj.rollouts.scheduler import RetryPolicy, Turn
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult, Progress, Run, progress_of, tries_of
from webtraj.runs.spec import EpisodeFormat, RunSpec
from webtraj.settings import configuration as configuration_lib
from webtraj.store.closeable import aclose

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.judging.base import Judge
    from webtraj.judging.judged import Judged
    from webtraj.store.index import EpisodeSummary

__all__ = ["Milestones", "Player", "Rollout", "episodes_on_record"]

_logger = logging.getLogger(__name__)

Player: TypeAlias = "Callable[[Rollout, RolloutObserver], Awaitable[RolloutSummary]]"
"""Plays a rollout's remaining episodes elsewhere than in this process."""


class Milestones:
    """Logs progress at every given percentage of the plan.

    A row that is tried several times counts once, when its first try has ended.
    """

    def __init__(self, percent: float, *, tell: Callable[[str], None] = _logger.info) -> None:
        self._percent = percent
        self._tell = tell
        self._rows = 0
        self._begun: set[int] = set()
        self._told = 0
        self._outcomes: collections.Counter[str] = collections.Counter()

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Start counting."""
        self._rows = len(plan)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Count, and log progress at each milestone."""
        self._outcomes[result.outcome.name.lower()] += 1
        self._begun.add(result.row)
        # Whole milestones passed, without floating-point errors.
        steps = int(len(self._begun) * 100 / self._rows / self._percent + 1e-9)
        if steps > self._told:
            self._told = steps
            counts = ", ".join(f"{name} {count}" for name, count in self._outcomes.most_common())
            self._tell(
                f"{len(self._begun) / self._rows:.0%} of the remaining episodes are recorded: "
                f"{len(self._begun)} of {self._rows} ({counts})."
            )


_OF_THE_AGENT = ("agent", "base_url", "max_tokens", "model", "provider", "temperature")
"""Settings that change the agent; `agent` stands for `agent_options` too."""


@dataclasses.dataclass(kw_only=True)
class Rollout:
    """A rollout that is planned and can be played."""

    spec: RunSpec = dataclasses.field(repr=False)
    """Its settings."""
    plan: tuple[PlannedEpisode, ...]
    """The whole plan; for a resumed run, including what was already played."""
    run: Run | None
    """The run; None if the rollout has no dataset, and so cannot be resumed."""
    resume: bool = False
    """Whether to resume an existing run."""
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the presets, the channels to observe included."""
    agent: Agent | None
    """The agent; None if it can only be made on the machines of a cluster."""
    close_agent: bool
    """Whether to close the agent at the end."""
    agent_factory: Callable[[], Agent] = dataclasses.field(repr=False)
    """Makes the agent on each machine of a cluster."""
    judge: Judge | None = None
    """Judges the recorded episodes."""
    close_judge: bool = False
    """Whether to close the judge at the end."""
    proposing: Proposing | None = None
    """Recipe for the proposer of further tasks."""
    blocklist: Blocklist | None = None
    """Receives the sites that refused the agent. Playing and judging share it, so that no site is
    added twice while it is on its way to a bucket."""
    pool: BrowserPool | None = None
    """A browser pool to use and leave open; by default one as large as needed."""
    trajectory_collector: TrajectoryCollector | None = None
    """Records the episodes of a rollout without a dataset, and is left open."""
    iteration: int | None = None
    """Number of the iteration, if there are iterations."""
    claimed: Iterations | None = None
    """Iterations in which this rollout claimed its number, to release it if nothing starts."""
    configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """The configuration that `spec` was made from, if any, without secrets."""

    @property
    def out(self) -> str:
        """The dataset: a folder or bucket URL."""
        assert self.spec.out is not None
        return self.spec.out

    @property
    def run_id(self) -> str:
        """The run's id."""
        assert self.run is not None
        return self.run.run_id

    @property
    def storage_options(self) -> Mapping[str, Any] | None:
        """For a bucket."""
        return self.spec.storage_options

    async def play(
        self, *, observer: RolloutObserver | None = None, player: Player | None = None
    ) -> RolloutSummary:
        """Play the remaining episodes, then judge and propose as configured.

        Args:
            observer: Receives the rollout's events.
            player: Plays the episodes elsewhere; None for this machine. Judging and proposing
                always run here.

        Returns:
            Every result, including earlier results of a resumed run.

        Raises:
            Exception: See `webtraj.rollouts.collect` and `webtraj.exploring.propose`.
        """
        summary = await self.only_play(observer=observer, player=player)
        judged, proposed = await self.only_judge(), await self.only_propose()
        return dataclasses.replace(summary, judged=judged, proposed=proposed)

    async def only_judge(self, observer: Callable[[int, int], None] | None = None) -> Judged | None:
        """Judge the recorded episodes that are not judged yet; None if there is no judge.

        Args:
            observer: Called with the number of judged episodes and their total.
        """
        if self.judge is None:
            return None
        try:
            return await judge_rollout(
                self.out,
                self.run_id,
                self.judge,
                plan=self.plan,
                when=self.spec.judge_when,
                parallel=self.spec.judge_parallel or PARALLEL,
                storage_options=self.storage_options,
                blocklist=self.blocklist,
                observer=observer,
            )
        finally:
            if self.close_judge:
                await aclose(self.judge)

    async def only_propose(self) -> Any:
        """Propose tasks for episodes without proposals.

        Returns:
            A `webtraj.exploring.Proposed`; None if there is no proposer.

        Raises:
            Exception: See `webtraj.exploring.propose`.
        """
        if self.proposing is None:
            return None
        return await self.proposing.propose(
            self.out, self.run_id, storage_options=self.storage_options
        )

    async def only_play(
        self, *, observer: RolloutObserver | None = None, player: Player | None = None
    ) -> RolloutSummary:
        """Play the remaining episodes, without judging or proposing. See `play`."""
        if self.spec.save_every_percent is not None:
            observer = TeeRolloutObserver(observer, Milestones(self.spec.save_every_percent))
        try:
            async with contextlib.AsyncExitStack() as stack:
                if self.agent is not None and self.close_agent:
                    stack.push_async_callback(aclose, self.agent)
                check_keys(self.judge)
                if self.proposing is not None:  # Its errors show before anything is played.
                    proposer = self.proposing.make()
                    stack.push_async_callback(aclose, proposer)
                    check_keys(proposer)
                if self.spec.metrics:
                    live = await asyncio.to_thread(self._open_metrics)
                    stack.push_async_callback(asyncio.to_thread, live.close)
                    observer = TeeRolloutObserver(observer, live)
                if self.resume:
                    self._warn_of_changes()
                observer = TeeRolloutObserver(observer, self.blocklist)
                if player is not None:
                    summary = await player(self, observer)
                else:
                    summary = await self._play_here(observer, stack)
            if self.run is not None:
                await asyncio.to_thread(_write_metrics, self.run, self.out, self.storage_options)
            return summary
        except BaseException:
            if self.judge is not None and self.close_judge:
                await aclose(self.judge)
            if self.claimed is not None:
                await asyncio.to_thread(self._give_back_the_number, self.claimed)
            raise

    async def _play_here(
        self, observer: RolloutObserver, stack: contextlib.AsyncExitStack
    ) -> RolloutSummary:
        assert self.agent is not None
        check_keys(self.agent)
        parallel = episodes_here() if self.spec.parallel == "auto" else self.spec.parallel or 1
        pool = await self._check_pool(parallel, stack)
        progress = Progress((), tuple(Turn(planned=planned) for planned in self.plan))
        collector = self.trajectory_collector
        if self.run is not None:
            if self.resume:
                stack.enter_context(self.run.playing())
            written = self.settle_format()
            collector = await stack.enter_async_context(
                open_collector(self.out, self.storage_options, written)
            )
            if self.resume:
                spool = getattr(collector, "spool", None)
                on_record = episodes_on_record(self.out, self.storage_options, spool)
                progress = progress_of(self.run, self.plan, on_record, RetryPolicy.of(self.spec))
            else:
                self.write_plan(written)
                stack.enter_context(self.run.playing())
        observer.rollout_planned([turn.planned for turn in progress.left])
        runner = Runner(
            agent=self.agent,
            turns=progress.left,
            spec=self.spec,
            parallel=parallel,
            observer=observer,
            run=self.run,
            trajectory_collector=collector,
            environment_options=self.environment_options,
            browser_pool=pool,
        )
        start = time.perf_counter()
        results = await runner.play()
        return RolloutSummary(
            results=(*progress.done, *results),
            seconds=time.perf_counter() - start,
            earlier=len(progress.done),
        )

    async def _check_pool(
        self, parallel: int, stack: contextlib.AsyncExitStack
    ) -> BrowserPool | None:
        """Check that the plan can be played, and return the browsers; None if it needs no browser.

        This raises an error before the plan is written if it cannot be played or a browser is
        missing.
        """
        needs_pool = self.pool is None and any(
            planned.selection.uses_browser for planned in self.plan
        )
        if not needs_pool:
            await self._check_plan()
            return self.pool
        browsers = Browsers.of(self.spec)
        executable, checked = await asyncio.gather(
            asyncio.to_thread(browsers.find), self._check_plan(), return_exceptions=True
        )
        for failure in (executable, checked):
            if isinstance(failure, BaseException):
                raise failure
        assert not isinstance(executable, BaseException)
        pool = await stack.enter_async_context(browsers.open(parallel, executable))
        if not self.resume:  # Something is left to play.
            await pool.start()
        return pool

    async def _check_plan(self) -> None:
        assert self.agent is not None
        if not self.resume and (self.run is not None or self.claimed is not None):
            await check_environments(self.plan, self.environment_options)
            await check_tasks(self.plan, self.agent, self.environment_options)

    def settle_format(self) -> EpisodeFormat:
        """Return the format to record in."""
        new: EpisodeFormat = "pb" if self.spec.kind == "crawl" else "json"
        run = self.run if self.resume else None
        return settle_format(self.spec.format, self.out, self.storage_options, run=run, new=new)

    def write_plan(self, written: EpisodeFormat) -> None:
        """Write the plan and, beside it, the settings.

        Raises:
            StorageConflictError: The run already has a plan.
            StorageError: The files cannot be written.
        """
        assert self.run is not None
        record = {**self._record(), "format": written}
        if self.configuration:
            record["configuration"] = self.configuration
        self.run.write_plan(self.plan, seed=self.spec.seed, settings=record)

    def _open_metrics(self) -> MetricsObserver:
        config = dict(configuration_lib.flatten(self.configuration or self._record()))
        return open_metrics(self.spec.metrics, self.run_id, config=config, earlier=self._earlier())

    def _earlier(self) -> Iterator[EpisodeFacts]:
        """Yield the run's recorded episodes."""
        if not self.resume or self.run is None:
            return
        from webtraj.datasets.dataset import open_dataset

        try:
            summaries = open_dataset(self.out, storage_options=self.storage_options).summaries
        except errors.NotADatasetError:
            return  # Nothing is recorded there yet.
        for planned, number, summary in tries_of(self.run, self.plan, summaries):
            yield EpisodeFacts.of_result(EpisodeResult.of_summary(summary, planned, number))

    def _record(self) -> dict[str, Any]:
        return configuration_lib.without_secrets(self.spec.record())

    def _give_back_the_number(self, iterations: Iterations) -> None:
        """Release the iteration's number if this rollout did not write a plan."""
        assert self.iteration is not None
        assert self.run is not None
        try:
            if not self.run.discard_settings():
                return
            iterations.release(self.iteration)
        except (errors.WebtrajError, OSError):
            _logger.warning(
                "Iteration %d stays claimed, although nothing was played.", self.iteration,
                exc_info=True,
            )  # fmt: skip

    def _warn_of_changes(self) -> None:
        """Warn if the agent differs from the one that started the run, as the episodes will mix."""
        assert self.run is not None
        try:
            begun = self.run.read_record()
        except errors.InvalidInputError:
            return
        keys, now = (
            dict(configuration_lib.flatten(record)) for record in (begun or {}, self._record())
        )
        for key in sorted(set(keys) | set(now)):
            if key.startswith(_OF_THE_AGENT) and keys.get(key) != now.get(key):
                _logger.warning(
                    "The run %s was started with %s=%s and now continues with %s.",
                    self.run_id, key, keys.get(key), now.get(key),
                )  # fmt: skip


def _write_metrics(run: Run, out: str, storage_options: Mapping[str, Any] | None) -> None:
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
    out: str,
    storage_options: Mapping[str, Any] | None,
    spool: Path | None = None,
) -> Sequence[EpisodeSummary]:
    """Return the summaries of all episodes, including episodes of crashed writers.

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
