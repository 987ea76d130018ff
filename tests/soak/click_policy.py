"""A scripted policy behind a real HTTP model server that fails now and then.

The policy solves MiniWoB's click tasks from the text of the page alone; on one page in four it
means to be wrong. What it says follows from the page alone, so each episode's outcome is known from
a rollout that nobody disturbed.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re
import zlib

from webtraj.testing.model_server import ModelRequest, Reply

TASKS = tuple(
    f"miniwob/{name}"
    for name in (
        "click-test",
        "click-test-2",
        "click-test-transfer",
        "click-button",
        "click-link",
        "click-tab",
        "click-checkboxes",
        "click-option",
    )
)

_ELEMENT = re.compile(r'^ *\[(\w+)\] (\w+) "(.*?)"(.*)$', re.MULTILINE)
_GOAL = re.compile(r"^Task: (.*)$", re.MULTILINE)
_WANTED = re.compile(r'"(.*)"|button (\w+)\.|(Tab #\d)')


@dataclasses.dataclass(frozen=True, slots=True)
class _Element:
    ref: str
    name: str
    ticked: bool


def decide(page: str) -> str:
    """Returns the reply to a page, as text: one action."""
    goal = _GOAL.search(page)
    elements = [
        _Element(ref, name, " checked" in state) for ref, _, name, state in _ELEMENT.findall(page)
    ]
    if goal is None or not elements:
        return "noop()"
    if zlib.crc32((goal[1] + repr(elements)).encode()) % 4 == 0:
        return f"click('{elements[-1].ref}')"
    return f"click('{_right(goal[1], elements).ref}')"


def _right(goal: str, elements: list[_Element]) -> _Element:
    if goal.startswith("Select "):
        words = goal.removeprefix("Select ").removesuffix(" and click Submit.").split(", ")
        left = [e for e in elements if e.name in words and not e.ticked]
        return left[0] if left else elements[-1]
    if found := _WANTED.search(goal):
        name = next(filter(None, found.groups()))
        return next((e for e in elements if e.name == name), elements[0])
    return elements[0]


class FailingPolicy:
    """The policy as a rule for a fake model server, with faults if there shall be any.

    Attributes:
        done: How often each fault was done.
    """

    FAULTS = (
        ("error 500", 0.03),
        ("error 429", 0.01),
        ("cut before", 0.005),
        ("cut within", 0.005),
        ("garbage", 0.005),
        ("hang", 0.003),
    )
    """The shares of requests that meet them."""
    OUTAGES = 200
    """Once in so many requests nothing is answered for a while ..."""
    OUTAGE = 60
    """... for so many in a row: longer than a client's patience."""

    def __init__(self, seed: int, *, failing: bool) -> None:
        self.done: collections.Counter[str] = collections.Counter()
        self._random = random.Random(seed)
        self._failing = failing
        self._requests = 0

    def __call__(self, request: ModelRequest) -> Reply:
        """Answers a request; in the server's thread."""
        right = Reply(decide(request.text))
        if not self._failing:
            return right
        self._requests += 1
        since_outage = self._requests % self.OUTAGES - self.OUTAGES // 4
        if 0 <= since_outage < self.OUTAGE:
            self.done["outage"] += since_outage == 0
            return Reply.error(503, "Overloaded.")
        names, shares = zip(*self.FAULTS, strict=True)
        fault = self._random.choices((*names, ""), (*shares, 1 - sum(shares)))[0]
        if not fault:
            return right
        self.done[fault] += 1
        match fault:
            case "error 500":
                return Reply.error(500)
            case "error 429":
                return Reply.error(429, retry_after=0.1)
            case "cut before":
                return dataclasses.replace(right, cut="before")
            case "cut within":
                return dataclasses.replace(right, cut="within")
            case "garbage":
                return Reply(body=b'{"choices": [{')
        return dataclasses.replace(right, delay=math.inf)
