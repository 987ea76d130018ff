"""The random agent: the floor that any other has to beat, and a monkey test of environments."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.base import seed_text
from webtraj.environments import actions
from webtraj.environments import base as environment_lib

__all__ = ["RandomAgent"]

_MAX_WORDS = 3
_QUOTES = 0.5
_WORD = re.compile(r"[^\s\"',;()]*\w")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{1,200})[\"\u201d]")
_SCROLL = 400  # CSS pixels: half of a small window.


@dataclasses.dataclass(frozen=True, slots=True)
class RandomAgent:
    """Picks an element at random, then something that fits its role.

    It reads `axtree` and, for what to type, `goal` of a browser environment's observation: it types
    what the goal has in quotes, or up to three of its words. Its choices follow from `seed` and
    from the task and seed that the environment gives the episode, so that an episode can be run
    again, alone or among others. An environment that does not describe its episodes gets the same
    choices in each.

    Attributes:
        seed: Of its choices.
        name: What it is called.
        untouched: How often, from 0 to 1, it picks among the elements that it has not acted on in
            the episode, if there are any. At 0 all are as likely; nearer to 1 it fills in a form
            of several fields more often before it sends it.
    """

    seed: int = 0
    name: str = "random"
    untouched: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.untouched, int | float) and 0 <= self.untouched <= 1):
            raise errors.InvalidInputError(
                f"The random agent's untouched is {self.untouched!r:.100}; expected a share, a "
                "number from 0 to 1."
            )

    def begin_episode(self, environment: environment_lib.Environment) -> _RandomActor:
        """Returns an actor with a random source of its own."""
        return _RandomActor(random.Random(seed_text(self.seed, environment)), self.untouched)


@dataclasses.dataclass(frozen=True, slots=True)
class _RandomActor:
    random: random.Random
    untouched: float
    touched: set[str] = dataclasses.field(default_factory=set)

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        return trajectory_lib.Decision(action=self._choose(observation))

    def _choose(self, observation: Any) -> actions.Action:
        from webtraj.environments.browser.observation import refs_in

        if not isinstance(observation, Mapping) or "axtree" not in observation:
            raise errors.AgentError(
                "The random agent needs observations with an 'axtree'; got "
                f"{_shape_of(observation)}."
            )
        elements = refs_in(observation["axtree"])
        if not elements:
            return actions.Scroll(dx=0, dy=self.random.choice((-_SCROLL, _SCROLL)))
        fresh = [element for element in elements if element.ref not in self.touched]
        # Nothing is drawn where nothing hangs on it: plainly random choices stay what they were.
        if self.untouched and fresh and self.random.random() < self.untouched:
            elements = fresh
        element = self.random.choice(elements)
        self.touched.add(element.ref)
        choice = self.random.choice(_CHOICES.get(element.role, (_click,)))
        return choice(element.ref, _some_text(observation.get("goal", ""), self.random))


_Choice = Callable[[str, str], actions.Action]
"""Makes an action from a ref and a text."""


def _click(ref: str, text: str) -> actions.Action:
    return actions.Click(ref)


def _enter(ref: str, text: str) -> actions.Action:
    return actions.Press(ref, "Enter")


def _select(ref: str, text: str) -> actions.Action:
    return actions.SelectOption(ref, (text,))


# What fields are for is what is mostly done to them: a form of several would hardly ever get filled
# in before something else ends it.
_FILL: tuple[_Choice, ...] = (actions.Fill,) * 4

_CHOICES: Mapping[str, tuple[_Choice, ...]] = {
    "textbox": (_click, *_FILL, _enter),
    "searchbox": (_click, *_FILL, _enter),
    "spinbutton": (_click, *_FILL),
    "combobox": (_click, actions.Fill, _select),
    "listbox": (_click, _select),
}
"""What fits the roles that are for more than clicking."""


def _some_text(goal: str, source: random.Random) -> str:
    """Returns what to type: a text that the goal quotes, or some of its words.

    Both are as likely: what somebody wants to have typed is often quoted.
    """
    quoted: list[str] = _QUOTED.findall(goal)
    if quoted and source.random() < _QUOTES:
        return source.choice(quoted)
    return _some_words(_WORD.findall(goal), source)


def _some_words(words: Sequence[str], source: random.Random) -> str:
    """Returns one to three neighbouring words; a letter if there are none."""
    if not words:
        return source.choice("abcdefghijklmnopqrstuvwxyz")
    length = source.randint(1, min(_MAX_WORDS, len(words)))
    start = source.randint(0, len(words) - length)
    return " ".join(words[start : start + length])


def _shape_of(observation: Any) -> str:
    if isinstance(observation, Mapping):
        return f"a mapping with the keys {sorted(map(str, observation))}"
    return f"a {type(observation).__name__}"
