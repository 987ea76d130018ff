"""Proposing tasks for the episodes of a dataset, each once, whatever dies meanwhile.

Episodes that ended by themselves are proposed for. Those that an error, a cancellation or a death
ended are not: a run that is gone on with plays them again.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.exploring.base import Proposer, Rejection
from webtraj.exploring.checking import check_drafts
from webtraj.exploring.records import Proposals, Record, proposer_key
from webtraj.exploring.seen import seen_in
from webtraj.rollouts.runs import Run
from webtraj.rollouts.tasks.spec import TaskSpec
from webtraj.trajectory import EndReason

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset
    from webtraj.store.index import EpisodeSummary

__all__ = ["ALL_EPISODES", "Proposed", "propose"]

ALL_EPISODES = "all"
"""What stands for a run in the files of a dataset that was not made by runs."""

_FINISHED = (EndReason.TERMINATED, EndReason.TRUNCATED)
_FAILURES_IN_A_ROW = 10
_NO_PAGE = "no page was recorded: the observations have no channel url"
_NOTHING = "nothing was proposed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What came of proposing."""

    place: str
    """The dataset, without credentials."""
    tasks_key: str
    """Where the tasks are in it: `tasks/<run>/proposed-<proposer>.jsonl`."""
    rejections_key: str
    """And what became none."""
    tasks: tuple[TaskSpec, ...]
    """All tasks of the run, those of earlier calls included."""
    rejections: Mapping[str, int]
    """How often each reason kept a proposal from becoming a task, or an episode from having any."""
    episodes: int
    """How many episodes have been proposed for, in all."""
    new: int = 0
    """And how many of them by this call."""
    unfinished: int = 0
    """Episodes that did not end by themselves, and so were left out."""
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Why some episodes could not be proposed for, by id. To call again tries them again."""

    @property
    def tasks_place(self) -> str:
        """The tasks' file: what `read_tasks` takes."""
        return f"{self.place.rstrip('/')}/{self.tasks_key}"


async def propose(
    place: str | os.PathLike[str],
    proposer: Proposer,
    *,
    run: str | None = None,
    proposals: int = 3,
    parallel: int = 4,
    storage_options: Mapping[str, Any] | None = None,
    on_episode: Callable[[Record], None] | None = None,
) -> Proposed:
    """Proposes tasks for the episodes of a dataset that have none yet from this proposer.

    Each episode's proposals are on disk before the next is asked for; the tasks' file is written
    when there is nothing left to ask (`webtraj.exploring.records`).

    Args:
        place: The dataset's folder, or its URL.
        proposer: Who proposes. It is left open.
        run: Whose episodes; by default the latest run's, or all of a dataset without runs.
        proposals: How many tasks an episode may give.
        parallel: How many episodes are asked for at once.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        on_episode: Is called with each record that is new.

    Raises:
        InvalidInputError: An argument is wrong, or there is no such run.
        NotADatasetError: There is no dataset.
        StorageError: It cannot be read or written.
        ModelError: The model failed for ten episodes in a row. What was proposed is kept.
    """
    for name, value in (("proposals", proposals), ("parallel", parallel)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise errors.InvalidInputError(f"{name} is a whole number of 1 or more; got {value!r}.")
    dataset, run_id, summaries = await asyncio.to_thread(_open, place, run, storage_options)
    finished = [summary.episode_id for summary in summaries if summary.end_reason in _FINISHED]
    files = Proposals(dataset.place.storage, run_id, proposer_key(proposer, proposals))
    done = await asyncio.to_thread(files.done)
    left = [episode_id for episode_id in finished if episode_id not in done]
    asking = _Asking(dataset, files, proposer, proposals, on_episode)
    await asking.all(left, parallel)
    tasks, rejected = await asyncio.to_thread(files.publish, finished)
    return Proposed(
        place=dataset.url,
        tasks_key=files.tasks_key,
        rejections_key=files.rejections_key,
        tasks=tuple(tasks),
        rejections=dict(collections.Counter(row["reason"] for row in rejected).most_common()),
        episodes=len(finished) - len(asking.failures),
        new=asking.new,
        unfinished=len(summaries) - len(finished),
        failures=asking.failures,
    )


@dataclasses.dataclass(slots=True)
class _Asking:
    """Proposing for what is left, a few at a time."""

    dataset: Dataset
    files: Proposals
    proposer: Proposer
    limit: int
    on_episode: Callable[[Record], None] | None
    new: int = 0
    failures: dict[str, str] = dataclasses.field(default_factory=dict)
    failures_in_a_row: int = 0

    async def all(self, episode_ids: Sequence[str], parallel: int) -> None:
        waiting = iter(episode_ids)

        async def work() -> None:
            for episode_id in waiting:
                await self.one(episode_id)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(parallel, len(episode_ids))):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def one(self, episode_id: str) -> None:
        try:
            record = await self._record(episode_id)
        except (errors.ModelError, errors.CorruptDataError) as error:
            self.failures[episode_id] = f"{type(error).__name__}: {error}"
            self.failures_in_a_row += 1
            if self.failures_in_a_row >= _FAILURES_IN_A_ROW:
                raise
            return
        self.failures_in_a_row = 0
        if await asyncio.to_thread(self.files.keep, record):
            self.new += 1
            if self.on_episode is not None:
                self.on_episode(record)

    async def _record(self, episode_id: str) -> Record:
        trajectory = await asyncio.to_thread(self.dataset.__getitem__, episode_id)
        seen = await asyncio.to_thread(seen_in, trajectory)
        if not seen.sights:
            return Record(episode_id=episode_id, rejections=(Rejection(_NO_PAGE, None),))
        drafts = await self.proposer.propose(seen, self.limit)
        provenance = {
            "run": self.files.run,
            "policy": trajectory.info.policy,
            "proposer": self.proposer.name,
            "proposer_version": self.proposer.version,
            "model": self.proposer.model,
            "prompt_sha256": self.proposer.prompt_sha256,
        }
        tasks, rejections = check_drafts(
            drafts.drafts, seen, limit=self.limit, provenance=provenance
        )
        rejections = (*drafts.rejections, *rejections)
        if not tasks and not rejections:
            rejections = (Rejection(_NOTHING, None),)
        return Record(
            episode_id=episode_id,
            tasks=tasks,
            rejections=rejections,
            model_calls=drafts.model_calls,
        )


def _open(
    place: str | os.PathLike[str], run: str | None, storage_options: Mapping[str, Any] | None
) -> tuple[Dataset, str, list[EpisodeSummary]]:
    """Returns the dataset, the run's name, and its episodes in the order of its plan."""
    from webtraj.datasets.dataset import open_dataset

    dataset = open_dataset(place, blobs="lazy", storage_options=storage_options)
    storage = dataset.place.storage
    if run is None:
        plans = (entry.key for entry in storage.list("runs/"))
        if not any(key.endswith("/plan.jsonl") for key in plans):
            return dataset, ALL_EPISODES, list(dataset.summaries)
        run = Run.last(storage).run_id
    found = Run(storage, run)
    found.read_plan()
    places = {
        summary.episode_id: played
        for summary in dataset.summaries
        if (played := found.place_of(summary.episode_id)) is not None
    }
    ours = [summary for summary in dataset.summaries if summary.episode_id in places]
    return dataset, run, sorted(ours, key=lambda summary: places[summary.episode_id])
