"""The tickets of Northfield, as plain data. Nothing of Trac is imported here.

The host writes this data with Trac's own models; the same data, with the numbers of the tickets,
are the facts that tasks draw from.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = [
    "COMPONENTS",
    "CUSTOMERS",
    "MILESTONES",
    "PRIORITIES",
    "REPORTS",
    "RESOLUTIONS",
    "TYPES",
    "VERSIONS",
    "make",
]

TICKETS = 240
PRIORITIES = ("blocker", "critical", "major", "minor", "trivial")
RESOLUTIONS = ("fixed", "invalid", "wontfix", "duplicate", "worksforme")
TYPES = ("defect", "enhancement", "task")
CUSTOMERS = (
    "Alder & Finch",
    "Brightwater Foods",
    "Cobalt Pharma",
    "Delphin Logistics",
    "Eastgate Books",
    "Fjordline Parts",
    "Granary Hill",
    "Hollis Tools",
    "Juniper Home",
    "Kestrel Outdoor",
)
_SITES = {
    "Alder & Finch": ("Leeds", "Utrecht"),
    "Brightwater Foods": ("Cork", "Bremen"),
    "Cobalt Pharma": ("Basel", "Lyon"),
    "Delphin Logistics": ("Rotterdam", "Gdansk"),
    "Eastgate Books": ("Norwich", "Leipzig"),
    "Fjordline Parts": ("Bergen", "Aarhus"),
    "Granary Hill": ("Ghent", "Exeter"),
    "Hollis Tools": ("Sheffield", "Brno"),
    "Juniper Home": ("Malmo", "Porto"),
    "Kestrel Outdoor": ("Innsbruck", "Turin"),
}

COMPONENTS = {
    "Picking": "Pick lists, routes and confirmation in the warehouse",
    "Goods in": "Deliveries, inspection and put-away",
    "Shipping labels": "Labels and papers for carriers",
    "Stock count": "Counting, corrections and blocked stock",
    "Handheld app": "The app on the scanners",
    "Reports": "Figures, exports and scheduled mails",
    "Accounts": "Users, roles and single sign-on",
    "Integrations": "Interfaces to shops, carriers and accounting",
    "Billing": "Invoices and price lists for storage",
    "Search": "Finding articles, orders and locations",
}
_SCREENS: dict[str, tuple[str, ...]] = {
    "Picking": (
        "pick list",
        "batch picking screen",
        "shortage dialog",
        "pick wave overview",
        "priority queue",
    ),
    "Goods in": (
        "delivery calendar",
        "inspection form",
        "put-away list",
        "supplier return screen",
        "pallet overview",
    ),
    "Shipping labels": (
        "label preview",
        "carrier list",
        "customs form",
        "return label form",
        "parcel overview",
    ),
    "Stock count": (
        "count sheet",
        "correction form",
        "count schedule",
        "blocked stock list",
        "approval list",
    ),
    "Handheld app": (
        "task list",
        "location screen",
        "message list",
        "article card",
        "shift summary",
    ),
    "Reports": (
        "throughput report",
        "dashboard",
        "stock value report",
        "late orders table",
        "report archive",
    ),
    "Accounts": ("role editor", "user list", "audit log", "team overview", "device list"),
    "Integrations": (
        "order inbox",
        "carrier settings",
        "webhook log",
        "shop connector page",
        "error queue",
    ),
    "Billing": (
        "storage invoice",
        "price list editor",
        "credit note form",
        "monthly statement",
        "tax summary",
    ),
    "Search": (
        "article search",
        "location search",
        "saved searches page",
        "order finder",
        "result list",
    ),
}
_SERVICES: dict[str, tuple[str, ...]] = {
    "Picking": ("route planner", "pick confirmation"),
    "Goods in": ("delivery note scan", "put-away suggestion"),
    "Shipping labels": ("label reprint", "parcel weight check"),
    "Stock count": ("blind count", "stock correction"),
    "Handheld app": ("offline mode", "voice prompt"),
    "Reports": ("CSV export", "scheduled mail"),
    "Accounts": ("single sign-on", "password reset"),
    "Integrations": ("order import", "accounting export"),
    "Billing": ("invoice run", "discount calculation"),
    "Search": ("barcode lookup", "search index"),
}
_PATTERNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # Of screens, of services.
    "defect": (
        (
            "{Feature} stays empty after a restart",
            "{Feature} is slow with more than {number} rows",
            "{Feature} shows the wrong unit for pallets",
            "{Feature} ignores the chosen site",
            "{Feature} is blank for users without a role",
            "{Feature} loses its column widths after an update",
            "{Feature} freezes on the second page",
            "{Feature} counts cancelled orders twice",
            "{Feature} cuts off names longer than {number} characters",
            "{Feature} sorts numbers as text",
            "{Feature} shows yesterday's date near midnight",
            "{Feature} cannot be printed in landscape",
            "{Feature} does not refresh after saving",
        ),
        (
            "{Feature} stops after {number} orders",
            "{Feature} fails when the network is slow",
            "{Feature} runs twice at midnight",
            "{Feature} does not work for the second site",
            "{Feature} rejects article numbers with a slash",
            "{Feature} takes more than {number} seconds",
            "{Feature} fails without a message",
        ),
    ),
    "enhancement": (
        (
            "Remember the last filter of the {feature}",
            "Add a keyboard shortcut to the {feature}",
            "Show the customer's logo in the {feature}",
            "Export the {feature} as a spreadsheet",
            "Let supervisors lock the {feature}",
            "Show totals at the end of the {feature}",
            "Offer the {feature} in Dutch",
            "Add a column for batch numbers to the {feature}",
        ),
        (
            "Let supervisors switch off the {feature}",
            "Warn when the {feature} is late",
            "Keep a history of {number} days for the {feature}",
            "Allow a test run of the {feature}",
        ),
    ),
    "task": (
        (
            "Write tests for the {feature}",
            "Document the {feature} for administrators",
            "Review the permissions of the {feature}",
            "Translate the help texts of the {feature}",
            "Prepare a demo of the {feature}",
        ),
        (
            "Write tests for the {feature}",
            "Measure the load of the {feature}",
            "Remove the old code of the {feature}",
            "Review the logging of the {feature}",
        ),
    ),
}
_EFFECTS = (
    "About {number} people are affected every day.",
    "The shift leader noticed it {number} times last week.",
    "It happens on roughly one of {number} attempts.",
    "{number} orders were delayed because of it.",
)
_STEPS = (
    "Open the {feature} as a normal user",
    "Choose the site {site}",
    "Enter more than {number} rows",
    "Press Save and wait",
    "Go back and open the {feature} again",
    "Scan any article twice",
    "Switch the language and return",
)
_REASONS = (
    "This would save {number} minutes for each shift.",
    "Three other customers have asked for something similar.",
    "Today they keep a separate spreadsheet for this.",
    "Without it, new colleagues need a day more of training.",
    "The competitor's product has had it for years.",
)
_REMARKS = (
    "I can reproduce this on the test system.",
    "I cannot reproduce this so far. Which browser is it?",
    "The log of {site} shows nothing unusual around that time.",
    "Let us talk about this in the next planning meeting.",
    "The customer asked again today.",
    "This needs a change in the database, so not before the next release.",
    "I have a first draft, the review is open.",
    "Please test this with the data of {site}.",
    "It is enough to change the default value, I think.",
    "We agreed on the phone that this can wait.",
)
_CAUSES = (
    "a missing index",
    "an expired certificate",
    "a wrong time zone",
    "a cache that is never cleared",
    "a rounding error",
    "two jobs that run at the same time",
    "an old driver on the scanners",
    "a typing mistake in the template",
)
_WORKAROUNDS = (
    "restart the print service",
    "log out and in again",
    "use the desktop version instead",
    "clear the filter before saving",
    "enter the rows one by one",
    "export as CSV and import again",
)
_KEYWORDS = (
    "performance",
    "usability",
    "security",
    "printing",
    "mobile",
    "data",
    "translation",
    "regression",
)

MILESTONES = (
    # Name, due, completed, what it is about.
    ("Release 4.1", "2025-06-13", "2025-06-16", "Batch picking and the new label service."),
    ("Release 4.2", "2025-09-12", "2025-09-19", "Blind counts, faster search."),
    ("Release 4.3", "2025-12-05", "2025-12-04", "Storage billing for third parties."),
    ("Release 4.4", "2026-03-27", "", "Offline mode of the handheld app."),
    ("Customer portal", "2026-05-15", "", "First version of the portal for storage customers."),
    ("Release 4.5", "2026-06-26", "", "Delivery calendar with booking of gates."),
    ("Release 5.0", "2026-11-13", "", "New permissions and the end of the old reports."),
    ("Backlog", "", "", "Good ideas without a date."),
)
VERSIONS = (
    ("4.0", "2025-03-14", "Last version with the old label service."),
    ("4.1", "2025-06-16", "Batch picking."),
    ("4.1.2", "2025-07-28", "Corrections to labels."),
    ("4.2", "2025-09-19", "Blind counts."),
    ("4.2.1", "2025-10-30", "Security update."),
    ("4.3", "2025-12-04", "Storage billing."),
)

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
    owners = dict(zip(COMPONENTS, rng.sample(developers[1:], len(COMPONENTS)), strict=True))
    made = _Maker(rng, developers, support, owners)
    tickets = made.tickets()
    return {
        "user": names[0],
        "people": [{"username": p.username, "name": p.name, "email": p.email} for p in people],
        "developers": developers,
        "support": support,
        "components": [
            {"name": name, "owner": owners[name], "description": about}
            for name, about in COMPONENTS.items()
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
                for features, patterns in ((_SCREENS, of_screens), (_SERVICES, of_services))
                for component in features
                for feature in features[component]
                for pattern in patterns
            ]
            for kind, (of_screens, of_services) in _PATTERNS.items()
        }
        for choices in all_of.values():
            self.rng.shuffle(choices)
        while True:
            kind = self.rng.choices(TYPES, (5, 3, 2))[0]
            kind, component, feature, pattern = all_of[kind].pop()
            number = self.rng.choice((20, 40, 60, 80, 100, 200, 500))
            text = pattern.format(
                feature=feature, Feature=feature[0].upper() + feature[1:], number=number
            )
            yield kind, component, feature, text

    def _ticket(self, created: datetime, earlier: list[dict[str, Any]]) -> dict[str, Any]:
        rng = self.rng
        kind, component, feature, summary = next(self.summaries)
        customer = rng.choice(CUSTOMERS) if rng.random() < 0.7 else ""
        site = rng.choice(_SITES[customer]) if customer else rng.choice(("Leeds", "Cork", "Brno"))
        code = f"NF-{next(self.codes)}"
        age = (_LAST_DAY - created).days
        released = [name for name, when, _ in VERSIONS if when <= created.date().isoformat()]
        ticket: dict[str, Any] = {
            "summary": summary,
            "type": kind,
            "component": component,
            "feature": feature,
            "priority": rng.choices(PRIORITIES, (1, 3, 8, 5, 2))[0],
            "owner": self.owners[component],
            "reporter": rng.choice(self.support if kind == "defect" else self.developers[1:]),
            "version": (rng.choice(released[-3:]) if released else "") if kind == "defect" else "",
            "milestone": "",
            "keywords": rng.choice(_KEYWORDS) if rng.random() < 0.5 else "",
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
            steps = rng.sample(_STEPS, 3)
            listed = "\n".join(
                f" 1. {step.format(feature=feature, site=site, number=number * 10)}"
                for step in steps
            )
            return (
                f"Reported by {where}. {rng.choice(_EFFECTS).format(number=number)}\n\n"
                f"Steps:\n{listed}\n\nThe error code on the screen is {code}."
            )
        if kind == "enhancement":
            reasons = " ".join(rng.sample(_REASONS, 2)).format(number=number)
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
            raised = PRIORITIES[max(0, PRIORITIES.index(ticket["priority"]) - 1)]
            if raised != ticket["priority"]:
                yield event(ticket["reporter"], "The customer insists.", priority=raised)
        for remark in rng.sample(_REMARKS, rng.choice((0, 0, 1, 1, 2, 3))):
            yield event(rng.choice(team), remark.format(site=site))
        if ticket["type"] == "defect" and rng.random() < 0.3:
            ticket["workaround"] = rng.choice(_WORKAROUNDS)
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
        resolution = rng.choices(RESOLUTIONS, (12, 2, 2, 2, 2))[0]
        if ticket["type"] != "defect" and resolution == "worksforme":
            resolution = "fixed"
        same = [t for t in earlier if t["component"] == ticket["component"]]
        if resolution == "duplicate" and not same:
            resolution = "wontfix"
        if resolution == "fixed":
            ticket["build"] = f"4.{rng.randint(0, 3)}.{rng.randint(100, 999)}"
            done = f"Done in build {ticket['build']}."
            if ticket["type"] == "defect":
                ticket["cause"] = rng.choice(_CAUSES)
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
        later = [name for name, due, _, _ in MILESTONES if due and due > date]
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
                lines.append(f"{moment:%H:%M:%S} ERROR {last} failed: {rng.choice(_CAUSES)}")
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
