"""The random agent: a baseline for other agents, and a monkey test of environments."""

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

__all__ = ["RandomAgent", "SHARES", "check_share", "random_end"]

SHARES = ("untouched", "fields", "ends", "clicks")
"""The random agent's options, all of them probabilities."""

_MAX_WORDS = 3
_QUOTES = 0.5
_WORD = re.compile(r"[^\s\"',;()]*\w")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{1,200})[\"\u201d]")
_REFUSALS = 0.25
"""How many of the random ends are refusals."""
_SCROLL = 400  # CSS pixels: half of a small window.


@dataclasses.dataclass(frozen=True, slots=True)
class RandomAgent:
    """Chooses a random element, then an action that fits its role.

    It reads `axtree` of a browser environment's observation. It types quoted text from `goal`, or
    up to three of its words. Its choices depend on `seed` and on the episode's task and seed, so an
    episode can be repeated, alone or among others. If the environment does not describe its
    episodes, the choices are the same in each.

    A subclass adds kinds of actions by `other_action`.

    Attributes:
        seed: The seed of its choices.
        name: The policy name.
        untouched: The probability, from 0 to 1, of choosing among the elements not acted on yet in
            the episode, if there are any. At 0 all elements are equally likely.
        fields: The probability, from 0 to 1, of filling in a field not acted on yet, if there is
            one. Near 1, forms with several fields are often complete when they are sent.
        ends: The probability, from 0 to 1, of ending the episode at each step; see `random_end`.
        clicks: The probability, from 0 to 1, of a click where something can be typed too.
    """

    seed: int = 0
    name: str = "random"
    untouched: float = 0.0
    fields: float = 0.0
    ends: float = 0.0
    clicks: float = 0.0

    def __post_init__(self) -> None:
        for name in SHARES:
            check_share("random", name, getattr(self, name))

    def begin_episode(self, environment: environment_lib.Environment) -> _RandomActor:
        """Return an actor with its own random source."""
        source = random.Random(seed_text(self.seed, environment))
        return _RandomActor(source, self)

    def other_action(
        self, observation: Mapping[str, Any], source: random.Random
    ) -> actions.Action | None:
        """Return an action of a kind that a subclass adds; None to choose one of the usual kinds.

        Args:
            observation: The observation, with `axtree`.
            source: The random source for choices.
        """
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class _RandomActor:
    random: random.Random
    agent: RandomAgent
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
        # Draw only if needed, so that choices stay the same without these options.
        if self.agent.ends and self.random.random() < self.agent.ends:
            return random_end(observation, self.random)
        if self.agent.fields and self.random.random() < self.agent.fields:
            filled = self._fill_field(observation)
            if filled is not None:
                return filled
        other = self.agent.other_action(observation, self.random)
        if other is not None:
            return other
        elements = refs_in(observation["axtree"])
        if not elements:
            return actions.Scroll(dx=0, dy=self.random.choice((-_SCROLL, _SCROLL)))
        fresh = [element for element in elements if element.ref not in self.touched]
        if self.agent.untouched and fresh and self.random.random() < self.agent.untouched:
            elements = fresh
        element = self.random.choice(elements)
        self.touched.add(element.ref)
        if self.agent.clicks and self.random.random() < self.agent.clicks:
            return actions.Click(element.ref)
        choice = self.random.choice(_CHOICES.get(element.role, (_click,)))
        return choice(element.ref, _some_text(observation.get("goal", ""), self.random))

    def _fill_field(self, observation: Mapping[str, Any]) -> actions.Action | None:
        """Fill in a field that was not acted on yet; return None if there is no such field."""
        from webtraj.environments.browser.observation import refs_in

        fields = [
            element
            for element in refs_in(observation["axtree"])
            if element.role in _FILLINGS
            and element.ref not in self.touched
            and not {"readonly", "disabled"} & set(element.states)
        ]
        if not fields:
            return None
        field = self.random.choice(fields)
        self.touched.add(field.ref)
        choice = self.random.choice(_FILLINGS[field.role])
        return choice(field.ref, _some_text(observation.get("goal", ""), self.random))


def check_share(agent: str, name: str, value: Any) -> None:
    """Check an agent's option that is a probability.

    Raises:
        InvalidInputError: It is not a number from 0 to 1.
    """
    if not (isinstance(value, int | float) and 0 <= value <= 1):
        raise errors.InvalidInputError(
            f"The {agent} agent's {name} must be a number from 0 to 1; got {value!r:.100}."
        )


def random_end(observation: Mapping[str, Any], source: random.Random) -> actions.Action:
    """Return an action that ends an episode: an answer from the page, or at times a refusal.

    Without such actions, an agent that cannot read would fail every task that is judged by an
    answer.

    Args:
        observation: The observation, with `axtree`.
        source: The random source for choices.
    """
    from webtraj.environments.browser.observation import refs_in

    if source.random() < _REFUSALS:
        return actions.ReportInfeasible("It cannot be done.")
    names = [element.name for element in refs_in(observation["axtree"]) if element.name]
    return actions.Answer(source.choice(names) if names else "done")


_Choice = Callable[[str, str], actions.Action]
"""Makes an action from a ref and a text."""


def _click(ref: str, text: str) -> actions.Action:
    return actions.Click(ref)


def _enter(ref: str, text: str) -> actions.Action:
    return actions.Press(ref, "Enter")


def _select(ref: str, text: str) -> actions.Action:
    return actions.SelectOption(ref, (text,))


# Fields are mostly filled in: otherwise a form of several fields would hardly ever be complete
# before something else ends the episode.
_FILL: tuple[_Choice, ...] = (actions.Fill,) * 4

_CHOICES: Mapping[str, tuple[_Choice, ...]] = {
    "textbox": (_click, *_FILL, _enter),
    "searchbox": (_click, *_FILL, _enter),
    "spinbutton": (_click, *_FILL),
    "combobox": (_click, actions.Fill, _select),
    "listbox": (_click, _select),
}
"""The choices for roles that allow more than clicking."""


_FILLINGS: Mapping[str, tuple[_Choice, ...]] = {
    "textbox": (actions.Fill,),
    "searchbox": (actions.Fill,),
    "spinbutton": (actions.Fill,),
    "combobox": (actions.Fill, _select),
    "listbox": (_select,),
}
"""The choices that give fields a value, by role."""


def _some_text(goal: str, source: random.Random) -> str:
    """Return a text to type: a quoted text of the goal, or some of its words.

    Both are equally likely, because a text to type is often quoted.
    """
    quoted: list[str] = _QUOTED.findall(goal)
    if quoted and source.random() < _QUOTES:
        return source.choice(quoted)
    return _some_words(_WORD.findall(goal), source)


def _some_words(words: Sequence[str], source: random.Random) -> str:
    """Return one to three neighbouring words; a random letter if there are none."""
    if not words:
        return source.choice("abcdefghijklmnopqrstuvwxyz")
    length = source.randint(1, min(_MAX_WORDS, len(words)))
    start = source.randint(0, len(words) - length)
    return " ".join(words[start : start + length])


def _shape_of(observation: Any) -> str:
    if isinstance(observation, Mapping):
        return f"a mapping with the keys {sorted(map(str, observation))}"
    return f"a {type(observation).__name__}"
