"""The contract of an export: rows in files, one sample per row, with a count of what is left out.

A format turns a sample into a row, or gives a reason why it cannot. It never changes a completion.
A completion that a trainer would misread is left out and counted. Changes to prompts are
reversible, and are counted too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.rows import read_row, read_rows
from webtraj.training.samples import Sample, key_of, name_of
from webtraj.trajectory import Ending, ending_of

if TYPE_CHECKING:
    from webtraj.training.replay import Renderer

__all__ = [
    "ExportReport",
    "LeftOut",
    "Row",
    "SampleFormat",
    "Split",
    "copies_of",
    "fault_of_reply",
]


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """A sample that a format cannot hold."""

    why: str
    """The reason in a few words, equal for all samples left out for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A sample in a format."""

    data: Mapping[str, Any]
    """The row as JSON data."""
    copies: int = 1
    """How many times the row is written."""
    changes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Changes to the prompt and estimates, by kind, with their number."""
    sample: Sample | None = None
    """The part of the sample that the row holds, if not all of it."""


@dataclasses.dataclass(slots=True)
class Split:
    """The account of one split while it is written."""

    name: str
    """`train` or `val`."""
    rows: int = 0
    """Rows in its files, copies included."""
    samples: int = 0
    """Samples in the rows."""
    pictures: int = 0
    """References to pictures, copies included."""
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    """Samples left out, by reason."""
    changes: Counter[str] = dataclasses.field(default_factory=Counter)
    """Changes to prompts, by kind."""
    episodes: dict[str, int] = dataclasses.field(default_factory=dict)
    """The number of samples in it by episode."""
    left_out_first: dict[str, str] = dataclasses.field(default_factory=dict)
    """The first sample left out for each reason."""

    def to_data(self) -> dict[str, Any]:
        """Return the account as JSON data."""
        # `asdict` cannot copy counters.
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {k: dict(v) if isinstance(v, dict) else v for k, v in values.items()}

    def count(self, sample: Sample, row: Row | LeftOut) -> None:
        """Count a sample as a row or as left out."""
        if isinstance(row, LeftOut):
            self.left_out[row.why] += 1
            self.left_out_first.setdefault(row.why, name_of(sample.key))
            return
        self.samples += 1
        self.rows += row.copies
        self.pictures += len((row.sample or sample).images) * row.copies
        self.changes.update(row.changes)
        episode_id = sample.key.episode_id
        self.episodes[episode_id] = self.episodes.get(episode_id, 0) + 1


@dataclasses.dataclass(frozen=True, slots=True)
class ExportReport:
    """The account of an export."""

    format: str
    splits: Mapping[str, Split]
    files: tuple[str, ...]
    """The files' paths below the export's folder, without single pictures."""
    num_pictures: int
    """The number of picture files; each picture is stored once."""

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
            "format": self.format,
            "files": list(self.files),
            "num_pictures": self.num_pictures,
            "splits": {name: split.to_data() for name, split in self.splits.items()},
        }


_WHOLE = (Ending.WHOLE, Ending.CALLED)
_SAMPLED = (*_WHOLE, Ending.CUT, Ending.UNKNOWN)


def fault_of_reply(finish_reason: str, *, ends: bool) -> LeftOut | None:
    """Return why a reply cannot be a sample, by its finish reason; None if it can.

    Args:
        finish_reason: The provider's finish reason; empty if it was not recorded.
        ends: Whether trainers end every reply, so that half a reply would be learned as a whole
            one.

    >>> fault_of_reply("length", ends=True)
    LeftOut(why='its reply is not whole: it was cut off at a limit')
    """
    ending = ending_of(finish_reason)
    if not finish_reason or ending in (_WHOLE if ends else _SAMPLED):
        return None
    return LeftOut(f"its reply is not whole: {ending.value}")


class SampleFormat:
    """A format of training data. Its fields are its options.

    A split is a file with one row per line, which `webtraj.training.rows` reads.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Version of the format's output."""
    file: ClassVar[str] = "{}.jsonl"
    """The name of a split's file: JSON lines, or a JSON array if it ends in `.json`."""
    is_text: ClassVar[bool] = True
    """Whether rows hold texts that a trainer renders. It ends each reply, so only whole replies are
    written; and it sees only what the sample's messages hold. False for recorded token ids."""
    imitated: ClassVar[bool] = True
    """Whether `webtraj train` can train on its rows."""

    def renderer(self, options: Mapping[str, Any]) -> Renderer:
        """Return the renderer of prompts for decisions without a model call, with `--render`.

        Args:
            options: The options of the agent that the prompts are for.

        Raises:
            InvalidInputError: An option is unknown, or its value is invalid.
        """
        from webtraj.training.replay import AgentRenderer

        return AgentRenderer.of(options)

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """Return a sample's row, or the reason why it is left out.

        Args:
            sample: A sample.
            pictures: Stores pictures and returns their paths.
        """
        raise NotImplementedError

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """Write a split's rows as a stream."""
        path = folder / self.file.format(split)
        array = path.suffix == ".json"
        before, between = (b"[\n", b",\n") if array else (b"", b"\n")
        with path.open("wb") as file:
            for row in rows:
                line = orjson.dumps(row.data)
                for _ in range(row.copies):
                    file.write(before + line)
                    before = between
            file.write(b"\n]\n" if array else b"\n")

    def finish(self, folder: Path, report: ExportReport) -> None:
        """Write the files beside the rows."""

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """Yield the rows of a split as written, copies included."""
        return read_rows(folder / self.file.format(split))

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """Return the part of a sample that a row of this format holds.

        Raises:
            CorruptDataError: A picture is missing or damaged.
            InvalidInputError: The row does not follow the format.
            KeyError: The row has no name.
        """
        name = str(row["sample"])
        read = read_row(row, f"{name:.100}", picture=pictures.get)
        return dataclasses.replace(read, key=key_of(name))

    def digest(self, sample: Sample) -> bytes:
        """Return a hash of the part of a sample that the format holds; equal after a round trip."""
        raise NotImplementedError


# Weights for trainers without weights: a sample of weight 2 is written twice.
#
# The fraction of a weight is rounded up or down at random, so it is right on average. The random
# choice follows from the sample's name and a seed, so exports are reproducible.

_MOST = 1000


def copies_of(sample: Sample, seed: int, *, column: bool = False) -> int | LeftOut:
    """Return the number of copies of a sample, or the reason why it is left out.

    Args:
        sample: A sample.
        seed: Seed for rounding fractional weights.
        column: Whether the weight is in a column, so that each sample is written once.

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
