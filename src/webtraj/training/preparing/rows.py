"""Samples in files of JSON lines, as exporters write them.

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

So what `webtraj.training.export` writes as `tokens` can be read, and its `openai` too. Other keys
are kept as the sample's metadata. A row that is none is an error that names its line.
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
from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.training.samples import Sample, SampleKey

__all__ = ["SampleFile", "open_samples", "read_row"]

_ROLES = ("system", "user", "assistant")
_KNOWN = frozenset(
    {
        "messages", "prompt", "completion", "images", "loss_weight", "prompt_token_ids",
        "completion_token_ids", "prompt_ids", "completion_ids", "episode_id", "step", "call",
        "weight", "sample",
    }
)  # fmt: skip


class SampleFile(Sequence[Sample]):
    """The samples of a file, each read when it is asked for.

    Args:
        path: A `.jsonl` file.

    Raises:
        InvalidInputError: It is not there or has no rows; and when one is read, that row is wrong.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._starts: list[int] = []
        self._lines: list[int] = []
        try:
            self._find_rows()
        except OSError as error:
            raise errors.InvalidInputError(
                f"{str(self.path)!r} cannot be read: {error}; expected a file of JSON lines."
            ) from error
        if not self._starts:
            raise errors.InvalidInputError(
                f"{str(self.path)!r} has no rows; expected one sample on each line."
            )

    def _find_rows(self) -> None:
        position = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
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
                data = orjson.loads(file.readline())
        except orjson.JSONDecodeError as error:
            raise errors.InvalidInputError(f"{what}: no JSON: {error}.") from error
        if not isinstance(data, dict):
            raise errors.InvalidInputError(f"{what}: expected a JSON object; got {data!r:.60}.")
        return read_row(data, what, folder=self.path.parent, number=number)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))


class _Joined(Sequence[Sample]):
    """Several files, one after the other."""

    def __init__(self, parts: Sequence[SampleFile]) -> None:
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
    """Returns the samples of several files, each read when it is asked for.

    Raises:
        InvalidInputError: A file is not there or has no rows.
    """
    return _Joined([SampleFile(path) for path in paths])


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
    pictures = [Image(_image(name, folder, what)) for name in _list(row, "images", str, what)]
    said = row.get("messages", row.get("prompt"))
    unused = iter(pictures)
    messages = _messages([] if said is None else said, unused, what, folder)
    completion = _completion(row.get("completion"), what)
    prompt_ids = _ids(row, "prompt_token_ids", "prompt_ids", what)
    completion_ids = _ids(row, "completion_token_ids", "completion_ids", what)
    if completion is None and messages and messages[-1].role == "assistant":
        *messages, reply = messages
        if not all(isinstance(part, Text) for part in reply.parts):
            raise errors.InvalidInputError(f"{what}: the reply shows an image; expected text.")
        completion = "".join(part.text for part in reply.parts if isinstance(part, Text))
    if left := list(unused):
        if messages and said is not None and any(_shows(m) for m in messages):
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


def _messages(said: Any, images: Iterator[Image], what: str, folder: Path | None) -> list[Message]:
    if not isinstance(said, list):
        raise errors.InvalidInputError(f"{what}: messages is a list; got {said!r:.60}.")
    messages = []
    for position, message in enumerate(said):
        where = f"{what}: message {position}"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise errors.InvalidInputError(
                f"{where} has no role of {', '.join(_ROLES)}: {message!r:.100}."
            )
        content = message.get("content")
        parts = [content] if isinstance(content, str) else content
        if not isinstance(parts, list):
            raise errors.InvalidInputError(
                f"{where}: its content is a text or a list of parts; got {content!r:.60}."
            )
        messages.append(
            Message(message["role"], tuple(_part(part, images, where, folder) for part in parts))
        )
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
                    f"{where}: no data URI in base64: {error}."
                ) from None
        case {"type": "image_url", "image_url": {"url": str(name)}}:
            return Image(_image(name, folder, where))
        case {"type": "image"}:
            image = next(images, None)
            if image is None:
                raise errors.InvalidInputError(f"{where} shows an image that `images` lacks.")
            return image
    raise errors.InvalidInputError(f"{where}: a part of text or image is expected: {part!r:.100}.")


def _completion(said: Any, what: str) -> str | None:
    match said:
        case None | str():
            return said
        case [{"role": "assistant", "content": str(text)}]:
            return text
        case [{"role": "assistant", "content": [{"type": "text", "text": str(text)}]}]:
            return text
    raise errors.InvalidInputError(
        f"{what}: completion is a text, or a list of one message of the assistant; got "
        f"{said!r:.60}."
    )


def _image(name: str, folder: Path | None, what: str) -> bytes:
    path = None if folder is None else (folder / name).resolve()
    if folder is None or path is None or not path.is_relative_to(folder.resolve()):
        raise errors.InvalidInputError(
            f"{what}: the image {name!r:.200} does not lie beside the file; expected a path in its "
            "folder."
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.InvalidInputError(
            f"{what}: the image {name!r:.200} cannot be read: {error}."
        ) from error


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


def _shows(message: Message) -> bool:
    return any(isinstance(part, Image) for part in message.parts)
