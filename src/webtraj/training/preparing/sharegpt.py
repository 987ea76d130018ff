"""Rows of ShareGPT, as LLaMA-Factory takes them, said as messages.

::

    {"conversations": [{"from": "human", "value": "<image>Task: ..."},
                       {"from": "gpt", "value": "click('12')"}],
     "system": "...", "images": ["images/a.png"], "loss_weight": 1.0}

The last turn is the reply. In prompts, `<image>` stands for the next of `images`, and text that
only looks like it is shown as it was before it was exported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.training.export import markers

__all__ = ["as_messages", "is_row"]

_ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
_OTHERS = {"chosen", "rejected", "kto_tag", "videos", "audios", "tools"}


def is_row(row: Mapping[str, Any]) -> bool:
    """Returns whether a row is one of ShareGPT."""
    return "conversations" in row


def as_messages(row: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Returns the same row with `messages`.

    Args:
        row: A row of ShareGPT.
        what: Names the row in errors.

    Raises:
        InvalidInputError: It has no turns, a turn of somebody else, no reply at its end, or
            something that this trainer does not take, such as a second reply.
    """
    if strange := sorted(key for key in _OTHERS & row.keys() if row[key]):
        raise errors.InvalidInputError(
            f"{what} has {', '.join(strange)}, which are not trained on here; expected "
            "conversations with system and images. Pairs of replies are for preference training."
        )
    turns = row["conversations"]
    if not isinstance(turns, list) or not turns:
        raise errors.InvalidInputError(
            f"{what}: conversations is a list of turns; got {turns!r:.60}."
        )
    messages: list[dict[str, Any]] = []
    system = row.get("system")
    if system:
        messages.append({"role": "system", "content": markers.show(str(system))})
    for position, turn in enumerate(turns):
        match turn:
            case {"from": str(speaker), "value": str(value)} if speaker in _ROLES:
                last = position == len(turns) - 1
                content = value if last else _parts(value)
                messages.append({"role": _ROLES[speaker], "content": content})
            case _:
                raise errors.InvalidInputError(
                    f"{what}: turn {position} is not from {', '.join(_ROLES)} with a text as its "
                    f"value: {turn!r:.100}."
                )
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise errors.InvalidInputError(
            f"{what}: its last turn is not a reply of gpt to what was said before."
        )
    rest = {key: value for key, value in row.items() if key not in ("conversations", "system")}
    return {**rest, "messages": messages}


def _parts(value: str) -> list[dict[str, str]]:
    parts: list[dict[str, str]] = []
    for index, text in enumerate(value.split(markers.IMAGE)):
        if index:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": markers.show(text)})
    return parts
