"""Selectors: which tasks of a preset are meant.

The grammar, where `p` is a preset's name and every number is decimal, counted from 0:

| selector | tasks |
|---|---|
| `p` | all |
| `p:5` | the sixth |
| `p:0:10`, `p:5:`, `p::10` | from the first number up to, not including, the second |
| `p@2/8` | the third of eight shards |

Shards are consecutive, cover every task once, and differ in size by at most one. A selection is a
frozen callable from a sequence of tasks to a tuple of them, so that it can be kept, compared and
sent to another process. It never selects nothing: that is an error, since a run over no tasks is
never what was meant.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from webtraj import errors

__all__ = [
    "NAME_PATTERN",
    "AllTasks",
    "OneTask",
    "ParsedSelector",
    "Selection",
    "TaskRange",
    "TaskShard",
    "parse_selector",
]

_T = TypeVar("_T")

NAME_PATTERN = "[a-zA-Z0-9_./-]+"
"""What a preset may be called. `:` and `@` belong to the grammar."""

EXPECTED = (
    "expected 'name', 'name:5', 'name:0:10', 'name:5:', 'name::10' or 'name@2/8', with a name of "
    "letters, digits and _ . / -"
)
"""The form that every complaint about a selector repeats."""

# Nine digits are more tasks than anyone has, and keep int() away from its own limits.
_NUMBER = "[0-9]{1,9}"
_SELECTOR = re.compile(
    rf"(?P<name>{NAME_PATTERN})"
    rf"(?: :(?P<index>{_NUMBER})"
    rf"| :(?P<start>{_NUMBER})?:(?P<stop>{_NUMBER})?"
    rf"| @(?P<shard>{_NUMBER})/(?P<count>{_NUMBER}))?",
    re.VERBOSE,
)


class Selection(Protocol):
    """Chooses some of a preset's tasks; `str()` of it is the selector's part after the name."""

    def __call__(self, tasks: Sequence[_T], /) -> tuple[_T, ...]:
        """Returns the chosen tasks, at least one, in order.

        Raises:
            InvalidSelectorError: Nothing is left to choose.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class AllTasks:
    """Every task."""

    def __call__(self, tasks: Sequence[_T], /) -> tuple[_T, ...]:
        """Returns all tasks."""
        _require_tasks(tasks)
        return tuple(tasks)

    def __str__(self) -> str:
        return ""


@dataclasses.dataclass(frozen=True, slots=True)
class OneTask:
    """The task at `index`, from 0."""

    index: int

    def __call__(self, tasks: Sequence[_T], /) -> tuple[_T, ...]:
        """Returns the one task."""
        _require_tasks(tasks)
        if self.index >= len(tasks):
            raise errors.InvalidSelectorError(
                f"The selector {str(self)!r} asks for task {self.index}, but the preset has "
                f"{len(tasks)}: give an index from 0 to {len(tasks) - 1}."
            )
        return (tasks[self.index],)

    def __str__(self) -> str:
        return f":{self.index}"


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRange:
    """The tasks from `start` up to, not including, `stop`; to the end if `stop` is None.

    Raises:
        InvalidSelectorError: The range holds nothing, whatever the preset.
    """

    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        if self.stop is not None and self.start >= self.stop:
            raise errors.InvalidSelectorError(
                f"The range {str(self)!r} is empty: it must start before it stops."
            )

    def __call__(self, tasks: Sequence[_T], /) -> tuple[_T, ...]:
        """Returns the tasks in the range; one that reaches past the end stops there."""
        _require_tasks(tasks)
        if self.start >= len(tasks):
            raise errors.InvalidSelectorError(
                f"The range {str(self)!r} starts at task {self.start}, but the preset has "
                f"{len(tasks)}: start from 0 to {len(tasks) - 1}."
            )
        return tuple(tasks[self.start : self.stop])

    def __str__(self) -> str:
        return f":{self.start}:{'' if self.stop is None else self.stop}"


@dataclasses.dataclass(frozen=True, slots=True)
class TaskShard:
    """Shard `index`, from 0, of `count` even, consecutive ones.

    Raises:
        InvalidSelectorError: There is no such shard.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            valid = f"give one from 0 to {self.count - 1}" if self.count > 0 else "use 1 or more"
            raise errors.InvalidSelectorError(
                f"There is no shard {self.index} of {self.count} ({str(self)!r}): {valid}."
            )

    def __call__(self, tasks: Sequence[_T], /) -> tuple[_T, ...]:
        """Returns the shard's tasks.

        Raises:
            InvalidSelectorError: There are more shards than tasks. All shards say so, even those
                that could get one, so that a run over all of them fails as one.
        """
        _require_tasks(tasks)
        if self.count > len(tasks):
            raise errors.InvalidSelectorError(
                f"The selector {str(self)!r} divides {len(tasks)} tasks among {self.count} shards, "
                f"which leaves some empty: use at most {len(tasks)} shards."
            )
        start = self.index * len(tasks) // self.count
        stop = (self.index + 1) * len(tasks) // self.count
        return tuple(tasks[start:stop])

    def __str__(self) -> str:
        return f"@{self.index}/{self.count}"


class ParsedSelector(NamedTuple):
    """A selector's two parts."""

    name: str
    selection: Selection

    def __str__(self) -> str:
        return f"{self.name}{self.selection}"


def parse_selector(text: str) -> ParsedSelector:
    """Reads a selector.

    >>> parse_selector("miniwob/all@2/8")
    ParsedSelector(name='miniwob/all', selection=TaskShard(index=2, count=8))
    >>> parse_selector("miniwob/all::10").selection("abc")
    ('a', 'b', 'c')

    Raises:
        InvalidSelectorError: The text does not follow the grammar.
    """
    match = _SELECTOR.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise errors.InvalidSelectorError(f"Invalid selector {text!r}: {EXPECTED}.")
    return ParsedSelector(match["name"], _selection(match))


def _selection(match: re.Match[str]) -> Selection:
    if match["index"] is not None:
        return OneTask(int(match["index"]))
    if match["shard"] is not None:
        return TaskShard(int(match["shard"]), int(match["count"]))
    if match["start"] is None and match["stop"] is None:
        if match.end("name") != match.end():
            raise errors.InvalidSelectorError(
                f"Invalid selector {match[0]!r}: a range needs a first or a last number; "
                f"{match['name']!r} alone means all. In full: {EXPECTED}."
            )
        return AllTasks()
    return TaskRange(
        int(match["start"] or 0), None if match["stop"] is None else int(match["stop"])
    )


def _require_tasks(tasks: Sequence[object]) -> None:
    if not tasks:
        raise errors.InvalidSelectorError(
            "The preset's list of tasks is empty: there is nothing to choose from."
        )
