"""The prompt of a pointing agent, and what a reply to it means.

    <task> Click on Okay <page> button no <was> <e31> button Okay <same> <e4> <did> button no <act>

The task comes first and an element's name after its words: so a small model has read what is asked
for before it sees the candidates, and each candidate before its name. (In the study behind this, of
16 MiniWoB++ tasks, that order alone learned almost twice as fast as the task at the end.) Where
something can be typed, the goal's words have names too::

    <task> Enter <w7> Bob <w2> and press Submit <page> textbox <e9> button Submit <e3> <act>

What stands in quotes is one word, however long it is.

Marks say what a small model would need long to learn to see: `<same>` follows an element whose
whole name the goal says, `<some>` one of which it says a word; `<was>` one that has been acted on.
They go by letters alone, as finding in a page does. Workflow-guided exploration (Liu et al. 2018)
and DOM-Q-Net give their networks such alignments of goal and page, too.

The reply is two names: the element, and the word that is typed into it; `<w0>` is no word, a click.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from webtraj.agents.models.markup import without_markup
from webtraj.agents.pointing.pages import Item
from webtraj.environments.actions import Action, Click, Fill, InvalidAction

__all__ = ["ACT", "CLICK", "ELEMENTS", "MARKERS", "WORDS", "Prompt", "make_prompt"]

ELEMENTS: Final = tuple(f"<e{number}>" for number in range(48))
"""The names of elements; what a page has beyond so many is not shown."""
CLICK: Final = "<w0>"
"""Stands for no word."""
WORDS: Final = tuple(f"<w{number}>" for number in range(1, 33))
"""The names of words; those of a goal beyond so many cannot be typed."""
ACT: Final = "<act>"
MARKERS: Final = ("<task>", "<page>", "<did>", "<same>", "<some>", "<was>", ACT)

_REPLY = re.compile(r"\s*(<e\d+>)\s*(<w\d+>)\s*")
_AROUND = "\"'.,:;!?()[]\u201c\u201d\u2018\u2019"
_REMEMBERED = 4
_NAME_TOKENS = re.compile(r"<(?:[ew]\d+|task|page|did|same|some|was|act)>")
_WORD = re.compile(r"(?<!\S)[\"\u201c](?P<quoted>[^\"\u201c\u201d]{1,200})[\"\u201d](?!\w)\S*|\S+")
"""Words, and what stands in quotes with the signs around it."""
_PARTS = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is shown, and what the names in it stand for."""

    text: str
    elements: Mapping[str, Item]
    """Items by the names of elements."""
    words: Mapping[str, str]
    """Words of the goal by their names; empty where nothing can be typed."""

    def read(self, reply: str) -> Action:
        """Returns the action that a reply stands for, an `InvalidAction` if it is none.

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
        """Returns the reply that stands for an action; None if there is none."""
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
    """Returns the prompt for a goal and a page.

    Args:
        goal: What is to be done.
        items: The page.
        done: What has been acted on so far, the first first: its ref, and how it is told (of the
            last few).
        names: Deals out the names.
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
        for word in _WORD.finditer(goal):
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
    """Returns words and signs, one by one.

    >>> _parts('Click on Tab #3.')
    ['Click', 'on', 'Tab', '#', '3', '.']
    """
    return _PARTS.findall(text)


def _plain(text: str) -> str:
    """Returns a page's or goal's text without what would read as one of our names."""
    return without_markup(_NAME_TOKENS.sub(" ", text)).strip()


def _invalid(kind: str, reason: str, reply: str) -> InvalidAction:
    return InvalidAction(reason=f"{reason[0].upper()}{reason[1:]}.", text=reply[:200], kind=kind)
