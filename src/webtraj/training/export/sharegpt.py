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
the column is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson

from webtraj import errors
from webtraj.agents.models.base import Message, Part, Role, Text
from webtraj.training.export import conversations, json_files, markers
from webtraj.training.export.base import ExportReport, LeftOut, Row, key_of, name_of
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.weighting import copies_of
from webtraj.training.samples import Sample

__all__ = ["COLUMNS", "TAGS", "ShareGptFormat", "file_name"]

TAGS = {
    "role_tag": "from",
    "content_tag": "value",
    "user_tag": "human",
    "assistant_tag": "gpt",
    "observation_tag": "observation",
    "function_tag": "function_call",
    "system_tag": "system",
}
COLUMNS = {"messages": "conversations", "system": "system", "images": "images"}

_SAID = {"user": "human", "assistant": "gpt"}


def file_name(split: str) -> str:
    """Returns the name of a split's file.

    >>> file_name("train")
    'finetune_train.json'
    """
    return f"finetune_{split}.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareGptFormat:
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
        conversation = conversations.conversation_of(sample)
        if isinstance(conversation, LeftOut):
            return conversation
        if markers.hide(sample.completion)[1]:
            return LeftOut("its completion has text that stands for a picture")
        copies: int | LeftOut = 1 if self.weights == "column" else copies_of(sample, self.seed)
        if isinstance(copies, LeftOut):
            return copies
        try:
            names = [pictures.put(image) for image in conversation.images]
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        hidden = 0
        turns = []
        for turn in conversation.turns:
            value, marks = _text_of(turn)
            hidden += marks
            turns.append({"from": _SAID[turn.role], "value": value})
        turns.append({"from": "gpt", "value": sample.completion})
        system, marks = markers.hide(conversation.system)
        changes = {"hidden_marks": hidden + marks, "merged_messages": conversation.merged}
        data = {
            "conversations": turns,
            "system": system,
            "images": names,
            "loss_weight": sample.loss_weight if self.weights == "column" else 1.0,
            "sample": name_of(sample.key),
        }
        return Row(data, copies, {name: count for name, count in changes.items() if count})

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`."""
        json_files.write_array(folder / file_name(split), rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        info = {}
        for name, split in report.splits.items():
            columns = dict(COLUMNS)
            if not split.pictures:  # A column that no row fills is an error there.
                del columns["images"]
            info[f"{self.dataset_name}_{name}"] = {
                "file_name": file_name(name),
                "formatting": "sharegpt",
                "columns": columns,
                "tags": TAGS,
            }
        content = orjson.dumps(info, option=orjson.OPT_INDENT_2)
        (folder / "dataset_info.json").write_bytes(content + b"\n")

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return json_files.read_array(folder / file_name(split))

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        *turns, last = row["conversations"]
        names = iter(row["images"])
        messages = [Message.of("system", markers.show(row["system"]))] if row["system"] else []
        for turn in turns:
            role: Role = "user" if turn["from"] == "human" else "assistant"
            messages.append(Message(role, tuple(_parts_of(turn["value"], names, pictures))))
        if next(names, None) is not None:
            raise errors.CorruptDataError(f"{row['sample']}: more pictures than marks for them.")
        return Sample(
            key=key_of(row["sample"]),
            messages=tuple(messages),
            completion=last["value"],
            loss_weight=row["loss_weight"],
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        return conversations.digest_of(sample)


def _text_of(turn: Message) -> tuple[str, int]:
    """Returns a message's text with marks where its pictures are, and how much text was hidden."""
    # Text is hidden when it is joined: a mark could be made of the ends of two parts.
    pieces: list[str] = []
    text = ""
    hidden = 0
    for part in (*turn.parts, None):
        if isinstance(part, Text):
            text += part.text
            continue
        piece, marks = markers.hide(text)
        pieces.append(piece)
        hidden += marks
        text = ""
        if part is not None:
            pieces.append(markers.IMAGE)
    return "".join(pieces), hidden


def _parts_of(value: str, names: Iterator[str], pictures: PictureReader) -> Iterator[Part]:
    for index, text in enumerate(value.split(markers.IMAGE)):
        if index:
            name = next(names, None)
            if name is None:
                raise errors.CorruptDataError("There are more marks for pictures than pictures.")
            yield pictures.get(name)
        if text:
            yield Text(markers.show(text))
