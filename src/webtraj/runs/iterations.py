"""Iterations: consecutive rollouts, each with a dataset of its own, side by side.

::

    <save_path>/train_trajectories/iteration_0001/       a dataset (see `store.layout`)
                                   iteration_0002/
                                   claims/0001.json      who started it, and when
                                   claims/0002.json
                                   plans/0001-<digest>.jsonl  a plan that several processes share
    <save_path>/test_trajectories/iteration_0001/

A rollout claims an iteration's number with a file that is never overwritten. So two rollouts that
start at the same moment get different numbers, and the numbers in a bucket are known without
listing everything in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson

import webtraj
from webtraj import errors
from webtraj.runs.plan import PlannedEpisode, plan_from_bytes, plan_to_bytes
from webtraj.runs.run import EpisodeResult, RetryPolicy, Run, progress_of, run_ids
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import HEADER
from webtraj.store.places import is_url, open_storage
from webtraj.store.storage import Storage

__all__ = ["Iterations", "Split"]

Split = Literal["train", "test"]

_CLAIMS = "claims/"
_CLAIM = re.compile(r"claims/(\d{4,})\.json")
_FOLDER = re.compile(r"iteration_(\d{4,})")


@dataclasses.dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one split."""

    save_path: str
    """Folder or bucket URL of both splits."""
    split: Split
    """Train or test."""
    storage_options: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)
    """For a bucket, as `webtraj.store.open_storage` takes them."""

    @property
    def place(self) -> str:
        """Folder or bucket URL of this split.

        >>> Iterations("runs", "test").place
        'runs/test_trajectories'
        """
        return f"{self.save_path.rstrip('/') or '/'}/{self.split}_trajectories".replace("///", "//")

    def dataset(self, number: int) -> str:
        """Return the place of an iteration's dataset.

        >>> Iterations("s3://bucket/runs", "train").dataset(3)
        's3://bucket/runs/train_trajectories/iteration_0003'
        """
        return f"{self.place}/iteration_{number:04d}"

    def numbers(self) -> tuple[int, ...]:
        """Return the existing iteration numbers, in order.

        Raises:
            StorageError: The place cannot be read.
        """
        claimed = (_CLAIM.fullmatch(entry.key) for entry in self._storage().list(_CLAIMS))
        numbers = {int(match[1]) for match in claimed if match is not None}
        if not is_url(self.place):  # Folders without a claim, such as from an import.
            with contextlib.suppress(FileNotFoundError):
                names = [path.name for path in Path(self.place).iterdir()]
                numbers |= {int(match[1]) for match in map(_FOLDER.fullmatch, names) if match}
        return tuple(sorted(numbers))

    def claim(self, number: int | None = None) -> int:
        """Claim an iteration's number.

        Args:
            number: The number to claim, even if it is taken; None for the next free one.

        Returns:
            The number.

        Raises:
            StorageError: The claim cannot be written.
        """
        storage = self._storage()
        wanted = max(self.numbers(), default=0) + 1 if number is None else number
        while True:
            about = {"iteration": wanted, "split": self.split, "time": time.time()}
            content = orjson.dumps({**about, "webtraj_version": webtraj.__version__})
            try:
                storage.write(f"{_CLAIMS}{wanted:04d}.json", content, overwrite=False)
            except errors.StorageConflictError:
                if number is None:
                    wanted += 1
                    continue
            return wanted

    def release(self, number: int) -> bool:
        """Release a number if it is unused; return whether it was released.

        A folder that holds only a dataset's header is removed. A folder that holds anything else
        stays and keeps its number.

        Raises:
            OSError: The folder cannot be removed.
            StorageError: The claim cannot be removed.
        """
        place = self.dataset(number)
        if any(entry.key != HEADER for entry in open_storage(place, self.storage_options).list()):
            return False
        if not is_url(place):
            _remove_bare(Path(place))
        self._storage().delete(f"{_CLAIMS}{number:04d}.json")
        return True

    def share_plan(
        self, number: int, digest: str, plan: Sequence[PlannedEpisode], *, seed: int
    ) -> tuple[PlannedEpisode, ...]:
        """Return the plan that all processes of an iteration share: the first one written.

        Args:
            number: The iteration's number.
            digest: Distinguishes plans for different purposes: up to 64 letters and digits.
            plan: The plan to share if none exists yet.
            seed: The plan's seed.

        Raises:
            InvalidInputError: The existing plan is damaged.
            StorageError: The plan cannot be read or written.
        """
        storage, key = self._storage(), f"plans/{number:04d}-{digest}.jsonl"
        try:
            storage.write(key, plan_to_bytes(plan, seed=seed), overwrite=False)
        except errors.StorageConflictError:
            return plan_from_bytes(storage.read(key), f"{self.place}/{key}")
        return tuple(plan)

    def find_played(self, before: int) -> frozenset[str]:
        """Return the names of the tasks that were completed before an iteration.

        Tasks that were only planned, or only ended in infrastructure failures, are not included.

        Raises:
            DatasetError: An iteration's dataset cannot be read.
            StorageError: Likewise.
        """
        return frozenset(
            result.task
            for number in self.numbers()
            if number < before
            for result in self.results(number)
            if result.counts
        )

    def results(self, number: int) -> Iterator[EpisodeResult]:
        """Yield the result of every played row of an iteration, under its planned task.

        Judges' verdicts take precedence over the recorded outcomes.

        Raises:
            DatasetError: The iteration's dataset cannot be read.
            StorageError: Likewise.
        """
        from webtraj.datasets.dataset import open_dataset

        summaries: dict[str, EpisodeSummary] = {}
        place = self.dataset(number)
        with contextlib.suppress(errors.NotADatasetError):  # It was only claimed.
            dataset = open_dataset(place, storage_options=self.storage_options)
            summaries = {each.episode_id: each for each in dataset.summaries}
        storage = open_storage(place, self.storage_options)
        for run_id in run_ids(storage):
            run = Run(storage, run_id)
            plan = run.read_plan()
            for result in progress_of(run, plan, summaries.values(), RetryPolicy()).counting:
                yield dataclasses.replace(result, task=plan[result.row].spec.name)

    def _storage(self) -> Storage:
        return open_storage(self.place, self.storage_options)


def _remove_bare(place: Path) -> None:
    """Remove a dataset's folder that holds no files but its header, and empty subfolders.

    Only empty folders are removed, so files that appear meanwhile are safe.
    """
    folders = sorted((path for path in place.rglob("*") if path.is_dir()), reverse=True)
    for folder in folders:
        folder.rmdir()
    if place.exists():
        (place / HEADER).unlink(missing_ok=True)
        place.rmdir()
