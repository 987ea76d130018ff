"""What ShareGPT files have in common: turns with marks for pictures, and `dataset_info.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.agents.models.base import Message, Part, Role, Text
from webtraj.training.export import markers
from webtraj.training.export.base import ExportReport
from webtraj.training.export.conversations import Conversation
from webtraj.training.export.pictures import PictureReader, Pictures

__all__ = ["COLUMNS", "TAGS", "file_name", "messages_of", "prompt_row", "write_info"]

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


def prompt_row(conversation: Conversation, pictures: Pictures) -> tuple[dict[str, Any], int]:
    """Returns a prompt's columns, and how many marks in its text had to be hidden.

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
    system, marks = markers.hide(conversation.system)
    return {"conversations": turns, "system": system, "images": names}, hidden + marks


def messages_of(
    row: Mapping[str, Any], turns: Sequence[Mapping[str, str]], pictures: PictureReader
) -> tuple[Message, ...]:
    """Returns the prompt that `prompt_row` was given.

    Raises:
        CorruptDataError: There are more marks than pictures, or fewer.
    """
    names = iter(row["images"])
    messages = [Message.of("system", markers.show(row["system"]))] if row["system"] else []
    for turn in turns:
        role: Role = "user" if turn["from"] == "human" else "assistant"
        messages.append(Message(role, tuple(_parts_of(turn["value"], names, pictures))))
    if next(names, None) is not None:
        raise errors.CorruptDataError(f"{row['sample']}: more pictures than marks for them.")
    return tuple(messages)


def write_info(
    folder: Path, report: ExportReport, dataset_name: str, *, ranking: bool = False
) -> None:
    """Writes `dataset_info.json`, every column and tag by its name."""
    info = {}
    for name, split in report.splits.items():
        columns = dict(COLUMNS)
        if ranking:
            columns |= {"chosen": "chosen", "rejected": "rejected"}
        if not split.pictures:  # A column that no row fills is an error there.
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
