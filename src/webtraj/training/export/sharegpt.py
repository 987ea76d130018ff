"""LLaMA-Factory's ShareGPT files.

::

    <out>/finetune_train.json   an array of rows, one per line
    <out>/finetune_val.json     the same, if there is a validation split
    <out>/dataset_info.json     describes them for LLaMA-Factory, every column and tag by name
    <out>/images/<sha256>.png   each picture once; rows refer to it by this path

A row::

    {"conversations": [{"from": "human", "value": "<image>Task: ..."},
                       {"from": "gpt", "value": "click('12')"}],
     "system": "...", "images": ["images/<sha256>.png"], "loss_weight": 1.0,
     "sample": "<episode>/<step>/<call>"}

LLaMA-Factory 0.9.5 resets every column and tag that `dataset_info.json` does not name once it names
one, reads `<image>` in any text as a picture, silently drops rows whose turns are not strict, and
ignores `loss_weight` in its normal engine. So all columns and tags are named, such text is hidden,
turns are made strict (`conversations`), and weights become copies (`base`) unless the column is
asked for. Samples longer than its limit are left out, or shortened by whole turns (`lengths`): if
LLaMA-Factory cuts them, it may cut a picture and fail during training.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import orjson

from webtraj.agents.models.base import Message, Text
from webtraj.training.export.base import ExportReport, LeftOut, Row
from webtraj.training.export.lengths import LengthOptions, Prepared, WeightOptions
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.preferences import Rejected, fault_of_pair, find_rejected, pair_of
from webtraj.training.rows import IMAGE, hide
from webtraj.training.samples import Sample, name_of

__all__ = ["RankingFormat", "ShareGptFormat", "TAGS"]

# Shared by ShareGPT files: turns with marks for pictures, and `dataset_info.json`.

TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
_COLUMNS = {"messages": "conversations", "system": "system", "images": "images"}

_SAID = {"user": "human", "assistant": "gpt"}


_FILE = "finetune_{}.json"


def _prompt_row(prepared: Prepared, pictures: Pictures) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a prompt's columns, and how many picture marks in its text were hidden."""
    names = [pictures.put(image) for image in prepared.sample.images]
    hidden = 0
    turns = []
    for turn in prepared.conversation.turns:
        value, marks = _text_of(turn)
        hidden += marks
        turns.append({"from": _SAID[turn.role], "value": value})
    system, marks = hide(prepared.conversation.system)
    hidden += marks
    changes = {"hidden_marks": hidden} if hidden else {}
    return {"conversations": turns, "system": system, "images": names}, changes


def _write_info(
    folder: Path, report: ExportReport, dataset_name: str, *, ranking: bool = False
) -> None:
    """Write `dataset_info.json` with every column and tag named."""
    info = {}
    for name, split in report.splits.items():
        columns = dict(_COLUMNS)
        if ranking:
            columns |= {"chosen": "chosen", "rejected": "rejected"}
        if not split.pictures:  # An empty column is an error there.
            del columns["images"]
        info[f"{dataset_name}_{name}"] = {
            "file_name": _FILE.format(name),
            "formatting": "sharegpt",
            **({"ranking": True} if ranking else {}),
            "columns": columns,
            "tags": TAGS,
        }
    content = orjson.dumps(info, option=orjson.OPT_INDENT_2)
    (folder / "dataset_info.json").write_bytes(content + b"\n")


def _text_of(turn: Message) -> tuple[str, int]:
    """Return a message's text with marks for its pictures, and how many marks were hidden."""
    # Hide marks after joining: the ends of two parts could form one.
    pieces: list[str] = []
    text = ""
    hidden = 0
    for part in (*turn.parts, None):
        if isinstance(part, Text):
            text += part.text
            continue
        piece, marks = hide(text)
        pieces.append(piece)
        hidden += marks
        text = ""
        if part is not None:
            pieces.append(IMAGE)
    return "".join(pieces), hidden


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareGptFormat(WeightOptions):
    """A format of ShareGPT files for LLaMA-Factory."""

    name: ClassVar[str] = "sharegpt"
    file: ClassVar[str] = _FILE

    dataset_name: str = "webtraj"
    """What `dataset_info.json` calls the data: this, `_train` or `_val`."""

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        _write_info(folder, report, self.dataset_name)

    def _row(self, prepared: Prepared, pictures: Pictures) -> Row | LeftOut:
        sample = prepared.sample
        if hide(sample.completion)[1]:
            return LeftOut("its completion has text that stands for a picture")
        data, changes = _prompt_row(prepared, pictures)
        data["conversations"].append({"from": "gpt", "value": sample.completion})
        data |= {"loss_weight": self._weight(sample), "sample": name_of(sample.key)}
        return Row(data, changes=changes)


# LLaMA-Factory's ShareGPT files for preferences: `ranking: true` in `dataset_info.json`.
#
# A row is like one of `sharegpt` except for its replies::
#
#     {"conversations": [{"from": "human", "value": "<image>Task: ..."}],
#      "chosen": {"from": "gpt", "value": "click('12')"},
#      "rejected": {"from": "gpt", "value": "click('3')"},
#      "system": "...", "images": ["images/<sha256>.png"],
#      "sample": "<episode>/<step>/<call>", "rejected_sample": "...", "margin": 1.0}
#
# For `stage: dpo`.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingFormat(LengthOptions):
    """A format of pairs for LLaMA-Factory."""

    name: ClassVar[str] = "preferences"
    file: ClassVar[str] = _FILE
    imitated: ClassVar[bool] = False

    dataset_name: str = "webtraj"
    """What `dataset_info.json` calls the data: this, `_train` or `_val`."""

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        _write_info(folder, report, self.dataset_name, ranking=True)

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        turns = [*row["conversations"], row["chosen"]]
        chosen = {**row, "conversations": turns, "chosen": None, "rejected": None}
        return pair_of(
            super().sample_of(chosen, pictures),
            Rejected(row["rejected"]["value"], row["rejected_sample"]),
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        rejected = find_rejected(sample)
        assert rejected is not None, "Samples that are not pairs were left out."
        more = f"{rejected.sample}\0{rejected.completion}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(super().digest(sample) + more).digest()

    def _copies(self, sample: Sample) -> int | LeftOut:
        return fault_of_pair(sample) or 1

    def _row(self, prepared: Prepared, pictures: Pictures) -> Row | LeftOut:
        sample, rejected = prepared.sample, find_rejected(prepared.sample)
        assert rejected is not None
        if any(hide(text)[1] for text in (sample.completion, rejected.completion)):
            return LeftOut("its completion has text that stands for a picture")
        data, changes = _prompt_row(prepared, pictures)
        known = sample.reward is not None and rejected.reward is not None
        data |= {
            "chosen": {"from": "gpt", "value": sample.completion},
            "rejected": {"from": "gpt", "value": rejected.completion},
            "sample": name_of(sample.key),
            "rejected_sample": rejected.sample,
            "margin": sample.reward - rejected.reward if known else None,  # type: ignore[operator]
        }
        return Row(data, changes=changes)
