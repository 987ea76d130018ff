"""The shared budgets of Northfield's people: who paid what for whom. Standard library only."""

from __future__ import annotations

import dataclasses
import random
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace

__all__ = ["Bill", "Member", "Project", "projects"]

WORDS = SimpleNamespace(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
"""What `content.toml` holds."""
_LAST = date(2026, 2, 27)


@dataclasses.dataclass(slots=True)
class Member:
    """A participant of a project."""

    name: str
    weight: float = 1.0
    activated: bool = True


@dataclasses.dataclass(slots=True)
class Bill:
    """Something that somebody paid for others."""

    what: str
    amount: float
    payer: str
    owers: list[str]
    day: date
    reimbursement: bool = False


@dataclasses.dataclass(slots=True)
class Project:
    """A budget, with the private code that opens it."""

    id: str
    name: str
    code: str
    members: list[Member]
    bills: list[Bill]
    joined: bool = True
    """Whether the user's browser knows its code."""


class _Writer:
    """Makes the bills of one project."""

    def __init__(self, rng: random.Random, members: Sequence[Member]) -> None:
        self.rng = rng
        self.names = [member.name for member in members]

    def bill(self, what: str, low: float, high: float, day: date, *, all_of: float = 0.5) -> Bill:
        """Return a bill.

        Args:
            what: What was bought.
            low: The least amount.
            high: The highest amount.
            day: When.
            all_of: How often it was bought for all.
        """
        rng = self.rng
        owers = list(self.names)
        if rng.random() > all_of:
            owers = sorted(rng.sample(owers, rng.randint(2, len(owers) - 1)), key=owers.index)
        amount = round(rng.uniform(low, high), 2)
        return Bill(what, amount, rng.choice(self.names), owers, min(day, _LAST))

    def day(self, begun: date, days: int) -> date:
        return begun + timedelta(days=self.rng.randrange(days))

    def back(self, begun: date, days: int, count: int) -> Iterator[Bill]:
        """Money that went back."""
        for number in range(count):
            payer, receiver = self.rng.sample(self.names, 2)
            amount = float(self.rng.randint(2, 16) * 5)
            what = f"Transfer {number + 1} to {receiver}"
            day = min(self.day(begun, days), _LAST)
            yield Bill(what, amount, payer, [receiver], day, reimbursement=True)

    def trip(self, begun: date) -> Iterator[Bill]:
        """A few days away together."""
        rng = self.rng
        yield self.bill("Cottage", 420, 980, begun, all_of=1)
        yield self.bill("Rental car", 160, 340, begun, all_of=1)
        yield self.bill("Fuel on the way there", 38, 75, begun)
        yield self.bill("Fuel on the way back", 38, 75, begun + timedelta(days=6))
        for shop in rng.sample(WORDS.shops, 5):
            yield self.bill(f"Groceries at {shop}", 18, 120, self.day(begun, 7))
        for place in rng.sample(WORDS.places, 6):
            yield self.bill(f"Tickets for the {place}", 12, 96, self.day(begun, 7))
        for meal in rng.sample(WORDS.meals, 6):
            yield self.bill(f"Dinner: {meal}", 24, 150, self.day(begun, 7))
        for number in rng.sample(range(1, 9), 3):
            yield self.bill(f"Parking, car park {number}", 4, 22, self.day(begun, 7))
        yield from self.back(begun, 20, 2)

    def flat(self, _: date) -> Iterator[Bill]:
        """A shared flat."""
        rng = self.rng
        for month, first in zip(WORDS.months, WORDS.first_days, strict=True):
            day = first + timedelta(days=rng.randrange(26))
            yield self.bill(f"Electricity {month}", 62, 98, day, all_of=1)
            yield self.bill(f"Internet {month}", 35, 45, first, all_of=1)
            yield self.bill(f"Cleaning {month}", 40, 60, first, all_of=0.8)
            for shop in rng.sample(WORDS.shops, 3):
                what = f"Groceries at {shop}, {month}"
                yield self.bill(what, 15, 90, first + timedelta(days=rng.randrange(26)))
        for thing in rng.sample(("Toaster", "Doormat", "Light bulbs", "Shower head", "Plants"), 4):
            yield self.bill(thing, 9, 70, self.day(date(2025, 8, 3), 190))
        yield from self.back(date(2025, 9, 1), 160, 5)

    def office(self, _: date) -> Iterator[Bill]:
        """The coffee fund of a floor."""
        rng = self.rng
        for month, first in zip(WORDS.months, WORDS.first_days, strict=True):
            for what, low, high in (
                ("Coffee beans", 22.0, 54.0),
                ("Milk", 6.0, 19.0),
                ("Biscuits", 5.0, 21.0),
            ):
                yield self.bill(f"{what} {month}", low, high, first + timedelta(rng.randrange(26)))
        for thing in rng.sample(("Filter papers", "Sugar", "Mugs", "Descaler", "Tea", "Cocoa"), 5):
            yield self.bill(thing, 4, 38, self.day(date(2025, 8, 3), 190))
        yield from self.back(date(2025, 9, 1), 160, 3)

    def club(self, begun: date) -> Iterator[Bill]:
        """A club that goes to things."""
        rng = self.rng
        for place in rng.sample(WORDS.places, 8):
            yield self.bill(f"Outing to the {place}", 15, 130, self.day(begun, 150))
        for meal in rng.sample(WORDS.meals, 8):
            yield self.bill(f"Evening with {meal}", 20, 110, self.day(begun, 150))
        for town in rng.sample(WORDS.towns, 6):
            yield self.bill(f"Train to {town}", 18, 84, self.day(begun, 150))
        yield from self.back(begun, 150, 3)

    def party(self, begun: date) -> Iterator[Bill]:
        """A party."""
        rng = self.rng
        for what in ("Hall", "Band", "Flowers", "Cake", "Napkins", "Balloons", "Candles", "Ice"):
            yield self.bill(what, 8, 260, self.day(begun, 30))
        for shop in rng.sample(WORDS.shops, 4):
            yield self.bill(f"Drinks from {shop}", 25, 140, self.day(begun, 30))
        for meal in rng.sample(WORDS.meals, 4):
            yield self.bill(f"Buffet: {meal}", 30, 160, self.day(begun, 30))
        yield from self.back(begun, 50, 2)


def projects(seed: int, names: Sequence[str]) -> list[Project]:
    """Return the projects of a seed.

    Args:
        seed: The seed; the same gives the same.
        names: First names, all different; the first is the user, who is in every project.
    """
    rng = random.Random(f"budget {seed}")
    town, other, street = *rng.sample(WORDS.towns, 2), rng.choice(WORDS.streets)
    number, floor = rng.randint(3, 60), rng.choice(("first", "second", "third", "fourth"))
    plans = (
        (f"Weekend in {town}", "trip", 5, date(2025, 10, 3), True),
        (f"Flat {street} Street {number}", "flat", 4, date(2025, 8, 1), True),
        (f"Coffee fund, {floor} floor", "office", 7, date(2025, 8, 1), True),
        (f"Holidays near {other}", "trip", 6, date(2026, 1, 9), True),
        ("Excursion club", "club", 6, date(2025, 9, 6), True),
        ("Winter party", "party", 8, date(2025, 12, 5), True),
        ("Spring party", "party", 5, date(2026, 1, 20), False),
    )
    made = []
    for title, kind, count, begun, joined in plans:
        members = [Member(name) for name in (names[0], *rng.sample(names[1:], count - 1))]
        if kind in ("flat", "trip"):
            rng.choice(members[1:]).weight = 2.0
        writer = _Writer(rng, members)
        bills = list(getattr(writer, kind)(begun))
        project = "".join(c if c.isalnum() else "-" for c in title.lower()).replace("--", "-")
        code = f"{rng.choice(('amber', 'cobalt', 'linen', 'walnut'))}-{rng.randint(1000, 9999)}"
        if kind in ("flat", "office", "club"):
            members[-1].activated = False
        bills.sort(key=lambda bill: bill.day)
        made.append(Project(project, title, code, members, bills, joined))
    return made
