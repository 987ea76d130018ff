"""Proposals of tasks for a dataset's episodes, made exactly once each, even after crashes.

Only episodes that ended by themselves get proposals. Those ended by an error, cancellation or crash
do not: resuming the run repeats them.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.datasets.place import map_in_order
from webtraj.environments.tasks import TaskSpec, spec_of_row
from webtraj.exploring.drafts import DUPLICATE, Proposer, Rejection, check_drafts, normal
from webtraj.exploring.seen import read_seen
from webtraj.runs.run import Run, tries_of
from webtraj.store import decoding, encoding, records
from webtraj.store.storage import Storage
from webtraj.trajectory import Decision, ModelCall, is_finished

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset
    from webtraj.store.index import EpisodeSummary

__all__ = ["ALL_EPISODES", "Proposals", "Proposed", "Record", "propose", "proposer_key"]

# Proposals, stored next to their episodes.
# In a folder or a bucket::
#
#     <dataset>/tasks/<run>/<proposer>/<episode id>.json   all that was proposed for one episode
#                           proposed-<proposer>.jsonl      the tasks, as `read_tasks` reads them
#                           rejected-<proposer>.jsonl      what became no task, and why
# `<proposer>` is the proposer's name and a digest of its settings, so another proposer, model or
# prompt proposes separately.
# An episode's file is written once and atomically. Resuming after a crash proposes for episodes
# without a file. The two other files are derived from all of these, in the order of the plan, and
# can be rewritten at any time. Of duplicate tasks, the first counts.

_VERSION = 1
_WORKERS = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,40}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The proposals for one episode."""

    episode_id: str
    tasks: tuple[TaskSpec, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    """All model calls for it."""


def proposer_key(proposer: Proposer, limit: int) -> str:
    """Return the name of the files of a proposer with this limit of tasks per episode.

    Raises:
        InvalidInputError: Its name is not a valid file name.
    """
    if not _NAME.fullmatch(proposer.name):
        raise errors.InvalidInputError(
            f"The proposer's name is {proposer.name!r:.100}; expected up to 41 letters, digits, -."
        )
    told = {
        "name": proposer.name,
        "version": proposer.version,
        "settings": dict(proposer.settings),
        "model": proposer.model,
        "prompt_sha256": proposer.prompt_sha256,
        "limit": limit,
    }
    digest = hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS, default=repr))
    return f"{proposer.name}-{digest.hexdigest()[:8]}"


@dataclasses.dataclass(frozen=True, slots=True)
class Proposals:
    """The files of one proposer for one run."""

    storage: Storage
    """The dataset."""
    run: str
    key: str
    """See `proposer_key`."""

    @property
    def tasks_key(self) -> str:
        """The key of the tasks' file."""
        return f"tasks/{self.run}/proposed-{self.key}.jsonl"

    @property
    def rejections_key(self) -> str:
        """The key of the rejections' file."""
        return f"tasks/{self.run}/rejected-{self.key}.jsonl"

    def find_done(self) -> set[str]:
        """Return the ids of the episodes with stored proposals.

        Raises:
            StorageError: The files cannot be listed.
        """
        names = (entry.key.rpartition("/")[2] for entry in self.storage.list(self._folder))
        return {name.removesuffix(".json") for name in names if name.endswith(".json")}

    def keep(self, record: Record) -> bool:
        """Write an episode's record once; return False if it already exists.

        Raises:
            StorageError: It cannot be written.
        """
        data, _ = encoding.dumps_fields(
            {
                "kind": "proposals",
                "version": _VERSION,
                "episode_id": record.episode_id,
                "tasks": [_row(task) for task in record.tasks],
                "rejections": [dataclasses.asdict(rejection) for rejection in record.rejections],
                "asked": Decision(model_calls=record.model_calls),
            }
        )
        try:
            self.storage.write(self._record_key(record.episode_id), data, overwrite=False)
        except errors.StorageConflictError:
            return False
        return True

    def read(self, episode_id: str) -> Record:
        """Return an episode's record.

        Raises:
            CorruptDataError: The record is damaged, or from a newer webtraj.
            StorageError: It cannot be read.
        """
        key = self._record_key(episode_id)
        content = self.storage.read(key)
        try:
            data = orjson.loads(content)
            if data["kind"] != "proposals" or data["version"] != _VERSION:
                raise ValueError(f"its kind is {data['kind']!r}, version {data['version']!r}")
            return Record(
                episode_id=data["episode_id"],
                tasks=tuple(spec_of_row(row) for row in decoding.decode(data["tasks"])),
                rejections=tuple(
                    records.read_object(Rejection, rejection) for rejection in data["rejections"]
                ),
                model_calls=records.decode_record(Decision, data["asked"]).model_calls,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.CorruptDataError(
                f"{self.storage.url}: {key} is not a record of proposals that webtraj can read "
                f"({error}). Delete it to propose for its episode again."
            ) from error

    def publish(self, episode_ids: Sequence[str]) -> tuple[list[TaskSpec], list[dict[str, Any]]]:
        """Write both files from all episodes with a record, in the given order.

        Returns:
            The tasks, and the rows of the rejections.

        Raises:
            CorruptDataError: A record is damaged.
            StorageError: The files cannot be read or written.
        """
        done = self.find_done()
        kept = [episode_id for episode_id in episode_ids if episode_id in done]
        tasks, rejected = _join(map_in_order(self.read, kept, workers=_WORKERS))
        self.storage.write(self.rejections_key, _lines(rejected))
        self.storage.write(self.tasks_key, _lines(map(_row, tasks)))
        return tasks, rejected

    @property
    def _folder(self) -> str:
        return f"tasks/{self.run}/{self.key}/"

    def _record_key(self, episode_id: str) -> str:
        return f"{self._folder}{episode_id}.json"


def _join(found: Iterator[Record]) -> tuple[list[TaskSpec], list[dict[str, Any]]]:
    """Return the distinct tasks of records, and the rejections."""
    tasks: dict[tuple[str, str], TaskSpec] = {}
    rejected: list[dict[str, Any]] = []
    for record in found:
        rejected += (_rejection_data(record, rejection) for rejection in record.rejections)
        for task in record.tasks:
            same = (task.site, normal(task.goal))
            if same in tasks:
                rejected.append(_rejection_data(record, Rejection(DUPLICATE, _row(task))))
            else:
                tasks[same] = task
    return list(tasks.values()), rejected


def _rejection_data(record: Record, rejection: Rejection) -> dict[str, Any]:
    return {"episode_id": record.episode_id, **dataclasses.asdict(rejection)}


def _row(task: TaskSpec) -> dict[str, Any]:
    """Return a task's row as plain JSON data, with lists instead of tuples."""
    row: dict[str, Any] = orjson.loads(orjson.dumps(task.to_data()))
    return row


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(encoding.dumps(row)[0] + b"\n" for row in rows)


ALL_EPISODES = "all"
"""The run's name in files, for a dataset that was not made by runs."""

_FAILURES_IN_A_ROW = 10
_NO_PAGE = "no page was recorded: the observations have no channel url"
_NOTHING = "nothing was proposed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The result of proposing."""

    place: str
    """The dataset, without credentials."""
    tasks_key: str
    """The key of the tasks' file: `tasks/<run>/proposed-<proposer>.jsonl`."""
    rejections_key: str
    """The key of the rejections' file."""
    tasks: tuple[TaskSpec, ...]
    """All tasks of the run, those of earlier calls included."""
    rejections: Mapping[str, int]
    """The number of rejections by reason, including episodes without any task."""
    episodes: int
    """The total number of episodes with proposals."""
    new: int = 0
    """The number of those from this call."""
    unfinished: int = 0
    """Episodes skipped because they did not end by themselves."""
    failures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Why proposing failed for some episodes, by id. Calling again retries them."""

    @property
    def tasks_place(self) -> str:
        """The place of the tasks' file, as `read_tasks` takes it."""
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
    """Propose tasks for the episodes of a dataset without proposals from this proposer.

    Each episode's proposals are stored at once; the tasks' file is written at the end.

    Args:
        place: The dataset's folder, or its URL.
        proposer: The proposer. It is not closed.
        run: The run; by default the latest, or all episodes of a dataset without runs.
        proposals: The maximum number of tasks per episode.
        parallel: The number of episodes to propose for at once.
        storage_options: Options for a bucket, as `webtraj.store.open_storage` takes them.
        on_episode: A callback for each new record.

    Raises:
        InvalidInputError: An argument is wrong, or the run does not exist.
        NotADatasetError: There is no dataset.
        StorageError: It cannot be read or written.
        ModelError: The model failed for ten episodes in a row. What was proposed is kept.
    """
    for name, value in (("proposals", proposals), ("parallel", parallel)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise errors.InvalidInputError(f"{name} is {value!r}; expected a whole number from 1.")
    dataset, run_id, summaries = await asyncio.to_thread(_open, place, run, storage_options)
    finished = [one.episode_id for one in summaries if is_finished(one.outcome, one.end_reason)]
    files = Proposals(dataset.place.storage, run_id, proposer_key(proposer, proposals))
    done = await asyncio.to_thread(files.find_done)
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
    """Proposing for the remaining episodes, a few at a time."""

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
        seen = await asyncio.to_thread(read_seen, trajectory)
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
    """Return the dataset, the run's name, and its episodes in the order of its plan."""
    from webtraj.datasets.dataset import open_dataset

    dataset = open_dataset(place, blobs="lazy", storage_options=storage_options)
    storage = dataset.place.storage
    if run is None:
        plans = (entry.key for entry in storage.list("runs/"))
        if not any(key.endswith("/plan.jsonl") for key in plans):
            return dataset, ALL_EPISODES, list(dataset.summaries)
        run = Run.last(storage).run_id
    found = Run(storage, run)
    tries = list(tries_of(found, found.read_plan(), dataset.summaries))
    tries.sort(key=lambda played: (played[0].row, played[1]))
    return dataset, run, [summary for _, _, summary in tries]
