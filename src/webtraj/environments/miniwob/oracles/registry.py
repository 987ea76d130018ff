"""Which task is solved by which oracle."""

from __future__ import annotations

import functools
import importlib
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from webtraj import errors as errors_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.miniwob import tasks as tasks_lib
from webtraj.environments.miniwob.oracles import view as view_lib

__all__ = ["Actions", "OracleError", "Solution", "has_oracle", "oracle", "solve", "solved_tasks"]

OracleError = view_lib.OracleError

Actions: TypeAlias = AsyncGenerator[actions_lib.Action, None]
"""What an oracle returns: its actions, one at a time."""

Oracle: TypeAlias = Callable[[view_lib.OracleView], Actions]

_MODULES = (
    "click",
    "type",
    "choices",
    "colors",
    "copying",
    "cube",
    "dates",
    "dragging",
    "drawing",
    "entries",
    "fields",
    "forms",
    "geometry",
    "mail",
    "menus",
    "numbers",
    "paging",
    "panels",
    "places",
    "planning",
    "posts",
    "reading",
    "shapes",
    "sliders",
    "sorting",
    "textareas",
    "travel",
)
"""The modules of this package that register oracles."""

_ORACLES: dict[str, Oracle] = {}


def oracle(*tasks: str) -> Callable[[Oracle], Oracle]:
    """Registers a function as the oracle of tasks: `@oracle("click-test")`.

    Raises:
        ValueError: There is no task of that name, or it has an oracle already.
    """

    def register(function: Oracle) -> Oracle:
        for task in tasks:
            if task not in tasks_lib.TASKS:
                raise ValueError(f"MiniWoB++ has no task {task!r}.")
            if task in _ORACLES:
                raise ValueError(f"The task {task!r} has an oracle already: {_ORACLES[task]!r}.")
            _ORACLES[task] = function
        return function

    return register


def has_oracle(task: str) -> bool:
    """Whether there is an oracle for the task."""
    return task in _all_oracles()


def solved_tasks() -> tuple[str, ...]:
    """Returns the tasks that have an oracle, in the order of the alphabet."""
    return tuple(sorted(_all_oracles()))


def solve(task: str, view: view_lib.OracleView) -> Solution:
    """Returns the solution of the episode that `view` shows.

    Raises:
        InvalidInputError: The task has no oracle.
    """
    if not has_oracle(task):
        raise errors_lib.InvalidInputError(
            f"There is no oracle for {task!r}; oracles.solved_tasks() lists those there are."
        )
    return Solution(_ORACLES[task](view))


class Solution:
    """One episode's solution, under way."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    async def next_action(self) -> actions_lib.Action | None:
        """Returns the next action; None when the oracle has nothing more to do.

        Raises:
            OracleError: The page is not as the oracle expects.
            BrowserError: The browser failed.
        """
        try:
            return await anext(self._actions, None)
        except errors_lib.WebtrajError:
            raise
        except (LookupError, ValueError) as error:
            # What it read of the page was too little, or of another form.
            raise OracleError(f"The page is not as its oracle expects: {error!r}.") from error

    async def close(self) -> None:
        """Ends the oracle where it stands."""
        await self._actions.aclose()


@functools.cache
def _all_oracles() -> dict[str, Oracle]:
    for module in _MODULES:
        importlib.import_module(f"webtraj.environments.miniwob.oracles.{module}")
    return _ORACLES
