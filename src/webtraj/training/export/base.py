"""What an export of samples is: rows in files, one sample a row, and what had to be left out.

A format turns a sample into a row, or says why it cannot. It never changes what a model is trained
to write: a completion that a trainer would read as something else is left out, and counted. What it
has to change in a prompt can be changed back, and is counted too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import orjson

from webtraj import errors
from webtraj.training.export.pictures import PictureReader, Pictures, images_of
from webtraj.training.samples import Sample, SampleKey

__all__ = [
    "ExportReport",
    "LeftOut",
    "Row",
    "SampleFormat",
    "Split",
    "copies_of",
    "key_of",
    "name_of",
    "read_array",
    "read_lines",
    "write_array",
    "write_lines",
]


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


# Weights for trainers that know none: a sample of weight 2 is there twice.
#
# What is left of a weight after whole copies is rounded up or down by chance, so that it is right
# on average; chance follows from the sample's name and a seed, so that an export can be made again.

_MOST = 1000


def copies_of(sample: Sample, seed: int, *, column: bool = False) -> int | LeftOut:
    """Returns how often a sample is written, or why it is not.

    Args:
        sample: A sample.
        seed: Rounds weights that are no whole numbers.
        column: Whether a column says the weight, so that all are written once.

    >>> from webtraj.training.samples import SampleKey
    >>> key = SampleKey("e1", 1)
    >>> copies_of(Sample(key=key, messages=(), completion="a", loss_weight=2.0), seed=0)
    2
    """
    weight = sample.loss_weight
    if not math.isfinite(weight) or (weight < 0 and not column):
        return LeftOut("its weight is negative or no number, which copies cannot say")
    if column:
        return 1
    if weight == 0:
        return LeftOut("its weight is 0")
    if weight > _MOST:
        return LeftOut(f"its weight is more than {_MOST}")
    whole = math.floor(weight)
    digest = hashlib.sha256(f"{seed}/{name_of(sample.key)}".encode()).digest()
    chance = int.from_bytes(digest[:8]) / 2**64
    copies = whole + (chance < weight - whole)
    return copies or LeftOut("its weight is below 1, and chance has left it out")


# Rows in JSON files, written and read as they come.


def write_array(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as one array, a row a line."""
    with path.open("wb") as file:
        before = b"[\n"
        for row in rows:
            line = orjson.dumps(row.data)
            for _ in range(row.copies):
                file.write(before + line)
                before = b",\n"
        file.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as lines."""
    with path.open("wb") as file:
        for row in rows:
            line = orjson.dumps(row.data) + b"\n"
            for _ in range(row.copies):
                file.write(line)


def read_array(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the rows that `write_array` wrote, without reading all of them at once.

    Raises:
        CorruptDataError: They are not as it writes them.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip() in (b"[", b"]", b"[]"):
                continue
            yield _row(path, number, line.rstrip().removesuffix(b","))


def read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the rows that `write_lines` wrote.

    Raises:
        CorruptDataError: They are not as it writes them.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _row(path, number, line)


def _row(path: Path, number: int, line: bytes) -> Mapping[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise errors.CorruptDataError(f"{path.name}, line {number}: no JSON: {error}.") from error
    if not isinstance(row, dict):
        raise errors.CorruptDataError(f"{path.name}, line {number}: no object.")
    return row
