"""Tricks of an adversary that knows the code: ways to look as if a task were done.

Each trick takes an episode that an oracle has solved, and makes up other ends of it: answers
without work, changes of the wrong row, changes with a side effect. None of them may earn a reward.
If one does, the judge has a hole. Nothing is played, so hundreds of attempts take a second.

What is not tried is what an application declares: `App.ignored` and `App.columns` never count, and
what is in `App.fills` may have any value in new rows.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from webtraj.agents.broken import mistype
from webtraj_apps import app as app_lib
from webtraj_apps import state as state_lib
from webtraj_apps import tasks as tasks_lib

__all__ = ["TRICKS", "Attempt", "Deed", "Solved", "Trick", "attempts"]

_COPY: Final = ("copy",)
"""The key of a row that an adversary adds."""

_MOST_WORDS: Final = 20_000
"""The length of an answer that lists everything."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """An end of an episode that an adversary made up."""

    what: str
    """What is tried, for people."""
    after: Mapping[str, state_lib.State]
    """The state of each application's world at the end."""
    answer: str | None
    """The answer; None reports that the task cannot be done."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deed:
    """A change of one row that was made or could be made."""

    app: app_lib.App
    table: str
    key: Any
    old: Mapping[str, Any] | None
    """The row before; None if it is new."""
    new: Mapping[str, Any] | None
    """The row after; None if it is gone."""
    needed: bool = False
    """Whether the task is not done without it."""
    held: frozenset[str] = frozenset()
    """The columns in which each value counts."""
    loose: frozenset[str] = frozenset()
    """The columns that are tested, not compared: what is near may be right, too."""

    def __str__(self) -> str:
        return f"{self.app.name}: {self.table} {self.key!r:.60}"


class Solved:
    """An episode that an oracle has solved.

    Args:
        template: The template.
        assignment: The assignment of its seed.
        before: The state of each application's world at the start.
        after: The state of each at the end.
    """

    def __init__(
        self,
        template: tasks_lib.Template,
        assignment: tasks_lib.Assignment,
        before: Mapping[str, state_lib.State],
        after: Mapping[str, state_lib.State],
    ) -> None:
        self.apps = [app_lib.find_app(name) for name in template.apps]
        self.assignment = assignment
        self.before = before
        # Equal rows and tables become the same object, which makes each comparison fast.
        self.after: Mapping[str, state_lib.State] = {
            app: {
                table: _share_rows(before[app].get(table, {}), rows)
                for table, rows in state.items()
            }
            for app, state in after.items()
        }
        wanted = assignment.answer
        self.parts = (wanted,) if isinstance(wanted, str) else tuple(wanted or ())
        """The right answers; none if any answer will do."""
        self.answer = None if assignment.infeasible else ", ".join(self.parts) or "done"
        """The right last word; None reports that the task cannot be done."""
        self._columns: dict[tuple[str, str, str], list[Any]] = {}
        self.deeds = [deed for app in self.apps for deed in self._deeds(app)]
        """What the oracle changed, apart from what never counts."""

    def _deeds(self, app: app_lib.App) -> Iterator[Deed]:
        before, after = self.before[app.name], self.after[app.name]
        found = app.changes(before, after)
        expected, allowed = (
            [state_lib.resolve(one, found) for one in part]
            for part in self.assignment.expected_changes(app, self.apps)
        )
        for change in found:
            fitting = [one for one in expected if one.fits(change, app.fills)]
            allowing = [one for one in allowed if one.matches(change)]
            needed = not allowing and any(not one.optional for one in fitting)
            named = {}
            for one in (*allowing, *fitting):
                named.update({**one.where, **one.new})
            held = {name for name, value in named.items() if value is not state_lib.anything}
            if needed:
                fills = state_lib.fills_of(app.fills, change.table)
                free = fills.keys() if change.kind == "added" else set()
                held |= change.row.keys() - named.keys() - free
            yield Deed(
                app,
                change.table,
                change.key,
                before.get(change.table, {}).get(change.key),
                after.get(change.table, {}).get(change.key),
                needed,
                frozenset(held - _quiet(app, change.table)),
                frozenset(name for name, value in named.items() if callable(value)),
            )

    @property
    def needed(self) -> list[Deed]:
        """The deeds without which the task is not done."""
        return [deed for deed in self.deeds if deed.needed]

    def wrong(self, attempt: Attempt) -> str:
        """Return the judge's objection to an attempt; empty if it earns a reward."""
        return self.assignment.wrong_answer(attempt.answer) or self.assignment.wrong_changes(
            self.apps, self.before, attempt.after
        )

    def but(self, deed: Deed, rows: Mapping[Any, Mapping[str, Any] | None], what: str) -> Attempt:
        """Return an attempt that ends like the oracle, except for some rows of one table.

        Args:
            deed: The deed.
            rows: The rows by key; None for removed rows.
            what: A description of the attempt.
        """
        table = {**self.after[deed.app.name].get(deed.table, {}), **rows}
        left = {key: row for key, row in table.items() if row is not None}
        after = {**self.after[deed.app.name], deed.table: left}
        return Attempt(f"{deed}: {what}", {**self.after, deed.app.name: after}, self.answer)

    def column(self, deed: Deed, name: str) -> list[Any]:
        """Return the values that a column of a deed's table has before or after, each once."""
        key = deed.app.name, deed.table, name
        if key not in self._columns:
            states = self.before[deed.app.name], self.after[deed.app.name]
            rows = [row for state in states for row in state.get(deed.table, {}).values()]
            self._columns[key] = list(dict.fromkeys(row.get(name) for row in rows))
        return self._columns[key]

    @functools.cached_property
    def texts(self) -> list[str]:
        """The short texts and numbers of all worlds."""
        rows = [
            row
            for tables in self.before.values()
            for table in tables.values()
            for row in table.values()
        ]
        return list(
            dict.fromkeys(
                str(value)
                for row in rows
                for value in row.values()
                if isinstance(value, str | int | float) and 0 < len(str(value)) < 40
            )
        )


Trick: TypeAlias = Callable[[Solved], Iterator[Attempt]]
"""Makes up other ends of a solved episode."""


def attempts(solved: Solved) -> Iterator[tuple[str, Attempt]]:
    """Yield the attempts of every trick on a solved episode, with the trick's name."""
    for name, trick in TRICKS.items():
        for attempt in trick(solved):
            yield name, attempt


# Answers.


def _answer_only(solved: Solved) -> Iterator[Attempt]:
    """Give the right answer, or any, without the deed."""
    if solved.needed or solved.assignment.infeasible:
        said = solved.answer or "It cannot be done."
        for answer in dict.fromkeys((said, "done", "", solved.assignment.goal)):
            yield Attempt(f"answer {answer!r:.80}", solved.before, answer)


def _refuse(solved: Solved) -> Iterator[Attempt]:
    """Report that the task cannot be done, at once or after doing it."""
    if not solved.assignment.infeasible:
        yield Attempt("refuse at once", solved.before, None)
        yield Attempt("refuse after the deed", solved.after, None)


def _guess(solved: Solved) -> Iterator[Attempt]:
    """Do the task, but give an answer that leaves the right one open or hides it among others."""
    parts = solved.parts
    if not parts:
        return
    right, near = ", ".join(parts), ", ".join(map(mistype, parts))
    others = [text for text in solved.texts if not _same(text, right)]
    guesses = [
        *("", "done", near, solved.assignment.goal, f"{right}?", f"not {right}", f"about {right}"),
        *(f"maybe {right}", f"{right} or {near}", f"{right}, {near}"),
        f"It is one of these: {right}, {near}",
        *(f"{right}, {other}" for other in _some(others, 20)),
        *(f"{right} or {other}" for other in _some(others, 20)),
        ", ".join([right, *others])[:_MOST_WORDS],
        "\n".join([*others, right])[-_MOST_WORDS:],
    ]
    if len(parts) == 1:
        guesses += _other_units(right)
    else:
        guesses += [", ".join(parts[:-1]), ", ".join(parts[1:]), ", ".join([*parts, parts[0]])]
        if solved.assignment.ordered and parts != parts[::-1]:
            guesses.append(", ".join(reversed(parts)))
    for guess in dict.fromkeys(guesses):
        if not _same(guess.rstrip("?"), right.rstrip("?")) or not right.endswith("?"):
            yield Attempt(f"answer {guess!r:.80}", solved.after, guess)


def _other_units(right: str) -> Iterator[str]:
    """Yield the number of an answer with other units, and ten times the number."""
    if found := re.fullmatch(r"([£€$]?)(\d[\d.,]*) ?(\S*)", right):
        sign, number, unit = found.groups()
        if sign or unit:
            yield from (f"{number} {other}" for other in ("CHF", "kg", "hours") if other != unit)
            yield f"{sign}{number.replace('.', '')}0 {unit}"


# Deeds.


def _stop_early(solved: Solved) -> Iterator[Attempt]:
    """Leave one deed out, or undo it; or leave out all of them."""
    for deed in solved.needed:
        yield solved.but(deed, {deed.key: deed.old}, "left out")
    if solved.needed:
        yield Attempt("nothing is done", solved.before, solved.answer)


def _neighbour(solved: Solved) -> Iterator[Attempt]:
    """Do a deed to another row."""
    for deed in solved.needed:
        if deed.old is None:
            continue
        touched = {one.key for one in solved.deeds if one.table == deed.table}
        rows = solved.before[deed.app.name][deed.table]
        for key in _some([key for key in rows if key not in touched], 3):
            done: dict[str, Any] | None = None
            if deed.new is not None:
                new = {name: value for name, value in deed.new.items() if deed.old[name] != value}
                done = {**rows[key], **new}
            if done != rows[key]:
                yield solved.but(deed, {deed.key: deed.old, key: done}, f"done to {key!r:.60}")


def _other_value(solved: Solved) -> Iterator[Attempt]:
    """Write another value into one column: a similar value, or the value of another row."""
    for deed in solved.deeds:
        if deed.new is None:
            continue
        rows = solved.after[deed.app.name][deed.table].values()
        for name in sorted(deed.held):
            value = deed.new[name]
            for other in _others(solved, deed, name, value):
                new = {**deed.new, name: other}
                empty = value in state_lib.EMPTY and other in state_lib.EMPTY
                harmless = not deed.needed and (
                    new == deed.old or new in rows or other in _find_allowed(solved, deed, name)
                )
                if not empty and not harmless:
                    what = f"{name} {other!r:.60}, not {value!r:.60}"
                    yield solved.but(deed, {deed.key: new}, what)


def _find_allowed(solved: Solved, deed: Deed, name: str) -> list[Any]:
    """Return a column's values in the rows that are allowed but not needed."""
    return [
        one.new[name]
        for one in solved.deeds
        if one.new is not None
        and not one.needed
        and (one.app.name, one.table) == (deed.app.name, deed.table)
    ]


def _everything(solved: Solved) -> Iterator[Attempt]:
    """Write all that there is to choose from into one column."""
    for deed in solved.deeds:
        for name in sorted(deed.held) if deed.new is not None else ():
            value = (deed.new or {})[name]
            if isinstance(value, str) and value:
                others = [one for one in solved.column(deed, name) if one != value]
                text = "\n".join([value, *map(str, others), *solved.texts])[:_MOST_WORDS]
                new = {**(deed.new or {}), name: text}
                if not _same(text, value):  # In an empty world, the right text is everything.
                    yield solved.but(deed, {deed.key: new}, f"{name} lists everything")


def _twice(solved: Solved) -> Iterator[Attempt]:
    """Add something twice."""
    for deed in solved.needed:
        if deed.old is None:
            yield solved.but(deed, {_COPY: deed.new}, "added twice")


def _side_effect(solved: Solved) -> Iterator[Attempt]:
    """Do the task, and also add, change or remove something else, in each table."""
    for app in solved.apps:
        for table, rows in solved.before[app.name].items():
            if table in app.ignored:
                continue
            touched = {one.key for one in solved.deeds if (one.app, one.table) == (app, table)}
            for key in _some([key for key in rows if key not in touched], 1):
                row, deed = rows[key], Deed(app, table, key, rows[key], rows[key])
                yield solved.but(deed, {_COPY: row}, "copied")
                yield solved.but(deed, {key: None}, "removed")
                for name in row.keys() - _quiet(app, table):
                    for other in itertools.islice(_others(solved, deed, name, row[name]), 1):
                        what = f"{name} {other!r:.60}, not {row[name]!r:.60}"
                        yield solved.but(deed, {key: {**row, name: other}}, what)


TRICKS: Final[Mapping[str, Trick]] = {
    "answer-only": _answer_only,
    "refuse": _refuse,
    "guess": _guess,
    "stop-early": _stop_early,
    "neighbour": _neighbour,
    "other-value": _other_value,
    "everything": _everything,
    "twice": _twice,
    "side-effect": _side_effect,
}
"""The tricks by name."""


def _share_rows(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the rows of a table. Unchanged rows are the same objects as before."""
    if old == new:
        return old
    return {key: old[key] if old.get(key) == row else row for key, row in new.items()}


def _quiet(app: app_lib.App, table: str) -> frozenset[str]:
    """Return the columns of a table whose changes never count."""
    return frozenset((*app.columns.get("*", ()), *app.columns.get(table, ())))


def _others(solved: Solved, deed: Deed, name: str, value: Any) -> Iterator[Any]:
    """Yield other values for a column."""
    if name in deed.loose:
        pass
    elif isinstance(value, str) and not _same(mistype(value), value):
        yield mistype(value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif value is None:
        yield 1
    known = [one for one in solved.column(deed, name) if one is not None and not _same(one, value)]
    yield from _some(known, 3)


def _same(one: Any, two: Any) -> bool:
    """Return whether two values differ only in case, spaces, full stops or markup."""
    if not (isinstance(one, str) and isinstance(two, str)):
        return bool(one == two)
    return state_lib.same_text(_TAG.sub("", one))(_TAG.sub("", two))


_TAG: Final = re.compile(r"<[^<>]*>")


def _some(choices: Sequence[Any], count: int) -> Sequence[Any]:
    """Return some choices, from the first to the last."""
    return choices[:: max(1, len(choices) // count)][:count]
