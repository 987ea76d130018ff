"""Samples in rows of files, as exporters write them.

A row has token ids or messages, or both::

    {"prompt_token_ids": [...], "completion_token_ids": [...], "loss_weight": 1.0, "images": [...]}
    {"messages": [...], "completion": "click('4')", "loss_weight": 1.0, "images": [...]}

* `messages` are OpenAI's: `{"role", "content"}`, the content a text or a list of parts, `{"type":
  "text", "text"}`, `{"type": "image"}` or `{"type": "image_url", "image_url": {"url": data URI}}`.
  Without a `completion`, the last message is the reply. `prompt` may be said for `messages`, and a
  completion may be a list of one message, as TRL has them.
* `images` are paths beside the file, one for each part `image`, in order. A part `image_url` may
  have such a path for itself.
* `prompt_ids` and `completion_ids` may be said for the token ids.

* `weight` may be said for `loss_weight`, and `"sample": "<episode>/<step>/<call>"` names it.

Or it is a row of ShareGPT, `{"conversations": [{"from": "human", "value": "<image>..."}, ...]}`:
see `sharegpt`. So what `webtraj.training.export` writes as `tokens`, `openai` and `sharegpt` can be
read. Other keys are kept as the sample's metadata. A row that is none is an error that names its
line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text
from webtraj.training.preparing import contents, sharegpt
from webtraj.training.samples import Sample, SampleKey

__all__ = ["read_row"]

_KNOWN = frozenset(
    {
        "messages", "prompt", "completion", "images", "loss_weight", "prompt_token_ids",
        "completion_token_ids", "prompt_ids", "completion_ids", "episode_id", "step", "call",
        "weight", "sample",
    }
)  # fmt: skip


def read_row(
    row: Mapping[str, Any], what: str, *, folder: Path | None = None, number: int = 0
) -> Sample:
    """Returns the sample that a row holds.

    Args:
        row: The row's data.
        what: Names the row in errors.
        folder: Where the paths of its images begin; without one there may be none.
        number: Stands for the step in the sample's key, if the row does not say.

    Raises:
        InvalidInputError: It is none.
    """
    if sharegpt.is_row(row):
        row = sharegpt.as_messages(row, what)
    pictures = [
        Image(contents.picture_of(name, folder, what)) for name in _list(row, "images", str, what)
    ]
    said = row.get("messages", row.get("prompt"))
    unused = iter(pictures)
    messages = contents.messages_of([] if said is None else said, unused, what, folder)
    completion = contents.completion_of(row.get("completion"), what)
    prompt_ids = _ids(row, "prompt_token_ids", "prompt_ids", what)
    completion_ids = _ids(row, "completion_token_ids", "completion_ids", what)
    if completion is None and messages and messages[-1].role == "assistant":
        *messages, reply = messages
        if not all(isinstance(part, Text) for part in reply.parts):
            raise errors.InvalidInputError(f"{what}: the reply shows an image; expected text.")
        completion = "".join(part.text for part in reply.parts if isinstance(part, Text))
    if left := list(unused):
        if messages and said is not None and any(contents.shows_images(m) for m in messages):
            raise errors.InvalidInputError(
                f"{what}: {len(left)} of its {len(pictures)} images stand nowhere in its messages."
            )
        # Only the token ids say where they stand; which they are is all that is needed.
        messages = [*messages, Message("user", tuple(left))]
    if not (completion_ids and prompt_ids) and (completion is None or not messages):
        raise errors.InvalidInputError(
            f"{what}: expected prompt_token_ids with completion_token_ids, or messages with a "
            f"completion; got the keys {', '.join(sorted(row))}."
        )
    weight = row.get("loss_weight", row.get("weight", 1.0))
    if not isinstance(weight, int | float) or isinstance(weight, bool):
        raise errors.InvalidInputError(f"{what}: loss_weight is a number; got {weight!r:.60}.")
    return Sample(
        key=_key(row, what, number),
        messages=tuple(messages),
        completion=completion or "",
        prompt_token_ids=prompt_ids,
        completion_token_ids=completion_ids,
        loss_weight=float(weight),
        metadata={key: value for key, value in row.items() if key not in _KNOWN},
    )


def _key(row: Mapping[str, Any], what: str, number: int) -> SampleKey:
    parts = str(row.get("sample", "")).rsplit("/", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return SampleKey(parts[0], int(parts[1]), int(parts[2]))
    step, call = row.get("step", number), row.get("call", 0)
    return SampleKey(
        str(row.get("episode_id", what)),
        step if isinstance(step, int) else number,
        call if isinstance(call, int) else 0,
    )


def _ids(row: Mapping[str, Any], name: str, other: str, what: str) -> tuple[int, ...]:
    return tuple(_list(row, name if name in row else other, int, what))


def _list(row: Mapping[str, Any], name: str, kind: type, what: str) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or any(type(item) is not kind for item in value):
        raise errors.InvalidInputError(
            f"{what}: {name} is a list of {kind.__name__}; got {value!r:.60}."
        )
    return value
