"""Samples read from rows of files, which exports or you have written.

A row has token ids or messages, or both::

    {"prompt_token_ids": [...], "completion_token_ids": [...], "loss_weight": 1.0, "images": [...]}
    {"messages": [...], "completion": "click('4')", "loss_weight": 1.0, "images": [...]}

* `messages` follow OpenAI: `{"role", "content"}`, the content a text or a list of parts: `{"type":
  "text", "text"}`, `{"type": "image"}` or `{"type": "image_url", "image_url": {"url": picture}}`.
  Without a `completion`, the last message is the reply. `prompt` is accepted for `messages`, and a
  completion may be a list of one message, as in TRL.
* `images` are pictures, one for each part `image`, in order. A picture is a path beside the file or
  a base64 data URI; in Parquet, `{"bytes": ...}`. A file named by a SHA-256 must match it.
* `prompt_ids` and `completion_ids` are accepted for the token ids.
* `grids` and `processor` say what the model's processor made of the pictures: see
  `webtraj.training.sft.pictures`.
* `weight` is accepted for `loss_weight`. `"sample": "<episode>/<step>/<call>"` names the row.
* `mask` (0 or 1 for each token of prompt and completion) says which tokens are trained: some of the
  completion's.
* `logprobs` (one for each token of the completion), `temperature`, `reward`, `outcome`,
  `advantage`, `group` and `iteration` are for policy-gradient training.

Or it is a ShareGPT row: `{"conversations": [{"from": "human", "value": "<image>..."}, ...]}`. So
every format of `webtraj.training.export` is read here: by the trainer, by the check after an
export, and by the preview. Other keys become the sample's metadata. A row in no known format is an
error that names its line.
"""

from __future__ import annotations

import base64
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import orjson

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text, ToolCall
from webtraj.agents.models.messages import PICTURE_MARKS
from webtraj.agents.models.replies import tool_calls_of
from webtraj.training.samples import Sample, SampleKey, key_of
from webtraj.trajectory import Outcome

__all__ = [
    "IMAGE",
    "LazySamples",
    "SampleFile",
    "completion_of",
    "hide",
    "read_picture",
    "read_row",
    "read_rows",
    "show",
]

# Marks for pictures in text, and text that only looks like a mark.
#
# Trainers that read `<image>` as a picture count the marks and abort if their number differs from
# that of the pictures; so do models with tokens of their own (`<|image_pad|>`). One mark on
# a page is enough. So such text is written with a zero-width character, which is removed again::
#
#     >>> hide("see <image>")
#     ('see <\u200bimage>', 1)
#     >>> show(hide("see <image>")[0])
#     'see <image>'

IMAGE = "<image>"

_NO_WIDTH = "\u200b"
_MARK = f"({PICTURE_MARKS})"
_LOOKS_LIKE_ONE = re.compile(f"<({_NO_WIDTH}*){_MARK}")
_HIDDEN = re.compile(f"<{_NO_WIDTH}({_NO_WIDTH}*){_MARK}")


def hide(text: str) -> tuple[str, int]:
    """Return the text with every picture mark broken up, and the number of marks."""
    if "<" not in text:
        return text, 0
    return _LOOKS_LIKE_ONE.subn(rf"<{_NO_WIDTH}\1\2", text)


def show(text: str) -> str:
    """Return the original text of `hide`."""
    return _HIDDEN.sub(r"<\1\2", text)


# Messages of a row: text, and images beside the file or inside the row.

_ROLES = ("system", "user", "assistant", "tool")
_Finder = Callable[[str], Image]
"""Returns the image at a path, or of a data URI."""


def _messages_of(said: Any, images: Iterator[Image], find: _Finder, what: str) -> list[Message]:
    """Return a row's messages. Each part `image` takes the next image."""
    if not isinstance(said, list):
        raise _wrong(what, "a list of messages", said)
    messages = []
    for position, message in enumerate(said):
        where = f"{what}: message {position}"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise _wrong(where, f"a role of {', '.join(_ROLES)}", message)
        content = message.get("content")
        parts = [content] if isinstance(content, str) else content
        if content is None and (message.get("tool_calls") or message["role"] == "tool"):
            parts = []  # A tool may return nothing.
        if not isinstance(parts, list):
            raise _wrong(where, "a text or a list of parts as content", content)
        if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise _wrong(where, "a tool_call_id with the role tool", message)
        parts = tuple(_part(part, images, find, where) for part in parts)
        messages.append(Message(message["role"], parts, _find_calls(message)))
    return messages


def _part(part: Any, images: Iterator[Image], find: _Finder, where: str) -> Part:
    match part:
        case str():
            return Text(part)
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(name)}}:
            return find(name)
        case {"type": "image"}:
            image = next(images, None)
            if image is None:
                raise errors.InvalidInputError(f"{where} shows an image missing in `images`.")
            return image
    raise _wrong(where, "a text or image part", part)


def _find_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Return the calls of a row's message. For a tool's message, return the call it answers."""
    if message["role"] == "tool":
        return (ToolCall(message["tool_call_id"], ""),)
    if not (message.get("tool_calls") or message.get("function_call")):
        return ()
    calls = tool_calls_of({"choices": [{"message": message}]})
    return tuple(ToolCall(call.id, call.name, call.arguments) for call in calls)


def completion_of(said: Any, what: str) -> str | None:
    """Return a row's reply; None if it has none.

    Raises:
        InvalidInputError: The reply is neither a text nor a list of one text message.
    """
    match said:
        case None | str():
            return said
        case [{"role": "assistant", "content": str(text)}]:
            return text
        case [{"role": "assistant", "content": [{"type": "text", "text": str(text)}]}]:
            return text
    raise _wrong(what, "a text or a list of one assistant message as completion", said)


def _image_of(given: Any, find: _Finder, what: str) -> Image:
    match given:
        case str():
            return find(given)
        case {"bytes": bytes(data)}:
            return Image(data)
    raise _wrong(what, "paths or data URIs of images", given)


def _image_at(at_path: _Finder, what: str, name: str) -> Image:
    """Return the image of a data URI, or at a path."""
    if not name.startswith("data:"):
        return at_path(name)
    head, _, data = name.partition(",")
    try:
        if head.endswith(";base64"):
            return Image(base64.b64decode(data, validate=True))
    except ValueError:  # Not base64, or not even ASCII.
        pass
    raise _wrong(what, "an image as base64 data URI", name)


_SHA256 = re.compile(r"[0-9a-f]{64}")


def read_picture(path: Path) -> Image:
    """Read a picture's file. If its name is a SHA-256, the content must match.

    Raises:
        CorruptDataError: The content has another hash.
        OSError: It cannot be read.
    """
    image = Image(path.read_bytes())
    if _SHA256.fullmatch(path.stem) and image.uuid != path.stem:
        raise errors.CorruptDataError(
            f"The picture {path.name!r} is damaged: its content does not match its name."
        )
    return image


def _beside(folder: Path | None, what: str, name: str) -> Image:
    """Read an image beside the file. Its path must not leave the file's folder."""
    try:
        path = folder and (folder / name).resolve()
        if folder and path and path.is_relative_to(folder.resolve()):
            return read_picture(path)
    except (OSError, ValueError) as error:
        raise errors.InvalidInputError(
            f"{what}: cannot read the image {name!r:.100}: {errors.reason(error)}."
        ) from error
    raise errors.InvalidInputError(
        f"{what}: the image {name!r:.100} is not beside the file; expected a path in its folder."
    )


# ShareGPT rows for LLaMA-Factory, converted to messages.
#
# ::
#
#     {"conversations": [{"from": "human", "value": "<image>Task: ..."},
#                        {"from": "gpt", "value": "click('12')"}],
#      "system": "...", "images": ["images/a.png"], "loss_weight": 1.0}
#
# The last turn is the reply. In prompts, `<image>` stands for the next of `images`. Text that the
# exporter escaped because it looks like a mark is restored.

_SHAREGPT_ROLES = {"system": "system", "human": "user", "gpt": "assistant"}
_OTHERS = {"chosen", "rejected", "kto_tag", "videos", "audios", "tools"}


def _as_messages(row: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a ShareGPT row with `messages` instead of conversations."""
    if strange := sorted(key for key in _OTHERS & row.keys() if row[key]):
        raise errors.InvalidInputError(
            f"{what} has {', '.join(strange)}, which this trainer does not support; expected "
            "conversations with system and images. Pairs of replies are for preference training."
        )
    turns = row["conversations"]
    if not isinstance(turns, list) or not turns:
        raise _wrong(what, "a list of turns as conversations", turns)
    messages: list[dict[str, Any]] = []
    if system := row.get("system"):
        messages.append({"role": "system", "content": show(str(system))})
    for position, turn in enumerate(turns):
        match turn:
            case {"from": str(speaker), "value": str(value)} if speaker in _SHAREGPT_ROLES:
                last = position == len(turns) - 1
                content = value if last else _parts(value)
                messages.append({"role": _SHAREGPT_ROLES[speaker], "content": content})
            case _:
                expected = f"a text from {', '.join(_SHAREGPT_ROLES)}"
                raise _wrong(f"{what}: turn {position}", expected, turn)
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise errors.InvalidInputError(f"{what}: expected a reply of gpt as the last turn.")
    rest = {key: value for key, value in row.items() if key not in ("conversations", "system")}
    return {**rest, "messages": messages}


def _parts(value: str) -> list[dict[str, str]]:
    parts: list[dict[str, str]] = []
    for index, text in enumerate(value.split(IMAGE)):
        if index:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": show(text)})
    return parts


_KNOWN = frozenset(
    {
        "messages", "prompt", "completion", "images", "loss_weight", "prompt_token_ids",
        "completion_token_ids", "prompt_ids", "completion_ids", "episode_id", "step", "call",
        "weight", "sample", "logprobs", "reward", "advantage", "group", "iteration",
        "policy", "policy_version", "temperature", "tools", "task", "goal", "mask", "chosen",
        "rejected", "margin", "rejected_sample", "finish_reason", "outcome", "grids", "processor",
    }
)  # fmt: skip


def read_row(
    row: Mapping[str, Any],
    what: str,
    *,
    folder: Path | None = None,
    number: int = 0,
    picture: Callable[[str], Image] | None = None,
) -> Sample:
    """Return the sample in a row.

    Args:
        row: The row's data.
        what: The row's name in errors.
        folder: The base of its image paths; None allows no image files.
        number: The step in the sample's key, if the row has no key.
        picture: Returns the image at a path, instead of `folder`.

    Raises:
        InvalidInputError: The row is not a sample.
    """
    if "conversations" in row:
        row = _as_messages(row, what)
    at_path = picture or functools.partial(_beside, folder, what)
    find = functools.partial(_image_at, at_path, what)
    pictures = [_image_of(one, find, what) for one in _list(row, "images", what, str, dict)]
    said = row.get("messages", row.get("prompt"))
    unused = iter(pictures)
    messages = _messages_of([] if said is None else said, unused, find, what)
    completion = completion_of(row.get("completion"), what)
    calls: tuple[ToolCall, ...] = ()
    prompt_ids = _ids(row, "prompt_token_ids", "prompt_ids", what)
    completion_ids = _ids(row, "completion_token_ids", "completion_ids", what)
    if completion is None and messages and messages[-1].role == "assistant":
        *messages, reply = messages
        if not all(isinstance(part, Text) for part in reply.parts):
            raise errors.InvalidInputError(f"{what}: the reply contains an image; expected text.")
        completion = "".join(part.text for part in reply.parts if isinstance(part, Text))
        calls = reply.calls
    if left := list(unused):
        if any(isinstance(part, Image) for message in messages for part in message.parts):
            raise errors.InvalidInputError(
                f"{what}: its messages leave {len(left)} of its {len(pictures)} images unused."
            )
        # Their places follow from the token ids; only the images are needed.
        messages = [*messages, Message("user", tuple(left))]
    if not (completion_ids and prompt_ids) and (completion is None or not messages):
        raise errors.InvalidInputError(
            f"{what}: expected prompt_token_ids with completion_token_ids, or messages with a "
            f"completion; got the keys {', '.join(sorted(row)):.100}."
        )
    weight = row.get("loss_weight", row.get("weight", 1.0))
    if not _is_number(weight):
        raise _wrong(what, "a number as loss_weight", weight)
    logprobs = tuple(map(float, _list(row, "logprobs", what, float, int)))
    if logprobs and len(logprobs) != len(completion_ids):
        raise errors.InvalidInputError(
            f"{what}: {len(logprobs)} logprobs for {len(completion_ids)} completion token ids; "
            "expected one for each."
        )
    iteration = row.get("iteration") or 0
    if type(iteration) is not int:
        raise _wrong(what, "a whole number as iteration", iteration)
    grids = tuple(_list(row, "grids", what, dict))
    if grids and len(grids) != len(pictures):
        raise errors.InvalidInputError(
            f"{what}: {len(grids)} grids for {len(pictures)} images; expected one for each."
        )
    processor = row.get("processor") or {}
    if not isinstance(processor, dict) or bool(processor) != bool(grids):
        raise _wrong(what, "an object as processor of its grids", processor)
    if not isinstance(processor.get("settings", {}), dict):
        raise _wrong(what, "an object as settings of its processor", processor["settings"])
    return Sample(
        key=_key(row, what, number),
        messages=tuple(messages),
        completion=completion or "",
        calls=calls,
        tools=tuple(_list(row, "tools", what, dict)),
        prompt_token_ids=prompt_ids,
        completion_token_ids=completion_ids,
        mask=_mask(row, what, len(prompt_ids), len(completion_ids)),
        grids=grids,
        processor=processor,
        logprobs=logprobs,
        temperature=_number(row, "temperature", what),
        finish_reason=str(row.get("finish_reason") or ""),
        reward=_number(row, "reward", what),
        outcome=Outcome.__members__.get(str(row.get("outcome")).upper(), Outcome.UNKNOWN),
        advantage=_number(row, "advantage", what),
        group_id=str(row.get("group") or ""),
        iteration=iteration,
        task=str(row.get("task") or ""),
        goal=str(row.get("goal") or ""),
        policy=str(row.get("policy") or ""),
        policy_version=str(row.get("policy_version") or ""),
        loss_weight=float(weight),
        metadata={key: value for key, value in row.items() if key not in _KNOWN},
    )


def _key(row: Mapping[str, Any], what: str, number: int) -> SampleKey:
    try:
        return key_of(str(row.get("sample", "")))
    except ValueError:
        step, call = row.get("step", number), row.get("call", 0)
        return SampleKey(
            str(row.get("episode_id", what)),
            step if isinstance(step, int) else number,
            call if isinstance(call, int) else 0,
        )


def _mask(row: Mapping[str, Any], what: str, prompt: int, completion: int) -> tuple[bool, ...]:
    """Return the completion's part of a row's mask; empty if all of its tokens are trained on."""
    mask = _list(row, "mask", what, int, bool)
    if not mask:
        return ()
    if len(mask) != prompt + completion or any(mask[:prompt]) or set(mask) - {0, 1}:
        raise errors.InvalidInputError(
            f"{what}: expected a mask of 0 or 1 for each of its {prompt} prompt and {completion} "
            f"completion token ids, with 0 for those of the prompt; got {mask!r:.100}."
        )
    kept = tuple(map(bool, mask[prompt:]))
    return () if all(kept) else kept


def _number(row: Mapping[str, Any], name: str, what: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if not _is_number(value):
        raise _wrong(what, f"a number or null as {name}", value)
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ids(row: Mapping[str, Any], name: str, other: str, what: str) -> tuple[int, ...]:
    return tuple(_list(row, name if name in row else other, what, int))


def _list(row: Mapping[str, Any], name: str, what: str, *kinds: type) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or any(type(item) not in kinds for item in value):
        names = "numbers" if float in kinds else " or ".join(kind.__name__ for kind in kinds)
        raise _wrong(what, f"a list of {names} as {name}", value)
    return value


def _wrong(what: str, expected: str, got: Any) -> errors.InvalidInputError:
    return errors.InvalidInputError(f"{what}: expected {expected}; got {got!r:.100}.")


# Files of samples and exports, read lazily row by row.

_BETWEEN = (b"", b"[", b"]", b"[]")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of JSON lines, or of one JSON array.

    An array with one row per line is read as a stream. Any other array is read at once.

    Raises:
        InvalidInputError: A line or item holds no row. The message names it.
    """
    if _is_read_at_once(path):
        yield from _items(path)
        return
    for _, number, line in _lines(path):
        yield _parse_row(line, f"{path.name}, line {number}")


def _is_read_at_once(path: Path) -> bool:
    """Return whether a file is a JSON array that does not have a row on each line."""
    with path.open("rb") as file:
        lines = filter(None, map(bytes.strip, file))
        first = next(lines, b"")
        if first == b"[":
            return next(lines, b"") == b"{"
        return first.startswith(b"[") and first != b"[]"


def _items(path: Path) -> list[dict[str, Any]]:
    """Return the items of a JSON array."""
    try:
        items = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise errors.InvalidInputError(
            f"{path.name}: invalid JSON: {error}; expected an array of rows."
        ) from error
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise _wrong(f"{path.name}, item {number}", "a JSON object", item)
    return list(items)


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines that hold rows, each with its position in bytes and its number."""
    position = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip() not in _BETWEEN:
                yield position, number, line
            position += len(line)


def _parse_row(line: bytes, what: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line.rstrip().removesuffix(b","))
    except orjson.JSONDecodeError as error:
        raise errors.InvalidInputError(
            f"{what}: invalid JSON: {error}; expected one row on each line."
        ) from error
    if not isinstance(row, dict):
        raise _wrong(what, "a JSON object", row)
    return row


class LazySamples(Sequence[Sample]):
    """A sequence that makes a sample when it is asked for."""

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        places = range(len(self))[index]
        return self._at(places) if isinstance(places, int) else list(map(self._at, places))

    def _at(self, index: int) -> Sample:
        raise NotImplementedError


class SampleFile(LazySamples):
    """The samples of a file, read lazily.

    Args:
        path: A file of JSON lines, or of one JSON array. An array that does not have a row on each
            line is kept in memory.

    Raises:
        InvalidInputError: The file is missing or empty; on reading a row, that row is wrong.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._items: Sequence[dict[str, Any]] | None = None
        self._rows: Sequence[tuple[int, int]] = ()
        try:
            if _is_read_at_once(self.path):
                self._items = _items(self.path)
            else:
                self._rows = [(position, number) for position, number, _ in _lines(self.path)]
        except OSError as error:
            raise errors.InvalidInputError(
                f"Cannot read {str(self.path)!r}: {errors.reason(error)}; "
                "expected a file of JSON lines, or "
                "of a JSON array."
            ) from error
        if not len(self):
            raise errors.InvalidInputError(
                f"{str(self.path)!r} has no rows; expected one sample on each line."
            )

    def __len__(self) -> int:
        return len(self._rows if self._items is None else self._items)

    def _at(self, index: int) -> Sample:
        if self._items is not None:
            what = f"{self.path.name}, item {index}"
            return read_row(self._items[index], what, folder=self.path.parent, number=index)
        position, number = self._rows[index]
        what = f"{self.path.name}, line {number}"
        with self.path.open("rb") as file:
            file.seek(position)
            row = _parse_row(file.readline(), what)
        return read_row(row, what, folder=self.path.parent, number=number)
