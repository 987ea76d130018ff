"""LLaMA-Factory's ShareGPT files for preferences: `ranking: true` in `dataset_info.json`.

A row is one of `sharegpt`, but for its replies::

    {"conversations": [{"from": "human", "value": "<image>Task: ..."}],
     "chosen": {"from": "gpt", "value": "click('12')"},
     "rejected": {"from": "gpt", "value": "click('3')"},
     "system": "...", "images": ["images/<sha256>.png"],
     "sample": "<episode>/<step>/<call>", "rejected_sample": "...", "margin": 1.0}

It goes with `stage: dpo`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from webtraj import errors
from webtraj.datasets.exporters.plain import is_unicode
from webtraj.training.export import conversations, json_files, markers, sharegpt_rows
from webtraj.training.export.base import ExportReport, LeftOut, Row, key_of, name_of
from webtraj.training.export.lengths import LengthOptions
from webtraj.training.export.pairs import Rejected, pair_of, rejected_of
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.samples import Sample

__all__ = ["RankingFormat"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingFormat(LengthOptions):
    """Writes pairs for LLaMA-Factory."""

    name: ClassVar[str] = "preferences"
    version: ClassVar[int] = 1

    dataset_name: str = "webtraj"
    """What `dataset_info.json` calls the data: this, `_train` or `_val`."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        rejected = rejected_of(sample)
        if rejected is None:
            return LeftOut("it is compared with no other reply")
        if not rejected.completion or not is_unicode(rejected.completion):
            return LeftOut("the reply that it is compared with is empty, or no text")
        if any(markers.hide(text)[1] for text in (sample.completion, rejected.completion)):
            return LeftOut("its completion has text that stands for a picture")
        prepared = self.prepared(sample)
        if isinstance(prepared, LeftOut):
            return prepared
        try:
            data, hidden = sharegpt_rows.prompt_row(prepared.conversation, pictures)
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        rewards = (sample.reward, rejected.reward)
        data |= {
            "chosen": {"from": "gpt", "value": sample.completion},
            "rejected": {"from": "gpt", "value": rejected.completion},
            "sample": name_of(sample.key),
            "rejected_sample": rejected.sample,
            "margin": None if None in rewards else rewards[0] - rewards[1],  # type: ignore[operator]
        }
        changes = {**prepared.changes, **({"hidden_marks": hidden} if hidden else {})}
        return Row(data, 1, changes, prepared.sample)

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`."""
        json_files.write_array(folder / sharegpt_rows.file_name(split), rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        sharegpt_rows.write_info(folder, report, self.dataset_name, ranking=True)

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return json_files.read_array(folder / sharegpt_rows.file_name(split))

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        chosen = Sample(
            key=key_of(row["sample"]),
            messages=sharegpt_rows.messages_of(row, row["conversations"], pictures),
            completion=row["chosen"]["value"],
        )
        return pair_of(chosen, Rejected(row["rejected"]["value"], row["rejected_sample"]))

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        rejected = rejected_of(sample)
        assert rejected is not None, "What is no pair was left out."
        more = f"{rejected.sample}\0{rejected.completion}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(conversations.digest_of(sample) + more).digest()
