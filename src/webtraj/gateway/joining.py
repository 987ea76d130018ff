"""Which model calls led to which steps of a browser that was watched meanwhile.

A call leads to a step if it ended before the gesture, and

* its reply names what was done: the text typed, the URL, the keys, the element, the point; or
* it is the only one that can have: one conversation alone had replies since the last step, and no
  other call was in flight.

The calls whose replies are part of its request, or whose conversation it goes on with, led to the
step, too. A step that no call of its own led to follows from the last call, whose reply may ask for
several. What fits in neither way is not guessed: the step says so, and the last step keeps the
calls that led to none.
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
from webtraj.gateway.journal import RecordedCall, merged
from webtraj.trajectory import Decision, ModelCall

__all__ = ["Joiner", "leads_to", "names"]

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_NEAR: Final = 1.0
"""Pixels that a point may be off."""
_SHORT: Final = 3
"""Shorter texts count only where they are quoted, or a whole argument."""
_LONG: Final = 12
"""A reply of so many characters is known inside another text."""
_KEY: Final = "models"


class Joiner:
    """Joins calls, as a gateway reports them, to steps, as a recorder asks for their decisions."""

    def __init__(self) -> None:
        self._ended: dict[str, RecordedCall] = {}
        self._in_flight: dict[str, RecordedCall] = {}
        self._last: RecordedCall | None = None
        self._found: tuple[Sequence[RecordedCall], RecordedCall | None] = ((), None)

    def observe(self, call: RecordedCall) -> None:
        """Hear of a call that began or ended; see `Gateway`."""
        self._in_flight.pop(call.id, None)
        (self._in_flight if call.call.latency is None else self._ended)[call.id] = call

    def decision(self, deed: Deed, *, last: bool = False) -> Decision | None:
        """Return the decision behind a step. See `webtraj.demonstrating.recorder.Decisions`."""
        self._found = (), None
        if isinstance(deed.action, a.Wait):
            return None  # Nobody did it: see `Recorder`.
        at = deed.time + time.time() - time.monotonic()
        calls = merged(self._ended.values())
        led, by = self._led(deed, at, calls)
        chosen = led[-1] if led else None
        told: dict[str, Any] = {"by": by, "calls": [call.id for call in led]}
        if not led and by and self._last is not None:
            told["of"] = self._last.id
        if last:
            told["unjoined"] = [call.call for call in calls if call not in led]
        self._found = led, chosen
        return Decision(
            action=deed.action,
            thought=_thought(chosen.call) if chosen else "",
            model_calls=tuple(call.call for call in led),
            metadata={_KEY: told},
        )

    def recorded(self) -> None:
        """Hear that the decision returned last was recorded."""
        (led, chosen), self._found = self._found, ((), None)
        if led:
            self._last = chosen
            requests = [call.request for call in led]
            self._ended = {
                name: call
                for name, call in self._ended.items()
                if call not in led and not (call.call.error and call.request in requests)
            }

    def _led(
        self, deed: Deed, at: float, calls: Sequence[RecordedCall]
    ) -> tuple[Sequence[RecordedCall], str]:
        """Return the calls that led to a step, the one that asked for it last, and how that shows.

        Without calls, but with a reason, the last call asked for this step, too.
        """
        replied = [call for call in calls if not call.call.error and call.start <= at]
        named = [call for call in replied if names(call.call, deed)]
        if named:
            chain = _chain(named[-1], calls)
            return (chain, "content") if all(call in chain for call in named) else ((), "")
        if self._last is not None and names(self._last.call, deed):
            return (), "content"
        if any(call.start <= at for call in self._in_flight.values()):
            return (), ""
        before = [call for call in replied if call.end <= at]
        if not before:
            return (), "order" if self._last is not None else ""
        chain = _chain(before[-1], calls)
        return (chain, "order") if all(call in chain for call in before) else ((), "")


def _chain(last: RecordedCall, calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return the calls that led to a call, and that call, in order."""
    chain = [last]
    for call in reversed(calls):
        if call not in chain and any(leads_to(call, later) for later in chain):
            chain.insert(0, call)
    return chain


def leads_to(call: RecordedCall, later: RecordedCall) -> bool:
    """Return whether a later call's request has a call's reply, or goes on with its messages."""
    if call.run != later.run or later.start < call.end:
        return False
    before, after = call.call.messages, later.call.messages
    if len(after) > len(before) and after[: len(before)] == before:
        return True
    told = [text.strip() for text in _texts((after, later.call.sampling))]
    return any(
        mark == text or (len(mark) >= _LONG and mark in text)
        for mark in _marks(call.call)
        for text in told
    )


def _marks(call: ModelCall) -> Iterator[str]:
    """Yield the texts by which a reply is known in a later request."""
    yield from (used.id for used in tool_calls_of(call.response) if used.id)
    if isinstance(call.response, Mapping) and isinstance(call.response.get("id"), str):
        yield call.response["id"]
    if len(call.text.strip()) >= _SHORT:
        yield call.text.strip()


def names(call: ModelCall, deed: Deed) -> bool:
    """Return whether a reply names what was done, in its tool calls or, without any, its text."""
    used = [tool.arguments for tool in tool_calls_of(call.response)]
    said = [text for one in used or [call.text] for text in _texts(_parsed(one))]
    if any(_says(said, text) for text in _contents(deed)):
        return True
    if deed.point is None:
        return False
    numbers = [float(number) for text in said for number in _NUMBER.findall(text)]
    x, y = deed.point
    return any(
        abs(first - x) <= _NEAR and abs(second - y) <= _NEAR
        for first, second in itertools.pairwise(numbers)
    )


def _parsed(said: Any) -> Any:
    """Return what JSON in a text says; what is none, as it is."""
    try:
        return orjson.loads(said) if isinstance(said, str) else said
    except orjson.JSONDecodeError:
        return said


def _contents(deed: Deed) -> Iterator[str]:
    """Yield the texts of which each tells an action from others."""
    match deed.action:
        case a.Fill(value=value):
            yield value
        case a.Goto(url=url) | a.NewTab(url=url):
            yield url.rstrip("/")
        case a.SelectOption(options=options):
            yield from options
        case a.Press(keys=keys) | a.PressKey(keys=keys):
            yield keys
        case a.Answer(text=text):
            yield text
        case a.Scroll() | a.ScrollAt():
            pass
        case _:
            element = deed.touched or {}
            yield from (str(element.get(name) or "") for name in ("name", "selector"))


def _says(said: Sequence[str], text: str) -> bool:
    text = text.strip()
    if not text:
        return False
    if len(text) >= _SHORT:
        return any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", one) for one in said)
    quoted = re.compile(rf"""(?P<q>["'`]){re.escape(text)}(?P=q)""")
    return any(one.strip() == text or quoted.search(one) for one in said)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value, as texts."""
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


def _thought(call: ModelCall) -> str:
    return reasoning_of(call) or (call.text if tool_calls_of(call.response) else "")
