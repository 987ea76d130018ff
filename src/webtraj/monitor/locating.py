"""From what a person names, a dataset or where a rollout saves to, to the run to be watched."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from webtraj import errors
from webtraj.rollouts.iterations import Iterations, Split
from webtraj.rollouts.judging import judged_place
from webtraj.rollouts.runs import Run
from webtraj.store.places import FolderStorage, Storage, open_storage

__all__ = ["WatchedRun", "find_run"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """A run, and where all that tells of it lies."""

    run: Run
    place: str
    """The dataset, as a person names it."""
    judged: tuple[Storage, ...] = ()
    """Where the judged dataset may be."""
    journals: tuple[Path, ...] = ()
    """The folders on this machine in which its open episodes may be."""
    spools: tuple[Path, ...] = ()
    """The spools on this machine whose episodes go to the dataset."""


def find_run(
    place: str | os.PathLike[str],
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> WatchedRun:
    """Returns a run that is there already, however far it is.

    Args:
        place: A dataset's folder or URL; or a rollout's save path, with iterations in it, of which
            the one whose run is the latest is meant.
        run_id: The run; by default the latest.
        storage_options: For a bucket.

    Raises:
        InvalidInputError: There is no run.
        StorageError: The place cannot be read.
    """
    named = os.fspath(place)
    run = _run_in(open_storage(named, storage_options), run_id)
    found = named
    judged: list[str] = []
    if run is None:
        latest = _latest_iteration(named, run_id, storage_options)
        if latest is None:
            raise errors.InvalidInputError(
                f"{named!r:.300} has no run{'' if run_id is None else f' {run_id!r:.100}'} to "
                "watch. Name a rollout's dataset or save path; its run is there as soon as its "
                "plan is written."
            )
        run, found, its_judged = latest
        judged.append(its_judged)
    with contextlib.suppress(errors.InvalidInputError):  # There may be no place beside it.
        judged.append(judged_place(found))
    judged += _beside(found)
    storage = run.storage
    spools = () if isinstance(storage, FolderStorage) else _spools_for(storage.url)
    folders = [storage.root] if isinstance(storage, FolderStorage) else spools
    return WatchedRun(
        run=run,
        place=found,
        judged=tuple(open_storage(name, storage_options) for name in dict.fromkeys(judged)),
        journals=tuple(folder / "journal" for folder in folders),
        spools=tuple(spools),
    )


def _run_in(storage: Storage, run_id: str | None) -> Run | None:
    """Returns a run of a dataset; None if it has none of that name."""
    if run_id is not None:
        run = Run(storage, run_id)
        return run if storage.size(f"runs/{run_id}/plan.jsonl") is not None else None
    try:
        return Run.last(storage)
    except errors.InvalidInputError:
        return None


def _latest_iteration(
    save_path: str, run_id: str | None, storage_options: Mapping[str, Any] | None
) -> tuple[Run, str, str] | None:
    """Returns the latest run of any iteration, its dataset, and where its judged one would be."""
    found: list[tuple[str, Run, str, str]] = []
    for split in get_args(Split):
        iterations = Iterations(save_path, split, storage_options)
        for number in reversed(iterations.numbers()):
            place = iterations.dataset(number)
            run = _run_in(open_storage(place, storage_options), run_id)
            if run is not None:
                found.append((run.run_id, run, place, iterations.judged(number)))
                break
    if not found:
        return None
    _, run, place, judged = max(found, key=lambda item: item[0])
    return run, place, judged


def _beside(place: str) -> list[str]:
    """Returns where an iteration's judged dataset would be, if a place is named like one."""
    folder, _, name = place.rstrip("/").rpartition("/")
    return [f"{folder}/judged/{name}"] if folder and name.startswith("iteration_") else []


def _spools_for(url: str) -> tuple[Path, ...]:
    """Returns this user's spools whose episodes go to a place."""
    from webtraj.collectors.spool import spools
    from webtraj.store.layout import DatasetLayout

    found = []
    for path in spools():
        with contextlib.suppress(errors.DatasetError, OSError):
            if DatasetLayout(path).check().destination.rstrip("/") == url.rstrip("/"):
                found.append(path)
    return tuple(found)
