"""What every exporter gets and does."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import orjson

import webtraj
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import Dataset
from webtraj.store import records
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import Count

__all__ = [
    "Episodes",
    "ExportReport",
    "Exporter",
    "Job",
    "Ledger",
    "LeftOut",
    "MANIFEST",
    "Note",
    "Transform",
    "VERSION",
    "Written",
    "is_manifest",
    "read_manifest",
    "unequal",
    "write_manifest",
]

Transform = Callable[[trajectory_lib.EpisodeTrajectory], trajectory_lib.EpisodeTrajectory]
"""Makes of an episode the one that is exported: redacted, without pixels, ..."""

_EPISODES_AHEAD = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """A value that the format cannot hold, or holds in another way."""

    episode_id: str
    field: str
    """Where it stood: `steps.observation.boxes`."""
    why: str
    """What became of it."""
    count: int = 1
    """How many values of that field."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """An episode that was not exported."""

    episode_id: str
    why: str
    failed: bool
    """Whether it could not be read, and was not left out by a rule of the format."""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """An episode that was exported."""

    episode_id: str
    num_steps: int
    end_reason: trajectory_lib.EndReason
    outcome: trajectory_lib.Outcome

    @property
    def finished(self) -> bool:
        """Whether it terminated or was truncated; all others stopped in the middle."""
        return self.end_reason in (
            trajectory_lib.EndReason.TERMINATED,
            trajectory_lib.EndReason.TRUNCATED,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export did."""

    format: str
    written: tuple[Written, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every episode could be read."""
        return not any(item.failed for item in self.left_out)


class Ledger:
    """Keeps account of an export."""

    def __init__(self) -> None:
        self._written: dict[str, Written] = {}
        self._left_out: dict[str, LeftOut] = {}
        self._notes: dict[tuple[str, str, str], int] = {}

    def wrote(self, episode: trajectory_lib.EpisodeTrajectory) -> None:
        """Notes that an episode was exported."""
        self._written[episode.episode_id] = Written(
            episode.episode_id, episode.num_steps, episode.end_reason, episode.outcome
        )

    def leave_out(self, episode_id: str, why: str, *, failed: bool = False) -> None:
        """Notes that an episode is not exported; `Episodes` gives it no more."""
        self._left_out[episode_id] = LeftOut(episode_id, why, failed)

    def note(self, episode_id: str, field: str, why: str, count: int = 1) -> None:
        """Notes what became of a value."""
        key = (episode_id, field, why)
        self._notes[key] = self._notes.get(key, 0) + count

    def is_left_out(self, episode_id: str) -> bool:
        """Returns whether an episode was left out already."""
        return episode_id in self._left_out

    def report(self, format_name: str) -> ExportReport:
        """Returns the whole account."""
        return ExportReport(
            format=format_name,
            written=tuple(self._written.values()),
            left_out=tuple(self._left_out.values()),
            notes=tuple(Note(*key, count) for key, count in self._notes.items()),
        )


class Episodes:
    """The episodes to export: read from the dataset each time that they are gone through.

    What cannot be read is left out. Only the episode at hand is in memory; of a bucket, the next
    few too.
    """

    def __init__(self, dataset: Dataset, ledger: Ledger, transform: Transform | None) -> None:
        self._dataset = dataset
        self._ledger = ledger
        self._transform = transform

    @property
    def summaries(self) -> Mapping[str, EpisodeSummary]:
        """What the index says of each episode, also of those that cannot be read."""
        return {summary.episode_id: summary for summary in self._dataset.summaries}

    def __iter__(self) -> Iterator[trajectory_lib.EpisodeTrajectory]:
        wanted = (i for i in self._dataset.episode_ids if not self._ledger.is_left_out(i))
        for found in self._dataset.place.map(self._read, wanted, workers=_EPISODES_AHEAD):
            if isinstance(found, LeftOut):
                self._ledger.leave_out(found.episode_id, found.why, failed=True)
            else:
                yield found

    def _read(self, episode_id: str) -> trajectory_lib.EpisodeTrajectory | LeftOut:
        try:
            episode = self._dataset[episode_id]
        except errors.DatasetError as error:
            return LeftOut(episode_id, f"it cannot be read: {error}", failed=True)
        return episode if self._transform is None else self._transform(episode)


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """What an exporter is to do."""

    episodes: Episodes
    folder: Path
    """An empty folder."""
    name: str
    """What the folder will be called when all is done."""
    ledger: Ledger


class Exporter(Protocol):
    """One format, with its options as fields."""

    version: ClassVar[int]
    """Raised whenever the same episodes become other bytes."""
    libraries: ClassVar[tuple[str, ...]]
    """The packages whose versions may change the bytes."""

    def export(self, job: Job) -> None:
        """Writes the episodes.

        Raises:
            InvalidInputError: An option does not do.
            MissingDependencyError: The format needs a package that is not installed.
            StorageError: What was written does not read back as it was.
            OSError: The disk is full, or fails.
        """


def unequal(where: str, what: str) -> errors.StorageError:
    """Returns the error for what reads back as something else than was written."""
    return errors.StorageError(
        f"{where!r} was written, and reads back with {what} that is not the same. Nothing was "
        "exported. Check the disk and the versions of the libraries, and please report it."
    )


def options_of(exporter: Any) -> dict[str, Any]:
    """Returns an exporter's options by name."""
    return {field.name: getattr(exporter, field.name) for field in dataclasses.fields(exporter)}


# `webtraj-export.jsonl`: what an export holds, and how it was made. One JSON object a line.
#
# The first line is of the whole::
#
#     {"webtraj_export": 1, "format": "atif", "format_version": 1, "webtraj": "0.1.0",
#      "libraries": {"numpy": "2.4.6"}, "options": {...}, "selection": {...}, "transform": "",
#      "num_episodes": 2, "num_left_out": 0,
#      "files": {"<path>": {"size": 1234, "sha256": "..."}, ...}}
#
# Then comes a line for each episode, in the dataset's order::
#
#     {"episode_id": "...", "sha256": "<of its file in the dataset>", "num_steps": 3,
#      "end_reason": "terminated", "outcome": "success", "finished": true,
#      "notes": [{"field": "...", "why": "...", "count": 3}]}
#     {"episode_id": "...", "sha256": "...", "left_out": "<why>"}
#
# It tells no time and no place: the same dataset and options give the same bytes.

MANIFEST = "webtraj-export.jsonl"
VERSION = 1
_CHUNK = 1 << 20


def write_manifest(
    folder: Path,
    exporter: Exporter,
    report: ExportReport,
    summaries: Mapping[str, EpisodeSummary],
    *,
    selection: Mapping[str, Any],
    transform: str,
) -> None:
    """Writes the manifest of all files of a folder."""
    header = {
        "webtraj_export": VERSION,
        "format": report.format,
        "format_version": exporter.version,
        "webtraj": webtraj.__version__,
        "libraries": {name: importlib.metadata.version(name) for name in exporter.libraries},
        "options": options_of(exporter),
        "selection": dict(selection),
        "transform": transform,
        "num_episodes": len(report.written),
        "num_left_out": len(report.left_out),
        "files": {
            path.relative_to(folder).as_posix(): {
                "size": path.stat().st_size,
                "sha256": _sha256(path),
            }
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
    }
    with (folder / MANIFEST).open("wb") as file:
        file.write(orjson.dumps(header) + b"\n")
        for line in _episode_lines(report, summaries):
            file.write(orjson.dumps(line) + b"\n")


def read_manifest(path: Path | str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the first line of an export's manifest, and those of its episodes.

    Args:
        path: The export's folder, or the manifest.

    Raises:
        CorruptDataError: There is none, or it does not follow the format.
    """
    path = Path(path)
    path = path / MANIFEST if path.is_dir() else path
    try:
        header, *episodes = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        checked = records.read_object(_Header, header)
        for episode in episodes:
            records.read_object(_Episode, episode)
    except (OSError, ValueError) as error:
        raise errors.CorruptDataError(
            f"{str(path)!r} is not a manifest of an export: {error!s:.200}. Name a folder that "
            "`webtraj export` wrote."
        ) from error
    if checked.webtraj_export > VERSION:
        raise errors.UnsupportedSchemaError(
            f"{str(path)!r} is of version {checked.webtraj_export}; this webtraj reads up to "
            f"{VERSION}. Install a newer one."
        )
    return header, episodes


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    webtraj_export: Count
    format: str = ""
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    files: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    splits: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class _Episode:
    episode_id: str
    sha256: str = ""
    left_out: str = ""


def is_manifest(path: Path) -> bool:
    """Returns whether there is a manifest at a path, by how it begins."""
    try:
        with path.open("rb") as file:
            return file.read(18).startswith(b'{"webtraj_export":')
    except OSError:
        return False


def _episode_lines(
    report: ExportReport, summaries: Mapping[str, EpisodeSummary]
) -> Iterator[dict[str, Any]]:
    notes: dict[str, list[dict[str, Any]]] = {}
    for note in report.notes:
        said = {"field": note.field, "why": note.why, "count": note.count}
        notes.setdefault(note.episode_id, []).append(said)
    written = {item.episode_id: item for item in report.written}
    left_out = {item.episode_id: item for item in report.left_out}
    for episode_id, summary in summaries.items():
        line: dict[str, Any] = {"episode_id": episode_id, "sha256": summary.sha256}
        if episode_id in left_out:
            yield {**line, "left_out": left_out[episode_id].why}
        elif episode_id in written:
            item = written[episode_id]
            yield {
                **line,
                "num_steps": item.num_steps,
                "end_reason": item.end_reason.name.lower(),
                "outcome": item.outcome.name.lower(),
                "finished": item.finished,
                "notes": notes.get(episode_id, []),
            }


def _sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()
