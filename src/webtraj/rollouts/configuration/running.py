"""A configured rollout: play it, and resume it after a crash.

The source of each run is kept beside its plan, so that a dataset shows how it was made::

    <dataset>/runs/<run id>/config.yaml    a configuration
                            command.json   or the arguments of a command line
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import configuration as configuration_lib
from webtraj import errors
from webtraj.closing import aclose
from webtraj.metrics.facts import EpisodeFacts
from webtraj.metrics.live import MetricsObserver, MetricsTargets
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.configuration import players
from webtraj.rollouts.configuration.judges import Judging
from webtraj.rollouts.configuration.players import Player, Proposing
from webtraj.rollouts.judging import judge_rollout
from webtraj.rollouts.making import Browsers, check_environments, check_tasks
from webtraj.rollouts.recording import EpisodeFormat, settle_format
from webtraj.rollouts.results import (
    RolloutObserver,
    RolloutSummary,
    TeeRolloutObserver,
)
from webtraj.rollouts.sampling import Blocklist
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.iterations import Iterations
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult, Run, tries_of
from webtraj.runs.spec import RECORD, RunSpec
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.exploring.proposing import Proposed
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


_WHO_PLAYS = (
    "policy_config.", "context_config.", "model", "agent", "temperature", "max_tokens", "base_url",
    "provider",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredRollout:
    """A rollout, fully configured."""

    plan: tuple[PlannedEpisode, ...]
    """The whole plan; for a resumed run, including what was already played."""
    player: Player
    """The agent's recipe."""
    settings: RolloutSettings
    """Limits, order and retries."""
    out: str
    """The dataset: a folder or bucket URL."""
    run_id: str
    """The run's id."""
    resume: bool = False
    """Whether to resume an existing run."""
    seed: int = 0
    """The run's seed."""
    storage_options: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    """For a bucket."""
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """Options of the presets."""
    browsers: Browsers = dataclasses.field(default_factory=Browsers)
    """Browser settings. On a cluster each machine has its own browsers."""
    parallel: int | None = None
    """On a cluster: episodes to play at a time on all machines together; None for as many as they
    can bear."""
    setup: Callable[[], object] | None = None
    """On a cluster: called first on each machine."""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """On a cluster: environment variables to set on each machine."""
    blocklist: Blocklist | None = None
    """Receives the sites that refused the agent."""
    save_every_percent: float | None = None
    """Log progress each time that this many more percent are recorded."""
    verbose: bool = False
    """Whether to show details."""
    iteration: int | None = None
    """Number of the iteration, if there are iterations."""
    claimed: Iterations | None = None
    """Iterations in which this rollout claimed its number; released if nothing can start."""
    format: EpisodeFormat | None = None
    """Format of the episodes; None for the dataset's own, or `new_format` for a new dataset."""
    new_format: EpisodeFormat = "json"
    """Format of a new dataset, if `format` is None."""
    metrics: MetricsTargets = dataclasses.field(default_factory=MetricsTargets)
    """Destinations of live metrics."""
    ranked: bool = False
    """Whether this is one of several processes that share a plan."""
    judging: Judging | None = None
    """Recipe for the judge of the recorded episodes."""
    proposing: Proposing | None = None
    """Recipe for the proposer of further tasks."""
    source: str = ""
    """Source of the rollout, kept beside the plan."""
    source_name: str = "config.yaml"
    """Name of that file."""

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
                turn=self._turn(),
                observer=observer,
            )
        finally:
            await aclose(judge)

    async def propose(self) -> Proposed | None:
        """Propose tasks for episodes without proposals; None if there is no proposer.

        Raises:
            Exception: See `webtraj.exploring.propose`.
        """
        if self.proposing is None:
            return None
        return await self.proposing.propose(
            self.out, self.run_id, storage_options=self.storage_options
        )

    def _turn(self) -> Path | None:
        """Return the file that processes lock to judge one folder; None for a bucket."""
        if not self.ranked or is_url(self.out):
            return None
        return Path(f"{self.out}.judging")

    async def only_play(
        self, *, observer: RolloutObserver | None = None, ray: str | None = None
    ) -> RolloutSummary:
        """Play the remaining episodes, without judging or proposing. See `play`."""
        if ray is not None and self.ranked:
            raise errors.InvalidInputError(players.NOT_ON_RAY)
        if self.save_every_percent is not None:
            observer = TeeRolloutObserver(observer, Milestones(self.save_every_percent))
        try:
            async with contextlib.AsyncExitStack() as stack:
                for recipe in (self.judging, self.proposing):
                    if recipe is not None:  # Its errors show before anything is played.
                        await aclose(recipe.make())
                if self.metrics:
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
        agent = self.player.make()
        stack.push_async_callback(aclose, agent)
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
            parallel=self.parallel,
            browsers=self.browsers,
            setup=self.setup,
            variables=self.variables,
            **self._begin(observer),
        )

    def _begin(self, observer: RolloutObserver | None) -> dict[str, Any]:
        """Keep the source beside the plan, and return what `collect` takes on any machine."""
        return {
            "out": self.out,
            "storage_options": self.storage_options,
            "run_id": None if self.resume else self.run_id,
            "resume": self.run_id if self.resume else False,
            "seed": self.seed,
            "settings": self.settings,
            "environment_options": self.environment_options,
            "blocklist": self.blocklist,
            "observer": observer,
            "format": self._keep_source(),
        }

    def _open_metrics(self) -> MetricsObserver:
        config = dict(configuration_lib.flattened(_read(self.source)))
        return self.metrics.open(self.run_id, config=config, earlier=self._earlier())

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

    def _keep_source(self) -> EpisodeFormat | None:
        """Keep the configuration beside the plan. Return the format to record in."""
        if self.resume:
            self._warn_of_changes()
            return self.format
        written = settle_format(self.format, self.out, self.storage_options, new=self.new_format)
        if not is_url(self.out):  # A folder must become a dataset before other files are written.
            from webtraj.datasets.place import create_place
            from webtraj.store.layout import DatasetHeader

            create_place(self.out, DatasetHeader(format=written))
        storage = open_storage(self.out, self.storage_options)
        storage.write(f"runs/{self.run_id}/{self.source_name}", self.source.encode())
        return written

    def _give_back_the_number(self, iterations: Iterations) -> None:
        """Release an iteration's number if this rollout did not even write a plan."""
        assert self.iteration is not None
        try:
            storage = open_storage(self.out, self.storage_options)
            if storage.size(f"runs/{self.run_id}/plan.jsonl") is None:
                storage.delete(f"runs/{self.run_id}/{self.source_name}")
                iterations.release(self.iteration)
        except (errors.WebtrajError, OSError):
            _logger.warning(
                "Iteration %d stays claimed, although nothing was played.", self.iteration,
                exc_info=True,
            )  # fmt: skip

    def _keys(self, source: str) -> dict[str, Any]:
        """Return the values of a source by their dotted keys, as today's names have them."""
        data = _read(source)
        if self.source_name == RECORD:
            data = configuration_lib.validate(data, RunSpec, RECORD).record()
        return dict(configuration_lib.flattened(data))

    def _warn_of_changes(self) -> None:
        """Warn if the agent differs from the one that started the run: their episodes will mix."""
        storage = open_storage(self.out, self.storage_options)
        try:
            kept = storage.read(f"runs/{self.run_id}/{self.source_name}").decode()
            begun, now = self._keys(kept), self._keys(self.source)
        except (errors.StorageMissingError, errors.InvalidInputError):
            return  # Started another way; nothing to compare with.
        for key in sorted(set(begun) | set(now)):
            if key.startswith(_WHO_PLAYS) and begun.get(key) != now.get(key):
                _logger.warning(
                    "The run %s was started with %s=%s and now continues with %s.",
                    self.run_id, key, begun.get(key), now.get(key),
                )  # fmt: skip


def _read(source: str) -> Mapping[str, Any]:
    """Return a configuration's values. JSON can be read without optional packages."""
    try:
        data = orjson.loads(source)
    except orjson.JSONDecodeError:
        return configuration_lib.parse(source, "A configuration")
    return data if isinstance(data, dict) else {}
