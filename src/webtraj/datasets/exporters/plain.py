"""Values as plain JSON data, for readers that do not know webtraj.

Arrays, tuples and lists become lists, numpy numbers become numbers, and named tuples become
objects; the original types are lost. Values that JSON cannot express become objects with the key
`$`, as in `webtraj.store.values`: NaN, integers beyond 64 bits, text with lone surrogates, sets,
dates, records, and mappings with keys other than text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from webtraj import errors
from webtraj.environments.actions import Action, InvalidAction, format_action, parse_action
from webtraj.environments.actions.dialects import make_dialect
from webtraj.environments.actions.dialects.browsergym import read_calls
from webtraj.errors import UnsupportedActionError
from webtraj.store.encoding import Encoder
from webtraj.store.foreign import is_valid_text as is_unicode
from webtraj.store.foreign import valid_text as unicode_text
from webtraj.store.values import TAG
from webtraj.trajectory import EpisodeEnd, EpisodeTrajectory, ModelCall

__all__ = [
    "FilesBeside",
    "GENERIC",
    "action_text",
    "answer",
    "end_fields",
    "filled_fields",
    "image_kind",
    "inside",
    "is_blank",
    "is_unicode",
    "as_list",
    "message_parts",
    "note_lost",
    "pictures_in",
    "plain",
    "to_json",
    "token_counts",
    "tool_call",
    "unicode_text",
]

_DEEP = 60
"""From this depth on, the encoder takes over; it can nest deeper than JSON."""

OnBytes = Callable[[bytes], Any]


def plain(value: Any, on_bytes: OnBytes | None = None) -> Any:
    """Return a value as JSON data that orjson can write.

    >>> plain({"box": np.ones(2), "reward": float("nan")})
    {'box': [1.0, 1.0], 'reward': {'$': 'float', 'v': 'nan'}}

    Args:
        value: Any value that a dataset can hold.
        on_bytes: Returns the replacement for bytes. Default: base64.
    """
    return _plain(value, on_bytes or _tag, 0)


def to_json(value: Any, on_bytes: OnBytes | None = None) -> str:
    """Return a value as JSON text."""
    return orjson.dumps(plain(value, on_bytes)).decode()


def action_text(action: Any) -> str | None:
    """Return an action as one line: webtraj's action text, the given text, or JSON.

    >>> from webtraj.environments.actions import Click
    >>> action_text(Click("12")), action_text(3), action_text(None)
    ("click('12')", '3', None)
    """
    if action is None or isinstance(action, str):
        return action
    if isinstance(action, Action):
        try:
            return format_action(action)
        except UnsupportedActionError:  # An InvalidAction has no action text.
            return to_json(action)
    return to_json(action)


GENERIC = "act"
"""Name of the tool call for other actions; its argument `action` is the action as plain JSON."""


def tool_call(action: Any, on_bytes: OnBytes | None = None) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments of the tool call for an action.

    >>> from webtraj.environments.actions import Click
    >>> tool_call(Click("12")), tool_call(3)
    (('click', {'bid': '12'}), ('act', {'action': 3}))

    Args:
        action: Any action. An action of webtraj, also as text, becomes a call that reads back as
            the same action.
        on_bytes: As for `plain`.
    """
    read = parse_action(action) if isinstance(action, str) else action
    if isinstance(read, Action) and not isinstance(read, InvalidAction):
        made = _as_call(read)
        if made is not None:
            return made
    return GENERIC, {"action": plain(action, on_bytes)}


@functools.cache
def _dialect() -> tuple[Any, dict[str, list[str]]]:
    """Return webtraj's tools and the names of their parameters."""
    dialect = make_dialect("webtraj")
    names = {tool["name"]: list(tool["parameters"]["properties"]) for tool in dialect.tools()}
    return dialect, names


def _as_call(action: Action) -> tuple[str, dict[str, Any]] | None:
    """Return the tool call that reads back as the same action; None if there is none."""
    dialect, names = _dialect()
    try:
        (call,) = read_calls(format_action(action))
    except UnsupportedActionError:
        return None
    arguments = plain(dict(zip(names[call.name], call.args, strict=False)) | call.kwargs)
    wire = {"name": call.name, "arguments": arguments}
    return (call.name, arguments) if dialect.parse(wire) == action else None


def inside(value: Any, *names: str) -> Any:
    """Return the value at a path of names in nested mappings; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def is_blank(value: Any) -> bool:
    """Return whether a value is empty: None, or an empty text, tuple, list or mapping."""
    return value is None or (isinstance(value, (str, tuple, list, Mapping)) and not value)


def filled_fields(record: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a record that are not blank, except those in `without`."""
    names = [field.name for field in dataclasses.fields(record) if field.name not in without]
    values = {name: getattr(record, name) for name in names}
    return {name: value for name, value in values.items() if not is_blank(value)}


def end_fields(end: EpisodeEnd | None, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of an episode's end that are not blank, except reason and outcome."""
    if end is None:
        return {}
    data = filled_fields(end, ("reason", "outcome", "error", "phase", *without))
    if end.phase is not None:
        data["phase"] = end.phase.value
    if end.error is not None:
        data["error"] = filled_fields(end.error)
    return data


def answer(calls: Sequence[ModelCall]) -> ModelCall | None:
    """Return the model call that was acted on: the last one without an error."""
    return next((call for call in reversed(calls) if not call.error), None)


_CACHED = ("cached_tokens", "prompt_tokens_details.cached_tokens")


def token_counts(call: ModelCall) -> dict[str, int]:
    """Return the known counts among `input`, `output`, `cache_read` and `cache_write`.

    `input` includes the cached tokens, whichever way the provider counts them.

    >>> token_counts(ModelCall(usage={"input_tokens": 3, "cache_read_input_tokens": 7}))
    {'input': 10, 'cache_read': 7}
    """
    given = {n: c for n, c in call.usage.items() if type(c) is int and 0 <= c < 2**63}
    read = given.get("cache_read_input_tokens")
    written = given.get("cache_creation_input_tokens")
    total = given.get("prompt_tokens")
    if "input_tokens" in given:  # Anthropic counts cached tokens apart.
        total = given["input_tokens"] + (read or 0) + (written or 0)
    elif read is None:
        read = next((given[name] for name in _CACHED if name in given), None)
    output = given.get("output_tokens", given.get("completion_tokens"))
    counts = {"input": total, "output": output, "cache_read": read, "cache_write": written}
    return {name: count for name, count in counts.items() if count is not None}


def message_parts(content: Any) -> Iterator[Any]:
    """Yield the parts of a message's content: texts, pictures as bytes, and other values.

    >>> list(message_parts([{"type": "text", "text": "Look"}, {"image": b"GIF8..."}, {"x": 1}]))
    ['Look', b'GIF8...', {'x': 1}]
    """
    for part in content if isinstance(content, (list, tuple)) else [content]:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
        elif pictures := list(pictures_in(part)):
            yield from pictures
        elif part is not None:
            yield part


_OF_MODELS = frozenset({"prompt_token_ids", "completion_token_ids", "logprobs", "response"})
"""Fields of a call that only its model reads."""
_READ = frozenset({"role", "content", "tool_calls", "tool_call_id"})


def note_lost(
    episode: EpisodeTrajectory, note: Callable[[str, str], None], sampling: Collection[str]
) -> None:
    """Note what an export of messages leaves out of an episode's model calls.

    Args:
        episode: The episode.
        note: Records a field, and what was done with its value.
        sampling: The sampling parameters that the export has a place for.
    """
    calls = "steps.decision.model_calls"
    for step in episode.steps:
        for call in step.decision.model_calls if step.decision else ():
            for name in sorted(filled_fields(call).keys() & _OF_MODELS):
                note(f"{calls}.{name}", "has no place; left out")
            for name in sorted(call.sampling.keys() - set(sampling), key=str):
                note(f"{calls}.sampling.{name!s:.40}", "has no place; left out")
            for message in call.messages:
                others = message.keys() - _READ if isinstance(message, Mapping) else ()
                for key in sorted(others, key=str):
                    if not is_blank(message[key]):
                        note(f"{calls}.messages.{key!s:.40}", "has no place; left out")


def as_list(value: Any) -> Sequence[Any]:
    """Return a list or tuple as it is; for any other value, an empty one."""
    return value if isinstance(value, (list, tuple)) else ()


def _plain(value: Any, on_bytes: OnBytes, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if depth > _DEEP:
        return _tag(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return on_bytes(bytes(value))
    if isinstance(value, np.generic):
        return _scalar(value, on_bytes, depth)
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and -(2**63) <= value < 2**64:
        return value
    if type(value) is str and is_unicode(value):
        return value
    if isinstance(value, np.ndarray):
        return _array(value, on_bytes, depth)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        value = dict(zip(value._fields, value, strict=True))
    if type(value) in (list, tuple):
        return [_plain(item, on_bytes, depth + 1) for item in value]
    if isinstance(value, Mapping) and TAG not in value and all(map(_is_key, value)):
        return {key: _plain(item, on_bytes, depth + 1) for key, item in value.items()}
    return _tag(value)


def _scalar(value: np.generic, on_bytes: OnBytes, depth: int) -> Any:
    if (value.dtype.kind in "biufSU" and value.dtype.itemsize <= 8) or value.dtype.kind in "SU":
        return _plain(value.item(), on_bytes, depth)
    return _tag(value)


def _array(value: Any, on_bytes: OnBytes, depth: int) -> Any:
    kind = value.dtype.kind
    if (
        type(value) is not np.ndarray
        or kind not in "biufUO"
        or (value.dtype.itemsize == 16 and (kind == "f"))
    ):
        return _tag(value)
    if kind in "biu" or (kind == "f" and np.isfinite(value).all()):
        return value.tolist()
    return _plain(value.tolist(), on_bytes, depth)


def _is_key(key: Any) -> bool:
    return type(key) is str and is_unicode(key)


def _tag(value: Any) -> Any:
    return Encoder(careful=True).encode(value)


# Bytes in separate files, each stored once under its hash.

_STARTS = {
    b"\x89PNG\r\n\x1a\n": ("png", "image/png"),
    b"\xff\xd8\xff": ("jpg", "image/jpeg"),
    b"GIF8": ("gif", "image/gif"),
}


def image_kind(data: bytes) -> tuple[str, str] | None:
    r"""Return a picture's extension and media type by its first bytes; None if it is not one.

    >>> image_kind(b"\xff\xd8\xff..."), image_kind(b"%PDF")
    (('jpg', 'image/jpeg'), None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp", "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)


def pictures_in(value: Any) -> Iterator[bytes]:
    """Yield the pictures in a nested value, in order."""
    if isinstance(value, bytes):
        if image_kind(value) is not None:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from pictures_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from pictures_in(item)


class FilesBeside:
    """Writes bytes as files in a folder, and reads them back to check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def put(self, data: bytes) -> str:
        """Write bytes, unless they exist already, and return their path in the folder."""
        kind = image_kind(data)
        sub, ext = ("images", kind[0]) if kind else ("blobs", "bin")
        name = f"{sub}/{hashlib.sha256(data).hexdigest()}.{ext}"
        if name not in self._written:
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            if path.read_bytes() != data:
                raise errors.StorageError(f"{name!r} reads back differently from what was written.")
            self._written.add(name)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._written
