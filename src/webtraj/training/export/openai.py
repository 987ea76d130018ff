"""OpenAI's messages: `train.jsonl`, one conversation per line.

::

    {"messages": [{"role": "system", "content": "..."},
                  {"role": "user", "content": [{"type": "text", "text": "..."},
                                               {"type": "image_url", "image_url": {"url": "..."}}]},
                  {"role": "assistant", "content": "click('12')", "weight": 1}],
     "sample": "<episode>/<step>/<call>", "loss_weight": 1.0}

Samples of a model that was offered tools have `tools`, `tool_calls` and messages with the role
`tool`.

Earlier replies in a prompt have weight 0, so OpenAI's fine-tuning does not train on them. Pictures
are files that rows name by path, or data URLs in the rows.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, ClassVar, Literal

from webtraj.agents.models.base import Image, Message, Text
from webtraj.agents.models.messages import functions_of
from webtraj.datasets.exporters.plain import image_kind
from webtraj.training.export.base import LeftOut, Row
from webtraj.training.export.lengths import Prepared, WeightOptions
from webtraj.training.export.pictures import Pictures
from webtraj.training.samples import name_of

__all__ = ["OpenAIFormat"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenAIFormat(WeightOptions):
    """A format of OpenAI's messages as JSON lines."""

    name: ClassVar[str] = "openai"
    keeps_tools: ClassVar[bool] = True

    images: Literal["files", "inline"] = "files"
    """Whether pictures are separate files, each stored once, or data URLs in the rows."""

    def _row(self, prepared: Prepared, pictures: Pictures) -> Row | LeftOut:
        sample = prepared.sample
        tools = functions_of(sample.tools)
        if tools is None:
            return LeftOut("the model was offered a tool of the provider's own")
        messages: list[dict[str, Any]] = []
        if prepared.conversation.system:
            messages.append({"role": "system", "content": prepared.conversation.system})
        for turn in prepared.conversation.turns:
            message = {"role": turn.role, "content": self._content(turn, pictures), **_calls(turn)}
            messages.append({**message, "weight": 0} if turn.role == "assistant" else message)
        said = sample.completion or None if sample.calls else sample.completion
        reply = _calls(Message("assistant", (), sample.calls))
        messages.append({"role": "assistant", "content": said, **reply, "weight": 1})
        return Row(
            {
                "messages": messages,
                **({"tools": list(tools)} if tools else {}),
                "sample": name_of(sample.key),
                "loss_weight": self._weight(sample),
            }
        )

    def _content(self, message: Message, pictures: Pictures) -> str | list[dict[str, Any]] | None:
        if message.calls and not message.parts:
            return None
        if all(isinstance(part, Text) for part in message.parts):
            return "".join(part.text for part in message.parts if isinstance(part, Text))
        return [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {"type": "image_url", "image_url": {"url": self._url(part, pictures)}}
            for part in message.parts
        ]

    def _url(self, image: Image, pictures: Pictures) -> str:
        if self.images == "files":
            return pictures.put(image)
        pictures.check(image)
        kind = image_kind(image.data)
        assert kind is not None, "Pictures of unknown kinds were refused."
        return f"data:{kind[1]};base64,{base64.b64encode(image.data).decode()}"


def _calls(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"tool_call_id": message.calls[0].id}
    return {"tool_calls": [call.to_data() for call in message.calls]} if message.calls else {}
