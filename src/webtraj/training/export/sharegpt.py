"""LLaMA-Factory's ShareGPT files.

::

    <out>/finetune_train.json   an array of rows, a row a line
    <out>/finetune_val.json     likewise, if there is a validation split
    <out>/dataset_info.json     tells LLaMA-Factory of them, every column and tag by its name
    <out>/images/<sha256>.png   each picture once; rows name it by this path

A row::

    {"conversations": [{"from": "human", "value": "<image>Task: ..."},
                       {"from": "gpt", "value": "click('12')"}],
     "system": "...", "images": ["images/<sha256>.png"], "loss_weight": 1.0,
     "sample": "<episode>/<step>/<call>"}

LLaMA-Factory 0.9.5 resets every column and tag that `dataset_info.json` does not name once it
names one, takes `<image>` in any text for a picture, drops rows whose turns are not strict without
a word, and reads no `loss_weight` in its normal engine. So all are named; such text is hidden
(`markers`); turns are made strict (`conversations`); and weights are copies (`weighting`), unless
the column is asked for. Samples that are longer than it cuts are left out, or shortened by whole
turns (`lengths`): where it cuts itself, it may cut a picture, and fails while training.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from webtraj import errors
from webtraj.training.export import conversations, json_files, markers, sharegpt_rows
from webtraj.training.export.base import ExportReport, LeftOut, Row, key_of, name_of
from webtraj.training.export.lengths import LengthOptions
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.sharegpt_rows import COLUMNS, TAGS, file_name
from webtraj.training.export.weighting import copies_of
from webtraj.training.samples import Sample

__all__ = ["COLUMNS", "TAGS", "ShareGptFormat", "file_name"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareGptFormat(LengthOptions):
    """Writes ShareGPT files for LLaMA-Factory."""

    name: ClassVar[str] = "sharegpt"
    version: ClassVar[int] = 1

    weights: Literal["copies", "column"] = "copies"
    """How weights are said: a sample of weight 2 is there twice; or only by the column
    `loss_weight`, which LLaMA-Factory's normal engine does not read."""
    seed: int = 0
    """Rounds weights that are no whole numbers."""
    dataset_name: str = "webtraj"
    """What `dataset_info.json` calls the data: this, `_train` or `_val`."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        copies = copies_of(sample, self.seed, column=self.weights == "column")
        if isinstance(copies, LeftOut):
            return copies
        prepared = self.prepared(sample)
        if isinstance(prepared, LeftOut):
            return prepared
        if markers.hide(sample.completion)[1]:
            return LeftOut("its completion has text that stands for a picture")
        try:
            data, hidden = sharegpt_rows.prompt_row(prepared.conversation, pictures)
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        data["conversations"].append({"from": "gpt", "value": sample.completion})
        data |= {
            "loss_weight": sample.loss_weight if self.weights == "column" else 1.0,
            "sample": name_of(sample.key),
        }
        changes = {**prepared.changes, **({"hidden_marks": hidden} if hidden else {})}
        return Row(data, copies, changes, prepared.sample)

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`."""
        json_files.write_array(folder / file_name(split), rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        sharegpt_rows.write_info(folder, report, self.dataset_name)

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return json_files.read_array(folder / file_name(split))

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        *turns, last = row["conversations"]
        return Sample(
            key=key_of(row["sample"]),
            messages=sharegpt_rows.messages_of(row, turns, pictures),
            completion=last["value"],
            loss_weight=row["loss_weight"],
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        return conversations.digest_of(sample)
