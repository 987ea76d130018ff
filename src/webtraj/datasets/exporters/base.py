"""What every exporter gets and does.

An exporter is a frozen dataclass whose fields are its options, with a method `export`. It reads
`Job.episodes`, as often as it needs to, one episode at a time, writes files below `Job.folder`, and
reads back what it wrote. The folder is a temporary one, which takes its name when all is done.

Nothing is lost in silence: what becomes of each episode stands in the `Ledger`. An episode is
written, or left out and why. A value that a format cannot hold, or holds in another way, is a note:
the episode, the field and why. The same dataset and options give the same bytes, so that nothing
that an exporter writes may tell the time or the place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.parallel import map_in_order
from webtraj.store.index import EpisodeSummary

__all__ = [
    "Episodes",
    "ExportReport",
    "Exporter",
    "Job",
    "LeftOut",
    "Ledger",
    "Note",
    "Transform",
    "Written",
    "unequal",
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
        in_bucket = self._dataset.place.layout is None
        read = (
            map_in_order(self._read, wanted, workers=_EPISODES_AHEAD)
            if in_bucket
            else map(self._read, wanted)
        )
        for found in read:
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
