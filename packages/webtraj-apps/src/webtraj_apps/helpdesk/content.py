# mypy: ignore-errors
"""The tickets of Northfield's help desk: who wrote what, when, by the standard library alone."""

import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import company
import people
import voices

__all__ = ["AGENTS", "COLLEAGUE", "OPEN", "tickets", "words"]

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
"""After so many days hardly a ticket is still open."""
_WRITES_LETTERS = 23
"""Whoever usually writes more words greets and signs even in a form."""


def words(seed: int) -> Any:
    """Return what the files of texts hold, by key: `content.toml`, `tickets.toml`."""
    return company.words(Path(__file__).parent, seed, "content.toml", "tickets.toml")


def tickets(seed: int) -> list[dict[str, Any]]:
    """Return the tickets of a seed, the oldest first.

    A sender, an owner and who wrote a turn are numbers of `people.people`. A customer, who has no
    account, is None.
    """
    rng = random.Random(f"helpdesk tickets {seed}")
    writer = _Writer(rng, people.people(seed), words(seed))
    made = [one for unit in writer.words.tickets for one in writer.tickets(unit)]
    made.sort(key=lambda one: one["created"])
    return made


class _Writer:
    """Fills the texts of a seed."""

    def __init__(self, rng: random.Random, staff: list[people.Person], told: Any) -> None:
        self.rng = rng
        self.staff = staff
        self.words = told
        self.numbers = {
            slot: rng.sample(values, 2 * len(told.tickets))
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

    def tickets(self, unit: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the ticket of a unit, and its second report if there is one."""
        rng = self.rng
        agent = rng.choice([n for n, queues in AGENTS.items() if unit["queue"] in queues])
        waits = unit["title"] in self.waiting or ("list" in unit and rng.random() < 0.8)
        urgent = unit.get("priority") == 1
        days = 5 if urgent else 16
        first = company.NOW.date() - timedelta(days=days) if waits else _FIRST
        sender, email, name, business = self.sender(unit)
        slots = {
            "first": name,
            "company": business,
            "other": rng.choice(
                [p.first for n, p in enumerate(self.staff) if n not in (agent, sender, 0)]
            ),
            "room": f"{rng.randint(1, 4)}.{rng.randint(1, 28):02d}",
            "device": f"NB-{self.numbers['device'].pop()}",
            "order": f"NF-{self.numbers['order'].pop()}",
            "invoice": f"R{self.numbers['invoice'].pop()}",
            "badge": str(self.numbers["badge"].pop()),
        }
        created = self.moment(sender, first, _LAST)
        age = (company.NOW - created).days
        is_open = waits or rng.random() > min(0.93, age / (5 if urgent else _DAYS_OPEN))
        turns = unit["turns"]
        if is_open:  # The last message closes a ticket.
            most = max(0, min(len(turns) - 1, 1 if waits else len(turns)))
            turns = turns[: rng.randint(min(most, age // 10), most)]
        said, when, pace = [], created, 0.7 if urgent else rng.choice((1.5, 3, 5, 9))
        for by, text in (*turns, *(() if is_open else (("end", unit["end"]),))):
            if by == "end":
                when = max(when, created + timedelta(days=unit.get("days", 0)))
            private = by == "sender" and sender is None
            when = self.answer(when, pace) if private else company.later(rng, when, pace)
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
                    "minutes": 0 if by == "sender" else rng.choice((0, 0, 5, 5, 10, 15, 20, 30)),
                }
            )
        status = rng.choices((RESOLVED, CLOSED), (3, 8))[0]
        made = {
            "title": unit["title"].format(**slots),
            "text": self.compose(sender, unit["text"].format(**slots), email),
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
        sender, email, *_ = self.sender(unit, but=made["email"])
        text = self.compose(sender, text, email)
        day = made["created"].date() + timedelta(days=1)
        created = self.moment(sender, min(day, _LAST), min(day + timedelta(days=4), _LAST))
        made["twin"] = title
        return made | {
            "title": title,
            "text": text,
            "sender": sender,
            "email": email,
            "created": max(created, made["created"] + timedelta(minutes=41)),
            "owner": None,
            "status": OPEN,
            "said": [],
            "unit": title,
            "list": "",
            "needs": "",
            "twin": made["title"],
        }

    def compose(self, sender: int | None, text: str, email: str) -> str:
        """Return how somebody fills in the form: some write a letter, customers in their way."""
        if sender is not None:
            said = voices.say(sender, text)
            if voices.manner(sender).words <= _WRITES_LETTERS:
                return said
            return voices.letter(sender, said, "", self.staff[sender].name)
        domain = email.partition("@")[2].partition(".")[0]
        hello, bye = self.words.letters.get(domain, ("", ""))
        if text.startswith(("Hello", "Dear", "Hi")):
            hello = ""
        return "\n\n".join(part for part in (hello, text, bye) if part)

    def sender(self, unit: dict[str, Any], but: str = "") -> tuple[int | None, str, str, str]:
        """Return the number of a colleague, address, first name, and a business."""
        rng = self.rng
        if unit["queue"] in _FROM_CUSTOMERS:
            by = unit.get("by")
            fit = [one for one in self.words.buyers if (one[0] == by if by else len(one) == 3)]
            business, name, domain, *_ = rng.choice(fit)
            address = f"{name.lower().replace(' ', '.')}@{domain}.example"
            if address == but:  # A colleague of the first one.
                address = f"office@{domain}.example"
            return None, address, name.split()[0], business
        positions = company.positions()
        colleagues = [n for n in range(len(self.staff)) if n not in AGENTS]
        if "by" in unit:
            fit = [n for n in colleagues if positions[n].department == unit["by"]]
        else:
            fit = [*colleagues, *[COLLEAGUE] * 5]
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
