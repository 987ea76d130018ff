"""People's labels of episodes (success, failure, or a note), stored beside the dataset.

::

    <dataset>/labels/<writer>.jsonl

has a line for each time that someone labelled an episode::

    {"episode_id": "...", "label": "success", "note": "", "source": "anna", "time": 1795000000.5,
     "crc32": "..."}

`label` is `success`, `failure`, `note` (only the note counts), or empty, which retracts the label.
The latest line of an episode counts. `webtraj.datasets.sidecar` writes the lines.

`judge_labels` returns the labels that judges are measured against.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters.plain import unicode_text
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.datasets.sidecar import Sidecar, check_line, seal_line
from webtraj.judging.quality import Label
from webtraj.store import records
from webtraj.store.closeable import Closing
from webtraj.store.layout import check_episode_id
from webtraj.trajectory import Outcome

__all__ = ["LABELS", "LabelBook", "PersonLabel", "judge_labels", "read_person_labels"]

_logger = logging.getLogger(__name__)

LABELS = ("success", "failure", "note", "")
"""The values of a label; the empty one retracts the earlier label."""

_LONGEST_NOTE = 10_000
_OUTCOMES = {"success": Outcome.SUCCESS, "failure": Outcome.FAILURE}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PersonLabel:
    """A person's label of an episode."""

    episode_id: str
    label: str = ""
    """One of `LABELS`."""
    note: str = ""
    """A free-text note."""
    source: str = ""
    """The person's name."""
    time: trajectory_lib.Timestamp = 0.0  # An unbounded time would outrank every later label.
    """The time of labelling, in seconds since the epoch (UTC)."""

    def __post_init__(self) -> None:
        check_episode_id(self.episode_id)
        if self.label not in LABELS:
            raise errors.InvalidInputError(
                f"label={self.label!r:.60}: expected success, failure, note, or an empty label to "
                "retract the earlier one."
            )
        if len(self.note) > _LONGEST_NOTE:
            raise errors.InvalidInputError(
                f"The note has {len(self.note)} characters; the maximum is {_LONGEST_NOTE}. "
                "Shorten it."
            )

    def to_line(self) -> bytes:
        """Return the label as a line of JSON."""
        return seal_line(orjson.dumps(dataclasses.asdict(self))) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return the label in a line of `to_line`.

        Raises:
            CorruptDataError: It has changed since.
            ValueError: It is not such a line; the message names the field.
        """
        check_line(line)
        return records.read_object(cls, orjson.loads(line))


class LabelBook(Closing):
    """The labels of one dataset, including labels that other processes add. Safe to share.

    Attributes:
        problems: A message for each complete line that is not a label.
    """

    def __init__(self, place: DatasetPlace, *, clock: Callable[[], float] = time.time) -> None:
        self._place = place
        self._clock = clock
        self._labels: dict[str, PersonLabel] = {}
        self._lines = Sidecar(place, "labels")
        self._lock = threading.RLock()
        self.problems: list[str] = []

    @property
    def labels(self) -> dict[str, PersonLabel]:
        """The latest label of each labelled episode."""
        with self._lock:
            return {key: found for key, found in self._labels.items() if found.label or found.note}

    def refresh(self) -> bool:
        """Read the labels written since the last call. Return whether there were any.

        Raises:
            StorageError: The labels cannot be read.
        """
        with self._lock:
            new = self._lines.new_lines()
            for key, line in new:
                try:
                    self._apply(PersonLabel.from_line(line))
                except (ValueError, errors.CorruptDataError) as error:
                    problem = (
                        f"Skipped a line of {key!r} in {self._place.url!r} that is not a label: "
                        f"{error}. Correct or remove it: {line.decode(errors='replace'):.200}"
                    )
                    self.problems.append(problem)
                    _logger.warning("%s", problem)
            return bool(new)

    def put(
        self, episode_id: str, label: str, note: str | None = None, source: str = ""
    ) -> PersonLabel:
        """Store a label on disk or in the bucket, and return it.

        Args:
            episode_id: The episode.
            label: One of `LABELS`.
            note: The note; None to keep the stored note, even if the label is retracted.
            source: The person's name.

        Raises:
            InvalidInputError: `label` or `note` is not valid.
            StorageError: It could not be written; the earlier label still counts.
        """
        with self._lock:
            before = self._labels.get(episode_id)
            # The clocks of two machines differ, but the last label must count.
            now = max(self._clock(), before.time + 1e-3 if before else 0.0)
            if note is None:
                note = before.note if before else ""
                label = label or ("note" if note else "")
            made = PersonLabel(
                episode_id=episode_id,
                label=label,
                note=unicode_text(note),
                source=unicode_text(source),
                time=now,
            )
            self._lines.add(made.to_line())
            self._apply(made)
            return made

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._lines.close()

    def _apply(self, label: PersonLabel) -> None:
        before = self._labels.get(label.episode_id)
        if before is None or label.time >= before.time:
            self._labels[label.episode_id] = label


def read_person_labels(
    place: Place, *, storage_options: dict[str, Any] | None = None
) -> dict[str, PersonLabel]:
    """Return people's labels of a dataset's episodes, by episode id.

    Raises:
        NotADatasetError: There is no dataset.
        StorageError: The labels cannot be read.
    """
    with LabelBook(open_place(place, storage_options)) as book:
        book.refresh()
        return book.labels


def judge_labels(labels: Iterable[PersonLabel]) -> list[Label]:
    """Return the labels that judges can be measured against: successes and failures.

    >>> judge_labels([PersonLabel(episode_id="e1", label="failure", source="anna")])[0].source
    'anna'
    """
    return [
        Label(found.episode_id, _OUTCOMES[found.label], found.source)
        for found in labels
        if found.label in _OUTCOMES
    ]
