# mypy: ignore-errors
"""The tickets of Northfield, as plain data. Nothing of Trac is imported here.

The host writes this data with Trac's own models; the same data, with the numbers of the tickets,
are the facts that tasks draw from.
"""

import random
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__all__ = ["REPORTS", "WORDS", "make"]

WORDS = SimpleNamespace(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
"""What `content.toml` holds."""
TICKETS = 240


_COLUMNS = "id AS ticket, summary, component, milestone, t.type AS type, owner"
_OPEN = "FROM ticket t LEFT JOIN enum p ON p.name = t.priority AND p.type = 'priority'"
REPORTS = (
    # Title, description, query.
    (
        "Open tickets by priority",
        "All tickets that are not closed, the most urgent first.",
        (
            f"SELECT p.value AS __color__, {_COLUMNS}, priority, status, time AS created {_OPEN} "
            "WHERE status <> 'closed' ORDER BY CAST(p.value AS INTEGER), id"
        ),
    ),
    (
        "My open tickets",
        "The tickets that are yours.",
        (
            f"SELECT p.value AS __color__, {_COLUMNS}, priority, status, time AS created {_OPEN} "
            "WHERE status <> 'closed' AND owner = $USER ORDER BY CAST(p.value AS INTEGER), id"
        ),
    ),
    (
        "Open tickets by milestone",
        "What remains to be done for each milestone.",
        (
            f"SELECT p.value AS __color__, 'Milestone ' || milestone AS __group__, {_COLUMNS}, "
            f"priority, status {_OPEN} "
            "WHERE status <> 'closed' "
            "ORDER BY milestone = '', milestone, CAST(p.value AS INTEGER), id"
        ),
    ),
    (
        "Open tickets by owner",
        "Who has what on the table.",
        (
            f"SELECT p.value AS __color__, owner AS __group__, {_COLUMNS}, "
            f"priority, status {_OPEN} "
            "WHERE status <> 'closed' ORDER BY owner, CAST(p.value AS INTEGER), id"
        ),
    ),
    (
        "Billable tickets by customer",
        "Work that customers pay for, with its estimate in hours.",
        (
            "SELECT c.value AS __group__, t.id AS ticket, summary, owner, status, e.value AS hours "
            "FROM ticket t JOIN ticket_custom b ON b.ticket = t.id AND b.name = 'billable' "
            "JOIN ticket_custom c ON c.ticket = t.id AND c.name = 'customer' "
            "LEFT JOIN ticket_custom e ON e.ticket = t.id AND e.name = 'estimate' "
            "WHERE b.value = '1' ORDER BY c.value, t.id"
        ),
    ),
    (
        "Closed tickets by resolution",
        "What was closed, and how.",
        (
            f"SELECT resolution AS __group__, {_COLUMNS}, changetime AS modified {_OPEN} "
            "WHERE status = 'closed' ORDER BY resolution, changetime DESC"
        ),
    ),
    (
        "Open defects without a milestone",
        "To be looked at in the weekly planning.",
        (
            f"SELECT p.value AS __color__, {_COLUMNS}, priority, version {_OPEN} "
            "WHERE status <> 'closed' AND milestone = '' AND t.type = 'defect' "
            "ORDER BY CAST(p.value AS INTEGER), id"
        ),
    ),
    (
        "Open tickets by keyword",
        "Only tickets that have keywords.",
        (
            f"SELECT keywords AS __group__, {_COLUMNS}, priority {_OPEN} "
            "WHERE status <> 'closed' AND keywords <> '' ORDER BY keywords, id"
        ),
    ),
)

_FIRST_DAY = datetime(2025, 3, 17, tzinfo=UTC)
_LAST_DAY = datetime(2026, 2, 27, tzinfo=UTC)


def day(text: str) -> datetime | None:
    """Return the evening of a date; none for an empty text."""
    return datetime.fromisoformat(text).replace(hour=18, tzinfo=UTC) if text else None


def make(seed: int, people: Sequence[Any]) -> dict[str, Any]:
    """Return the whole content: people, components, tickets with their history, attachments.

    Args:
        seed: Decides everything.
        people: All people; the first one uses the browser.
    """
    rng = random.Random(f"tracker {seed}")
    names = [person.username for person in people]
    developers, support = names[:11], names[11:22]
    owners = dict(
        zip(WORDS.components, rng.sample(developers[1:], len(WORDS.components)), strict=True)
    )
    made = _Maker(rng, developers, support, owners)
    tickets = made.tickets()
    return {
        "user": names[0],
        "people": [{"username": p.username, "name": p.name, "email": p.email} for p in people],
        "developers": developers,
        "support": support,
        "components": [
            {"name": name, "owner": owners[name], "description": about}
            for name, about in WORDS.components.items()
        ],
        "tickets": tickets,
        "attachments": _attachments(rng, tickets),
    }


class _Maker:
    """Makes the tickets, one after the other."""

    def __init__(
        self, rng: random.Random, developers: list[str], support: list[str], owners: dict[str, str]
    ) -> None:
        self.rng = rng
        self.developers = developers
        self.support = support
        self.owners = owners
        self.codes = iter(rng.sample(range(1000, 9999), TICKETS))
        self.summaries = self._summaries()

    def tickets(self) -> list[dict[str, Any]]:
        """Return all tickets, with their numbers, oldest first."""
        days = (_LAST_DAY - _FIRST_DAY).days
        moments = sorted(
            _FIRST_DAY
            + timedelta(days=self.rng.randrange(days), minutes=self.rng.randrange(480, 1080))
            for _ in range(TICKETS)
        )
        made: list[dict[str, Any]] = []
        for number, moment in enumerate(moments, 1):
            made.append({"id": number, **self._ticket(moment, made)})
        return made

    def _summaries(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield type, component, feature and summary, no summary twice."""
        all_of = {
            kind: [
                (kind, component, feature, pattern)
                for features, patterns in (
                    (WORDS.screens, of_screens),
                    (WORDS.services, of_services),
                )
                for component in features
                for feature in features[component]
                for pattern in patterns
            ]
            for kind, (of_screens, of_services) in WORDS.patterns.items()
        }
        for choices in all_of.values():
            self.rng.shuffle(choices)
        while True:
            kind = self.rng.choices(WORDS.types, (5, 3, 2))[0]
            kind, component, feature, pattern = all_of[kind].pop()
            number = self.rng.choice((20, 40, 60, 80, 100, 200, 500))
            text = pattern.format(
                feature=feature, Feature=feature[0].upper() + feature[1:], number=number
            )
            yield kind, component, feature, text

    def _ticket(self, created: datetime, earlier: list[dict[str, Any]]) -> dict[str, Any]:
        rng = self.rng
        kind, component, feature, summary = next(self.summaries)
        customer = rng.choice(WORDS.customers) if rng.random() < 0.7 else ""
        site = (
            rng.choice(WORDS.sites[customer]) if customer else rng.choice(("Leeds", "Cork", "Brno"))
        )
        code = f"NF-{next(self.codes)}"
        age = (_LAST_DAY - created).days
        released = [name for name, when, _ in WORDS.versions if when <= created.date().isoformat()]
        ticket: dict[str, Any] = {
            "summary": summary,
            "type": kind,
            "component": component,
            "feature": feature,
            "priority": rng.choices(WORDS.priorities, (1, 3, 8, 5, 2))[0],
            "owner": self.owners[component],
            "reporter": rng.choice(self.support if kind == "defect" else self.developers[1:]),
            "version": (rng.choice(released[-3:]) if released else "") if kind == "defect" else "",
            "milestone": "",
            "keywords": rng.choice(WORDS.keywords) if rng.random() < 0.5 else "",
            "cc": ", ".join(sorted(rng.sample(self.support, 2))) if rng.random() < 0.25 else "",
            "customer": customer,
            "estimate": str(rng.choice((1, 2, 3, 4, 6, 8, 12, 16, 24))),
            "billable": "1" if customer and rng.random() < 0.35 else "0",
            "created": created.isoformat(),
            "code": code if kind == "defect" else "",
            "site": site if customer else "",
            "description": self._description(kind, feature, customer, site, code),
            "status": "new",
            "resolution": "",
            "build": "",
            "workaround": "",
            "cause": "",
            "duplicate_of": 0,
        }
        ticket["first"] = {name: ticket[name] for name in ("owner", "priority", "milestone")}
        ticket["events"] = list(self._history(ticket, created, age, site, earlier))
        return ticket

    def _description(self, kind: str, feature: str, customer: str, site: str, code: str) -> str:
        rng, number = self.rng, self.rng.randint(3, 60)
        where = f"{customer} in {site}" if customer else "our own test team"
        if kind == "defect":
            steps = rng.sample(WORDS.steps, 3)
            listed = "\n".join(
                f" 1. {step.format(feature=feature, site=site, number=number * 10)}"
                for step in steps
            )
            return (
                f"Reported by {where}. {rng.choice(WORDS.effects).format(number=number)}\n\n"
                f"Steps:\n{listed}\n\nThe error code on the screen is {code}."
            )
        if kind == "enhancement":
            reasons = " ".join(rng.sample(WORDS.reasons, 2)).format(number=number)
            return f"Wish of {where} for the {feature}. {reasons}"
        return (
            f"Part of our clean-up of the {feature}. "
            f"It should take no more than {number} hours.\n\n"
            " * agree on the scope\n * do it\n * tell support about it"
        )

    def _history(
        self,
        ticket: dict[str, Any],
        created: datetime,
        age: int,
        site: str,
        earlier: list[dict[str, Any]],
    ) -> Iterator[dict[str, Any]]:
        """Yield what happened to a ticket, and set its fields to what they end as."""
        rng, moment = self.rng, created
        team = [ticket["owner"], ticket["reporter"], *rng.sample(self.developers[1:], 2)]

        def event(author: str, comment: str = "", **new: str) -> dict[str, Any]:
            nonlocal moment
            left = (_LAST_DAY + timedelta(hours=20) - moment).total_seconds() / 60
            most = max(4, int(left / 6))
            moment += timedelta(minutes=max(3, rng.randint(20, 60 * 24 * 9) % most))
            if moment.hour < 7:
                moment = moment.replace(hour=7 + rng.randrange(2))
            elif moment.hour > 18:
                moment = moment.replace(hour=18, minute=max(moment.minute, 20)) + timedelta(
                    hours=13
                )
            ticket.update(new)
            return {"when": moment.isoformat(), "author": author, "comment": comment, "new": new}

        milestone = self._milestone(created, age)
        if milestone:
            yield event(rng.choice(self.developers[1:]), milestone=milestone)
        if rng.random() < 0.2:
            raised = WORDS.priorities[max(0, WORDS.priorities.index(ticket["priority"]) - 1)]
            if raised != ticket["priority"]:
                yield event(ticket["reporter"], "The customer insists.", priority=raised)
        for remark in rng.sample(WORDS.remarks, rng.choice((0, 0, 1, 1, 2, 3))):
            yield event(rng.choice(team), remark.format(site=site))
        if ticket["type"] == "defect" and rng.random() < 0.3:
            ticket["workaround"] = rng.choice(WORDS.workarounds)
            yield event(rng.choice(team), f"Workaround until then: {ticket['workaround']}.")
        if rng.random() < 0.25:
            other = rng.choice(self.developers[1:])
            if other != ticket["owner"]:
                yield event(rng.choice(team), owner=other, status="assigned")
        yield from self._end(ticket, age, earlier, event)

    def _end(
        self, ticket: dict[str, Any], age: int, earlier: list[dict[str, Any]], event: Any
    ) -> Iterator[dict[str, Any]]:
        rng = self.rng
        owner = ticket["owner"]
        chance = 0.25 if age < 60 else 0.45 if age < 150 else 0.8
        if rng.random() > chance:
            # The user of the browser has work too.
            mine = rng.random() < 0.22
            if mine:
                owner = self.developers[0]
                yield event(rng.choice(self.developers[1:]), owner=owner, status="assigned")
            if rng.random() < 0.35:
                yield event(owner, owner=owner, status="accepted")
            return
        resolution = rng.choices(WORDS.resolutions, (12, 2, 2, 2, 2))[0]
        if ticket["type"] != "defect" and resolution == "worksforme":
            resolution = "fixed"
        same = [t for t in earlier if t["component"] == ticket["component"]]
        if resolution == "duplicate" and not same:
            resolution = "wontfix"
        if resolution == "fixed":
            ticket["build"] = f"4.{rng.randint(0, 3)}.{rng.randint(100, 999)}"
            done = f"Done in build {ticket['build']}."
            if ticket["type"] == "defect":
                ticket["cause"] = rng.choice(WORDS.causes)
                done = f"The cause was {ticket['cause']}. Fixed in build {ticket['build']}."
        elif resolution == "duplicate":
            ticket["duplicate_of"] = rng.choice(same)["id"]
            done = f"The same as #{ticket['duplicate_of']}."
        else:
            done = {
                "invalid": "This is how it should be, see the manual.",
                "wontfix": "Too much work for what it would bring.",
                "worksforme": "Works on three systems. Please open it again if you see it.",
            }[resolution]
        yield event(owner, done, status="closed", resolution=resolution)
        if rng.random() < 0.06:
            yield event(
                ticket["reporter"],
                "It is back. Please look again.",
                status="reopened",
                resolution="",
            )

    def _milestone(self, created: datetime, age: int) -> str:
        rng = self.rng
        if rng.random() < 0.15:
            return ""
        date = created.date().isoformat()
        later = [name for name, due, _, _ in WORDS.milestones if due and due > date]
        if age < 90:
            return rng.choices(later, [4, 2, 2, 1, 1, 1, 1][: len(later)])[0]
        return rng.choices(["Backlog", *later], [1, 5, 3, 1, 1, 1, 1, 1][: len(later) + 1])[0]


def _attachments(rng: random.Random, tickets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return log files of open defects, each with errors to count."""
    defects = [t for t in tickets if t["type"] == "defect" and t["status"] != "closed"]
    found = []
    for ticket in sorted(rng.sample(defects, 10), key=lambda ticket: int(ticket["id"])):
        start = datetime.fromisoformat(ticket["created"]) - timedelta(hours=1)
        lines, errors, last, moment = [], 0, "", start
        for line in range(rng.randint(14, 30)):
            moment += timedelta(seconds=rng.randint(9, 75))
            if rng.random() < 0.25 or line == 5:
                errors += 1
                last = f"job {rng.randint(1000, 9999)}"
                lines.append(f"{moment:%H:%M:%S} ERROR {last} failed: {rng.choice(WORDS.causes)}")
            else:
                lines.append(f"{moment:%H:%M:%S} INFO  job {rng.randint(1000, 9999)} done")
        found.append(
            {
                "ticket": ticket["id"],
                "filename": f"{ticket['feature'].replace(' ', '-').lower()}.log",
                "description": f"Log of {ticket['site'] or 'the test system'}",
                "author": ticket["reporter"],
                "when": (start + timedelta(hours=2)).isoformat(),
                "text": "\n".join(lines) + "\n",
                "errors": errors,
                "last_error": last,
            }
        )
    return found
