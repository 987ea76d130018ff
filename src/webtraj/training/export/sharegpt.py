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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson

from webtraj import errors
from webtraj.agents.models.base import Message, Part, Role, Text
from webtraj.datasets.exporters.plain import is_unicode
from webtraj.training.export import base, conversations
from webtraj.training.export.base import ExportReport, LeftOut, Row, copies_of, key_of, name_of
from webtraj.training.export.conversations import Conversation
from webtraj.training.export.lengths import LengthOptions
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.export.preferences import Rejected, pair_of, rejected_of
from webtraj.training.samples import Sample

__all__ = [
    "COLUMNS",
    "RankingFormat",
    "ShareGptFormat",
    "TAGS",
    "file_name",
    "messages_of",
    "prompt_row",
    "write_info",
]

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
COLUMNS = {"messages": "conversations", "system": "system", "images": "images"}

_SAID = {"user": "human", "assistant": "gpt"}


def file_name(split: str) -> str:
    """Return the name of a split's file.

    >>> file_name("train")
    'finetune_train.json'
    """
    return f"finetune_{split}.json"


def prompt_row(conversation: Conversation, pictures: Pictures) -> tuple[dict[str, Any], int]:
    """Return a prompt's columns, and the number of marks hidden in its text.

    Raises:
        CorruptDataError: A picture cannot be decoded.
    """
    names = [pictures.put(image) for image in conversation.images]
    hidden = 0
    turns = []
    for turn in conversation.turns:
        value, marks = _text_of(turn)
        hidden += marks
        turns.append({"from": _SAID[turn.role], "value": value})
    system, marks = conversations.hide(conversation.system)
    return {"conversations": turns, "system": system, "images": names}, hidden + marks


def messages_of(
    row: Mapping[str, Any], turns: Sequence[Mapping[str, str]], pictures: PictureReader
) -> tuple[Message, ...]:
    """Return the original prompt of `prompt_row`.

    Raises:
        CorruptDataError: The numbers of marks and pictures differ.
    """
    names = iter(row["images"])
    messages = [Message.of("system", conversations.show(row["system"]))] if row["system"] else []
    for turn in turns:
        role: Role = "user" if turn["from"] == "human" else "assistant"
        messages.append(Message(role, tuple(_parts_of(turn["value"], names, pictures))))
    if next(names, None) is not None:
        raise errors.CorruptDataError(f"{row['sample']}: more pictures than marks.")
    return tuple(messages)


def write_info(
    folder: Path, report: ExportReport, dataset_name: str, *, ranking: bool = False
) -> None:
    """Write `dataset_info.json` with every column and tag named."""
    info = {}
    for name, split in report.splits.items():
        columns = dict(COLUMNS)
        if ranking:
            columns |= {"chosen": "chosen", "rejected": "rejected"}
        if not split.pictures:  # An empty column is an error there.
            del columns["images"]
        info[f"{dataset_name}_{name}"] = {
            "file_name": file_name(name),
            "formatting": "sharegpt",
            **({"ranking": True} if ranking else {}),
            "columns": columns,
            "tags": TAGS,
        }
    content = orjson.dumps(info, option=orjson.OPT_INDENT_2)
    (folder / "dataset_info.json").write_bytes(content + b"\n")


def _text_of(turn: Message) -> tuple[str, int]:
    """Return a message's text with marks for its pictures, and the number of hidden marks."""
    # Hide marks after joining: the ends of two parts could form one.
    pieces: list[str] = []
    text = ""
    hidden = 0
    for part in (*turn.parts, None):
        if isinstance(part, Text):
            text += part.text
            continue
        piece, marks = conversations.hide(text)
        pieces.append(piece)
        hidden += marks
        text = ""
        if part is not None:
            pieces.append(conversations.IMAGE)
    return "".join(pieces), hidden


def _parts_of(value: str, names: Iterator[str], pictures: PictureReader) -> Iterator[Part]:
    for index, text in enumerate(value.split(conversations.IMAGE)):
        if index:
            name = next(names, None)
            if name is None:
                raise errors.CorruptDataError("More marks for pictures than pictures.")
            yield pictures.get(name)
        if text:
            yield Text(conversations.show(text))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareGptFormat(LengthOptions):
    """A format of ShareGPT files for LLaMA-Factory."""

    name: ClassVar[str] = "sharegpt"
    version: ClassVar[int] = 1

    weights: Literal["copies", "column"] = "copies"
    """Whether weights are written as copies (a sample of weight 2 twice), or only as the column
    `loss_weight`, which LLaMA-Factory's normal engine ignores."""
    seed: int = 0
    """Seed for rounding fractional weights."""
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
        sample = prepared.sample
        if conversations.hide(sample.completion)[1]:
            return LeftOut("its completion has text that stands for a picture")
        try:
            data, hidden = prompt_row(prepared.conversation, pictures)
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
        base.write_array(folder / file_name(split), rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        write_info(folder, report, self.dataset_name)

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return base.read_array(folder / file_name(split))

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        *turns, last = row["conversations"]
        return Sample(
            key=key_of(row["sample"]),
            messages=messages_of(row, turns, pictures),
            completion=last["value"],
            loss_weight=row["loss_weight"],
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        return conversations.digest_of(sample)


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
        prepared = self.prepared(sample)
        if isinstance(prepared, LeftOut):
            return prepared
        sample, rejected = prepared.sample, rejected_of(prepared.sample) or rejected
        if any(conversations.hide(text)[1] for text in (sample.completion, rejected.completion)):
            return LeftOut("its completion has text that stands for a picture")
        try:
            data, hidden = prompt_row(prepared.conversation, pictures)
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
        base.write_array(folder / file_name(split), rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`."""
        write_info(folder, report, self.dataset_name, ranking=True)

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return base.read_array(folder / file_name(split))

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        chosen = Sample(
            key=key_of(row["sample"]),
            messages=messages_of(row, row["conversations"], pictures),
            completion=row["chosen"]["value"],
        )
        return pair_of(chosen, Rejected(row["rejected"]["value"], row["rejected_sample"]))

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        rejected = rejected_of(sample)
        assert rejected is not None, "Samples that are not pairs were left out."
        more = f"{rejected.sample}\0{rejected.completion}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(conversations.digest_of(sample) + more).digest()
