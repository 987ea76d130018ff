# mypy: ignore-errors
"""The tickets of Northfield's help desk: who wrote what, when, by the standard library alone."""

import random
import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import company
import people
import voices

__all__ = ["AGENTS", "COLLEAGUE", "OPEN", "tickets", "words", "working_day"]

AGENTS = {
    0: ("it", "web", "ord"),
    2: ("it", "sec"),
    3: ("hr", "sec"),
    4: ("fac", "hr", "fin"),
    5: ("web", "ord", "ret"),
    6: ("ord", "ret", "it"),
    7: ("ret", "ord", "fac"),
    12: ("fin",),
}
"""Numbers of `people.people`, with the queues that they work on; the first has all rights."""
COLLEAGUE = 8
"""Who writes tickets and reads answers only."""
OPEN, RESOLVED, CLOSED = 1, 3, 4
_FROM_CUSTOMERS = ("ord", "ret", "web")
_FIRST, _LAST = date(2026, 1, 5), date(2026, 2, 27)
_DAYS_OPEN = 22
"""Tickets older than this, in days, are hardly ever open."""
_DAYS_UNANSWERED = 7
"""An open ticket older than this, in days, waits for its sender and not for an agent."""
_WRITES_LETTERS = 23
"""Whoever usually writes more words greets and signs even in a form."""
_LONG = 60
_MINUTES = ((0, 0, 0, 5, 5, 5, 10, 10), (0, 0, 5, 5, 10, 15, 20, 30))
"""The minutes that a reply may take: a short one, and one of more than `_LONG` characters."""
_OFFICE = "office"
"""The signature of a buyer's colleague."""
_NAMED_DAY = re.compile(r"\{d(\d+)\}")


def words(seed: int) -> Any:
    """Return what the files of texts hold, by key: `content.toml`, `tickets.toml`."""
    return company.words(Path(__file__).parent, seed, "content.toml", "tickets.toml")


def working_day(day: date, count: int) -> date:
    """Return the day so many working days after a day, or before it."""
    step = 1 if count > 0 else -1
    while count:
        day += timedelta(days=step)
        count -= step if day.weekday() < 5 else 0
    return day


def _named(day: date) -> dict[str, str]:
    """Return slots for days around a day: `d2` is a weekday, `n2` the day of the month."""
    slots = {}
    for count in range(-4, 16):
        found = working_day(day, count)
        ends = {1: "st", 2: "nd", 3: "rd"}
        end = "th" if 10 < found.day < 20 else ends.get(found.day % 10, "th")
        slots |= {f"d{count}": f"{found:%A}", f"n{count}": f"{found.day}{end}"}
    return slots


def _is_run(number: int) -> bool:
    """Return whether a number looks made up: 4444, 34567 and 54321 do."""
    digits = str(number)
    return len({int(b) - int(a) for a, b in pairwise(digits)}) == 1


def tickets(seed: int) -> list[dict[str, Any]]:
    """Return the tickets of a seed, the oldest first.

    A sender, an owner and who wrote a turn are numbers of `people.people`. A customer, who has no
    account, is None.
    """
    rng = random.Random(f"helpdesk tickets {seed}")
    writer = _Writer(rng, people.people(seed), words(seed))
    units = sorted(writer.words.tickets, key=lambda unit: "needs" in unit)
    made = [one for unit in units for one in writer.tickets(unit)]
    made.sort(key=lambda one: one["created"])
    return made


class _Writer:
    """Fills the texts of a seed."""

    def __init__(self, rng: random.Random, staff: list[people.Person], told: Any) -> None:
        self.rng = rng
        self.staff = staff
        self.positions = company.positions()
        self.words = told
        self.numbers = {
            slot: [one for one in rng.sample(values, 2 * len(told.tickets)) if not _is_run(one)]
            for slot, values in (
                ("device", range(1000, 9999)),
                ("order", range(40000, 99999)),
                ("invoice", range(20000, 79999)),
                ("badge", range(3000, 9999)),
            )
        }
        needed = {unit["needs"] for unit in told.tickets if "needs" in unit}
        self.waiting = {
            unit["title"]
            for unit in told.tickets
            if {"again", "needs"} & unit.keys() or unit["title"] in needed
        }
        """Titles of tickets that are open in every world: others depend on them."""
        self.created: dict[str, datetime] = {}

    def tickets(self, unit: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the ticket of a unit, and its second report if there is one."""
        rng = self.rng
        agent = self.agent(unit)
        waits = unit["title"] in self.waiting or ("list" in unit and rng.random() < 0.8)
        urgent = unit.get("priority") == 1
        days = 3 if urgent else 16
        first = company.NOW.date() - timedelta(days=days) if waits else _FIRST
        sender, email, name, business = self.sender(unit)
        created = self.moment(sender, *unit.get("span", (first, _LAST)))
        if before := self.created.get(unit.get("needs", "")):
            created = self.moment(sender, before.date(), _LAST)
            created = max(created, before + timedelta(minutes=rng.randint(17, 140)))
        self.created[unit["title"]] = created
        slots = _named(created.date()) | {
            "first": name,
            "company": business,
            "other": self.other(unit, agent, sender),
            "room": f"{rng.randint(1, 4)}.{rng.randint(1, 28):02d}",
            "door": f"{rng.randint(1, 28):02d}",
            "device": f"NB-{self.numbers['device'].pop()}",
            "order": f"NF-{self.numbers['order'].pop()}",
            "invoice": f"R{self.numbers['invoice'].pop()}",
            "badge": str(self.numbers["badge"].pop()),
        }
        age = (company.NOW - created).days
        is_open = waits or (not urgent and rng.random() > min(0.93, age / _DAYS_OPEN))
        turns = unit["turns"]
        if is_open:  # The last message closes a ticket.
            most = max(0, min(len(turns) - 1, 1 if waits else len(turns)))
            turns = turns[: rng.randint(min(most, 1 if urgent else age // 10), most)]
            if age > _DAYS_UNANSWERED and turns and turns[-1][0] == "sender":
                turns = turns[:-1]
        named = [int(count) for count in _NAMED_DAY.findall(" ".join(one[1] for one in turns))]
        said, when, pace = [], created, rng.choice((1.5, 3, 5, 9))
        if urgent or _NAMED_DAY.search(f"{unit}"):  # The answer comes before the day.
            pace = 0.7
        last = () if is_open else (("end", unit["end"], max(named, default=0)),)
        for by, text, *days in (*turns, *last):
            if by == "end":
                when = max(when, created + timedelta(days=unit.get("days", 0)))
            private = by == "sender" and sender is None
            when = self.answer(when, pace) if private else company.later(rng, when, pace)
            if any(days):
                day = working_day(created.date(), *days)
                when = max(when, company.moment(rng, day, day))
            if when >= company.NOW:
                is_open = True
                break
            who, said_first = (
                sender if by == "sender" else agent,
                not any(one["kind"] == by for one in said),
            )
            text = text.format(**slots)
            if by != "end":  # Tasks quote the resolution.
                text = voices.say(who, text)
            if by == "agent" and said_first and not text.startswith(("Hi ", "Hello ", "Dear ")):
                text = voices.letter(agent, text, name, self.staff[agent].name)
            said.append(
                {
                    "by": who,
                    "kind": by,
                    "text": text,
                    "date": when.replace(microsecond=0),
                    "minutes": 0 if by == "sender" else rng.choice(_MINUTES[len(text) > _LONG]),
                }
            )
        status = rng.choices((RESOLVED, CLOSED), (3, 8))[0]
        made = {
            "title": unit["title"].format(**slots),
            "text": self.compose(sender, unit["text"].format(**slots), email, business),
            "queue": unit["queue"],
            "sender": sender,
            "email": email,
            "created": created,
            "owner": agent if said or rng.random() < 0.3 else None,
            "status": OPEN if is_open else status,
            "priority": unit.get("priority", 3),
            "said": said,
            "end": unit["end"].format(**slots),
            "list": unit.get("list", ""),
            "unit": unit["title"],
            "needs": unit.get("needs", ""),
            "twin": "",
        }
        if "again" not in unit:
            return [made]
        return [made, self.second(unit, made, slots)]

    def second(
        self, unit: dict[str, Any], made: dict[str, Any], slots: dict[str, str]
    ) -> dict[str, Any]:
        """Return the second report of a ticket, which nobody has read yet."""
        title, text = (one.format(**slots) for one in unit["again"])
        sender, email, _, business = self.sender(unit, but=made["email"])
        text = self.compose(sender, text, email, business)
        day = made["created"].date() + timedelta(days=1)
        created = self.moment(sender, min(day, _LAST), min(day + timedelta(days=4), _LAST))
        if made["priority"] == 1:  # What stops work is reported on the same day.
            created = made["created"]
        made["twin"] = title
        return made | {
            "title": title,
            "text": text,
            "sender": sender,
            "email": email,
            "created": max(created, made["created"] + timedelta(minutes=self.rng.randint(17, 140))),
            "owner": None,
            "status": OPEN,
            "said": [],
            "unit": title,
            "list": "",
            "needs": "",
            "twin": made["title"],
        }

    def compose(self, sender: int | None, text: str, email: str, business: str) -> str:
        """Return how somebody fills in the form: some write a letter, customers in their way."""
        if sender is not None:
            said = voices.say(sender, text)
            if voices.manner(sender).words <= _WRITES_LETTERS:
                return said
            return voices.letter(sender, said, "", self.staff[sender].name)
        writer, _, domain = email.removesuffix(".example").partition("@")
        hello, bye = self.words.letters.get(domain, ("", ""))
        if writer == _OFFICE:
            bye = business
        if text.startswith(("Hello", "Dear", "Hi")):
            hello = ""
        return "\n\n".join(part for part in (hello, text, bye) if part)

    def agent(self, unit: dict[str, Any]) -> int:
        """Return who answers: for the buildings, somebody at the site."""
        fit = [n for n, queues in AGENTS.items() if unit["queue"] in queues]
        if unit["queue"] == "fac":
            site = "leeds" if unit.get("by") == "Logistics" else "dundee"
            fit = [n for n in fit if self.positions[n].site == site]
        return self.rng.choice(fit)

    def other(self, unit: dict[str, Any], agent: int, sender: int | None) -> str:
        """Return the first name of somebody else, of a department if the ticket asks for it."""
        fit = [
            self.staff[n].first
            for n, position in enumerate(self.positions)
            if n not in (agent, sender, 0)
            and position.joined < _FIRST
            and unit.get("other", position.department) == position.department
        ]
        return self.rng.choice(fit)

    def sender(self, unit: dict[str, Any], but: str = "") -> tuple[int | None, str, str, str]:
        """Return the number of a colleague, address, first name, and a business.

        Who is new writes none: many tickets tell of last year.
        """
        rng = self.rng
        if unit["queue"] in _FROM_CUSTOMERS:
            by = unit.get("by")
            fit = [one for one in self.words.buyers if (one[0] == by if by else len(one) == 3)]
            business, name, domain, *_ = rng.choice(fit)
            address = f"{name.lower().replace(' ', '.')}@{domain}.example"
            if address == but:  # A colleague of the first one.
                address = f"{_OFFICE}@{domain}.example"
            return None, address, name.split()[0], business
        heads = {one["lead"] for one in company.COMPANY.departments}
        fit = [
            n
            for n, position in enumerate(self.positions)
            if n not in AGENTS
            and unit.get("by", position.department) == position.department
            and not (unit.get("led") and n in heads)
            and position.joined < _FIRST
        ]
        if site := unit.get("site", "" if "by" in unit else "dundee"):
            fit = [n for n in fit if self.positions[n].site == site]
        if "by" not in unit:
            fit += [COLLEAGUE] * 4 * (COLLEAGUE in fit)
        number = rng.choice([n for n in fit if self.staff[n].email != but])
        customer = rng.choice(company.COMPANY.customers)["name"]
        return number, self.staff[number].email, self.staff[number].first, customer

    def moment(self, sender: int | None, first: date, last: date) -> datetime:
        """Return when a ticket is written: colleagues write at work, customers later too."""
        late = sender is None and self.rng.random() < 0.4
        draw = company.evening if late else company.moment
        return draw(self.rng, first, last)

    def answer(self, after: datetime, hours: float) -> datetime:
        """Return when a customer answers, who is not at a desk all day."""
        when = after + timedelta(hours=self.rng.expovariate(1 / hours), minutes=4)
        if 7 <= when.hour < 22:
            return when
        morning = datetime(when.year, when.month, when.day, 7, 40, tzinfo=UTC)
        morning += timedelta(days=when.hour >= 22, seconds=self.rng.randrange(170 * 60))
        return morning
