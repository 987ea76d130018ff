"""Join model calls to the steps of an attached browser that they led to.

A call led to a step by one of two rules:

* `content`: its reply names the action: its text, URL, keys, element or point.
* `order`: it is the only candidate. Since the last step, only one conversation had replies, and no
  call was in flight when the step was taken.

Earlier calls also led to the step if the call's request contains their replies or continues their
conversation. A step without calls of its own belongs to the call before, whose reply may request
several actions. If no rule applies, nothing is guessed: `by` is empty. The episode's last step
keeps the calls that led to no step.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from webtraj.agents.models.replies import reasoning_of, tool_calls_of
from webtraj.demonstrating.gestures import Deed
from webtraj.environments import actions as a
from webtraj.environments.browser.secret_keeper import PASSWORD
from webtraj.gateway.journal import RecordedCall, merge_attempts
from webtraj.gateway.spelled_secrets import SpelledSecrets
from webtraj.trajectory import Decision, ModelCall

__all__ = ["Joiner"]

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_NEAR: Final = 1.0
"""Pixels that a point may differ by."""
_SHORT: Final = 3
"""A shorter text counts only if it is quoted, or a whole argument."""
_LONG: Final = 12
"""A reply of at least so many characters is recognized inside a longer text."""
_KEY: Final = "models"


class Joiner:
    """Joins a gateway's calls to a recorder's steps.

    Pass `observe` to a `Gateway` as its observer, and the joiner to a `Recorder` as its decisions.
    """

    def __init__(self) -> None:
        self._ended: dict[str, RecordedCall] = {}
        self._in_flight: dict[str, RecordedCall] = {}
        self._last: RecordedCall | None = None
        self._joined: Sequence[RecordedCall] = ()
        """The calls of the decision returned last."""
        self._spelled = SpelledSecrets(PASSWORD)

    def observe(self, call: RecordedCall) -> None:
        """Note a call that began or ended. See `Gateway`."""
        self._in_flight.pop(call.id, None)
        (self._in_flight if call.call.latency is None else self._ended)[call.id] = call

    def hide(self, password: str) -> None:
        """Hide a password that was typed. See `webtraj.demonstrating.recorder.Decisions`."""
        self._spelled.learn(password, merge_attempts(self._ended.values()))

    def decision(self, deed: Deed, *, last: bool = False) -> Decision | None:
        """Return the decision behind a step. See `webtraj.demonstrating.recorder.Decisions`."""
        self._joined = ()
        if isinstance(deed.action, a.Wait):
            return None  # The recorder added it.
        at = deed.time + time.time() - time.monotonic()
        calls = merge_attempts(self._ended.values())
        led, by = self._find_calls(deed, at, calls)
        models: dict[str, Any] = {"by": by, "calls": [call.id for call in led]}
        if not led and by and self._last is not None:
            models["of"] = self._last.id
        if last:
            models["unjoined"] = [self._spelled.hide(call) for call in calls if call not in led]
        self._joined = led
        made = tuple(map(self._spelled.hide, led))
        return Decision(
            action=deed.action,
            thought=_find_thought(made[-1]) if made else "",
            model_calls=made,
            metadata={_KEY: models},
        )

    def note_recorded(self) -> None:
        """Note that the last returned decision was recorded, so its calls lead to no other step."""
        joined, self._joined = self._joined, ()
        if joined:
            self._last = joined[-1]
            ids = {call.id for call in joined}  # Of several attempts, `joined` has a merged copy.
            self._ended = {
                name: call
                for name, call in self._ended.items()
                if name not in ids
                and not (call.call.error and any(map(call.is_attempt_at, joined)))
            }

    def _find_calls(
        self, deed: Deed, at: float, calls: Sequence[RecordedCall]
    ) -> tuple[Sequence[RecordedCall], str]:
        """Return the calls that led to a step, the last call that requested it, and the rule.

        A rule without calls means that the previous call requested this step too.
        """
        replied = [call for call in calls if not call.call.error and call.start <= at]
        named = [call for call in replied if _names(call.call, deed)]
        if named:
            chain = _chain(named[-1], calls)
            return (chain, "content") if all(call in chain for call in named) else ((), "")
        if self._last is not None and _names(self._last.call, deed):
            return (), "content"
        if any(call.start <= at < call.end for call in (*calls, *self._in_flight.values())):
            return (), ""
        before = [call for call in replied if call.end <= at]
        if not before:
            return (), "order" if self._last is not None else ""
        chain = _chain(before[-1], calls)
        return (chain, "order") if all(call in chain for call in before) else ((), "")


def _chain(last: RecordedCall, calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return the calls that led to a call, followed by the call itself."""
    chain = [last]
    for call in reversed(calls):
        if call not in chain and any(_leads_to(call, later) for later in chain):
            chain.insert(0, call)
    return chain


def _leads_to(call: RecordedCall, later: RecordedCall) -> bool:
    """Return whether a later call's request contains a call's reply, or extends its messages."""
    if call.run != later.run or later.start < call.end:
        return False
    before, after = call.call.messages, later.call.messages
    if len(after) > len(before) and after[: len(before)] == before:
        return True
    requested = [text.strip() for text in _texts((after, later.call.sampling))]
    return any(
        mark == text or (len(mark) >= _LONG and mark in text)
        for mark in _marks(call.call)
        for text in requested
    )


def _marks(call: ModelCall) -> Iterator[str]:
    """Yield the texts by which a reply is recognized in a later request."""
    yield from (used.id for used in tool_calls_of(call.response) if used.id)
    if isinstance(call.response, Mapping) and isinstance(call.response.get("id"), str):
        yield call.response["id"]
    if len(call.text.strip()) >= _SHORT:
        yield call.text.strip()


def _names(call: ModelCall, deed: Deed) -> bool:
    """Return whether a reply names the action, in its tool calls or, if it has none, its text."""
    arguments = [tool.arguments for tool in tool_calls_of(call.response)]
    texts = [text for one in arguments or [call.text] for text in _texts(_parse_json(one))]
    if any(_contain(texts, text) for text in _contents(deed)):
        return True
    if deed.point is None:
        return False
    numbers = [float(number) for text in texts for number in _NUMBER.findall(text)]
    x, y = deed.point
    return any(
        abs(first - x) <= _NEAR and abs(second - y) <= _NEAR
        for first, second in itertools.pairwise(numbers)
    )


def _parse_json(value: Any) -> Any:
    """Return the data of a text that is JSON; anything else unchanged."""
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return value


def _contents(deed: Deed) -> Iterator[str]:
    """Yield the texts that each identify an action."""
    match deed.action:
        case a.Fill(value=text) | a.TypeInto(text=text) | a.TypeAt(text=text):
            yield text
        case a.TypeText(text=text) | a.InsertText(text=text) | a.Answer(text=text):
            yield text
        case a.Goto(url=url) | a.NewTab(url=url):
            yield url.rstrip("/")
        case a.SelectOption(options=options):
            yield from options
        case a.Press(keys=keys) | a.PressKey(keys=keys):
            yield keys
        case a.Scroll() | a.ScrollAt():
            pass
        case _:
            element = deed.touched or {}
            yield from (str(element.get(name) or "") for name in ("name", "selector"))


def _contain(texts: Sequence[str], text: str) -> bool:
    """Return whether one of several texts contains a text."""
    text = text.strip()
    if not text:
        return False
    if len(text) >= _SHORT:
        return any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", one) for one in texts)
    quoted = re.compile(rf"""(?P<q>["'`]){re.escape(text)}(?P=q)""")
    return any(one.strip() == text or quoted.search(one) for one in texts)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts and the numbers in a value, the numbers as text."""
    match value:
        case str():
            yield value
        case bool() | None | bytes():
            pass
        case int() | float():
            yield str(value)
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)


def _find_thought(call: ModelCall) -> str:
    return reasoning_of(call) or (call.text if tool_calls_of(call.response) else "")
