"""OpenAI's messages: `train.jsonl`, one conversation per line.

::

    {"messages": [{"role": "system", "content": "..."},
                  {"role": "user", "content": [{"type": "text", "text": "..."},
                                               {"type": "image_url", "image_url": {"url": "..."}}]},
                  {"role": "assistant", "content": "click('12')", "weight": 1}],
     "sample": "<episode>/<step>/<call>", "loss_weight": 1.0}

Samples with tool calls have `tool_calls`, messages with the role `tool`, and `tools`.

Earlier replies in a prompt have weight 0, so OpenAI's fine-tuning does not train on them. Pictures
are files that rows name by path, or data URLs in the rows.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text, ToolCall
from webtraj.agents.models.messages import functions_of
from webtraj.agents.models.replies import tool_calls_of
from webtraj.datasets.exporters.plain import image_kind
from webtraj.training.export import base, conversations
from webtraj.training.export.base import ExportReport, LeftOut, Row, copies_of, key_of, name_of
from webtraj.training.export.lengths import LengthOptions
from webtraj.training.export.pictures import PictureReader, Pictures
from webtraj.training.samples import Sample

__all__ = ["OpenAIFormat"]

_DATA = "data:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenAIFormat(LengthOptions):
    """A format of OpenAI's messages as JSON lines."""

    name: ClassVar[str] = "openai"
    version: ClassVar[int] = 1

    keeps_tools: ClassVar[bool] = True

    images: Literal["files", "inline"] = "files"
    """Whether pictures are separate files, each stored once, or data URLs in the rows."""
    weights: Literal["copies", "column"] = "copies"
    """Whether weights are written as copies, or only as `loss_weight`."""
    seed: int = 0
    """Seed for rounding fractional weights."""

    def row(self, sample: Sample, pictures: Pictures) -> Row | LeftOut:
        """See `SampleFormat.row`."""
        copies = copies_of(sample, self.seed, column=self.weights == "column")
        if isinstance(copies, LeftOut):
            return copies
        prepared = self.prepared(sample)
        if isinstance(prepared, LeftOut):
            return prepared
        sample = prepared.sample
        tools = functions_of(sample.tools)
        if tools is None:
            return LeftOut("the model was offered a tool of the provider's own")
        messages: list[dict[str, Any]] = []
        if prepared.conversation.system:
            messages.append({"role": "system", "content": prepared.conversation.system})
        try:
            for turn in prepared.conversation.turns:
                message = {"role": turn.role, "content": self._content(turn, pictures)}
                message |= _calls(turn)
                messages.append({**message, "weight": 0} if turn.role == "assistant" else message)
        except errors.CorruptDataError:
            return LeftOut("a picture of its prompt cannot be decoded")
        reply = Message("assistant", (), sample.calls)
        said = (
            {"content": sample.completion or None}
            if sample.calls
            else {"content": sample.completion}
        )
        messages.append({"role": "assistant", **said, **_calls(reply), "weight": 1})
        data = {
            "messages": messages,
            **({"tools": list(tools)} if sample.uses_tools else {}),
            "sample": name_of(sample.key),
            "loss_weight": sample.loss_weight if self.weights == "column" else 1.0,
        }
        return Row(data, copies, prepared.changes, prepared.sample)

    def write(self, rows: Iterable[Row], folder: Path, split: str) -> None:
        """See `SampleFormat.write`."""
        base.write_lines(folder / f"{split}.jsonl", rows)

    def finish(self, folder: Path, report: ExportReport) -> None:
        """See `SampleFormat.finish`. There are no other files."""

    def read(self, folder: Path, split: str) -> Iterable[Mapping[str, Any]]:
        """See `SampleFormat.read`."""
        return base.read_lines(folder / f"{split}.jsonl")

    def sample_of(self, row: Mapping[str, Any], pictures: PictureReader) -> Sample:
        """See `SampleFormat.sample_of`."""
        *prompt, last = row["messages"]
        return Sample(
            key=key_of(row["sample"]),
            messages=tuple(
                Message(
                    message["role"],
                    tuple(_parts_of(message["content"], pictures)),
                    called_in(message),
                )
                for message in prompt
            ),
            completion=last["content"] or "",
            calls=called_in(last),
            tools=tuple(row.get("tools", ())),
            loss_weight=row["loss_weight"],
        )

    def digest(self, sample: Sample) -> bytes:
        """See `SampleFormat.digest`."""
        return conversations.digest_of(sample)

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
        return f"{_DATA}{kind[1]};base64,{base64.b64encode(image.data).decode()}"


def called_in(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the calls of a row's message; that which it answers, if it is a tool's."""
    if message["role"] == "tool":
        return (ToolCall(str(message["tool_call_id"]), ""),)
    calls = tool_calls_of({"choices": [{"message": message}]})
    return tuple(ToolCall(call.id, call.name, call.arguments) for call in calls)


def _calls(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"tool_call_id": message.calls[0].id}
    return {"tool_calls": [call.to_data() for call in message.calls]} if message.calls else {}


def _parts_of(
    content: str | list[dict[str, Any]] | None, pictures: PictureReader
) -> Iterable[Part]:
    if content is None:
        return
    if isinstance(content, str):
        yield Text(content)
        return
    for part in content:
        if part["type"] == "text":
            yield Text(part["text"])
            continue
        url = part["image_url"]["url"]
        if not url.startswith(_DATA):
            yield pictures.get(url)
            continue
        try:
            yield Image(base64.b64decode(url.partition(",")[2], validate=True))
        except binascii.Error as error:
            raise errors.CorruptDataError(f"A picture's data URL is broken: {error}.") from error
