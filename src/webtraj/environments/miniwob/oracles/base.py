"""Common parts of oracles: their view of the page, their registry, and shared actions."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from webtraj import errors as errors_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.oracles import Element, OracleError, OracleView, PageView
from webtraj.environments.browser.tasks import ScriptedSolution
from webtraj.environments.miniwob import tasks as tasks_lib

__all__ = [
    "Actions",
    "Element",
    "OracleError",
    "OracleView",
    "PageView",
    "Solution",
    "click",
    "has_oracle",
    "match_goal",
    "oracle",
    "wait_until_painted",
    "find_quoted",
    "solve",
    "list_solved_tasks",
    "still",
    "submit",
]


def find_quoted(text: str) -> list[str]:
    """Return the quoted parts of a goal, in order.

    >>> find_quoted('Enter "bob" and press "Log in".')
    ['bob', 'Log in']
    """
    return re.findall(r'"([^"]*)"', text)


def match_goal(pattern: str, goal: str) -> tuple[str, ...]:
    r"""Return the groups of a pattern that matches the whole goal.

    >>> match_goal(r"Select (.+) and click (.+)\.", "Select bob and click Submit.")
    ('bob', 'Submit')

    Raises:
        OracleError: The goal is not of that form.
    """
    match = re.fullmatch(pattern, goal)
    if match is None:
        raise OracleError(f"The goal {goal!r} does not match {pattern!r}.")
    return match.groups(default="")


Actions: TypeAlias = AsyncGenerator[actions_lib.Action, None]
"""The result of an oracle: its actions, one at a time."""

Oracle: TypeAlias = Callable[[OracleView], Actions]

_ORACLES: dict[str, Oracle] = {}


def oracle(*tasks: str) -> Callable[[Oracle], Oracle]:
    """Register a function as the oracle of tasks: `@oracle("click-test")`.

    Raises:
        ValueError: A task is unknown or already has an oracle.
    """

    def register(function: Oracle) -> Oracle:
        for task in tasks:
            if task not in tasks_lib.TASKS:
                raise ValueError(f"MiniWoB++ has no task {task!r}.")
            if task in _ORACLES:
                raise ValueError(f"The task {task!r} already has an oracle: {_ORACLES[task]!r}.")
            _ORACLES[task] = function
        return function

    return register


def has_oracle(task: str) -> bool:
    """Return whether there is an oracle for the task."""
    return task in _ORACLES


def list_solved_tasks() -> tuple[str, ...]:
    """Return the tasks that have an oracle, in alphabetical order."""
    return tuple(sorted(_ORACLES))


def solve(task: str, view: OracleView) -> Solution:
    """Return the solution of the episode that `view` shows.

    Raises:
        InvalidInputError: The task has no oracle.
    """
    if not has_oracle(task):
        raise errors_lib.InvalidInputError(
            f"No oracle for task {task!r}. oracles.list_solved_tasks() lists those that have one."
        )
    return Solution(_ORACLES[task](view))


class Solution(ScriptedSolution):
    """A running solution of one episode."""

    async def next_action(self) -> actions_lib.Action | None:
        """Return the next action; None when the oracle has nothing more to do.

        Raises:
            OracleError: The page is not as the oracle expects.
            BrowserError: The browser failed.
        """
        try:
            return await super().next_action()
        except errors_lib.WebtrajError:
            raise
        except (LookupError, ValueError) as error:
            # It found too little on the page, or content of another form.
            raise OracleError(
                f"The page does not match what its oracle expects: {error!r}."
            ) from error


async def click(page: OracleView, selector: str, text: str | None = None) -> actions_lib.Click:
    """Click the first element that matches, with exactly this text if `text` is given.

    Raises:
        OracleError: There is none.
    """
    return actions_lib.Click((await page.one(selector, text)).ref)


async def submit(page: OracleView) -> actions_lib.Click:
    """Click the submit button.

    Raises:
        OracleError: There is none.
    """
    return await click(page, "#subbtn, #area button", "Submit")


async def wait_until_painted(page: OracleView) -> None:
    """Wait until the page has been drawn twice.

    Scroll events and hover images happen only when the page is drawn.
    """
    await page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


async def still(page: OracleView) -> None:
    """Wait until jQuery's animations have ended.

    They start so slowly that nothing changes for a few frames, so a page that is about to move may
    look settled.
    """
    await page.evaluate("async () => { await jQuery(':animated').promise(); }")
