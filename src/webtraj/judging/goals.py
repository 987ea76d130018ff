"""Templates of goals: what a task's goals have in common, and the words in which they differ.

`Log in as "{user}".` fits `Log in as "anna".`, and says that `user` is `anna`. A name takes the
shortest text up to what follows it; `{_}` takes any text and keeps nothing. It is no regex: fitting
takes time in proportion to the goal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from webtraj import errors

__all__ = ["fill_in", "match_goal", "names_in"]

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(text: str) -> list[str]:
    """Returns the names in a template, in order.

    >>> names_in('Log in as "{user}" with {_} "{password}".')
    ['user', 'password']
    """
    return [name for name in _NAME.findall(text) if name != "_"]


def match_goal(template: str, goal: str) -> dict[str, str] | None:
    """Returns what each name of a template stands for in a goal; None if the goal does not fit.

    Runs of white space count as one blank, on both sides.

    >>> match_goal('Enter "{text}" and press {button}.', 'Enter "Ada" and press Submit.')
    {'text': 'Ada', 'button': 'Submit'}

    Raises:
        InvalidInputError: Two names stand side by side, so that nobody can tell where one ends.
    """
    pieces = _NAME.split(" ".join(template.split()))
    literals, names = pieces[::2], pieces[1::2]
    if "" in literals[1:-1]:
        raise errors.InvalidInputError(
            f"The goal {template!r:.200} has two names side by side; put some text between them."
        )
    goal = " ".join(goal.split())
    if not names:
        return {} if goal == literals[0] else None
    if not goal.startswith(literals[0]):
        return None
    found: dict[str, str] = {}
    place = len(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        if literal is literals[-1] and name is names[-1]:
            end = len(goal) - len(literal) if goal.endswith(literal) else -1
        else:
            end = goal.find(literal, place)
        if end < place:
            return None
        value = goal[place:end]
        if name != "_" and found.setdefault(name, value) != value:
            return None  # One name, two values.
        place = end + len(literal)
    return found


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Returns a text with each name replaced by its value; braces around other words stay.

    >>> fill_in("{user} is {here}", {"user": "anna"})
    'anna is {here}'
    """
    return _NAME.sub(lambda found: values.get(found[1], found[0]), text)
