"""The shared budgets of Northfield's people: who paid what for whom. Standard library only."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import company

__all__ = ["Bill", "Member", "Project", "projects"]

_LAST = date(2026, 2, 27)
_RETURNS = {"trip": (2, 3), "flat": (4, 7), "office": (2, 4), "club": (3, 5), "party": (2, 4)}
"""How often money went back in projects of a kind."""
_TRIP_DAYS = 7
_FESTIVE = {
    date(2025, 12, 24), date(2025, 12, 25), date(2025, 12, 26), date(2025, 12, 31),
    date(2026, 1, 1), date(2026, 1, 2),
}  # fmt: skip
"""Days on which nobody buys anything."""
_CLOSED = next(
    (one["date"], one["until"]) for one in company.COMPANY.calendar if "closed" in one["what"]
)
"""The first and the last day on which nobody is at the office."""


@dataclasses.dataclass(slots=True)
class Member:
    """A participant of a project."""

    name: str
    weight: float = 1.0
    left: date | None = None
    """The day from which this participant shares and pays nothing."""


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

    def __init__(
        self,
        rng: random.Random,
        words: Any,
        members: Sequence[Member],
        entries: Sequence[Any],
        ways: Sequence[Any],
        travels: Sequence[tuple[date, set[str]]],
        forms: dict[str, str],
    ) -> None:
        self.rng, self.words, self.entries, self.ways = rng, words, entries, ways
        self.members, self.travels, self.forms = members, travels, forms
        self.weights = {member.name: member.weight for member in members}
        self.sharing: dict[str, set[str]] = {}
        """Who shares a habitual purchase, by its first word."""

    def form(self, name: str) -> str:
        """Return how somebody notes repayments, in each project of a world."""
        pool = self.words.repaid
        return self.forms.setdefault(name, pool[len(self.forms) % len(pool)])

    def here(self, day: date) -> list[str]:
        """Return the names of those who take part on a day."""
        return [one.name for one in self.members if one.left is None or day < one.left]

    def at_home(self, day: date) -> list[str]:
        """Return the names of those who take part on a day and are on no other project's trip."""
        away = {
            name
            for begun, names in self.travels
            if begun <= day < begun + timedelta(days=_TRIP_DAYS)
            for name in names
        }
        return [name for name in self.here(day) if name not in away]

    def bill(
        self,
        what: str,
        low: float,
        high: float,
        day: date,
        kind: Any,
        *,
        need: str = "",
        payer: str = "",
    ) -> Bill:
        """Return a bill.

        Args:
            what: What was bought.
            low: The least amount, if it is for all.
            high: The highest amount, if it is for all.
            day: When.
            kind: The words of the project's kind. What `for_some` names the beginning of is mostly
                for some of the members; what `habits` names, always for the same of them; all else
                is for all of them.
            need: What this is, in a word; empty if the description begins with it.
            payer: Who pays this every month, also for those who are away on a trip; empty to draw
                somebody of those who are at home.
        """
        rng, day = self.rng, min(day, _LAST)
        need = need or what
        word = _first_word(need)
        is_habit = word in kind.get("habits", ())
        for_some = not is_habit and _begins(kind, "for_some", what, need)
        least = 3 if for_some else len(self.here(day))
        if not payer and len(self.at_home(day)) < least:  # After the trip.
            day += timedelta(weeks=1)
        owers = here = self.here(day) if payer else self.at_home(day)
        if is_habit:
            if word not in self.sharing:
                count = len(self.members) - rng.randint(1, 3)
                self.sharing[word] = {one.name for one in rng.sample(self.members, count)}
            owers = [name for name in here if name in self.sharing[word]]
        elif for_some and len(here) > 2 and rng.random() < 0.8:
            away = rng.sample(here, rng.randint(1, min(len(here) // 2, len(here) - 2)))
            owers = [name for name in here if name not in away]
        payer = payer or rng.choice(owers)
        shares, all_shares = (
            sum(self.weights[name] for name in names) for names in (owers, self.here(day))
        )
        amount = round(rng.uniform(low, high) * (0.2 + 0.8 * shares / all_shares), 2)
        if _begins(kind, "each", what, need):  # At a price for one.
            amount = max(1, round(2 * amount / shares)) / 2 * shares
        if low >= 100 or amount == low:  # Rents, hires and fixed prices are in whole pounds.
            amount = float(round(amount))
        return Bill(what, amount, payer, owers, day)

    def day(
        self,
        begun: date,
        first: int,
        last: int,
        weekdays: Sequence[int] = range(7),
        taken: Mapping[date, int] | None = None,
    ) -> date:
        """Draw one of the days from `begun + first` to before `begun + last`.

        Args:
            begun: The day from which to count.
            first: The first day.
            last: The day after the last one.
            weekdays: Which weekdays fit.
            taken: How many bills a day has; one of those with the fewest is drawn.
        """
        days = [begun + timedelta(days=number) for number in range(first, max(last, first + 1))]
        fit = [
            day
            for day in days
            if day not in _FESTIVE
            and day.weekday() in weekdays
            and not (len(weekdays) < 7 and _CLOSED[0] <= day <= _CLOSED[1])
        ]
        fit = fit or days
        if taken:
            least = min(taken.get(day, 0) for day in fit)
            fit = [day for day in fit if taken.get(day, 0) == least]
        return self.rng.choice(fit)

    def back(self, bills: Sequence[Bill], count: int) -> Iterator[Bill]:
        """Yield repayments from whoever owes most to whoever is owed most.

        After a few days together people pay what they owe; over months, mostly a round part of it.
        Whoever leaves settles on the last day, and not before.
        """
        rng, known = self.rng, sorted(bills, key=lambda bill: bill.day)
        first, last = known[0].day, known[-1].day
        leavers = {one.left - timedelta(days=1): one.name for one in self.members if one.left}
        long = last - first > timedelta(days=30)
        days = [last + timedelta(days=rng.randint(1, 8)) for _ in range(count)]
        if long:
            days = [first + (last - first) * rng.uniform(0.2, 1) for _ in range(count)]
            days = [
                _working(day if self.here(day) == self.at_home(day) else day + timedelta(weeks=1))
                for day in days
            ]
        used: set[str] = set()
        turns = [*days, *(day for day in leavers for _ in self.members)]
        for day in sorted(min(day, _LAST) for day in turns):
            owed = self.owed([bill for bill in known if bill.day <= day])
            here, leaver = self.here(day), leavers.get(day)
            if not leaver:
                here = [name for name in here if name not in leavers.values()]
            payer = min(here, key=owed.__getitem__)
            if leaver and owed[leaver] < 0:
                payer = leaver
            elif leaver:
                here = [leaver]
            form = self.form(payer)
            unpaid = [one for one in here if one != payer and form.format(name=one) not in used]
            if not unpaid:
                continue
            receiver = max(unpaid, key=owed.__getitem__)
            due = min(-owed[payer], owed[receiver])
            amount = round(due, 2)
            if long and not leaver and rng.random() < 0.7:
                amount = float(int(due * rng.uniform(0.55, 1) / 5) * 5)
            what = form.format(name=receiver)
            least = 0.02 if leaver else 5
            if amount >= least:
                used.add(what)
                known.append(Bill(what, amount, payer, [receiver], day, reimbursement=True))
                yield known[-1]

    def owed(self, bills: Sequence[Bill]) -> dict[str, float]:
        """Return what each member is owed after some bills; less than nothing if they owe."""
        owed = dict.fromkeys(self.weights, 0.0)
        for bill in bills:
            owed[bill.payer] += bill.amount
            shares = sum(self.weights[name] for name in bill.owers)
            for name in bill.owers:
                owed[name] -= bill.amount * self.weights[name] / shares
        return owed

    def some(
        self, entries: Sequence[Any], begun: date, days: int, count: int, kind: Any, need: str = ""
    ) -> Iterator[Bill]:
        """Yield bills for some of the entries, within so many days.

        Entries that are the same, by their last value, their first word or all of them by `need`,
        are needed again and again: they are spread over the days.
        """
        needed: dict[str, list[Any]] = {}
        for what, low, high, *said in self.rng.sample(entries, min(count, len(entries))):
            row = what, low, high, *said, ""
            needed.setdefault(need or _first_word(said[0] if said else what), []).append(row)
        taken: Counter[date] = Counter()
        for rows in sorted(needed.values(), key=len, reverse=True):
            rows = rows[:days]
            for number, (what, low, high, said, *_) in enumerate(rows):
                first, last = (days * at // len(rows) for at in (number, number + 1))
                if _begins(kind, "early", what):
                    last = min(last, 2)
                if _begins(kind, "late", what):
                    first = max(first, days // 2)
                day = self.day(begun, first, last, kind.get("weekdays", range(7)), taken)
                taken[day] += 1
                yield self.bill(what, low, high, day, kind, need=said)

    def trip(self, begun: date) -> Iterator[Bill]:
        """A few days away together."""
        words = self.words.trip
        arrival, departure = self.ways
        for what, low, high in arrival:
            yield self.bill(what, low, high, begun, words)
        second, count = begun + timedelta(days=1), self.rng.randint(14, 20)
        yield from self.some(self.entries, second, _TRIP_DAYS - 2, count, words)
        for what, low, high in departure:
            yield self.bill(what, low, high, begun + timedelta(days=_TRIP_DAYS - 1), words)

    def contracts(self, kind: Any) -> Iterator[Bill]:
        """What one member pays on the same day of each month.

        Those marked as fixed cost the same each time; the others more in winter.
        """
        for what, low, high, *same in kind["monthly"]:
            payer, day = self.rng.choice(self.here(_LAST)), timedelta(days=self.rng.randrange(22))
            if same:
                low = high = self.rng.randint(low, high)
            for number, month in enumerate(self.words.months):
                first = self.words.first_days[number]
                most = low + (high - low) * self.words.cold[number]
                yield self.bill(
                    f"{what} {month}", 0.93 * most if low < high else low, most, first + day, kind,
                    payer=payer,
                )  # fmt: skip

    def flat(self, begun: date) -> Iterator[Bill]:
        """A shared flat."""
        words = self.words.flat
        yield from self.contracts(words)
        yield from self.some(
            words["groceries"], begun, 208, self.rng.randint(18, 23), words, "food"
        )
        yield from self.some(words["other"], begun, 190, self.rng.randint(3, 6), words)

    def office(self, begun: date) -> Iterator[Bill]:
        """The coffee fund of a floor."""
        words, count = self.words.office, self.rng.randint(22, 27)
        others = self.rng.sample(words["entries"], count - len(words["always"]))
        yield from self.some([*words["always"], *others], begun, 207, count, words)

    def club(self, begun: date) -> Iterator[Bill]:
        """Yield the bills of a club that goes out on weekends. Those who go share all of a day.

        An outing's prices are for one person. The outings that come first are for warm months.
        """
        rng, words = self.rng, self.words.club
        for what, low, high in words["always"]:
            yield self.bill(what, low, high, self.day(begun, 0, 60), words)
        outings = words["outings"]
        kept = sorted(rng.sample(range(len(outings)), len(outings) - rng.randint(2, 7)))
        at_home = [  # On the other weekends too many are on a trip.
            week for week in range(24) if len(self.at_home(begun + timedelta(weeks=week))) >= 3
        ]
        weeks = sorted(rng.sample(at_home, len(kept)))
        for number, week in zip(kept, weeks, strict=True):
            day = self.day(begun, 7 * week, 7 * week + 2)
            here = self.at_home(day)
            owers = rng.sample(here, rng.randint(3, len(here)))
            for what, low, high in outings[number]:
                amount = round(rng.uniform(low, high) * len(owers), 2)
                yield Bill(what, amount, rng.choice(owers), owers, day)

    def party(self, begun: date) -> Iterator[Bill]:
        """A party, for which people buy things in the two weeks before; what is fresh, late."""
        words, before = self.words.party, begun - timedelta(days=13)
        yield from self.some(words["always"], before, 12, len(words["always"]), words)
        yield from self.some(words["last"], begun, 1, len(words["last"]), words)
        yield from self.some(words["after"], begun + timedelta(days=1), 2, 9, words)
        for what, low, high in self.rng.sample(self.entries, self.rng.randint(6, 8)):
            days = 1 if _begins(words, "fresh", what) else 13
            day = self.day(begun, -days, 1)
            yield self.bill(what, low, high, day, words)


def _first_word(text: str) -> str:
    return re.split(r"\W", text)[0]


def _begins(kind: Any, key: str, *texts: str) -> bool:
    """Whether one of the texts begins with one of a kind's words."""
    return any(text.startswith(tuple(kind.get(key, ()))) for text in texts)


def _working(day: date) -> date:
    """Return this day, or the first one after it on which people see to such things."""
    while day in _FESTIVE:
        day += timedelta(days=1)
    return day


def projects(seed: int, names: Sequence[str]) -> list[Project]:
    """Return the projects of a seed.

    Args:
        seed: The seed; the same gives the same.
        names: First names, all different; the first is the user, who is in every project.
    """
    rng = random.Random(f"budget {seed}")
    words = company.words(Path(__file__).parent, seed, "content.toml")
    town, other = rng.sample(company.COMPANY.town["weekends"], 2)
    street = rng.choice(company.COMPANY.town["streets"])
    number, floor = rng.randint(3, 60), rng.choice(("first", "second", "third", "fourth"))
    autumn, winter = (  # Fridays.
        first + timedelta(weeks=rng.randrange(4)) for first in (date(2025, 9, 26), date(2026, 1, 9))
    )
    rng.shuffle(words.repaid)
    forms: dict[str, str] = {}
    # Nothing is bought twice: the two projects of a kind share its entries.
    halves = {}
    for kind, entries in (("trip", words.trip["entries"]), ("party", words.party["entries"])):
        drawn = rng.sample(entries, len(entries))
        halves[kind] = [drawn[::2], drawn[1::2]]
    ways = rng.sample(words.trip["ways"], 2)
    plans = (
        (f"Autumn week in {town}", "trip", 5, autumn, True),
        (f"Flat {number} {street}", "flat", 4, date(2025, 8, 1), True),
        (f"Coffee fund, {floor} floor", "office", 7, date(2025, 8, 1), True),
        (f"Holidays near {other}", "trip", 6, winter, True),
        ("Excursion club", "club", 6, date(2025, 9, 6), True),
        ("Joint birthday party", "party", 8, date(2025, 12, 12), True),
        ("Spring party", "party", 5, date(2026, 2, 21), False),
    )
    groups = [[names[0], *rng.sample(names[1:], count - 1)] for _, _, count, _, _ in plans]
    trips = [
        (begun, set(group))
        for (_, kind, _, begun, _), group in zip(plans, groups, strict=True)
        if kind == "trip"
    ]
    made = []
    for (title, kind, _, begun, joined), group in zip(plans, groups, strict=True):
        members = [Member(name) for name in group]
        if kind in ("flat", "trip") and rng.random() < 0.6:  # A couple.
            rng.choice(members[1:-1]).weight = 2.0
        if kind in ("flat", "office", "club") and rng.random() < 0.5:
            left = begun + timedelta(days=rng.randint(70, 140))
            if any(first < left <= first + timedelta(days=_TRIP_DAYS) for first, _ in trips):
                left += timedelta(weeks=1)
            members[-1].left = _working(left - timedelta(days=1)) + timedelta(days=1)
        entries = halves[kind].pop() if kind in halves else ()
        route, travels = (ways.pop(), ()) if kind == "trip" else ((), trips)
        writer = _Writer(rng, words, members, entries, route, travels, forms)
        bills = list(getattr(writer, kind)(begun))
        bills += writer.back(bills, rng.randint(*_RETURNS[kind]))
        project = "".join(c if c.isalnum() else "-" for c in title.lower()).replace("--", "-")
        code = f"{rng.choice(('amber', 'cobalt', 'linen', 'walnut'))}-{rng.randint(1000, 9999)}"
        bills.sort(key=lambda bill: bill.day)
        made.append(Project(project, title, code, members, bills, joined))
    return made
