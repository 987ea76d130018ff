"""A configured rollout: play it, and resume it after a crash.

The settings of each run are kept beside its plan, so that a dataset shows how it was made::

    <dataset>/runs/<run id>/command.json   its `RunSpec`, from which it is resumed
                            config.yaml    the configuration that said so, if there was one
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.agents.models.base import check_keys
from webtraj.environments.browser.lease import OperationLimits
from webtraj.metrics.facts import EpisodeFacts
from webtraj.metrics.live import MetricsObserver, open_metrics
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.configuration.recipes import (
    Judging,
    Player,
    Proposing,
    judging_of,
    player_of,
    proposing_of,
)
from webtraj.rollouts.configuration.webgym import NOT_ON_RAY
from webtraj.rollouts.deadlines import Deadlines
from webtraj.rollouts.judging import judge_rollout
from webtraj.rollouts.making import Browsers, check_environments, check_tasks
from webtraj.rollouts.recording import EpisodeFormat, settle_format
from webtraj.rollouts.results import (
    RolloutObserver,
    RolloutSummary,
    TeeRolloutObserver,
)
from webtraj.rollouts.sampling import Blocklist
from webtraj.rollouts.scheduling import Politeness, RetryPolicy
from webtraj.rollouts.settings import Completion, RolloutSettings
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult, Run, tries_of
from webtraj.runs.spec import RECORD, RunSpec
from webtraj.settings import configuration as configuration_lib
from webtraj.store.closing import aclose
from webtraj.store.places import Storage, is_url, open_storage

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.judging.judged import Judged

__all__ = ["ConfiguredRollout", "Milestones"]

# Milestones: log progress each time that a given percentage more is recorded.

_logger = logging.getLogger(__name__)


class Milestones:
    """Logs progress.

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


_SOURCE = "config.yaml"
_WHO_PLAYS = ("agent", "base_url", "max_tokens", "model", "provider", "temperature")
_HOUR = 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredRollout:
    """A rollout, fully configured."""

    spec: RunSpec = dataclasses.field(repr=False)
    """Its settings."""
    plan: tuple[PlannedEpisode, ...]
    """The whole plan; for a resumed run, including what was already played."""
    run_id: str
    """The run's id."""
    resume: bool = False
    """Whether to resume an existing run."""
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the presets, the channels to observe included."""
    blocklist: Blocklist | None = None
    """Receives the sites that refused the agent. Playing and judging share it, so that no site is
    added twice while it is on its way to a bucket."""
    iteration: int | None = None
    """Number of the iteration, if there are iterations."""
    claimed: Iterations | None = None
    """Iterations in which this rollout claimed its number; released if nothing can start."""
    ranked: bool = False
    """Whether this is one of several processes that share an iteration."""
    source: str = ""
    """The configuration as YAML, if there is one, kept beside the plan."""
    agent: Agent | None = None
    """An agent that plays instead of the one that the spec names; it is left open."""
    setup: Callable[[], object] | None = None
    """On a cluster: called first on each machine."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """On a cluster: environment variables to set on each machine."""

    @property
    def out(self) -> str:
        """The dataset: a folder or bucket URL."""
        assert self.spec.out is not None
        return self.spec.out

    @property
    def storage_options(self) -> Mapping[str, Any] | None:
        """For a bucket."""
        return self.spec.storage_options

    @property
    def player(self) -> Player:
        """The agent's recipe."""
        return player_of(self.spec)

    @property
    def judging(self) -> Judging | None:
        """Recipe for the judge of the recorded episodes."""
        return judging_of(self.spec)

    @property
    def proposing(self) -> Proposing | None:
        """Recipe for the proposer of further tasks."""
        return proposing_of(self.spec)

    @property
    def browsers(self) -> Browsers:
        """Browser settings. On a cluster each machine has its own browsers."""
        spec = self.spec
        return Browsers(
            contexts=spec.contexts_per_browser,
            endpoint=spec.browser_endpoint,
            wait_timeout=spec.wait_timeout,
            operation_timeout=spec.operation_timeout,
        )

    @property
    def settings(self) -> RolloutSettings:
        """Limits, order and retries."""
        spec = self.spec
        limits = spec.operation_limits
        return RolloutSettings(
            parallel=spec.parallel or 1,
            max_steps=spec.max_steps,
            max_repetitive_actions=spec.max_repetitive_actions,
            deadlines=Deadlines(step=spec.step_timeout, episode=spec.timeout, run=spec.run_timeout),
            retry=RetryPolicy(
                max_retries=spec.max_retries,
                pause=spec.retry_pause,
                max_pause=spec.max_retry_pause,
            ),
            completion=Completion(
                threshold=spec.completion_threshold, grace=spec.completion_grace_period
            ),
            order=spec.task_order,
            politeness=Politeness(per_site=spec.episodes_per_site, interval=spec.site_interval),
            operations=OperationLimits(**limits) if limits else None,
            max_consecutive_errors=spec.max_consecutive_errors,
        )

    async def play(
        self, *, observer: RolloutObserver | None = None, ray: str | None = None
    ) -> RolloutSummary:
        """Play the remaining episodes, then judge and propose as configured.

        Args:
            observer: Receives the rollout's events.
            ray: Address of a Ray cluster to play on; None for this machine. Judging and proposing
                always run here.

        Returns:
            Every result, including earlier results of a resumed run.

        Raises:
            Exception: See `webtraj.rollouts.collect` and `webtraj.exploring.propose`.
        """
        summary = await self.only_play(observer=observer, ray=ray)
        judged, proposed = await self.judge(), await self.propose()
        return dataclasses.replace(summary, judged=judged, proposed=proposed)

    async def judge(self, observer: Callable[[int, int], None] | None = None) -> Judged | None:
        """Judge the recorded episodes that are not judged yet; None if there is no judge.

        Args:
            observer: Called with the number of judged episodes and their total.

        Raises:
            InvalidInputError: The judge cannot be made.
        """
        if self.judging is None:
            return None
        judge = self.judging.make()
        try:
            return await judge_rollout(
                self.out,
                self.run_id,
                judge,
                plan=self.plan,
                when=self.judging.when,
                parallel=self.judging.parallel,
                storage_options=self.storage_options,
                blocklist=self.blocklist,
                observer=observer,
            )
        finally:
            await aclose(judge)

    async def propose(self) -> Any:
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
        self, *, observer: RolloutObserver | None = None, ray: str | None = None
    ) -> RolloutSummary:
        """Play the remaining episodes, without judging or proposing. See `play`."""
        if ray is not None and self.ranked:
            raise errors.InvalidInputError(NOT_ON_RAY)
        if self.spec.save_every_percent is not None:
            observer = TeeRolloutObserver(observer, Milestones(self.spec.save_every_percent))
        try:
            async with contextlib.AsyncExitStack() as stack:
                for recipe in (self.judging, self.proposing):
                    if recipe is not None:  # Its errors show before anything is played.
                        made = recipe.make()
                        stack.push_async_callback(aclose, made)
                        check_keys(made)
                if self.spec.metrics:
                    live = await asyncio.to_thread(self._open_metrics)
                    stack.push_async_callback(asyncio.to_thread, live.close)
                    observer = TeeRolloutObserver(observer, live)
                if ray is not None:
                    return await self._play_on_ray(ray, observer)
                return await self._play_here(observer, stack)
        except BaseException:
            if self.claimed is not None:
                await asyncio.to_thread(self._give_back_the_number, self.claimed)
            raise

    async def _play_here(
        self, observer: RolloutObserver | None, stack: contextlib.AsyncExitStack
    ) -> RolloutSummary:
        agent = self.agent
        if agent is None:
            agent = self.player.make()
            stack.push_async_callback(aclose, agent)
        check_keys(agent)
        pool = None
        if any(planned.selection.uses_browser for planned in self.plan):
            # Without a browser, start nothing.
            executable, checked = await asyncio.gather(
                asyncio.to_thread(self.browsers.find),
                self._check_plan(agent),
                return_exceptions=True,
            )
            if isinstance(executable, BaseException):
                raise executable
            if isinstance(checked, BaseException):
                raise checked
            pool = self.browsers.open(self.settings.parallel, executable)
            await stack.enter_async_context(pool)
            if not self.resume:  # Something is left to play.
                await pool.start()
        else:
            await self._check_plan(agent)
        return await collect(self.plan, agent, browser_pool=pool, **self._begin(observer))

    async def _check_plan(self, agent: Agent) -> None:
        """Check that a new plan can be played: otherwise it must not be written."""
        if not self.resume:
            await check_environments(self.plan, self.environment_options)
            await check_tasks(self.plan, agent, self.environment_options)

    async def _play_on_ray(self, address: str, observer: RolloutObserver | None) -> RolloutSummary:
        from webtraj.rollouts.distributed import collect_on_ray

        if not self.resume:
            await check_environments(self.plan, self.environment_options, elsewhere=True)
        return await collect_on_ray(
            self.plan,
            self.player,
            address=address,
            parallel=self.spec.parallel if isinstance(self.spec.parallel, int) else None,
            browsers=self.browsers,
            setup=self.setup,
            variables=self.variables,
            **self._begin(observer),
        )

    def _begin(self, observer: RolloutObserver | None) -> dict[str, Any]:
        """Keep the settings beside the plan, and return what `collect` takes on any machine."""
        return {
            "out": self.out,
            "storage_options": self.storage_options,
            "run_id": None if self.resume else self.run_id,
            "resume": self.run_id if self.resume else False,
            "seed": self.spec.seed,
            "settings": self.settings,
            "environment_options": self.environment_options,
            "blocklist": self.blocklist,
            "observer": observer,
            "format": self._keep_settings(),
        }

    def _open_metrics(self) -> MetricsObserver:
        told = _read(self.source) if self.source else self._record()
        config = dict(configuration_lib.flattened(told))
        return open_metrics(self.spec.metrics, self.run_id, config=config, earlier=self._earlier())

    def _earlier(self) -> Iterator[EpisodeFacts]:
        """Yield the run's recorded episodes."""
        if not self.resume:
            return
        from webtraj.datasets.dataset import open_dataset

        try:
            summaries = open_dataset(self.out, storage_options=self.storage_options).summaries
        except errors.NotADatasetError:
            return  # Nothing is recorded there yet.
        run = Run(open_storage(self.out, self.storage_options), self.run_id)
        for planned, number, summary in tries_of(run, self.plan, summaries):
            yield EpisodeFacts.of_result(EpisodeResult.of_summary(summary, planned, number))

    def _record(self) -> dict[str, Any]:
        return configuration_lib.without_secrets(self.spec.record())

    def _keep_settings(self) -> EpisodeFormat | None:
        """Keep the settings beside the plan. Return the format to record in."""
        if self.resume:
            self._warn_of_changes()
            return self.spec.format
        new: EpisodeFormat = "pb" if self.spec.kind == "crawl" else "json"
        written = settle_format(self.spec.format, self.out, self.storage_options, new=new)
        if not is_url(self.out):  # A folder must become a dataset before other files are written.
            from webtraj.datasets.place import create_place
            from webtraj.store.layout import DatasetHeader

            create_place(self.out, DatasetHeader(format=written))
        storage = self._write_record()
        if self.source:
            storage.write(f"runs/{self.run_id}/{_SOURCE}", self.source.encode())
        return written

    def _write_record(self) -> Storage:
        storage = open_storage(self.out, self.storage_options)
        record = orjson.dumps(self._record(), option=orjson.OPT_INDENT_2)
        storage.write(f"runs/{self.run_id}/{RECORD}", record)
        return storage

    def _give_back_the_number(self, iterations: Iterations) -> None:
        """Release an iteration's number if this rollout did not even write a plan."""
        assert self.iteration is not None
        try:
            storage = open_storage(self.out, self.storage_options)
            if storage.size(f"runs/{self.run_id}/plan.jsonl") is None:
                for name in (_SOURCE, RECORD):
                    storage.delete(f"runs/{self.run_id}/{name}")
                iterations.release(self.iteration)
        except (errors.WebtrajError, OSError):
            _logger.warning(
                "Iteration %d stays claimed, although nothing was played.", self.iteration,
                exc_info=True,
            )  # fmt: skip

    def _warn_of_changes(self) -> None:
        """Warn if the agent differs from the one that started the run: their episodes will mix.

        A run without a record gets one, from which it can be resumed.
        """
        try:
            run = Run(open_storage(self.out, self.storage_options), self.run_id)
            begun = run.read_begun(RECORD)
            if begun is None:  # Started in Python.
                self._write_record()
                return
            before = configuration_lib.validate(begun, RunSpec, RECORD).record()
        except errors.InvalidInputError:
            return
        keys, now = (
            dict(configuration_lib.flattened(record)) for record in (before, self._record())
        )
        for key in sorted(set(keys) | set(now)):
            if key.startswith(_WHO_PLAYS) and keys.get(key) != now.get(key):
                _logger.warning(
                    "The run %s was started with %s=%s and now continues with %s.",
                    self.run_id, key, keys.get(key), now.get(key),
                )  # fmt: skip


def _read(source: str) -> dict[str, Any]:
    """Return a configuration's values. JSON can be read without OmegaConf, and can hold `${`."""
    try:
        data: dict[str, Any] = orjson.loads(source)
    except orjson.JSONDecodeError:
        data = configuration_lib.parse(source, "A configuration")
    return data


def blocklist_of(spec: RunSpec) -> Blocklist | None:
    """Return the list of sites that refused the agent; None if none is kept."""
    if spec.blocklist_path is None:
        return None
    return Blocklist(
        spec.blocklist_path,
        storage_options=spec.storage_options,
        ttl=spec.blocklist_ttl_hours * _HOUR,
    )
