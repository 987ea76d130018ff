"""Importing: from a source to a dataset, one episode at a time.

Each episode is in the dataset whole or not at all, and under an id that its content gives it. So an
import that was interrupted is simply run again.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.importers.base import Found, Problem, Reader, Skipped, Source
from webtraj.datasets.place import Place
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import HEADER

__all__ = ["SYSTEMS", "ImportReport", "detect", "import_episodes", "read_episodes"]

_HOMES = {
    "agentlab": "webtraj.datasets.importers.agentlab",
    "webgym": "webtraj.datasets.importers.webgym",
    "orby": "webtraj.datasets.importers.orby",
    "miniwob-demos": "webtraj.datasets.importers.miniwob_demos",
    "atif": "webtraj.datasets.importers.atif",
}
SYSTEMS = tuple(_HOMES)
"""The names of the systems that can be imported from."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did."""

    system: str
    imported: tuple[EpisodeSummary, ...] = ()
    """The episodes that it added."""
    skipped: tuple[Skipped, ...] = ()
    """What was left out on purpose, and why."""
    problems: tuple[Problem, ...] = ()
    """What could not be read, or not be kept."""


def detect(path: Path) -> str:
    """Returns the name of the system that a file or folder comes from.

    Raises:
        InvalidInputError: There is none such, or it comes from none that is known.
    """
    if not path.exists():
        raise errors.InvalidInputError(f"{str(path)!r} is not there; name a file or a folder.")
    for system, home in _HOMES.items():
        if importlib.import_module(home).recognises(path):
            return system
    if (path / HEADER).is_file():
        raise errors.InvalidInputError(
            f"{str(path)!r} is a webtraj dataset already. `webtraj copy`, `convert` and `merge` "
            "bring it elsewhere."
        )
    raise errors.InvalidInputError(
        f"{str(path)!r} holds nothing that is known; expected experiment folders of AgentLab or "
        "BrowserGym, WebGym's .pt files, Orby's .pb files, demonstrations of MiniWoB++, or ATIF. "
        "If it is one of these, name it: --from agentlab, webgym, orby, miniwob-demos or atif."
    )


def read_episodes(source: Source, system: str = "auto") -> Iterator[Found]:
    """Yields what a source holds: episodes, problems, and what was skipped.

    Args:
        source: What to read.
        system: One of `SYSTEMS`, or "auto" to find out.

    Raises:
        InvalidInputError: There is no such system, or the source comes from none that is known.
    """
    return _reader(source.path, system)[1](source)


def import_episodes(
    source: Source,
    place: Place,
    *,
    system: str = "auto",
    format: str = "json",  # noqa: A002  (As in DatasetHeader.)
    storage_options: Mapping[str, Any] | None = None,
    on_found: Callable[[EpisodeSummary | Problem | Skipped], None] | None = None,
) -> ImportReport:
    """Adds the episodes of a source to a dataset. Adds nothing that is there already.

    Args:
        source: What to import; `have` is found out.
        place: The dataset: a folder's path or a URL, new, empty or a dataset of the same format.
        system: One of `SYSTEMS`, or "auto" to find out.
        format: The format of the episodes' files; `webtraj.store` lists them.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        on_found: Called with what becomes of each thing that is found, when it has.

    Raises:
        InvalidInputError: There is no such system or format, or the source comes from none that is
            known.
        NotADatasetError: The place holds other things.
        StorageError: The dataset cannot be written. Run it again once that is mended.
    """
    name, read = _reader(source.path, system)
    have = _ids(place, storage_options)
    imported: list[EpisodeSummary] = []
    skipped: list[Skipped] = []
    problems: list[Problem] = []
    found_here = read(dataclasses.replace(source, have=have))
    # What is wrong with the source altogether shows now, before there is a dataset.
    first = next(found_here, None)
    with DatasetWriter(place, format=format, storage_options=storage_options) as writer:
        while first is not None:
            done: EpisodeSummary | Problem | Skipped
            if isinstance(first, trajectory_lib.EpisodeTrajectory):
                done = _add(writer, first, have)
            else:
                done = first
            match done:
                case EpisodeSummary():
                    imported.append(done)
                case Problem():
                    problems.append(done)
                case _:
                    skipped.append(done)
            if on_found is not None:
                on_found(done)
            first = next(found_here, None)
    return ImportReport(
        system=name, imported=tuple(imported), skipped=tuple(skipped), problems=tuple(problems)
    )


def _reader(path: Path, system: str) -> tuple[str, Reader]:
    if system != "auto" and system not in _HOMES:
        raise errors.InvalidInputError(
            f"{system!r} is no system to import from; expected auto or one of {', '.join(_HOMES)}."
        )
    if not path.exists():
        raise errors.InvalidInputError(f"{str(path)!r} is not there; name a file or a folder.")
    name = detect(path) if system == "auto" else system
    read: Reader = importlib.import_module(_HOMES[name]).read
    return name, read


def _ids(place: Place, storage_options: Mapping[str, Any] | None) -> set[str]:
    try:
        return set(open_dataset(place, storage_options=storage_options).episode_ids)
    except errors.NotADatasetError:  # Not made yet; if it holds other things, the writer says so.
        return set()


def _add(
    writer: DatasetWriter, episode: trajectory_lib.EpisodeTrajectory, have: set[str]
) -> EpisodeSummary | Problem | Skipped:
    imported = episode.info.metadata.get("imported")
    where = imported["file"] if isinstance(imported, Mapping) else episode.episode_id
    if episode.episode_id in have:
        return Skipped(where, "the same was found before", episode.episode_id)
    try:
        summary = writer.add(episode)
    except (
        errors.UnwritableValueError,
        errors.StorageConflictError,
        errors.InvalidInputError,
        errors.CorruptDataError,
    ) as error:  # This episode's fault, not the dataset's.
        return Problem(where, error)
    have.add(episode.episode_id)
    return summary
