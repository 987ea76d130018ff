"""A rollout that has been configured: playing it, and going on with it after any death.

Beside the plan of each run lies what it was made from::

    <dataset>/runs/<run id>/config.yaml    a configuration
                            command.json   or what a command line said

so that a dataset says how it came about.
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
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.configuration import players
from webtraj.rollouts.configuration.judges import Judging, close_judge
from webtraj.rollouts.configuration.players import Player, Proposing
from webtraj.rollouts.iterations import Iterations
from webtraj.rollouts.judging import Judged, judge_rollout, judged_place
from webtraj.rollouts.making import Browsers, check_environments, check_tasks
from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.rollouts.metrics.live import MetricsObserver, MetricsTargets
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.recording import EpisodeFormat, settle_format
from webtraj.rollouts.results import (
    EpisodeResult,
    NullRolloutObserver,
    RolloutObserver,
    RolloutSummary,
    TeeRolloutObserver,
)
from webtraj.rollouts.runs import Run
from webtraj.rollouts.sampling import Blocklist
from webtraj.rollouts.settings import RolloutSettings
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.exploring.proposing import Proposed

__all__ = ["ConfiguredRollout", "Milestones", "keep_source"]

# Milestones: a line each time that so many percent more of a rollout are on record.

_logger = logging.getLogger(__name__)


class Milestones:
    """Tells how far a rollout is, and hands on what it is told to another observer.

    A row that is tried several times counts once: when its first try has ended.
    """

    def __init__(
        self,
        percent: float,
        observer: RolloutObserver | None = None,
        *,
        tell: Callable[[str], None] = _logger.info,
    ) -> None:
        self._percent = percent
        self._observer = observer or NullRolloutObserver()
        self._tell = tell
        self._rows = 0
        self._begun: set[int] = set()
        self._told = 0
        self._outcomes: collections.Counter[str] = collections.Counter()

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Begins to count."""
        self._rows = len(plan)
        self._observer.rollout_planned(plan)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Counts, and tells if there is something to tell."""
        self._observer.episode_ended(result)
        self._outcomes[result.outcome.name.lower()] += 1
        self._begun.add(result.row)
        # Whole steps of so many percent that have been taken, without the errors of floats.
        steps = int(len(self._begun) * 100 / self._rows / self._percent + 1e-9)
        if steps > self._told:
            self._told = steps
            counts = ", ".join(f"{name} {count}" for name, count in self._outcomes.most_common())
            self._tell(
                f"{len(self._begun) / self._rows:.0%} of what was left to play is on record: "
                f"{len(self._begun)} of {self._rows} episodes ({counts})."
            )


_WHO_PLAYS = ("policy_config.", "context_config.", "model_config.", "agent", "temperature")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredRollout:
    """Everything that a configuration says of a rollout."""

    plan: tuple[PlannedEpisode, ...]
    """What is played; on a resumed run all of it, also what has been played already."""
    player: Player
    """Who plays."""
    settings: RolloutSettings
    """How."""
    out: str
    """The dataset: a folder, or a bucket's URL."""
    run_id: str
    """The run's name."""
    resume: bool = False
    """Whether the run is there already, and is gone on with."""
    seed: int = 0
    """The run's seed."""
    storage_options: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    """For a bucket."""
    environment_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """For the presets."""
    browsers: Browsers = dataclasses.field(default_factory=Browsers)
    """What pages come from, if any are needed. On a cluster each machine has its own."""
    parallel: int | None = None
    """On a cluster: how many episodes are played at once on all machines together; None for as many
    as they can."""
    blocklist: Blocklist | None = None
    """Takes the sites that refused the agent."""
    save_every_percent: float | None = None
    """A line is logged each time that so many percent more are on record."""
    verbose: bool = False
    """Whether details are asked for; whoever shows anything goes by it."""
    iteration: int | None = None
    """The iteration's number, where there are iterations."""
    claimed: Iterations | None = None
    """Where that number was taken for this rollout alone; it goes back if nothing can be begun."""
    format: EpisodeFormat | None = None
    """The format of episodes; None for that of the dataset, or `new_format` where it is new."""
    new_format: EpisodeFormat = "json"
    """The format of a new dataset, where `format` is None."""
    metrics: MetricsTargets = dataclasses.field(default_factory=MetricsTargets)
    """Where live metrics go."""
    ranked: bool = False
    """Whether this is one of several processes, each of which plays its share of one plan."""
    judging: Judging | None = None
    """Who judges what was recorded, when all is played."""
    judged_out: str | None = None
    """Where the judged dataset goes; by default `webtraj.rollouts.judging.judged_place(out)`."""
    proposing: Proposing | None = None
    """Who proposes tasks for what was seen, when all is played."""
    source: str = ""
    """What it was made from; kept beside the plan,"""
    source_name: str = "config.yaml"
    """in a file of this name."""

    async def play(
        self, *, observer: RolloutObserver | None = None, ray: str | None = None
    ) -> RolloutSummary:
        """Plays the rollout, or what is left of it; then judges and proposes, as it says.

        Args:
            observer: Is told what happens.
            ray: The address of a Ray cluster to play on; None for this machine. Judging and
                proposing are done here in any case.

        Returns:
            Every result, those of a resumed run's earlier episodes included.

        Raises:
            Exception: What `webtraj.rollouts.collect` and `webtraj.exploring.propose` raise.
        """
        summary = await self.only_play(observer=observer, ray=ray)
        judged, proposed = await self.judge(), await self.propose()
        return dataclasses.replace(summary, judged=judged, proposed=proposed)

    async def judge(self, observer: Callable[[int, int], None] | None = None) -> Judged | None:
        """Judges what is on record and has not been judged; None if nobody is to judge.

        Args:
            observer: Is called with how many episodes are judged, and of how many.

        Raises:
            InvalidInputError: There can be no such judge.
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
                to=self.judged_out,
                when=self.judging.when,
                parallel=self.judging.parallel,
                storage_options=self.storage_options,
                blocklist=self.blocklist,
                turn=self._turn(),
                observer=observer,
            )
        finally:
            await close_judge(judge)

    async def propose(self) -> Proposed | None:
        """Proposes for what is on record and has no proposals; None if nobody is to propose.

        Raises:
            Exception: What `webtraj.exploring.propose` raises.
        """
        if self.proposing is None:
            return None
        return await self.proposing.propose(
            self.out, self.run_id, storage_options=self.storage_options
        )

    def _turn(self) -> Path | None:
        """Returns what processes that judge into one folder lock. A bucket needs none."""
        if not self.ranked or self.judged_out is None or is_url(self.judged_out):
            return None
        return Path(f"{self.judged_out}.lock")

    async def only_play(
        self, *, observer: RolloutObserver | None = None, ray: str | None = None
    ) -> RolloutSummary:
        """Plays the rollout, or what is left of it, and leaves it at that. See `play`."""
        if ray is not None and self.ranked:
            raise errors.InvalidInputError(players.NOT_ON_RAY)
        if self.save_every_percent is not None:
            observer = Milestones(self.save_every_percent, observer)
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._check_what_follows()
                if self.metrics:
                    live = await asyncio.to_thread(self._open_metrics)
                    stack.push_async_callback(asyncio.to_thread, live.close)
                    observer = live if observer is None else TeeRolloutObserver(observer, live)
                if ray is not None:
                    return await self._play_on_ray(ray, observer)
                return await self._play_here(observer, stack)
        except BaseException:
            if self.claimed is not None:
                await asyncio.to_thread(self._give_back_the_number, self.claimed)
            raise

    async def _check_what_follows(self) -> None:
        """Finds out what is wrong with judge and proposer before anything is played."""
        if self.judging is not None:
            await self.judging.check()
            if self.judged_out is None:
                judged_place(self.out)
        if self.proposing is not None:
            await self.proposing.check_options()

    async def _play_here(
        self, observer: RolloutObserver | None, stack: contextlib.AsyncExitStack
    ) -> RolloutSummary:
        agent = self.player.make()
        if (close := getattr(agent, "aclose", None)) is not None:
            stack.push_async_callback(close)
        pool = None
        if any(planned.selection.uses_browser for planned in self.plan):
            # Without a browser nothing is begun.
            executable = await asyncio.to_thread(self.browsers.find)
            pool = self.browsers.open(self.settings.parallel, executable)
            await stack.enter_async_context(pool)
        if not self.resume:  # A plan that cannot be played could not be gone on with either.
            await check_environments(self.plan, self.environment_options)
            await check_tasks(self.plan, agent, self.environment_options)
        written = self._keep_source()
        return await collect(
            self.plan,
            agent,
            out=self.out,
            storage_options=self.storage_options,
            run_id=None if self.resume else self.run_id,
            resume=self.run_id if self.resume else False,
            seed=self.seed,
            settings=self.settings,
            environment_options=self.environment_options,
            browser_pool=pool,
            blocklist=self.blocklist,
            observer=observer,
            format=written,
        )

    async def _play_on_ray(self, address: str, observer: RolloutObserver | None) -> RolloutSummary:
        from webtraj.rollouts.distributed import collect_on_ray

        if not self.resume:
            await check_environments(self.plan, self.environment_options, elsewhere=True)
        written = self._keep_source()
        return await collect_on_ray(
            self.plan,
            self.player if self.player.explores else self.player.name,
            agent_options=None if self.player.explores else self.player.options,
            address=address,
            parallel=self.parallel,
            out=self.out,
            storage_options=self.storage_options,
            run_id=None if self.resume else self.run_id,
            resume=self.run_id if self.resume else False,
            seed=self.seed,
            settings=self.settings,
            environment_options=self.environment_options,
            browsers=self.browsers,
            blocklist=self.blocklist,
            observer=observer,
            format=written,
        )

    def _open_metrics(self) -> MetricsObserver:
        config = dict(configuration_lib.flattened(_read(self.source)))
        return self.metrics.open(self.run_id, config=config, earlier=self._earlier())

    def _earlier(self) -> Iterator[EpisodeFacts]:
        """Yields the run's episodes that are on record already."""
        if not self.resume:
            return
        from webtraj.datasets.dataset import open_dataset

        try:
            summaries = open_dataset(self.out, storage_options=self.storage_options).summaries
        except errors.NotADatasetError:
            return  # No episode has come there yet.
        run = Run(open_storage(self.out, self.storage_options), self.run_id)
        for summary in summaries:
            place = run.place_of(summary.episode_id)
            if place is not None and place[0] < len(self.plan):
                planned, number = self.plan[place[0]], place[1]
                yield EpisodeFacts.of_result(EpisodeResult.of_summary(summary, planned, number))

    def _keep_source(self) -> EpisodeFormat | None:
        """Keep the configuration beside the plan. Return the format to record in."""
        if self.resume:
            self._warn_of_changes()
            return self.format
        written = settle_format(self.format, self.out, self.storage_options, new=self.new_format)
        keep_source(
            self.out, self.storage_options, self.run_id, self.source_name, self.source, written
        )
        return written

    def _give_back_the_number(self, iterations: Iterations) -> None:
        """Leaves an iteration's number to the next rollout, if this one was not even planned."""
        assert self.iteration is not None
        try:
            storage = open_storage(self.out, self.storage_options)
            if storage.size(f"runs/{self.run_id}/plan.jsonl") is None:
                storage.delete(f"runs/{self.run_id}/{self.source_name}")
                iterations.release(self.iteration)
        except (errors.WebtrajError, OSError):
            _logger.warning(
                "The iteration %d stays claimed, though nothing was played.", self.iteration,
                exc_info=True,
            )  # fmt: skip

    def _warn_of_changes(self) -> None:
        """Logs in what the agent differs from that which began the run: their episodes will mix."""
        storage = open_storage(self.out, self.storage_options)
        try:
            kept = storage.read(f"runs/{self.run_id}/{self.source_name}").decode()
            begun, now = (
                dict(configuration_lib.flattened(_read(text))) for text in (kept, self.source)
            )
        except (errors.StorageMissingError, errors.InvalidInputError):
            return  # Begun otherwise, or by hand: there is nothing to compare with.
        for key in sorted(set(begun) | set(now)):
            if key.startswith(_WHO_PLAYS) and begun.get(key) != now.get(key):
                _logger.warning(
                    "The run %s was begun with %s=%s, and goes on with %s.",
                    self.run_id, key, begun.get(key), now.get(key),
                )  # fmt: skip


def _read(source: str) -> Mapping[str, Any]:
    """Returns what a configuration says. One that is JSON needs no package to be read."""
    try:
        data = orjson.loads(source)
    except orjson.JSONDecodeError:
        return configuration_lib.parse(source, "A configuration")
    return data if isinstance(data, dict) else {}


def keep_source(
    out: str,
    storage_options: Mapping[str, Any] | None,
    run_id: str,
    name: str,
    content: str,
    format_name: str = "json",
) -> None:
    """Keeps what a run was made from beside its plan, which is yet to be written.

    Raises:
        CollectorError: The dataset's folder cannot be written.
        NotADatasetError: It holds other things.
        StorageError: The bucket cannot be written.
    """
    if not is_url(out):  # A folder has to be a dataset before there is anything else in it.
        from webtraj.store.layout import DatasetHeader, DatasetLayout

        layout = DatasetLayout(Path(out))
        if not layout.header.exists():
            layout.create(DatasetHeader(format=format_name))
    storage = open_storage(out, storage_options)
    storage.write(f"runs/{run_id}/{name}", content.encode())
