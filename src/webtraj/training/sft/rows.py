"""Samples read from rows of files, in the formats that exporters write.

A row has token ids or messages, or both::

    {"prompt_token_ids": [...], "completion_token_ids": [...], "loss_weight": 1.0, "images": [...]}
    {"messages": [...], "completion": "click('4')", "loss_weight": 1.0, "images": [...]}

* `messages` follow OpenAI: `{"role", "content"}`, the content a text or a list of parts: `{"type":
  "text", "text"}`, `{"type": "image"}` or `{"type": "image_url", "image_url": {"url": data URI}}`.
  Without a `completion`, the last message is the reply. `prompt` is accepted for `messages`, and a
  completion may be a list of one message, as in TRL.
* `images` are paths beside the file, one for each part `image`, in order. A part `image_url` may
  hold such a path itself.
* `prompt_ids` and `completion_ids` are accepted for the token ids.
* `weight` is accepted for `loss_weight`. `"sample": "<episode>/<step>/<call>"` names the row.
* `logprobs` (one for each token of the completion), `temperature`, `reward`, `advantage`, `group`
  and `iteration` are for policy-gradient training.

Or it is a ShareGPT row: `{"conversations": [{"from": "human", "value": "<image>..."}, ...]}`. So
the formats `tokens`, `openai` and `sharegpt` of `webtraj.training.export` can be read. Other keys
become the sample's metadata. A row in no known format is an error that names its line.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import orjson

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text, ToolCall
from webtraj.datasets.exporters.base import MANIFEST, read_manifest
from webtraj.training.export import conversations
from webtraj.training.export.openai import called_in
from webtraj.training.samples import Sample, SampleKey

__all__ = [
    "SampleFile",
    "as_messages",
    "completion_of",
    "is_row",
    "messages_of",
    "open_held_out",
    "open_samples",
    "picture_of",
    "read_row",
    "shows_images",
]

# Messages of a row: text, and images beside the file or inside the row.

_ROLES = ("system", "user", "assistant", "tool")


def messages_of(
    said: Any, images: Iterator[Image], what: str, folder: Path | None
) -> list[Message]:
    """Return a row's messages. Each image part takes the next image.

    Raises:
        InvalidInputError: The messages are malformed.
    """
    if not isinstance(said, list):
        raise errors.InvalidInputError(f"{what}: expected a list of messages; got {said!r:.60}.")
    messages = []
    for position, message in enumerate(said):
        where = f"{what}: message {position}"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise errors.InvalidInputError(
                f"{where}: expected a role of {', '.join(_ROLES)}; got {message!r:.100}."
            )
        content = message.get("content")
        parts = [content] if isinstance(content, str) else content
        if content is None and message.get("tool_calls"):
            parts = []
        if not isinstance(parts, list):
            raise errors.InvalidInputError(
                f"{where}: expected a text or a list of parts as content; got {content!r:.60}."
            )
        if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise errors.InvalidInputError(
                f"{where}: expected a tool_call_id with the role tool; got {message!r:.100}."
            )
        parts = tuple(_part(part, images, where, folder) for part in parts)
        messages.append(Message(message["role"], parts, called_in(message)))
    return messages


def _part(part: Any, images: Iterator[Image], where: str, folder: Path | None) -> Part:
    match part:
        case str():
            return Text(part)
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}} if url.startswith("data:"):
            try:
                return Image(base64.b64decode(url.partition(";base64,")[2], validate=True))
            except binascii.Error as error:
                raise errors.InvalidInputError(
                    f"{where}: not a base64 data URI: {error}."
                ) from None
        case {"type": "image_url", "image_url": {"url": str(name)}}:
            return Image(picture_of(name, folder, where))
        case {"type": "image"}:
            image = next(images, None)
            if image is None:
                raise errors.InvalidInputError(f"{where} shows an image missing in `images`.")
            return image
    raise errors.InvalidInputError(f"{where}: expected a text or image part; got {part!r:.100}.")


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
    raise errors.InvalidInputError(
        f"{what}: expected a text or a list of one assistant message as completion; got "
        f"{said!r:.60}."
    )


def picture_of(name: str, folder: Path | None, what: str) -> bytes:
    """Read an image beside the file.

    Raises:
        InvalidInputError: The path leaves the file's folder, or the image cannot be read.
    """
    path = None if folder is None else (folder / name).resolve()
    if folder is None or path is None or not path.is_relative_to(folder.resolve()):
        raise errors.InvalidInputError(
            f"{what}: the image {name!r:.200} is not beside the file; expected a path in its "
            "folder."
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError(
            f"{what}: cannot read the image {name!r:.200}: {error}."
        ) from error


def shows_images(message: Message) -> bool:
    """Return whether a message has an image."""
    return any(isinstance(part, Image) for part in message.parts)


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


def is_row(row: Mapping[str, Any]) -> bool:
    """Return whether a row is in ShareGPT format."""
    return "conversations" in row


def as_messages(row: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return a ShareGPT row with `messages` instead of conversations.

    Args:
        row: A ShareGPT row.
        what: Names the row in errors.

    Raises:
        InvalidInputError: The row has no turns, a turn of an unknown role, no reply at its end, or
            something that this trainer does not support, such as a second reply.
    """
    if strange := sorted(key for key in _OTHERS & row.keys() if row[key]):
        raise errors.InvalidInputError(
            f"{what} has {', '.join(strange)}, which this trainer does not support; expected "
            "conversations with system and images. Pairs of replies are for preference training."
        )
    turns = row["conversations"]
    if not isinstance(turns, list) or not turns:
        raise errors.InvalidInputError(
            f"{what}: expected a list of turns as conversations; got {turns!r:.60}."
        )
    messages: list[dict[str, Any]] = []
    system = row.get("system")
    if system:
        messages.append({"role": "system", "content": conversations.show(str(system))})
    for position, turn in enumerate(turns):
        match turn:
            case {"from": str(speaker), "value": str(value)} if speaker in _SHAREGPT_ROLES:
                last = position == len(turns) - 1
                content = value if last else _parts(value)
                messages.append({"role": _SHAREGPT_ROLES[speaker], "content": content})
            case _:
                raise errors.InvalidInputError(
                    f"{what}: turn {position}: expected a text from {', '.join(_SHAREGPT_ROLES)}; "
                    f"got {turn!r:.100}."
                )
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise errors.InvalidInputError(f"{what}: expected a reply of gpt as the last turn.")
    rest = {key: value for key, value in row.items() if key not in ("conversations", "system")}
    return {**rest, "messages": messages}


def _parts(value: str) -> list[dict[str, str]]:
    parts: list[dict[str, str]] = []
    for index, text in enumerate(value.split(conversations.IMAGE)):
        if index:
            parts.append({"type": "image"})
        if text:
            parts.append({"type": "text", "text": conversations.show(text)})
    return parts


_KNOWN = frozenset(
    {
        "messages", "prompt", "completion", "images", "loss_weight", "prompt_token_ids",
        "completion_token_ids", "prompt_ids", "completion_ids", "episode_id", "step", "call",
        "weight", "sample", "logprobs", "reward", "advantage", "group", "iteration",
        "policy_version", "temperature", "tools",
    }
)  # fmt: skip


def read_row(
    row: Mapping[str, Any], what: str, *, folder: Path | None = None, number: int = 0
) -> Sample:
    """Return the sample in a row.

    Args:
        row: The row's data.
        what: The row's name in errors.
        folder: The base of its image paths; None allows no image files.
        number: The step in the sample's key, if the row has no key.

    Raises:
        InvalidInputError: The row is not a sample.
    """
    if is_row(row):
        row = as_messages(row, what)
    pictures = [Image(picture_of(name, folder, what)) for name in _list(row, "images", str, what)]
    said = row.get("messages", row.get("prompt"))
    unused = iter(pictures)
    messages = messages_of([] if said is None else said, unused, what, folder)
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
        if messages and said is not None and any(shows_images(m) for m in messages):
            raise errors.InvalidInputError(
                f"{what}: its messages leave {len(left)} of its {len(pictures)} images unused."
            )
        # Their places follow from the token ids; only the images are needed.
        messages = [*messages, Message("user", tuple(left))]
    if not (completion_ids and prompt_ids) and (completion is None or not messages):
        raise errors.InvalidInputError(
            f"{what}: expected prompt_token_ids with completion_token_ids, or messages with a "
            f"completion; got the keys {', '.join(sorted(row))}."
        )
    weight = row.get("loss_weight", row.get("weight", 1.0))
    if not isinstance(weight, int | float) or isinstance(weight, bool):
        raise errors.InvalidInputError(
            f"{what}: expected a number as loss_weight; got {weight!r:.60}."
        )
    logprobs = _numbers(row, "logprobs", what)
    if logprobs and len(logprobs) != len(completion_ids):
        raise errors.InvalidInputError(
            f"{what}: {len(logprobs)} logprobs for {len(completion_ids)} completion token ids; "
            "expected one for each."
        )
    iteration = row.get("iteration") or 0
    if type(iteration) is not int:
        raise errors.InvalidInputError(
            f"{what}: expected a whole number as iteration; got {iteration!r:.60}."
        )
    return Sample(
        key=_key(row, what, number),
        messages=tuple(messages),
        completion=completion or "",
        calls=calls,
        tools=tuple(_list(row, "tools", dict, what)),
        prompt_token_ids=prompt_ids,
        completion_token_ids=completion_ids,
        logprobs=logprobs,
        temperature=_number(row, "temperature", what),
        reward=_number(row, "reward", what),
        advantage=_number(row, "advantage", what),
        group_id=str(row.get("group") or ""),
        iteration=iteration,
        policy_version=str(row.get("policy_version") or ""),
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


def _number(row: Mapping[str, Any], name: str, what: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise errors.InvalidInputError(
            f"{what}: expected a number or null as {name}; got {value!r:.60}."
        )
    return float(value)


def _numbers(row: Mapping[str, Any], name: str, what: str) -> tuple[float, ...]:
    values = row.get(name) or []
    if not isinstance(values, list) or any(type(each) not in (int, float) for each in values):
        raise errors.InvalidInputError(
            f"{what}: expected a list of numbers as {name}; got {values!r:.60}."
        )
    return tuple(map(float, values))


def _ids(row: Mapping[str, Any], name: str, other: str, what: str) -> tuple[int, ...]:
    return tuple(_list(row, name if name in row else other, int, what))


def _list(row: Mapping[str, Any], name: str, kind: type, what: str) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or any(type(item) is not kind for item in value):
        raise errors.InvalidInputError(
            f"{what}: expected a list of {kind.__name__} as {name}; got {value!r:.60}."
        )
    return value


# Files of samples and exports, read lazily row by row.

_BETWEEN = (b"", b"[", b"]", b"[]")
_FILES = {
    "sharegpt": "finetune_{}.json",
    "openai": "{}.jsonl",
    "tokens": "{}.jsonl",
    "pointing": "{}.jsonl",
}


class SampleFile(Sequence[Sample]):
    """The samples of a file, read lazily.

    Args:
        path: A file of JSON lines, or of one JSON array with a row on each line.

    Raises:
        InvalidInputError: The file is missing or empty; on reading a row, that row is wrong.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._starts: list[int] = []
        self._lines: list[int] = []
        try:
            self._find_rows()
        except OSError as error:
            raise errors.InvalidInputError(
                f"Cannot read {str(self.path)!r}: {errors.reason(error)}; "
                "expected a file of JSON lines, or "
                "of a JSON array."
            ) from error
        if not self._starts:
            raise errors.InvalidInputError(
                f"{str(self.path)!r} has no rows; expected one sample on each line."
            )

    def _find_rows(self) -> None:
        position = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() not in _BETWEEN:
                    self._starts.append(position)
                    self._lines.append(number)
                position += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start, number = self._starts[index], self._lines[index]
        what = f"{self.path.name}, line {number}"
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                data = orjson.loads(file.readline().rstrip().removesuffix(b","))
        except orjson.JSONDecodeError as error:
            raise errors.InvalidInputError(
                f"{what}: invalid JSON: {error}; expected one row on each line."
            ) from error
        if not isinstance(data, dict):
            raise errors.InvalidInputError(f"{what}: expected a JSON object; got {data!r:.60}.")
        return read_row(data, what, folder=self.path.parent, number=number)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))


class _Joined(Sequence[Sample]):
    """Several files in sequence."""

    def __init__(self, parts: Sequence[Sequence[Sample]]) -> None:
        self._parts = parts
        self._ends = list(itertools.accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        part = bisect.bisect_right(self._ends, index)
        return self._parts[part][index - (self._ends[part - 1] if part else 0)]


def open_samples(paths: Iterable[str | os.PathLike[str]]) -> Sequence[Sample]:
    """Return the samples of several files or exports, read lazily.

    Args:
        paths: Files of rows, or folders that `webtraj export` wrote (their split `train`).

    Raises:
        InvalidInputError: A path is missing, has no rows, or is an export in another format.
    """
    return _Joined([_opened(Path(path), "train") for path in paths])


def open_held_out(paths: Iterable[str | os.PathLike[str]]) -> Sequence[Sample]:
    """Return the samples of the split `val` of the exports among `paths`.

    Raises:
        InvalidInputError: A folder is not an export, or an export in another format.
    """
    folders = [path for path in map(Path, paths) if path.is_dir()]
    return _Joined([_opened(path, "val") for path in folders if "val" in _header(path)["splits"]])


def _opened(path: Path, split: str) -> Sequence[Sample]:
    if not path.is_dir():
        return SampleFile(path)
    header = _header(path)
    if split not in header["splits"]:
        raise errors.InvalidInputError(
            f"{str(path)!r} has no split {split!r}; it has {', '.join(header['splits'])}."
        )
    if name := _FILES.get(header["format"]):
        return SampleFile(path / name.format(split))
    from webtraj.training.export.running import read_export

    return list(read_export(path, split))


def _header(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST).is_file():
        raise errors.InvalidInputError(
            f"The folder {str(folder)!r} has no {MANIFEST}; expected a file of samples, or a "
            "folder that webtraj export wrote."
        )
    header, _ = read_manifest(folder)
    if header["format"] not in (*_FILES, "trl"):
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export in the format {header['format']!r:.60}, which cannot be "
            f"imitated; expected {', '.join((*_FILES, 'trl'))}."
        )
    return dict(header)
