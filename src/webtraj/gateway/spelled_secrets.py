"""Hide a password that an agent typed in portions, such as key by key with a call for each.

No text of a call then holds the password, so searching does not find it. But the replies show how
it was typed: in texts that differ in one word only, such as `{"key": "h"}` or `press h`, these
words spell it. So everything from the first of these replies to the request after the last is
hidden: the replies, and in all later calls the messages added in between.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from webtraj.agents.models.replies import tool_calls_of
from webtraj.gateway.journal import RecordedCall
from webtraj.redaction.redactor import MIN_LENGTH, placeholder
from webtraj.trajectory import ModelCall

__all__ = ["SpelledSecrets"]

_LONGEST: Final = 300
"""Longer texts are not searched for portions."""
_WORDS: Final = (re.compile(r"""(?<=(["'`])).+?(?=\1)"""), re.compile(r"\S+"), re.compile(r"\w+"))
"""The parts of a text that may have been typed: quotations, runs without blanks, and words."""
_KEYS: Final[Mapping[str, str]] = {
    "space": " ", "minus": "-", "period": ".", "comma": ",", "slash": "/", "equal": "=",
    "semicolon": ";", "quote": "'", "backquote": "`", "backslash": "\\", "bracketleft": "[",
    "bracketright": "]",
}  # fmt: skip
_KEY_CODE: Final = re.compile(r"(?:key|digit|numpad)(\w)")
_STRUCTURE: Final = frozenset(
    {"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "name", "status"}
)
"""Fields of messages that hold no text of an agent or a page."""


class SpelledSecrets:
    """Secrets that an agent typed piece by piece, and the model calls that may spell them.

    Args:
        name: The name of their placeholder.
    """

    def __init__(self, name: str) -> None:
        self._placeholder = placeholder(name)
        self._said: dict[str, RecordedCall] = {}
        """The calls whose replies are hidden, by id."""
        self._open: RecordedCall | None = None
        """The last one of them, until the request after it is known."""
        self._before: frozenset[bytes] = frozenset()
        """The messages before the first one."""
        self._messages: set[bytes] = set()
        """The messages that are hidden."""

    def learn(self, secret: str, calls: Sequence[RecordedCall]) -> None:
        """Add a secret that was typed, and the calls that may spell it, in order of their start."""
        for run in dict.fromkeys(call.run for call in calls):
            known = [call for call in self._said.values() if call.run == run]
            own = [call for call in calls if call.run == run and call.id not in self._said]
            spelled = _find_spelling(secret, [*known, *own])
            if not spelled:
                continue
            first, last = spelled[0], spelled[-1]
            self._before = frozenset(map(_digest, first.call.messages))
            for call in (*known, *own):
                if first.start <= call.start <= last.start:
                    self._said[call.id] = call
                    self._note(call)
            self._open = last
            for call in own:
                self._follow(call)

    def hide(self, call: RecordedCall) -> ModelCall:
        """Return the record of a call without the messages in which a secret was typed."""
        if not self._said:
            return call.call
        self._follow(call)
        messages = tuple(
            _cover_texts(message, self._placeholder)
            if _digest(message) in self._messages
            else message
            for message in call.call.messages
        )
        said = call.id in self._said
        if not said and messages == call.call.messages:
            return call.call
        return dataclasses.replace(
            call.call,
            messages=messages,
            text=self._placeholder if said else call.call.text,
            response=None,
            prompt_token_ids=(),
            completion_token_ids=(),
            logprobs=(),
        )

    def _follow(self, call: RecordedCall) -> None:
        """Hide the messages that a call's request adds, if it is the next in the conversation."""
        last = self._open
        if last is None or call.run != last.run or call.start < last.end or call.id in self._said:
            return
        if {*map(_digest, last.call.messages)} & {*map(_digest, call.call.messages)}:
            self._note(call)
            self._open = None

    def _note(self, call: RecordedCall) -> None:
        self._messages |= {*map(_digest, call.call.messages)} - self._before


def _find_spelling(secret: str, calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return the calls whose replies together spell a secret, or most of it."""
    secret = secret.lower()
    places: dict[Any, list[tuple[str, RecordedCall]]] = collections.defaultdict(list)
    for call in calls:
        for place, portion in _portions(call.call):
            if portion and portion in secret:
                places[place].append((portion, call))
    best, found = 0, list[RecordedCall]()
    for portions in places.values():
        rest, used = secret, list[RecordedCall]()
        for portion, call in reversed(portions):  # The secret was typed last.
            if rest.endswith(portion):
                rest = rest.removesuffix(portion)
                used.append(call)
        spelled = len(secret) - len(rest)
        # One text with all of it is found by searching, if it is long enough.
        in_portions = len(used) > 1 or (used and len(secret) < MIN_LENGTH)
        if in_portions and spelled > best and 2 * spelled >= len(secret):
            best, found = spelled, used[::-1]
    return found


def _portions(call: ModelCall) -> Iterator[tuple[Any, str]]:
    """Yield the words of a reply in lower case, each with its place: the text around it."""
    tools = tool_calls_of(call.response)
    said = [(tool.name, tool.arguments) for tool in tools] or [("", call.text)]
    for name, value in said:
        for field, text in _leaves(value, name):
            if len(text) > _LONGEST:
                continue
            spans = {word.span() for words in _WORDS for word in words.finditer(text)}
            for start, end in sorted({*spans, (0, len(text))}):
                yield (field, text[:start], text[end:]), _find_typed(text[start:end])


def _find_typed(word: str) -> str:
    """Return what a key or a text types, in lower case.

    >>> [_find_typed(word) for word in ("h", "KeyH", "Shift+H", "Space", "hunter", " ")]
    ['h', 'h', 'h', ' ', 'hunter', ' ']
    """
    lowered = word.lower()
    key = lowered.removeprefix("shift+") if len(lowered) > len("shift+") else lowered
    code = _KEY_CODE.fullmatch(key)
    return code[1] if code else _KEYS.get(key, key)


def _leaves(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in a value, including JSON texts, each with the name of its field."""
    match value:
        case str():
            try:
                inner = orjson.loads(value)
            except orjson.JSONDecodeError:
                inner = None
            if isinstance(inner, (dict, list)):
                yield from _leaves(inner, field)
            else:
                yield field, value
        case int() | float() if not isinstance(value, bool):
            yield field, str(value)
        case Mapping():
            for name, item in value.items():
                yield from _leaves(item, f"{field}.{name}")
        case list() | tuple():
            for item in value:
                yield from _leaves(item, field)


def _digest(message: Any) -> bytes:
    """Return a digest of a message that ignores an agent's marks for caching."""
    if isinstance(message, Mapping):
        message = _without_marks(message)
    return repr(message).encode("utf-8", "surrogatepass")


def _without_marks(value: Any) -> Any:
    match value:
        case Mapping():
            return {k: _without_marks(v) for k, v in value.items() if k != "cache_control"}
        case list() | tuple():
            return [_without_marks(item) for item in value]
    return value


def _cover_texts(value: Any, cover: str, field: str = "") -> Any:
    """Return a message with its texts covered."""
    match value:
        case str() | int() | float() if field not in _STRUCTURE and not isinstance(value, bool):
            return cover
        case Mapping():
            return {name: _cover_texts(item, cover, str(name)) for name, item in value.items()}
        case list() | tuple():
            return [_cover_texts(item, cover, field) for item in value]
    return value
