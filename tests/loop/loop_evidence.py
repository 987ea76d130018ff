"""What of a loop was durable at a moment, and whether it still is there."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.store.journal import read_journal
from webtraj.training.sft.checkpoints import find_latest
from webtraj.training.sft.logs import read_log

__all__ = ["Evidence", "datasets", "lost"]


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """What was durable when something was about to be killed."""

    files: Mapping[str, str]
    """Episodes and blobs of all datasets, by their path in the loop's folder: their SHA-256."""
    open: Mapping[str, list[dict[str, Any]]]
    """The steps of open episodes, by the path that their episode's file gets."""
    trained: Mapping[str, list[dict[str, Any]]]
    """Of trainings, the log up to the latest checkpoint, by their path."""

    @classmethod
    def take(cls, out: Path) -> Evidence:
        """Looks at a loop's folder, in which others may be writing."""
        files: dict[str, str] = {}
        unsealed: dict[str, list[dict[str, Any]]] = {}
        for dataset in datasets(out):
            # Who is sealed meanwhile is in one of both, as its journal is removed last.
            for journal in sorted(dataset.glob("journal/[!.]*.jsonl")):
                with contextlib.suppress(FileNotFoundError, errors.CorruptDataError):
                    path = dataset / "episodes" / f"{journal.stem}.json"
                    unsealed[str(path.relative_to(out))] = read_journal(journal).steps
            for folder in ("episodes", "blobs"):
                for path in (dataset / folder).rglob("[!.]*.*"):
                    files[str(path.relative_to(out))] = _sha256(path)
        trained = {
            str(folder.relative_to(out)): _settled(folder) for folder in out.glob("training/*")
        }
        return cls(files, unsealed, trained)


def datasets(out: Path) -> Iterator[Path]:
    """Yields the datasets that a loop has made, or is making."""
    for parent in ("train_trajectories", "test_trajectories", "processed"):
        for header in sorted((out / parent).glob("iteration_*/dataset.json")):
            yield header.parent


def lost(evidence: Evidence, out: Path) -> Iterator[str]:
    """Yields a sentence for each thing that is not there any more as it was."""
    for name, sha256 in evidence.files.items():
        path = out / name
        if not path.exists():
            yield f"{name} was durable and is gone"
        elif _sha256(path) != sha256:
            yield f"{name} was durable and has changed"
    for name, steps in evidence.open.items():
        path = out / name
        if not path.exists():
            yield f"{name} was open with {len(steps)} steps, and no episode was made of it"
        elif orjson.loads(path.read_bytes())["steps"][: len(steps)] != steps:
            yield f"{name} was open with {len(steps)} steps, and its episode has others"
    for name, entries in evidence.trained.items():
        if read_log(out / name)[: len(entries)] != entries:
            yield f"{name} had a checkpoint after {len(entries)} steps, and does not go on from it"


def _settled(training: Path) -> list[dict[str, Any]]:
    checkpoint = find_latest(training)
    step = 0 if checkpoint is None else checkpoint.step
    return [entry for entry in read_log(training) if entry["step"] <= step]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
