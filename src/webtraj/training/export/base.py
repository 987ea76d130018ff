"""What an export of samples is: rows in files, one sample a row, and what had to be left out.

A format turns a sample into a row, or says why it cannot. It never changes what a model is trained
to write: a completion that a trainer would read as something else is left out, and counted. What it
has to change in a prompt can be changed back, and is counted too.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from webtraj.training.export.pictures import PictureReader, Pictures, images_of
from webtraj.training.samples import Sample, SampleKey

__all__ = ["ExportReport", "LeftOut", "Row", "SampleFormat", "Split", "key_of", "name_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """A sample that a format cannot hold."""

    why: str
    """In a few words, the same for all that are left out for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A sample as a format has it."""

    data: Mapping[str, Any]
    """What is written, as JSON data."""
    copies: int = 1
    """How often it is written."""
    changes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """What had to be changed in its prompt, or could only be estimated, and how often."""
    sample: Sample | None = None
    """What it holds, if that is not the whole sample."""


@dataclasses.dataclass(slots=True)
class Split:
    """One file's samples, as they are written."""

    name: str
    """`train` or `val`."""
    rows: int = 0
    """Rows in its files, copies counted."""
    samples: int = 0
    """Samples that are in them."""
    pictures: int = 0
    """Pictures that rows refer to, copies counted."""
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    """Samples that are not in them, by reason."""
    changes: Counter[str] = dataclasses.field(default_factory=Counter)
    """What was changed in prompts, by kind."""
    episodes: dict[str, int] = dataclasses.field(default_factory=dict)
    """How many of each episode's samples are in it."""
    left_out_first: dict[str, str] = dataclasses.field(default_factory=dict)
    """The first sample that each reason kept out."""

    def count(self, sample: Sample, row: Row | LeftOut) -> None:
        """Counts what became of a sample."""
        if isinstance(row, LeftOut):
            self.left_out[row.why] += 1
            self.left_out_first.setdefault(row.why, name_of(sample.key))
            return
        self.samples += 1
        self.rows += row.copies
        self.pictures += len(images_of(row.sample or sample)) * row.copies
        self.changes.update(row.changes)
        episode_id = sample.key.episode_id
        self.episodes[episode_id] = self.episodes.get(episode_id, 0) + 1


@dataclasses.dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export holds."""

    format: str
    splits: Mapping[str, Split]
    files: tuple[str, ...]
    """Their paths below the export's folder, pictures not named one by one."""
    num_pictures: int
    """Files of pictures, each of them there once."""

    def to_data(self) -> dict[str, Any]:
        """Returns the report as JSON data."""
        return {
            "format": self.format,
            "files": list(self.files),
            "num_pictures": self.num_pictures,
            "splits": {name: dataclasses.asdict(split) for name, split in self.splits.items()},
        }


class SampleFormat(Protocol):
    """A format of training data. Made of its options, which are its fields."""

    name: ClassVar[str]
    version: ClassVar[int]
    """Changes with what it writes."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """Returns a sample as this format has it.

        Args:
            sample: A sample.
            pictures: Takes pictures, and names them.
        """

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """Writes a split's rows, as they come."""

    def finish(self, folder: Path, report: ExportReport) -> None:
        """Writes what lies beside the rows."""

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """Yields the rows of a split as they were written, copies too."""

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """Returns the sample that a row was made of, as far as the format holds it.

        Raises:
            CorruptDataError: The row does not follow the format.
        """

    def digest(self, sample: Sample) -> bytes:
        """Returns a hash of all that the format holds of a sample: equal for what is read back."""


def name_of(key: SampleKey) -> str:
    """Returns a sample's name in rows: `<episode>/<step>/<call>`.

    >>> name_of(SampleKey("e1", 3))
    'e1/3/0'
    """
    return f"{key.episode_id}/{key.step}/{key.call}"


def key_of(name: str) -> SampleKey:
    """Returns the key that `name_of` named.

    Raises:
        ValueError: It is no such name.
    """
    episode_id, step, call = name.rsplit("/", 2)
    return SampleKey(episode_id, int(step), int(call))
