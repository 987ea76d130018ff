"""Pointing: agents for models too small for an ordinary prompt.

A prompt describes the page in about forty tokens, and the model answers with two: an element, and
the word of the goal to type into it, if any. That a web agent can work with these two actions
(click an element, or type a word of the goal into it) is from DOM-Q-Net (Jia, Kiros and Ba 2019).
Elements and words are named by tokens shuffled anew for each prompt, so a model cannot memorize
positions and has to read.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.base import seed_text
from webtraj.agents.models.base import Message, ModelClient, Sampling
from webtraj.agents.models.messages import without_markup
from webtraj.agents.options import read_options
from webtraj.environments import base as environment_lib
from webtraj.environments.actions import Action, Click, Fill, InvalidAction
from webtraj.environments.browser.observation import Ref, captions_in, refs_in, text_in

__all__ = [
    "ACT",
    "CLICK",
    "ELEMENTS",
    "Item",
    "MARKERS",
    "OPTIONS",
    "PointingAgent",
    "Prompt",
    "WORDS",
    "color_name",
    "done_as",
    "items_of",
    "make_pointing_agent",
    "make_prompt",
]

# Short descriptions of a page's elements and texts.

_LONGEST_NAME = 6
"""The most words of a name or text; more rarely help to tell elements apart."""
_EDITABLE = frozenset({"textbox", "searchbox", "spinbutton"})
_UNSAID_ROLES = frozenset({"generic", "paragraph", "strong", "emphasis"})
_BULLET = "\u2022"
_UNSAID_STATES = ("level", "scrollable", "image")
_WORD = re.compile(r"\S+")
_NUMBERS = re.compile(r"\d+")

# The basic colours of CSS, and a few more with everyday names.
_COLORS = {
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "white": (255, 255, 255),
    "red": (255, 0, 0),
    "maroon": (128, 0, 0),
    "orange": (255, 165, 0),
    "brown": (165, 42, 42),
    "yellow": (255, 255, 0),
    "olive": (128, 128, 0),
    "lime": (0, 255, 0),
    "green": (0, 128, 0),
    "teal": (0, 128, 128),
    "cyan": (0, 255, 255),
    "blue": (0, 0, 255),
    "navy": (0, 0, 128),
    "purple": (128, 0, 128),
    "magenta": (255, 0, 255),
    "pink": (255, 192, 203),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """A line of the page."""

    words: str
    """Its description: role, name and states."""
    name: str = ""
    """The full name; for an unnamed field, the text right before it."""
    ref: str = ""
    """The element's ref; empty for text, which cannot be acted on."""
    editable: bool = False
    """Whether text can be typed into it."""


def items_of(axtree: str) -> list[Item]:
    r"""Return the items of a page, in page order.

    An unnamed field takes the text right before it as its name. An element that only repeats the
    name of the one before it is left out, as it lies inside.

    >>> [item.words for item in items_of('[1] tab "A" selected\n  [2] generic "A"\ntext "Hi"')]
    ['tab A selected', 'Hi']
    >>> [item.words for item in items_of('text "City:"\n[1] textbox value="Bonn"')]
    ['City:', 'textbox City has Bonn']

    Args:
        axtree: The page, as described by `webtraj.environments.browser.observation`.
    """
    return list(_items(axtree))


def _items(axtree: str) -> Iterator[Item]:
    captions = captions_in(axtree)
    around = ""
    for line in axtree.splitlines():
        text = text_in(line)
        if text is not None:
            yield Item(_shortened(text))
            continue
        for element in refs_in(line):
            if element.role == "generic" and element.name and element.name == around:
                continue
            around = element.name
            editable = element.role in _EDITABLE
            name = element.name or captions.get(element.ref, "")
            yield Item(_called(element, name), name, element.ref, editable)


def _called(element: Ref, name: str) -> str:
    said = [] if element.role in _UNSAID_ROLES else [element.role]
    if name:
        said.append(_shortened(name))
    said += [state for state in map(_state, element.states) if state]
    return " ".join(said) or element.role


def _state(state: str) -> str:
    name, _, value = state.partition("=")
    if name in _UNSAID_STATES:
        return ""
    if name in ("color", "fill"):
        return color_name(json.loads(value))
    if name == "value":
        held = json.loads(value)
        # The length of a password is no useful information.
        return f"has {_BULLET if set(held) == {_BULLET} else _shortened(held)}"
    if name == "expanded":
        return "open" if value == "true" else "shut"
    return name


def color_name(css: str) -> str:
    """Return the nearest colour with an everyday name, by RGB distance.

    >>> color_name("rgb(250, 250, 10)"), color_name("currentcolor")
    ('yellow', 'currentcolor')
    """
    found = _NUMBERS.findall(css)
    if not css.startswith("rgb") or len(found) < len("rgb"):
        return css
    red, green, blue = map(int, found[:3])
    return min(
        _COLORS,
        key=lambda name: sum(
            (one - other) ** 2 for one, other in zip(_COLORS[name], (red, green, blue), strict=True)
        ),
    )


def _shortened(text: str) -> str:
    return " ".join(_WORD.findall(text)[:_LONGEST_NAME])


# The prompt of a pointing agent, and the meaning of its replies.
#
#     <task> Click on Okay <page> button no <was> <e31> button Okay <same> <e4> <did> button no
#         <act>
#
# The task comes first, and an element's token after its words, so a small model has read the task
# before the candidates, and each candidate before its token. (In the study behind this, on 16
# MiniWoB++ tasks, this order alone learned almost twice as fast as with the task at the end.) If
# something can be typed, the goal's words have tokens too::
#
#     <task> Enter <w7> Bob <w2> and press Submit <page> textbox <e9> button Submit <e3> <act>
#
# Quoted text counts as one word, however long it is.
#
# Marks show what a small model would take long to learn: `<same>` follows an element whose whole
# name is in the goal, `<some>` one that shares a word with it, `<was>` one that was acted on
# before. They compare letters only, like a search in a page. Workflow-guided exploration (Liu et
# al. 2018) and DOM-Q-Net give their networks such alignments of goal and page too.
#
# The reply is two tokens: the element, and the word to type into it; `<w0>` means no word, that is
# a click.

ELEMENTS: Final = tuple(f"<e{number}>" for number in range(48))
"""The tokens of elements; a page's further elements are not shown."""
CLICK: Final = "<w0>"
"""The token for no word."""
WORDS: Final = tuple(f"<w{number}>" for number in range(1, 33))
"""The tokens of words; a goal's further words cannot be typed."""
ACT: Final = "<act>"
MARKERS: Final = ("<task>", "<page>", "<did>", "<same>", "<some>", "<was>", ACT)

_REPLY = re.compile(r"\s*(<e\d+>)\s*(<w\d+>)\s*")
_AROUND = "\"'.,:;!?()[]\u201c\u201d\u2018\u2019"
_REMEMBERED = 4
_NAME_TOKENS = re.compile(r"<(?:[ew]\d+|task|page|did|same|some|was|act)>")
_PROMPTS_WORD = re.compile(
    r"(?<!\S)[\"\u201c](?P<quoted>[^\"\u201c\u201d]{1,200})[\"\u201d](?!\w)\S*|\S+"
)
"""Words, and quoted texts with the punctuation around them."""
_PARTS = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, and the meaning of its tokens."""

    text: str
    elements: Mapping[str, Item]
    """Items by element token."""
    words: Mapping[str, str]
    """Words of the goal by word token; empty if nothing can be typed."""

    def read(self, reply: str) -> Action:
        """Return the action that a reply means; an `InvalidAction` if it means none.

        >>> items = [Item("button Go", "Go", "1")]
        >>> prompt = make_prompt("Click on Go", items, names=random.Random(0))
        >>> prompt.read(f"{next(iter(prompt.elements))}<w0>")
        Click(ref='1', button='left', modifiers=(), count=1)
        """
        found = _REPLY.fullmatch(reply)
        if found is None:
            return _invalid("malformed", "expected the names of an element and of a word", reply)
        name, word = found.groups()
        item = self.elements.get(name)
        if item is None:
            return _invalid("bad_arguments", f"no element is called {name}", reply)
        if word == CLICK:
            return Click(item.ref)
        if word not in self.words:
            return _invalid("bad_arguments", f"no word is called {word}", reply)
        if not item.editable:
            return _invalid("bad_arguments", f"nothing can be typed into {name}", reply)
        return Fill(item.ref, self.words[word])

    def reply_for(self, action: object) -> str | None:
        """Return the reply that means an action; None if there is none."""
        match action:
            case Click(ref=ref) if action == Click(ref):
                word: str | None = CLICK
            case Fill(ref=ref, value=text):
                word = next((name for name, said in self.words.items() if said == text), None)
            case _:
                return None
        name = next((name for name, item in self.elements.items() if item.ref == ref), None)
        return None if name is None or word is None else f"{name}{word}"


def make_prompt(
    goal: str,
    items: Sequence[Item],
    done: Sequence[tuple[str, str]] = (),
    *,
    names: random.Random,
) -> Prompt:
    """Return the prompt for a goal and a page.

    Args:
        goal: The goal.
        items: The page.
        done: Past actions, oldest first: the ref acted on, and its description. Only the last few
            are described.
        names: Shuffles the tokens.
    """
    shown = list(items)
    pool = list(ELEMENTS)
    names.shuffle(pool)
    elements: dict[str, Item] = {}
    said = ["<task>"]
    words: dict[str, str] = {}
    if any(item.editable for item in shown):
        tags = list(WORDS)
        names.shuffle(tags)
        for word in _PROMPTS_WORD.finditer(goal):
            said.append(_plain(word[0]))
            bare = (word["quoted"] or word[0].strip(_AROUND)).strip()
            if bare and tags and bare not in words.values():
                words[tags[-1]] = bare
                said.append(tags.pop())
    else:
        said += map(_plain, goal.split())
    said.append("<page>")
    wanted = _parts(goal)
    was = {ref for ref, _ in done}
    for item in shown:
        if item.ref:
            if not pool:
                break
            name = pool.pop()
            elements[name] = item
            said += [_plain(item.words), *_marks(item, wanted, was), name]
        else:
            said.append(_plain(item.words))
    if done:
        said.append("<did>")
        said += [_plain(told) for _, told in done[-_REMEMBERED:]]
    said.append(ACT)
    return Prompt(" ".join(said), elements, words)


def _marks(item: Item, goal: Sequence[str], was: Collection[str]) -> Iterator[str]:
    name = _parts(item.name)
    length = len(name)
    if name and any(goal[at : at + length] == name for at in range(len(goal) - length + 1)):
        yield "<same>"
    elif {part.lower() for part in _parts(item.words)} & {part.lower() for part in goal}:
        yield "<some>"
    if item.ref in was:
        yield "<was>"


def _parts(text: str) -> list[str]:
    """Split a text into words and punctuation marks.

    >>> _parts('Click on Tab #3.')
    ['Click', 'on', 'Tab', '#', '3', '.']
    """
    return _PARTS.findall(text)


def _plain(text: str) -> str:
    """Return a page's or goal's text without anything that looks like a token."""
    return without_markup(_NAME_TOKENS.sub(" ", text)).strip()


def _invalid(kind: str, reason: str, reply: str) -> InvalidAction:
    return InvalidAction(reason=f"{reason[0].upper()}{reason[1:]}.", text=reply[:200], kind=kind)


# The pointing agent: a short prompt goes to a model, and two tokens come back.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PointingAgent:
    """Asks a model which element to act on, and which of the goal's words to type.

    Needs the channels `goal` and `axtree` of a browser environment. An unreadable reply is an
    `InvalidAction`; `max_invalid_actions` of them in a row give up the episode, which truncates it.
    """

    client: ModelClient
    """The model, shared by all episodes."""
    temperature: float = 0.0
    """The sampling temperature: 0 takes the most likely reply, 1 explores."""
    seed: int = 0
    """The seed of token names and sampling, combined with the episode's task, seed and step. Give
    attempts of one task different seeds."""
    max_tokens: int = 2
    """The most tokens of a reply: two, if each name is one token, as in webtraj's own models."""
    max_invalid_actions: int = 3
    """The number of consecutive invalid replies that ends the episode."""
    timeout: float | None = None
    """Seconds for one call, including retries; None uses the client's."""
    name: str = ""
    """The policy name in episodes. Default: `pointing/` and the client's name."""

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise errors.InvalidInputError(
                f"The agent's temperature must be 0 or more; got {self.temperature!r}."
            )
        if self.max_invalid_actions < 1:
            raise errors.InvalidInputError(
                f"max_invalid_actions must be 1 or more; got {self.max_invalid_actions!r}."
            )
        if not self.name:
            object.__setattr__(self, "name", f"pointing/{self.client.name}")

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a browser environment's observations that the agent needs."""
        return ("goal", "axtree", "last_action")

    def begin_episode(self, environment: environment_lib.Environment) -> _Actor:
        """Return an actor that remembers its past actions."""
        return _Actor(self, random.Random(seed_text(self.seed, environment)))

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()


class _Actor:
    """Acts in one episode."""

    def __init__(self, agent: PointingAgent, source: random.Random) -> None:
        self._agent = agent
        self._random = source
        self._done: list[tuple[str, str]] = []
        self._invalid_in_a_row = 0

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        """Return the model's decision.

        Raises:
            EpisodeGivenUpError: Too many replies in a row were invalid.
            ModelError: The model did not reply.
            AgentError: The observation has no goal or axtree.
        """
        prompt = self._prompt(observation)
        agent = self._agent
        sampling = Sampling(
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            seed=self._random.getrandbits(31) if agent.temperature else None,
        )
        try:
            call = await agent.client.complete(
                (Message.of("user", prompt.text),), sampling, timeout=agent.timeout
            )
        except errors.ModelError as error:
            if error.call is not None:
                error.decision = _decision((error.call,), None)
            raise
        action = prompt.read(call.text)
        decision = _decision((call,), action)
        if isinstance(action, InvalidAction):
            self._invalid_in_a_row += 1
            if self._invalid_in_a_row >= agent.max_invalid_actions:
                given_up = errors.EpisodeGivenUpError(
                    f"{self._invalid_in_a_row} replies in a row were not valid actions; the last: "
                    f"{action.reason}"
                )
                given_up.decision = decision
                raise given_up
        else:
            self._invalid_in_a_row = 0
            if (done := done_as(action, prompt.elements.values())) is not None:
                self._done.append(done)
        return decision

    def _prompt(self, observation: Any) -> Prompt:
        if not isinstance(observation, Mapping) or not {"goal", "axtree"} <= observation.keys():
            raise errors.AgentError(
                "The pointing agent needs observations with the channels 'goal' and 'axtree'; got "
                f"{type(observation).__name__!r}."
            )
        items = items_of(observation["axtree"])
        return make_prompt(observation["goal"], items, self._done, names=self._random)


def done_as(action: Action, items: Iterable[Item]) -> tuple[str, str] | None:
    """Return an action's ref and description for later prompts; None without an element."""
    ref = getattr(action, "ref", None)
    item = next((item for item in items if item.ref and item.ref == ref), None)
    if item is None:
        return None
    typed = f" typed {action.value}" if isinstance(action, Fill) else ""
    return item.ref, f"{item.words}{typed}"


def _decision(
    calls: tuple[trajectory_lib.ModelCall, ...], action: Action | None
) -> trajectory_lib.Decision:
    return trajectory_lib.Decision(
        action=action,
        parse_error=action.reason if isinstance(action, InvalidAction) else "",
        model_calls=calls,
        metadata={"dialect": "pointing"},
    )


# The options of a pointing agent, as on the command line.

OPTIONS = (
    "model", "base_url", "provider", "api_key_variable", "max_concurrency", "requests_per_minute",
    "temperature", "max_tokens", "seed", "max_invalid_actions", "timeout",
)  # fmt: skip


def make_pointing_agent(seed: int, options: Mapping[str, Any]) -> PointingAgent:
    """Make an agent with its own client.

    Args:
        seed: The seed, unless the options have one.
        options: The fields of `webtraj.agents.options.ModelOptions` named in `OPTIONS`.

    Raises:
        InvalidInputError: An option is unknown, or its value is invalid.
    """
    if unknown := [name for name in options if name not in OPTIONS]:
        raise errors.InvalidInputError(
            f"The agent 'pointing' does not take {unknown[0]!r}; its options: {', '.join(OPTIONS)}."
        )
    read = read_options(options)
    return PointingAgent(
        client=read.make_client(),
        temperature=read.temperature or 0.0,
        seed=seed if read.seed is None else read.seed,
        max_tokens=read.max_tokens or 2,
        max_invalid_actions=read.max_invalid_actions,
        timeout=read.timeout,
    )
