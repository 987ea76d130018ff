"""The rows of TRL's files: messages, pictures, and what else is known of a sample.

Where there are pictures, a message's content is a list of parts, and `images` has the pictures in
the order of the parts that stand for them; without any, content is text, since templates of models
for text alone take lists for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.datasets.exporters.hf_tables import Column
from webtraj.datasets.exporters.plain import image_kind
from webtraj.training.export.base import key_of, name_of
from webtraj.training.export.conversations import Conversation
from webtraj.training.samples import Sample

__all__ = [
    "columns_of",
    "facts_of",
    "in_text",
    "messages_of",
    "parts_row",
    "reply_row",
    "sample_of",
]

_PARTS = "[{role: string, content: [{type: string, text: string}]}]"
_TEXT = "[{role: string, content: string}]"
_FACTS = {
    "loss_weight": Column("float64", "How much it counts."),
    "reward": Column("float64", "What its episode was worth; null if that is not known."),
    "advantage": Column("float64", "The reward minus the mean of its group."),
    "group": Column("string", "Shared by attempts that are compared with each other."),
    "task": Column("string", "The task's name."),
    "goal": Column("string", "What was to be done, in words."),
    "policy_version": Column("string", "Which weights sampled the reply."),
    "sample": Column("string", "Where it is from: `<episode>/<step>/<call>`."),
}


def columns_of(replies: Mapping[str, str], *, parts: bool) -> dict[str, Column]:
    """Returns a table's columns.

    Args:
        replies: The columns of replies, and what they are.
        parts: Whether there are pictures.
    """
    kind = _PARTS if parts else _TEXT
    columns = {"prompt": Column(kind, "The conversation, as the model was sent it.")}
    columns |= {name: Column(kind, meaning) for name, meaning in replies.items()}
    if parts:
        columns["images"] = Column("[image]", "The prompt's pictures, in order.")
    return columns | _FACTS


def parts_row(conversation: Conversation) -> dict[str, Any]:
    """Returns a prompt's columns, in parts."""
    return {
        "prompt": [
            {"role": message.role, "content": [_part(part) for part in message.parts]}
            for message in conversation.messages()
        ],
        "images": [_picture(image) for image in conversation.images],
    }


def reply_row(completion: str) -> list[dict[str, Any]]:
    """Returns a reply's column, in parts."""
    return [{"role": "assistant", "content": [{"type": "text", "text": completion}]}]


def facts_of(sample: Sample) -> dict[str, Any]:
    """Returns the columns of what else is known."""
    return {
        "loss_weight": float(sample.loss_weight),
        "reward": None if sample.reward is None else float(sample.reward),
        "advantage": None if sample.advantage is None else float(sample.advantage),
        "group": sample.group_id,
        "task": sample.task,
        "goal": sample.goal,
        "policy_version": sample.policy_version,
        "sample": name_of(sample.key),
    }


def in_text(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns messages whose content is text, of some in parts."""
    return [
        {"role": m["role"], "content": "".join(part["text"] for part in m["content"])}
        for m in messages
    ]


def messages_of(row: Mapping[str, Any]) -> tuple[Message, ...]:
    """Returns the prompt of a row.

    Raises:
        CorruptDataError: It has another number of pictures than of parts that stand for them.
    """
    images = iter(row.get("images") or ())
    messages = []
    for message in row["prompt"]:
        content = message["content"]
        parts: list[Part] = []
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                parts.append(Text(part["text"]))
                continue
            image = next(images, None)
            if image is None:
                raise errors.CorruptDataError(f"{row['sample']}: fewer pictures than parts.")
            parts.append(Image(image["bytes"]))
        messages.append(Message(message["role"], tuple(parts)))
    if next(images, None) is not None:
        raise errors.CorruptDataError(f"{row['sample']}: more pictures than parts for them.")
    return tuple(messages)


def sample_of(row: Mapping[str, Any], reply: str) -> Sample:
    """Returns the sample of a row, with the reply in a column."""
    (said,) = row[reply]
    content = said["content"]
    return Sample(
        key=key_of(row["sample"]),
        messages=messages_of(row),
        completion=content if isinstance(content, str) else content[0]["text"],
        loss_weight=row["loss_weight"],
        reward=row["reward"],
        advantage=row["advantage"],
        group_id=row["group"],
        task=row["task"],
        goal=row["goal"],
        policy_version=row["policy_version"],
    )


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", "text": None}
    return {"type": "text", "text": part.text}


def _picture(image: Image) -> dict[str, Any]:
    kind = image_kind(image.data)
    assert kind is not None, "What is no picture was refused."
    return {"bytes": image.data, "path": f"{image.uuid}.{kind[0]}"}
