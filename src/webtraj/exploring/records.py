"""What was proposed, kept beside the episodes that it came from.

In a folder or a bucket alike::

    <dataset>/tasks/<run>/<proposer>/<episode id>.json   all that was proposed for one episode
                          proposed-<proposer>.jsonl      the tasks, as `read_tasks` reads them
                          rejected-<proposer>.jsonl      what became no task, and why

`<proposer>` is a proposer's name and a digest of what it was told; so another one, or the same with
another model or prompt, proposes anew and beside.

An episode's file is written once, whole or not at all, and never again: who goes on after a death
proposes for those episodes that have none. The two others follow from all of those, in the order of
the plan, and may be written any number of times. Of tasks that say the same the first one counts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from webtraj import errors
from webtraj.datasets.parallel import map_in_order
from webtraj.exploring.base import Proposer, Rejection
from webtraj.exploring.checking import DUPLICATE, normal
from webtraj.rollouts.tasks.rows import spec_of_row
from webtraj.rollouts.tasks.spec import TaskSpec
from webtraj.store import decoding, encoding, records
from webtraj.store.places import Storage
from webtraj.trajectory import Decision, ModelCall

__all__ = ["Proposals", "Record", "proposer_key"]

_VERSION = 1
_WORKERS = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,40}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was proposed for one episode."""

    episode_id: str
    tasks: tuple[TaskSpec, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()
    """All that a model was asked for it."""


def proposer_key(proposer: Proposer, limit: int) -> str:
    """Returns what files call a proposer that is asked for so many tasks an episode.

    Raises:
        InvalidInputError: Its name is none that a file can have.
    """
    if not _NAME.fullmatch(proposer.name):
        raise errors.InvalidInputError(
            f"A proposer's name is letters, digits and '-', up to 41; got {proposer.name!r:.100}."
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
        """The key of the file of what became no task."""
        return f"tasks/{self.run}/rejected-{self.key}.jsonl"

    def done(self) -> set[str]:
        """Returns the ids of the episodes that have their proposals.

        Raises:
            StorageError: They cannot be listed.
        """
        names = (entry.key.rpartition("/")[2] for entry in self.storage.list(self._folder))
        return {name.removesuffix(".json") for name in names if name.endswith(".json")}

    def keep(self, record: Record) -> bool:
        """Writes an episode's record, for good; returns False if somebody else was first.

        Raises:
            StorageError: It cannot be written.
        """
        data, _ = records.dumps_fields(
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
        """Returns an episode's record.

        Raises:
            CorruptDataError: It is damaged, or from a newer webtraj.
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
                f"{self.storage.url}: {key} is no record of proposals that this webtraj reads "
                f"({error}). Delete it to have its episode proposed for again."
            ) from error

    def publish(self, episode_ids: Sequence[str]) -> tuple[list[TaskSpec], list[dict[str, Any]]]:
        """Writes both files, of all episodes that have a record, in the order given.

        Returns:
            The tasks, and the rows of what became none.

        Raises:
            CorruptDataError: A record is damaged.
            StorageError: They cannot be read or written.
        """
        done = self.done()
        kept = [episode_id for episode_id in episode_ids if episode_id in done]
        tasks, rejected = _joined(map_in_order(self.read, kept, workers=_WORKERS))
        self.storage.write(self.rejections_key, _lines(rejected))
        self.storage.write(self.tasks_key, _lines(map(_row, tasks)))
        return tasks, rejected

    @property
    def _folder(self) -> str:
        return f"tasks/{self.run}/{self.key}/"

    def _record_key(self, episode_id: str) -> str:
        return f"{self._folder}{episode_id}.json"


def _joined(found: Iterator[Record]) -> tuple[list[TaskSpec], list[dict[str, Any]]]:
    """Returns the tasks of records, each once, and what became none."""
    tasks: dict[tuple[str, str], TaskSpec] = {}
    rejected: list[dict[str, Any]] = []
    for record in found:
        rejected += (_rejected(record, rejection) for rejection in record.rejections)
        for task in record.tasks:
            same = (task.site, normal(task.goal))
            if same in tasks:
                rejected.append(_rejected(record, Rejection(DUPLICATE, _row(task))))
            else:
                tasks[same] = task
    return list(tasks.values()), rejected


def _rejected(record: Record, rejection: Rejection) -> dict[str, Any]:
    return {"episode_id": record.episode_id, **dataclasses.asdict(rejection)}


def _row(task: TaskSpec) -> dict[str, Any]:
    """Returns a task's row as plain JSON data, lists for tuples."""
    row: dict[str, Any] = orjson.loads(orjson.dumps(task.to_data()))
    return row


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(encoding.dumps(row)[0] + b"\n" for row in rows)
