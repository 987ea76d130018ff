"""The state of a world as rows, its changes, and the changes that a task expects.

A task is judged by the difference between a world's state before and after an episode: all expected
changes must have happened, and no others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "Change",
    "Expected",
    "Fills",
    "State",
    "added",
    "anything",
    "changed",
    "changes",
    "contains",
    "differences",
    "filled",
    "fills_of",
    "hash_of",
    "in_changed",
    "in_new",
    "on_day",
    "optional",
    "read_sqlite",
    "rebase",
    "removed",
    "resolve",
    "same_text",
]

State: TypeAlias = Mapping[str, Mapping[Any, Mapping[str, Any]]]
"""Rows by table and key, each a value by column."""

Kind: TypeAlias = Literal["added", "removed", "changed"]

Fills: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Values by table and column, a constant or a test each; those of `*` hold in every table."""

_KEY = re.compile(r"(^|_)(id|ptr|key|slug|hash|uuid)$")
"""Columns that no page shows."""

Test: TypeAlias = Callable[[Any], bool]
"""Whether a value is as expected."""


def read_sqlite(file: Path) -> State:
    """Return the rows of a SQLite database, by primary key, or by row id if there is none."""
    with sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True) as database:
        try:
            return {table: _rows(database, table) for table in _tables(database)}
        finally:
            database.rollback()


def _tables(database: sqlite3.Connection) -> list[str]:
    found = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    # Virtual tables and their shadows index what other tables hold.
    tables = {name: sql or "" for name, sql in found if not name.startswith("sqlite_")}
    virtual = [name for name, sql in tables.items() if sql.upper().startswith("CREATE VIRTUAL")]
    return [
        name
        for name in tables
        if not any(name == index or name.startswith(f"{index}_") for index in virtual)
    ]


def _rows(database: sqlite3.Connection, table: str) -> dict[Any, dict[str, Any]]:
    columns = database.execute(f'PRAGMA table_info("{table}")').fetchall()
    names = [column[1] for column in columns]
    keys = [names.index(column[1]) for column in columns if column[5]]
    chosen = ", ".join(f'"{name}"' for name in names)
    if not keys:
        rows = database.execute(f'SELECT rowid, {chosen} FROM "{table}"')
        return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}
    rows = database.execute(f'SELECT {chosen} FROM "{table}"')
    return {tuple(row[i] for i in keys): dict(zip(names, row, strict=True)) for row in rows}


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One row that differs."""

    kind: Kind
    table: str
    key: Any
    """The row's key in its table."""
    row: Mapping[str, Any]
    """The row as it is now; as it was, if it was removed."""
    old: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The old values of the columns that changed."""

    def __str__(self) -> str:
        shown = {name: (was, self.row[name]) for name, was in self.old.items()} or self.row
        return f"{self.kind} {self.table} {dict(shown)!r:.300}"


def changes(
    before: State,
    after: State,
    *,
    ignored: Iterable[str] = (),
    columns: Mapping[str, Iterable[str]] | None = None,
) -> list[Change]:
    """Return the rows that differ.

    Args:
        before: The state before.
        after: The state after.
        ignored: Tables to leave out.
        columns: Columns to leave out, by table. The columns of `*` are left out in every table.
    """
    skipped = set(ignored)
    noise = {table: frozenset(names) for table, names in (columns or {}).items()}
    found: list[Change] = []
    for table in sorted((before.keys() | after.keys()) - skipped):
        old, new = before.get(table, {}), after.get(table, {})
        if old is new or old == new:
            continue
        quiet = noise.get(table, frozenset()) | noise.get("*", frozenset())
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in new:
                found.append(Change("removed", table, key, old[key]))
            elif key not in old:
                found.append(Change("added", table, key, new[key]))
            elif old[key] is not new[key] and old[key] != new[key]:
                was = {
                    name: value
                    for name, value in old[key].items()
                    if name not in quiet and not _same(new[key].get(name), value)
                }
                if was:
                    found.append(Change("changed", table, key, new[key], was))
    return found


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal. Texts may differ in their line ends.

    A form sends each line end as a carriage return and a line feed, so saving a text may change it.
    """
    if isinstance(one, str) and isinstance(other, str):
        return one.replace("\r\n", "\n") == other.replace("\r\n", "\n")
    return bool(one == other)


def rebase(start: State, before: State, after: State) -> State:
    """Apply the changes between two states to a third state, by row and column.

    Args:
        start: The state.
        before: The state before somebody else changed something.
        after: The state after it.
    """
    made = {**start}
    for table in before.keys() | after.keys():
        old, new, rows = before.get(table, {}), after.get(table, {}), {**start.get(table, {})}
        for key in old.keys() - new.keys():
            rows.pop(key, None)
        for key, row in new.items():
            if key not in old:
                rows[key] = row
            elif key in rows and row != old[key]:
                columns = {name: row[name] for name in row if row[name] != old[key].get(name)}
                rows[key] = {**rows[key], **columns}
        made[table] = rows
    return made


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """A change that a task expects. A value is a constant, or a test of the value."""

    kind: Kind
    table: str
    where: Mapping[str, Any]
    """Values of the row; of a changed row, as they were before."""
    new: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The new values of a changed row. No other column may change."""
    optional: bool = False
    """Whether it may be missing."""

    def fits(self, change: Change, fills: Fills | None = None) -> bool:
        """Return whether a change is the expected one.

        Args:
            change: The change.
            fills: What the application fills into new rows. A new row's other columns are empty.
        """
        return self.matches(change) and not self.surplus(change, fills)

    def matches(self, change: Change) -> bool:
        """Return whether a change is the expected one, ignoring other columns of a new row."""
        if (change.kind, change.table) != (self.kind, self.table):
            return False
        before = {**change.row, **change.old}
        return (
            all(_is(before.get(name), wanted) for name, wanted in self.where.items())
            and all(_is(change.row.get(name), wanted) for name, wanted in self.new.items())
            and (self.kind != "changed" or change.old.keys() <= self.new.keys())
        )

    def surplus(self, change: Change, fills: Fills | None = None) -> dict[str, Any]:
        """Return a new row's values that are neither expected nor filled in by the application.

        Empty if the row is not the expected one.
        """
        if change.kind != "added" or not self.matches(change):
            return {}
        known = fills_of(fills or {}, self.table)
        return {
            name: value
            for name, value in change.row.items()
            if name not in self.where
            and value not in EMPTY
            and not (name in known and _is(value, known[name]))
        }

    @property
    def fact(self) -> str:
        """The change in words, for a judge that sees pages, not keys."""
        words = self.table.split("_")
        table = " ".join(
            word for word, before in zip(words, ["", *words], strict=False) if word != before
        )
        start = f"A{'n' * (table[0] in 'aeio')} {table}"
        which, new = _in_words(self.where), _in_words(self.new)
        if self.kind == "changed":
            said = f"{start}{f' with {which}' if which else ''} was changed"
            return f"{said}: now {new}." if new else f"{said}."
        return f"{start} was {self.kind}{f': {which}' if which else ''}."

    def __str__(self) -> str:
        return f"{self.kind} {self.table} {dict(self.where)!r:.200} {dict(self.new) or ''!r:.200}"


def _in_words(values: Mapping[str, Any]) -> str:
    """Return the values that are visible to a person, with their columns."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value!r}"
        for name, value in values.items()
        if not _KEY.search(name) and (isinstance(value, _Texts) or not callable(value))
    )


def _is(value: Any, wanted: Any) -> bool:
    if callable(wanted):
        try:
            return value is not None and bool(wanted(value))
        except (AttributeError, LookupError, TypeError, ValueError):
            return False  # What a test cannot read is not what it asks for.
    if isinstance(wanted, float) and isinstance(value, int | float):
        return abs(value - wanted) < 0.005
    return bool(value == wanted)


EMPTY: Final = (None, 0, "", "[]", "{}", ())
"""The values of a column that nobody filled in."""


def anything(value: Any) -> bool:
    """Accept any value that is not None, such as a time that the application chooses."""
    return True


def fills_of(fills: Fills, table: str) -> dict[str, Any]:
    """Return what an application fills into new rows of a table, including their `id`."""
    return {"id": anything, **fills.get("*", {}), **fills.get(table, {})}


def filled(*columns: str, **values: Any) -> dict[str, Any]:
    """Return what an application fills into a new row.

    Args:
        *columns: Columns whose values the application chooses.
        **values: Values by column. Each is a constant or a test.
    """
    return {**dict.fromkeys(columns, anything), **values}


def added(table: str, **columns: Any) -> Expected:
    """Expect a new row with exactly these values and those that the application fills in."""
    return Expected("added", table, columns)


def removed(table: str, **columns: Any) -> Expected:
    """Expect a row with these values to be gone."""
    return Expected("removed", table, columns)


def changed(table: str, where: Mapping[str, Any], **new: Any) -> Expected:
    """Expect a row to have new values in these columns, and in no other.

    Args:
        table: The table.
        where: Values of the row before the change.
        **new: The new values. A value that equals the old one is allowed.
    """
    return Expected("changed", table, where, new)


def optional(expected: Expected) -> Expected:
    """Allow a change without demanding it."""
    return dataclasses.replace(expected, optional=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _New:
    """The id of a row that is added by the same changes."""

    table: str


def in_new(table: str) -> _New:
    """Expect the id of a row that the same changes add to a table."""
    return _New(table)


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


@dataclasses.dataclass(frozen=True, slots=True)
class _Changed:
    """The key of a row that the same changes add, change or remove."""

    tables: tuple[str, ...]


def in_changed(*tables: str) -> _Changed:
    """Expect the key of a row of these tables that the same changes add, change or remove."""
    return _Changed(tables)


def resolve(expected: Expected, found: Sequence[Change]) -> Expected:
    """Return an expectation with each `in_new` and `in_changed` replaced by a test of keys."""

    def ids_of(value: Any) -> Any:
        if isinstance(value, _Changed):
            near = [one.key for one in found if one.table in value.tables]
            keys = {str(part) for key in near for part in _parts(key)}
            return lambda key: str(key) in keys
        if not isinstance(value, _New):
            return value
        ids = {one.row["id"] for one in found if (one.kind, one.table) == ("added", value.table)}
        return ids.__contains__

    where = {name: ids_of(value) for name, value in expected.where.items()}
    return dataclasses.replace(expected, where=where)


@dataclasses.dataclass(frozen=True, slots=True)
class _Texts:
    """A test of a text, which is shown if a task fails."""

    texts: tuple[str, ...]
    whole: bool
    more: int = 0
    """How many characters may stand besides."""

    def __repr__(self) -> str:
        texts = " and ".join(map(repr, self.texts))
        return texts if self.whole else f"containing {texts}"

    def __call__(self, value: Any) -> bool:
        given = _squeeze(value)
        if self.whole:
            return given.rstrip(".") == _squeeze(self.texts[0]).rstrip(".")
        most = sum(map(len, self.texts)) + self.more
        return len(given) <= most and all(_squeeze(text) in given for text in self.texts)


def contains(*texts: str, more: int = 200) -> Test:
    """Test that a text contains all of these texts, in any case and spacing.

    Args:
        *texts: The texts.
        more: How many other characters are allowed, because a text that lists everything is no
            answer.
    """
    return _Texts(texts, whole=False, more=more)


def on_day(day: str) -> Test:
    """Test that a time, written as in ISO 8601, is on a day."""
    return lambda value: re.fullmatch(rf"{day}([T ][\d:.+Z-]+)?", str(value)) is not None


def same_text(text: str) -> Test:
    """Test that a text equals this one, except for spaces, case and a final full stop."""
    return _Texts((text,), whole=True)


def hash_of(secret: str) -> Test:
    """Test that a text is the hash of a password: Django's `md5` or Werkzeug's `pbkdf2`."""

    def test(value: Any) -> bool:
        found = re.fullmatch(r"(?:md5|pbkdf2:(\w+):(\d+))\$([^$]*)\$(\w+)", str(value))
        if not found:
            return False
        algorithm, rounds, salt, digest = found.groups()
        if not algorithm:
            return hashlib.md5(f"{salt}{secret}".encode()).hexdigest() == digest
        made = hashlib.pbkdf2_hmac(algorithm, secret.encode(), salt.encode(), int(rounds))
        return made.hex() == digest

    return test


def _squeeze(text: Any) -> str:
    return re.sub(r"\s+", " ", str(text)).strip().lower()


def differences(
    found: Sequence[Change],
    expected: Sequence[Expected],
    *,
    allow: Sequence[Expected] = (),
    fills: Fills | None = None,
) -> str:
    """Return the differences between found and expected changes; empty if there are none.

    Each expectation takes one change, and each change must be taken.

    Args:
        found: The changes.
        expected: The expected changes.
        allow: Further changes that may happen, each any number of times. Columns that they do not
            name may have any value.
        fills: What the application fills into new rows.
    """
    may = [resolve(one, found) for one in allow]
    wanted = [resolve(one, found) for one in expected]
    takers: dict[int, int] = {}  # The expectation that takes a change, by the change's position.

    def place(wanting: int, tried: set[int]) -> bool:
        """Find a change for an expectation, moving others if need be."""
        for i, change in enumerate(found):
            if i not in tried and wanted[wanting].fits(change, fills):
                tried.add(i)
                if i not in takers or place(takers[i], tried):
                    takers[i] = wanting
                    return True
        return False

    # Those that must be there come first, so that an optional one takes no change from them.
    order = sorted(range(len(expected)), key=lambda i: expected[i].optional)
    missing = [expected[i] for i in order if not place(i, set()) and not expected[i].optional]
    said = [f"missing: {one}" for one in missing]
    for i, change in enumerate(found):
        if i in takers or any(one.matches(change) for one in may):
            continue
        surplus = next(filter(None, (one.surplus(change, fills) for one in wanted)), None)
        what = f"in {change.kind} {change.table}: {surplus!r:.300}" if surplus else str(change)
        said.append(f"unexpected: {what}")
    return "\n".join(said)
