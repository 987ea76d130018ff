"""Parquet files for TRL and the Hugging Face Hub: prompt and completion, pictures within.

::

    <out>/README.md                              the card: configs, splits, licence, columns
    <out>/data/train-00000-of-00003.parquet
    <out>/data/val-00000-of-00001.parquet        if there is a validation split

`trl` has the columns prompt and completion, of which `SFTTrainer` trains on the completion alone;
`trl-preferences` has prompt, chosen and rejected, for `DPOTrainer`. Both come with `images` as the
`Image` feature of `datasets`, which is not needed to write them. TRL knows no weights of samples:
they are copies, or a column. Needs the extra `parquet`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from webtraj import errors
from webtraj.datasets.exporters.hf_tables import ShardWriter
from webtraj.datasets.exporters.plain import is_unicode
from webtraj.datasets.parquet import pyarrow
from webtraj.training.export import conversations, trl_card, trl_rows
from webtraj.training.export.base import ExportReport, LeftOut, Row
from webtraj.training.export.lengths import LengthOptions
from webtraj.training.export.pairs import Rejected, pair_of, rejected_of
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.weighting import copies_of
from webtraj.training.samples import Sample

__all__ = ["TrlFormat", "TrlPreferencesFormat"]

_DATA = "data"
_ROWS_AT_ONCE = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrlFormat(LengthOptions):
    """Writes prompts and completions."""

    name: ClassVar[str] = "trl"
    version: ClassVar[int] = 1
    replies: ClassVar[Mapping[str, str]] = {"completion": "The reply: what is trained on."}
    """The columns of replies."""

    weights: Literal["copies", "column"] = "copies"
    """How weights are said: by copies, or only by `loss_weight`."""
    seed: int = 0
    """Rounds weights that are no whole numbers."""
    license: Annotated[str, pydantic.Field(pattern=r"^[a-z0-9.-]{1,64}$")] = "unknown"
    """The licence, by its identifier on the Hub: `mit`, `cc-by-4.0`, ..."""
    title: str = "Samples of web agents"
    """The card's title."""
    shard_mb: Annotated[int, pydantic.Field(ge=1, le=480)] = 400
    """Megabytes of a file, about: the next row begins another one."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        copies = copies_of(sample, self.seed, column=self.weights == "column")
        if isinstance(copies, LeftOut):
            return copies
        prepared = self.prepared(sample)
        if isinstance(prepared, LeftOut):
            return prepared
        try:
            for image in prepared.conversation.images:
                pictures.check(image)
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        replies = self._replies(sample)
        if isinstance(replies, LeftOut):
            return replies
        facts = trl_rows.facts_of(sample)
        if self.weights == "copies":
            facts["loss_weight"] = 1.0
        if not all(is_unicode(fact) for fact in facts.values() if isinstance(fact, str)):
            return LeftOut("its text has a half of a character, which no file can hold")
        data = {**trl_rows.parts_row(prepared.conversation), **replies, **facts}
        return Row(data, copies, prepared.changes, prepared.sample)

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`.

        Raises:
            InvalidInputError: Only some prompts show pictures, and the first one does not.
        """
        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        parts = self._in_parts(folder, first)
        columns = trl_rows.columns_of(self.replies, parts=parts)
        writer = ShardWriter(folder / _DATA, split, columns, self.shard_mb << 20)
        try:
            for row in itertools.chain([first], rows):
                data = self._laid_out(row.data, parts=parts)
                for _ in range(row.copies):
                    writer.add(data)
        except BaseException:
            writer.close(failed=True)
            raise
        writer.close()

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        parts = self._written_in_parts(folder)
        columns = trl_rows.columns_of(self.replies, parts=bool(parts))
        text = trl_card.card(self.title, self.license, columns, report)
        (folder / "README.md").write_text(text, encoding="utf-8")

    def read(self, folder: Path, split: str) -> Iterator[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        _, pq = pyarrow()
        for path in _files(folder, split):
            with pq.ParquetFile(path, pre_buffer=False) as file:
                # Group by group: over all of them it keeps what it has read, to the file's end.
                for group in range(file.num_row_groups):
                    for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=[group]):
                        yield from batch.to_pylist()

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        return trl_rows.sample_of(row, "completion")

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        return _digest(sample, "")

    def _replies(self, sample: Sample) -> dict[str, Any] | LeftOut:
        return {"completion": trl_rows.reply_row(sample.completion)}

    def _laid_out(self, data: Mapping[str, Any], *, parts: bool) -> dict[str, Any]:
        if parts:
            return dict(data)
        if data["images"]:
            raise errors.InvalidInputError(
                f"The sample {data['sample']} shows a picture, and the first one shows none: TRL "
                "takes a dataset either with pictures or without. Export them apart."
            )
        names = ("prompt", *self.replies)
        text = {name: trl_rows.in_text(data[name]) for name in names}
        rest = {name: value for name, value in data.items() if name != "images"}
        return {**rest, **text}

    def _in_parts(self, folder: Path, first: Row) -> bool:
        # All splits are laid out as the first one.
        written = self._written_in_parts(folder)
        return bool(first.data["images"]) if written is None else written

    def _written_in_parts(self, folder: Path) -> bool | None:
        _, pq = pyarrow()
        path = next(_files(folder, ""), None)
        return None if path is None else "images" in pq.read_schema(path).names


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrlPreferencesFormat(TrlFormat):
    """Writes prompts with a better and a worse reply."""

    name: ClassVar[str] = "trl-preferences"
    replies: ClassVar[Mapping[str, str]] = {
        "chosen": "The reply that was worth more.",
        "rejected": "The reply that was worth less.",
    }

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        (said,) = row["rejected"]
        content = said["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        return pair_of(trl_rows.sample_of(row, "chosen"), Rejected(text, ""))

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        rejected = rejected_of(sample)
        return _digest(sample, "" if rejected is None else rejected.completion)

    def _replies(self, sample: Sample) -> dict[str, Any] | LeftOut:
        rejected = rejected_of(sample)
        if rejected is None:
            return LeftOut("it is compared with no other reply")
        if not rejected.completion or not is_unicode(rejected.completion):
            return LeftOut("the reply that it is compared with is empty, or no text")
        return {
            "chosen": trl_rows.reply_row(sample.completion),
            "rejected": trl_rows.reply_row(rejected.completion),
        }


def _digest(sample: Sample, more: str) -> bytes:
    facts = trl_rows.facts_of(sample)
    # With copies the column is 1, whatever the weight was.
    del facts["loss_weight"]
    rest = repr((facts, more)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(conversations.digest_of(sample) + rest).digest()


def _files(folder: Path, split: str) -> Iterator[Path]:
    return iter(sorted((folder / _DATA).glob(f"{split or '*'}-*-of-*.parquet")))
