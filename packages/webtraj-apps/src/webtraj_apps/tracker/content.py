# mypy: ignore-errors
"""The tickets of Northfield, as plain data. Nothing of Trac is imported here.

The host writes this data with Trac's own models; the same data, with the numbers of the tickets,
are the facts that tasks draw from.
"""

import random
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

__all__ = ["REPORTS", "WORDS", "make"]

WORDS = SimpleNamespace(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
"""What `content.toml` holds. The held-out content has other tickets, see `make`."""
Say: TypeAlias = Callable[[int, str], str]
"""Return a text as the person with this number writes it."""


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

_UPCOMING = tuple(name for name, due, done, _ in WORDS.milestones if due and not done)
_OLD_HANDS = 37
"""The people after these have just joined."""
_TRAINER = 36
_FIRST_DAY = datetime(2025, 3, 17, tzinfo=UTC)
_LAST_DAY = datetime(2026, 2, 27, tzinfo=UTC)
_SEASONS = {
    "when the clocks change": (date(2025, 10, 27), date(2025, 11, 7)),
    "Statement of February": (date(2025, 3, 17), date(2025, 3, 28)),
}
"""When tickets were written that speak of a day of the year."""


def day(text: str) -> datetime | None:
    """Return the evening of a date; none for an empty text."""
    return datetime.fromisoformat(text).replace(hour=18, tzinfo=UTC) if text else None


def make(seed: int, people: Sequence[Any], company: Any, say: Say) -> dict[str, Any]:
    """Return the whole content: people, components, tickets with their history, attachments.

    Args:
        seed: Decides everything.
        people: All people; the first one uses the browser.
        company: The module of that name, which tasks cannot import as the host does.
        say: `voices.say`.
    """
    rng = random.Random(f"tracker {seed}")
    words = company.words(Path(__file__).parent, seed, "content.toml")
    names = [person.username for person in people]
    of = [position.department for position in company.positions()][:_OLD_HANDS]
    developers = [name for name, one in zip(names, of, strict=False) if one in ("Systems", "IT")]
    callers = ("Support", "Sales", "Logistics")
    support = [name for name, one in zip(names, of, strict=False) if one in callers]
    # One of the owners is in everybody's address book.
    chosen = [developers[1], *rng.sample(developers[2:], len(WORDS.components) - 1)]
    owners = dict(zip(WORDS.components, rng.sample(chosen, len(chosen)), strict=True))
    made = _Maker(rng, words, developers, support, owners, company, people[_TRAINER].first)
    tickets = made.tickets()
    numbers = {name: number for number, name in enumerate(names)}
    for ticket in tickets:
        ticket["description"] = say(numbers[ticket["reporter"]], ticket["description"])
        for event in ticket["events"]:
            event["comment"] = say(numbers[event["author"]], event["comment"])
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
        "attachments": _attachments(rng, tickets, words.errors),
    }


class _Maker:
    """Makes the tickets, one after the other."""

    def __init__(
        self,
        rng: random.Random,
        words: Any,
        developers: list[str],
        support: list[str],
        owners: dict[str, str],
        company: Any,
        trainer: str,
    ) -> None:
        self.rng = rng
        self.words = words
        self.developers = developers
        self.support = support
        self.owners = owners
        self.company = company
        self.trainer = trainer
        self.units = [
            (component, *unit) for component, units in self.words.units.items() for unit in units
        ]
        rng.shuffle(self.units)
        self.codes = iter(sorted(rng.sample(range(1000, 9999), len(self.units))))
        self.insists = iter(rng.sample(self.words.insists, len(self.words.insists)))
        self.after = iter(rng.sample(self.words.after, len(self.words.after)))

    def tickets(self) -> list[dict[str, Any]]:
        """Return all tickets, with their numbers, oldest first."""
        last = _LAST_DAY.date()
        begun = sorted(
            (self.company.moment(self.rng, *_possible(unit, last)), number)
            for number, unit in enumerate(self.units)
        )
        made: list[dict[str, Any]] = []
        for moment, number in begun:
            unit = self.units[number]
            made.append({"id": len(made) + 1, **self._ticket(moment, *unit)})
        return made

    def _ticket(
        self,
        created: datetime,
        component: str,
        kind: str,
        feature: str,
        summary: str,
        text: str,
        talk: list[str],
        cause: str = "",
        workaround: str = "",
    ) -> dict[str, Any]:
        rng = self.rng
        told = f"{summary} {text} {' '.join(talk)}"
        # No customer reports what happened in one of our own halls.
        asked = "{" in told or (
            kind != "task" and not re.search(WORDS.own, told) and rng.random() < 0.7
        )
        customers = self.company.COMPANY.customers
        for has, names in WORDS.only.items():
            if re.search(has, told):
                customers = [one for one in customers if one["name"] in names]
                break
        of = rng.choice(customers) if asked else None
        customer, site = (of["name"], rng.choice(of["sites"])) if of else ("", "")
        slots = {"customer": customer, "site": site, "code": f"NF-{next(self.codes)}"}
        slots |= {"cause": cause, "workaround": workaround, "trainer": self.trainer}
        age = (_LAST_DAY - created).days
        # Nobody sees what came in with a release in an older version.
        since = max(re.findall(r"\b4\.\d\b", told), default="")
        released = [
            name
            for name, when, _ in WORDS.versions
            if when <= created.date().isoformat() and name >= since
        ]
        ticket: dict[str, Any] = {
            "summary": summary.format(**slots),
            "type": kind,
            "component": component,
            "feature": feature,
            "priority": rng.choices(WORDS.priorities, _weights(kind, told, self._end(summary)[0]))[
                0
            ],
            "owner": self.owners[component],
            "reporter": rng.choice(
                [
                    name
                    for name in (self.support if kind == "defect" else self.developers[1:])
                    if name != self.owners[component]
                ]
            ),
            "version": (rng.choice(released[-3:]) if released else "") if kind == "defect" else "",
            "milestone": "",
            "keywords": self._keyword(f"{summary} {text}"),
            "cc": "",
            "customer": customer,
            "estimate": str(rng.choice((1, 2, 3, 4, 6, 8, 12, 16, 24))),
            # Customers do not pay for the repair of a defect.
            "billable": "1" if customer and kind != "defect" and rng.random() < 0.7 else "0",
            "created": created.isoformat(),
            "code": slots["code"] if kind == "defect" else "",
            "site": site,
            "description": (
                rng.choice(self.words.codes).format(text=text.format(**slots), **slots)
                if kind == "defect"
                else text.format(**slots)
            ),
            "status": "new",
            "resolution": "",
            "build": "",
            "workaround": "",
            "cause": "",
        }
        if rng.random() < 0.25:
            others = [name for name in self.support if name != ticket["reporter"]]
            ticket["cc"] = ", ".join(sorted(rng.sample(others, 2)))
        ticket["first"] = {name: ticket[name] for name in ("owner", "priority", "milestone")}
        said = [one.format(**slots) for one in talk]
        ticket["events"] = []
        named = [f"Release {name}" for name in re.findall(r"\b4\.\d\b", f"{summary} {text}")]
        for event in self._history(ticket, created, age, slots, said, named):
            ticket["events"].append(event)
        return ticket

    def _keyword(self, text: str) -> str:
        """Return a keyword that fits a text, or none."""
        fitting = [word for word, fits in WORDS.keywords.items() if re.search(fits, text)]
        return self.rng.choice(fitting) if fitting and self.rng.random() < 0.55 else ""

    def _history(
        self,
        ticket: dict[str, Any],
        created: datetime,
        age: int,
        slots: dict[str, str],
        said: list[str],
        named: list[str],
    ) -> Iterator[dict[str, Any]]:
        """Yield what happened to a ticket, and set its fields to what they end as."""
        rng, moment = self.rng, created
        told = f"{ticket['summary']} {ticket['description']} {' '.join(said)}"
        is_serious = ticket["type"] == "defect" and re.search(WORDS.serious, told)
        is_urgent = is_serious or ticket["priority"] in WORDS.priorities[:2]
        pace = (1, 2, 4, 20) if is_urgent else (1, 4, 20, 60, 150)

        def event(author: str, comment: str = "", **new: str) -> dict[str, Any]:
            nonlocal moment
            # Work takes its time, and nobody finds out within minutes that it was in vain.
            days = {"closed": _days_of_work(ticket), "reopened": 1}.get(new.get("status", ""), 0)
            if "priority" in new:
                days = 1
            if ticket["type"] == "task" and comment:
                days = max(days, 1)
            first, last = (moment + timedelta(days)).date(), _LAST_DAY.date()
            if moment.date() < first:
                first = self.company.later(rng, moment + timedelta(days), 1).date()
                last = min(first + timedelta(days=4 if is_urgent else 14), last)
            when = (
                self.company.moment(rng, first, last)
                if moment.date() < first <= last
                else self.company.later(rng, moment, rng.choice(pace))
            )
            if when > _LAST_DAY + timedelta(hours=18):
                when = moment + timedelta(seconds=rng.randint(130, 560))
            # Two changes in a row at the same second of a minute would look like a machine's.
            when += timedelta(seconds=7 if when.second == moment.second else 0)
            moment = when.replace(microsecond=0)
            ticket.update(new)
            return {"when": moment.isoformat(), "author": author, "comment": comment, "new": new}

        is_closed = rng.random() < (0.25 if age < 60 else 0.45 if age < 150 else 0.8)
        if ticket["type"] == "defect" and is_urgent and age > 30:  # Nobody leaves that.
            is_closed = True
        resolution, end = self._end(ticket["summary"])
        is_kept = resolution != "fixed"
        resolution = resolution if is_closed else ""
        milestone = ""
        if not (is_closed and is_kept):
            milestone = self._milestone(ticket, created, age, is_closed, named)
        if (is_urgent or re.search(WORDS.recent, told)) and not is_closed:
            milestone = _UPCOMING[0]
        is_over = milestone not in ("", *_UPCOMING) and not is_closed
        if milestone and (is_over or rng.random() < 0.6):  # Whoever wrote the ticket chose it.
            ticket["milestone"] = ticket["first"]["milestone"] = milestone
        elif milestone:
            yield event(rng.choice(self.developers[1:]), milestone=milestone)
        # What is nearly done is not left for months.
        if not is_closed and age > 30 and (ticket["type"] == "task" or "branch" in told):
            said = []
        turns = (ticket["owner"], ticket["reporter"])
        for number, text in enumerate(said if is_closed else said[: rng.randint(0, len(said))]):
            if ticket["type"] == "task" and moment + timedelta(days=2) > _LAST_DAY:
                break
            yield event(turns[number % 2], text)
        can_rise = ticket["type"] == "defect" and ticket["customer"] and not is_kept
        can_rise = can_rise and moment + timedelta(days=2) < _LAST_DAY
        if can_rise and (is_closed or age < 30) and rng.random() < 0.25:
            raised = WORDS.priorities[
                max(0 if is_serious else 1, WORDS.priorities.index(ticket["priority"]) - 1)
            ]
            insists = next(self.insists, None)
            if insists is not None and raised != ticket["priority"]:
                new = {"priority": raised}
                if raised == "critical" and not is_closed:
                    new["milestone"] = _UPCOMING[0]
                yield event(ticket["reporter"], insists.format(**slots), **new)
        if slots["workaround"] and resolution in ("", "fixed") and rng.random() < 0.45:
            ticket["workaround"] = slots["workaround"]
            author = rng.choice([ticket["owner"], *self.support])
            yield event(author, rng.choice(self.words.workarounds).format(**slots))
        if rng.random() < 0.25:
            other = rng.choice(self.developers[1:])
            if other != ticket["owner"]:
                yield event(ticket["owner"], owner=other, status="assigned")
        if is_closed and moment + timedelta(days=_days_of_work(ticket)) < _LAST_DAY:
            yield from self._close(ticket, resolution, end, slots, event)
            return
        # The user of the browser has work too.
        if rng.random() < 0.22:
            owner = self.developers[0]
            yield event(rng.choice(self.developers[1:]), owner=owner, status="assigned")
        if rng.random() < 0.35:
            yield event(ticket["owner"], owner=ticket["owner"], status="accepted")

    def _close(
        self, ticket: dict[str, Any], resolution: str, text: str, slots: dict[str, str], event: Any
    ) -> Iterator[dict[str, Any]]:
        rng = self.rng
        closed = event(ticket["owner"], status="closed", resolution=resolution)
        release = _next_release(closed["when"])
        if ticket["milestone"]:
            closed["new"]["milestone"] = ticket["milestone"] = f"Release {release}"
        if not text:
            ticket["cause"] = slots["cause"]
            text = rng.choice(self.words.fixed if ticket["cause"] else self.words.done)
        if "{build}" in text:
            ticket["build"] = f"{release}.{_build(release, closed['when'])}"
        closed["comment"] = text.format(build=ticket["build"], **slots)
        yield closed
        days = 14 if ticket["priority"] in WORDS.priorities[:2] else 75
        age = _LAST_DAY - datetime.fromisoformat(closed["when"])
        is_recent = timedelta(days=3) < age < timedelta(days)
        again = next(self.after, "") if ticket["cause"] and is_recent and rng.random() < 0.4 else ""
        if again:
            yield event(ticket["reporter"], again, status="reopened", resolution="")

    def _end(self, summary: str) -> tuple[str, str]:
        """Return how a ticket ends, and with which words; no words if any fit."""
        resolution, text = self.words.ends.get(summary, ("fixed", ""))
        return resolution, text

    def _milestone(
        self,
        ticket: dict[str, Any],
        created: datetime,
        age: int,
        is_closed: bool,
        named: list[str],
    ) -> str:
        """Return what a ticket is planned for: if it is open, seldom what is completed."""
        rng = self.rng
        if rng.random() < 0.15:
            return ""
        # Nobody plans for a release that is about to leave.
        date = (created + timedelta(days=14)).date().isoformat()
        later = [name for name, due, _, _ in WORDS.milestones if due and due > date]
        if is_closed:
            return later[0]
        if found := [name for name in _UPCOMING if name in named]:
            return found[0]
        if rng.random() > 0.12:
            later = list(_UPCOMING)
        if ticket["component"] not in WORDS.portal:
            later.remove("Customer portal")
        if age < 90:
            return rng.choices(later, [4, 2, 2, 1, 1, 1, 1][: len(later)])[0]
        return rng.choices(["Backlog", *later], [1, 5, 3, 1, 1, 1, 1, 1][: len(later) + 1])[0]


def _days_of_work(ticket: dict[str, Any]) -> float:
    """Return how many days a ticket takes, with an hour or two of work on each; one at least."""
    return max(1, int(ticket["estimate"]) / 4)


def _weights(kind: str, text: str, resolution: str) -> tuple[int, ...]:
    """Return the weights of the priorities that fit a text, and an end."""
    if kind != "defect":
        return 0, 0, 6, 6, 3
    if re.search(f"{WORDS.serious}|{WORDS.keywords['security']}", text):
        return 1, 5, 7, 0, 0
    if re.search(WORDS.slight, text) or resolution != "fixed":
        return 0, 0, 1, 6, 3
    return 0, 1, 8, 4, 0


def _possible(unit: tuple[Any, ...], last: date) -> tuple[date, date]:
    """Return the first and the last day on which a ticket could be written.

    The releases that it names are out then, and a day of the year that it speaks of was lately.
    """
    for text, days in _SEASONS.items():
        if text in unit[3]:
            return days
    named = set(re.findall(r"\b4\.\d\b", " ".join((*unit[3:5], *unit[5]))))
    if re.search(WORDS.recent, unit[3]):
        named.add("4.3")
    dates = {name: date.fromisoformat(when) for name, when, _ in WORDS.versions}
    return max((dates.get(name, dates["4.3"]) for name in named), default=_FIRST_DAY.date()), last


def _next_release(moment: str) -> str:
    """Return the release that is being made at a moment."""
    released = [when <= moment[:10] for name, when, _ in WORDS.versions if name.count(".") == 1]
    return f"4.{sum(released)}"


def _build(release: str, moment: str) -> int:
    """Return the number of a release's build at a moment: two are built each day."""
    begun = [when for name, when, _ in WORDS.versions if name.count(".") == 1 and name < release]
    age = datetime.fromisoformat(moment).replace(tzinfo=None) - datetime.fromisoformat(begun[-1])
    return 100 + int(age / timedelta(hours=12))


def _attachments(
    rng: random.Random, tickets: list[dict[str, Any]], reasons: Sequence[str]
) -> list[dict[str, Any]]:
    """Return log files of open defects, each with errors to count."""
    defects = [
        one
        for one in tickets
        if one["type"] == "defect"
        and one["status"] != "closed"
        and not re.search(WORDS.seen, one["summary"])
    ]
    found = []
    for ticket in sorted(
        rng.sample(defects, min(10, len(defects))), key=lambda ticket: int(ticket["id"])
    ):
        created = datetime.fromisoformat(ticket["created"])
        lines, errors, last, moment = [], 0, "", created - timedelta(hours=1)
        for line in range(rng.randint(14, 30)):
            moment += timedelta(seconds=rng.randint(9, 75))
            if rng.random() < 0.25 or line == 5:
                errors += 1
                last = f"job {rng.randint(1000, 9999)}"
                lines.append(f"{moment:%H:%M:%S} ERROR {last} failed: {rng.choice(reasons)}")
            else:
                lines.append(f"{moment:%H:%M:%S} INFO  job {rng.randint(1000, 9999)} done")
        found.append(
            {
                "ticket": ticket["id"],
                "filename": f"{ticket['feature'].replace(' ', '-').lower()}.log",
                "description": f"Log from {ticket['site']}" if ticket["site"] else "Log",
                "author": ticket["reporter"],
                "when": (created + timedelta(seconds=rng.randint(25, 110))).isoformat(),
                "text": "\n".join(lines) + "\n",
                "errors": errors,
                "last_error": last,
            }
        )
    return found
