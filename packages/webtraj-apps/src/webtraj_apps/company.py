"""The company that all applications' worlds are about, and when its people work.

Used by the applications' host modules, so only the standard library is imported.
"""

import random
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

__all__ = [
    "COMPANY",
    "HELD_OUT",
    "NOW",
    "Position",
    "evening",
    "later",
    "moment",
    "positions",
    "site",
    "words",
    "workday",
]

COMPANY: Final = SimpleNamespace(
    **tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
)
"""What `company.toml` holds."""

NOW: Final = datetime.combine(COMPANY.today, time(9), UTC)
"""When every world begins."""

HELD_OUT: Final = 3
"""The content in which tasks of the split `test` play, and no others. It has its own texts."""

_HOLIDAYS: Final = frozenset(
    one["date"] + timedelta(days)
    for one in COMPANY.calendar
    if one["kind"] == "holiday"
    for days in range((one.get("until", one["date"]) - one["date"]).days + 1)
)
_HOURS: Final = {7: 1, 8: 7, 9: 14, 10: 15, 11: 13, 12: 5, 13: 9, 14: 13, 15: 12, 16: 9, 17: 4}
"""How much is written in each hour of a working day."""
_LATE: Final = {18: 5, 19: 4, 20: 4, 21: 3, 22: 1, 6: 1}
"""How much is written in each other hour."""
_OVERTIME: Final = 0.05
"""The share of moments outside the hours of work."""


class Position(NamedTuple):
    """What a person does at the company."""

    title: str
    team: str
    department: str
    site: str
    """The key of a site."""
    joined: date


def positions() -> list[Position]:
    """Return each person's position, in the order of `people.people`."""
    departments = {team["name"]: team["department"] for team in COMPANY.teams}
    return [
        Position(one["title"], one["team"], departments[one["team"]], one["site"], one["joined"])
        for one in COMPANY.positions
    ]


def site(key: str) -> Mapping[str, Any]:
    """Return a site by its key.

    Raises:
        KeyError: No site has this key.
    """
    sites: dict[str, Mapping[str, Any]] = {one["key"]: one for one in COMPANY.sites}
    return sites[key]


def words(folder: Path, seed: int, *files: str) -> SimpleNamespace:
    """Return the contents of an application's text files, by key.

    Args:
        folder: The folder of the application.
        seed: The number of the content. For the held-out content, entries of `held_out.toml`
            replace those of the other files.
        files: The names of the files.
    """
    files = (*files, "held_out.toml") if seed == HELD_OUT else files
    found: dict[str, Any] = {}
    for name in files:
        found |= tomllib.loads((folder / name).read_text("utf-8"))
    return SimpleNamespace(**found)


def workday(rng: random.Random, first: date, last: date) -> date:
    """Draw a working day, both ends included.

    Raises:
        ValueError: There is no working day among them.
    """
    days = [first + timedelta(days) for days in range((last - first).days + 1)]
    open_days = [day for day in days if day.weekday() < 5 and day not in _HOLIDAYS]
    if not open_days:
        raise ValueError(f"No working day from {first} to {last}.")
    return rng.choice(open_days)


def moment(rng: random.Random, first: date, last: date) -> datetime:
    """Draw a moment at which somebody writes at work: seldom early or late, never at night."""
    hours = _LATE if rng.random() < _OVERTIME else _HOURS
    return _at(rng, workday(rng, first, last), hours)


def evening(rng: random.Random, first: date, last: date) -> datetime:
    """Draw a moment at which somebody writes privately: at noon, in the evening, on weekends."""
    day = first + timedelta(rng.randint(0, (last - first).days))
    hours = {12: 6, 13: 3, 17: 4, 18: 9, 19: 12, 20: 13, 21: 10, 22: 4}
    weekend = {9: 3, 10: 6, 11: 8, 12: 6, 14: 6, 15: 7, 16: 7, 17: 6, 18: 6, 19: 7, 20: 8, 21: 5}
    return _at(rng, day, weekend if day.weekday() > 4 else hours)


def later(rng: random.Random, after: datetime, hours: float) -> datetime:
    """Draw when an answer comes: after some working hours, within a working day.

    Args:
        rng: The random source.
        after: The moment of the question.
        hours: The usual working hours until the answer.
    """
    when = after + timedelta(hours=rng.expovariate(1 / hours), minutes=2)
    while not (when.weekday() < 5 and when.date() not in _HOLIDAYS and 8 <= when.hour < 18):
        morning = datetime.combine(when.date(), time(8, 5), UTC)
        if when >= morning:
            morning += timedelta(days=1)
        when = morning + timedelta(seconds=rng.randrange(170 * 60))
    return when


def _at(rng: random.Random, day: date, hours: Mapping[int, int]) -> datetime:
    (hour,) = rng.choices(list(hours), list(hours.values()))
    return datetime.combine(day, time(hour, rng.randrange(60), rng.randrange(60)), UTC)
