"""The pages of Northfield's wiki and their history, as plain data."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["CITIES", "CUSTOMERS", "PRODUCTS", "TEAMS", "make"]

TEAMS = (
    # Name, what it does, floor.
    ("Picking", "everything between an order and a packed box", 2),
    ("Goods in", "deliveries, inspection and put-away", 2),
    ("Handheld", "the app on the scanners and its devices", 3),
    ("Reporting", "figures, exports and dashboards", 3),
    ("Integrations", "interfaces to shops, carriers and accounting", 1),
    ("Platform", "servers, backups and releases", 1),
    ("Support", "questions and defects of customers", 0),
    ("Sales", "offers, contracts and visits", 4),
    ("Training", "courses for new and old users", 0),
    ("Finance", "invoices, purchases and travel costs", 4),
)
PRODUCTS = (
    # Name, team, what it is.
    ("Northfield Warehouse", "Picking", "the warehouse system itself, used at every site"),
    ("Northfield Go", "Handheld", "the app on handheld scanners"),
    ("Northfield Dock", "Goods in", "the delivery calendar with booking of gates"),
    ("Northfield Insight", "Reporting", "dashboards and scheduled reports"),
    ("Northfield Link", "Integrations", "connectors to shops, carriers and accounting"),
    ("Northfield Label", "Picking", "labels and customs papers for carriers"),
    ("Northfield Bill", "Finance", "invoices for storage and handling"),
    ("Northfield Voice", "Handheld", "picking by voice"),
)
CUSTOMERS = (
    # Name, what it sells, sites.
    ("Alder & Finch", "garden furniture", ("Leeds", "Utrecht")),
    ("Brightwater Foods", "tinned fish and preserves", ("Cork", "Bremen")),
    ("Cobalt Pharma", "laboratory supplies", ("Basel", "Lyon")),
    ("Delphin Logistics", "storage for others", ("Rotterdam", "Gdansk")),
    ("Eastgate Books", "books and stationery", ("Norwich", "Leipzig")),
    ("Fjordline Parts", "spare parts for ships", ("Bergen", "Aarhus")),
    ("Granary Hill", "flour, oats and tea", ("Ghent", "Exeter")),
    ("Hollis Tools", "hand tools", ("Sheffield", "Brno")),
    ("Juniper Home", "lamps and textiles", ("Malmo", "Porto")),
    ("Kestrel Outdoor", "tents and boots", ("Innsbruck", "Turin")),
)
CITIES = ("Leeds", "Utrecht", "Ghent", "Brno")
_ROLES = ("developer", "developer", "tester", "designer", "analyst", "trainer", "engineer")
_SYSTEMS = ("Debian 12", "Debian 13", "Ubuntu 24.04", "Windows Server 2022")
_SERVERS = (
    # Name, what it is for.
    ("anvil", "builds and tests"),
    ("beacon", "monitoring"),
    ("cedar", "the demo system"),
    ("dune", "the database of the training system"),
    ("ember", "single sign-on"),
    ("fennel", "the file share"),
    ("gravel", "the mail gateway"),
    ("harbour", "the order import"),
    ("ivy", "the reporting database"),
    ("jasper", "backups"),
    ("kelp", "the test system for carriers"),
    ("lagoon", "the public documentation"),
)
_PROCEDURES = (
    # Name, team, steps with gaps.
    (
        "Onboarding",
        "Training",
        (
            "Order a laptop and a badge {a} days before the first day",
            "Create the accounts with the user name in small letters",
            "Book the safety course in the first {b} weeks",
            "Choose a mentor from another team",
            "Talk about the first impressions after {c} days",
        ),
    ),
    (
        "Offboarding",
        "Finance",
        (
            "Collect badge, laptop and keys on the last day",
            "Close the accounts within {a} hours",
            "Hand the open tickets to the team lead",
            "Keep the mailbox for {b} weeks",
        ),
    ),
    (
        "Expense claims",
        "Finance",
        (
            "Scan every receipt above {a} euros",
            "File the claim within {b} days",
            "The team lead approves claims up to {c} euros",
            "Money arrives with the next salary",
        ),
    ),
    (
        "Business travel",
        "Finance",
        (
            "Ask the team lead {a} days before",
            "Take the train for journeys shorter than {b} hours",
            "A hotel may cost up to {c} euros a night",
            "Put the dates into the calendar of the team",
        ),
    ),
    (
        "Purchases",
        "Finance",
        (
            "Get {a} offers for anything above {c} euros",
            "Write the cost centre on the order",
            "Finance answers within {b} working days",
        ),
    ),
    (
        "Home office",
        "Training",
        (
            "Up to {a} days a week are fine",
            "Be in the office on the day of the team meeting",
            "Report broken equipment within {b} days",
        ),
    ),
    (
        "Incident response",
        "Platform",
        (
            "Call the person on duty at once",
            "Open a ticket with the priority blocker",
            "Tell the customer within {a} minutes",
            "Send an update every {b} minutes",
            "Write the review within {c} days",
        ),
    ),
    (
        "Backups",
        "Platform",
        (
            "A full backup runs every Sunday at {a}:00",
            "Changes are saved every {b} minutes",
            "Backups are kept for {c} days",
            "Restore one file each month as a test",
        ),
    ),
    (
        "Release checklist",
        "Platform",
        (
            "Freeze the code {a} days before",
            "Run the long tests on anvil",
            "Update the release notes",
            "Tell customers {b} days before",
            "Watch the error log for {c} hours afterwards",
        ),
    ),
    (
        "Password rules",
        "Platform",
        (
            "At least {a} characters",
            "A new one only after an incident",
            "Lock the screen after {b} minutes",
            "{c} wrong attempts lock the account",
        ),
    ),
    (
        "Support hours",
        "Support",
        (
            "The hotline is open from {a}:00 to 18:00",
            "Mails are answered within {b} hours",
            "Blockers are handled around the clock",
            "Each call gets a ticket",
        ),
    ),
    (
        "Escalation",
        "Support",
        (
            "Level one tries for {a} minutes",
            "Level two answers within {b} minutes",
            "After {c} hours the team lead calls the customer",
        ),
    ),
    (
        "Handling of returns",
        "Goods in",
        (
            "Check the seal before opening",
            "Photograph damage from {a} sides",
            "Book the return within {b} hours",
            "Blocked stock is looked at every {c} days",
        ),
    ),
    (
        "Annual stock count",
        "Goods in",
        (
            "Announce it {a} weeks before",
            "Stop all bookings at {b}:00",
            "Two people count each shelf",
            "Differences above {c} pieces are counted again",
        ),
    ),
    (
        "Label printers",
        "Picking",
        (
            "Clean the head every {a} weeks",
            "Keep {b} spare rolls at each printer",
            "Replace a printer after {c} months",
        ),
    ),
    (
        "Scanner care",
        "Handheld",
        (
            "Charge the scanner to {a} percent",
            "Restart it every {b} days",
            "Send it to repair after {c} falls",
            "Never use solvent on the screen",
        ),
    ),
    (
        "Customer visits",
        "Sales",
        (
            "Announce the visit {a} days before",
            "Bring the safety shoes",
            "Write the minutes within {b} days",
            "Ask for a reference after {c} months",
        ),
    ),
    (
        "Offers",
        "Sales",
        (
            "An offer is valid for {a} days",
            "Discounts above {b} percent need approval",
            "Ask Finance about customers with more than {c} open invoices",
        ),
    ),
    (
        "Course bookings",
        "Training",
        (
            "A course takes place with at least {a} people",
            "Cancel up to {b} days before for free",
            "Material is sent {c} days before",
        ),
    ),
    (
        "Data protection",
        "Platform",
        (
            "Ask before copying customer data",
            "Delete test data after {a} days",
            "Report a leak within {b} hours",
            "Renew the training every {c} months",
        ),
    ),
)
_TOPICS = (
    "sprint planning",
    "review",
    "retrospective",
    "roadmap",
    "customer feedback",
    "defects of the month",
)
_DECISIONS = (
    "The old export stays until the end of {month}.",
    "We test on {count} devices before each release.",
    "The weekly meeting moves to {day} at {hour}:30.",
    "Defects older than {count} months are closed.",
    "We order {count} new scanners.",
    "The demo for customers takes place in {city}.",
    "Error messages get a number from {count}000 on.",
    "The help pages are written before the code.",
    "Nobody deploys on {day} afternoons.",
    "The budget for tools is {count}00 euros this quarter.",
)
_POINTS = (
    "ask {customer} for a date",
    "order a new label printer for {city}",
    "write the manual for the {thing}",
    "test the {thing} with {count}0 users",
    "send the offer to {customer}",
    "update the training slides on the {thing}",
    "repair the chart of the {thing}",
    "book a room in {city} for the workshop",
    "collect the wishes of {customer}",
    "check the contract with {customer}",
    "remove old accounts from the test system",
    "compare {count} suppliers for scanners",
)
_THINGS = (
    "count sheet",
    "delivery calendar",
    "pick list",
    "offline mode",
    "role editor",
    "tax summary",
    "route planner",
    "order import",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_MONTHS = ("March", "April", "May", "June")
_GLOSSARY = {
    "ABC": "Sorting articles by how often they are picked",
    "ASN": "Advance shipping notice, sent by the supplier before a delivery",
    "BIN": "The smallest place where goods are stored",
    "FEFO": "First expired, first out",
    "GRN": "Goods receipt note, printed after inspection",
    "EDI": "Orders and invoices as files between computers",
    "ETA": "Estimated time of arrival of a lorry",
    "FIFO": "First in, first out",
    "HU": "Handling unit, such as a pallet or a box",
    "KIT": "Several articles that are sold as one",
    "LPN": "Licence plate number of a pallet",
    "MOQ": "Minimum order quantity of a supplier",
    "OTIF": "On time and in full",
    "POD": "Proof of delivery, signed by the receiver",
    "RMA": "Permission to send goods back",
    "SKU": "Stock keeping unit, one article in one size and colour",
    "SLA": "Agreement about response times",
    "TMS": "Transport management system",
    "VAS": "Value added services, such as gift wrapping",
    "WAVE": "Orders that are picked together",
    "XDOCK": "Goods that leave again without being stored",
}
_MISTAKES = (
    ("warehouse", "warehuose"),
    ("customer", "custumer"),
    ("delivery", "delivrey"),
    ("together", "togehter"),
    ("answer", "anwser"),
    ("because", "becuase"),
    ("receive", "recieve"),
    ("calendar", "calender"),
    ("channel", "chanell"),
    ("Restart", "Restrat"),
    ("looks after", "loooks after"),
    ("message", "mesage"),
    ("Response", "Respnose"),
)
_NOTES = (
    "We receive most questions on Mondays, because weekends pile up.",
    "A good answer names the version and the warehouse.",
    "Put every delivery into the calendar before noon.",
    "Sit together once a week and look at the open points.",
    "Ask the customer before you change anything in the warehouse.",
)
_FUN = (
    "Barbecue",
    "Bicycle cellar",
    "Board games",
    "Library",
    "Table football",
    "Canteen",
    "Coffee machine",
    "Summer party",
    "Running group",
    "Choir",
)
_LAST = datetime(2026, 2, 27, 16, 0, tzinfo=UTC)


def make(seed: int, people: Sequence[Any]) -> dict[str, Any]:
    """Return all pages, their history, the users, and what the pages say.

    Args:
        seed: Decides everything.
        people: All people; the first one uses the browser.
    """
    return _Maker(random.Random(f"wiki {seed}"), people).make()


def table(*rows: Sequence[Any]) -> str:
    """Return a Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])


def bullets(items: Sequence[str]) -> str:
    """Return a Markdown list."""
    return "\n".join(f"- {item}" for item in items)


class _Maker:
    """Writes the pages, one kind after another."""

    def __init__(self, rng: random.Random, people: Sequence[Any]) -> None:
        self.rng = rng
        self.people = list(people)
        self.names = [person.name for person in people]
        self.pages: dict[str, str] = {}
        self.facts: dict[str, Any] = {"user": people[0].username, "name": people[0].name}
        self.older: dict[str, list[tuple[str, str]]] = {}
        """Earlier texts of a page, oldest first, each with the message of the change after it."""

    def make(self) -> dict[str, Any]:
        """Write everything."""
        self._teams()
        self._servers()
        self._products()
        self._customers()
        self._procedures()
        self._meetings()
        self._company()
        self._spoil()
        revisions = self._history()
        mails = {person.name: person.email for person in self.people}
        for one in revisions:
            one["email"] = mails[one["author"]]
        return {**self.facts, "pages": self.pages, "revisions": revisions, "users": self._users()}

    def _users(self) -> list[dict[str, Any]]:
        start = datetime(2025, 1, 7, 8, 30, tzinfo=UTC)
        return [
            {
                "username": person.username,
                "name": person.name,
                "email": person.email,
                "approved": number < len(self.people) - 3,
                "admin": number == 0,
                "joined": (start + timedelta(days=9 * number)).isoformat(),
            }
            for number, person in enumerate(self.people)
        ]

    def _teams(self) -> None:
        rng = self.rng
        names = self.names[1:37]
        rng.shuffle(names)
        extensions = rng.sample(range(200, 699), len(names))
        teams = []
        for number, (name, what, floor) in enumerate(TEAMS):
            members = []
            own = names[number::10]
            for place, member in enumerate(own):
                members.append(
                    {
                        "name": member,
                        "role": "lead" if place == 0 else rng.choice(_ROLES),
                        "room": f"{floor}.{rng.randint(1, 28):02}",
                        "extension": str(extensions.pop()),
                    }
                )
            team = {
                "name": name,
                "page": f"Teams/{name}",
                "lead": own[0],
                "members": members,
                "day": rng.choice(_DAYS),
                "time": f"{rng.randint(9, 15)}:{rng.choice(('00', '15', '30'))}",
                "duty": rng.choice(own[1:]),
                "cost_centre": str(rng.randint(4000, 4999)),
                "what": what,
            }
            teams.append(team)
            self.pages[team["page"]] = self._team_page(team)
        self.facts["teams"] = teams

    def _team_page(self, team: dict[str, Any]) -> str:
        note = self.rng.choice(_NOTES)
        rows = [(m["name"], m["role"], m["room"], m["extension"]) for m in team["members"]]
        return (
            f"# {team['name']}\n\n"
            f"The team {team['name']} looks after {team['what']}. "
            f"Its lead is {team['lead']}.\n\n"
            f"## Members\n\n{table(('Name', 'Role', 'Room', 'Extension'), *rows)}\n\n"
            f"## Meetings\n\n"
            f"The weekly meeting is on {team['day']} at {team['time']}. "
            f"On duty this quarter: {team['duty']}.\n\n"
            f"## Good to know\n\n{note}\n\n"
            f"Cost centre: {team['cost_centre']}"
        )

    def _servers(self) -> None:
        rng = self.rng
        servers = []
        hosts = rng.sample(range(11, 240), len(_SERVERS))
        for (name, what), host in zip(_SERVERS, hosts, strict=True):
            server = {
                "name": name,
                "page": f"Servers/{name}",
                "what": what,
                "city": rng.choice(CITIES),
                "address": f"10.20.{rng.randint(1, 9)}.{host}",
                "system": rng.choice(_SYSTEMS),
                "memory": rng.choice((16, 32, 48, 64, 96, 128)),
                "owner": rng.choice(self.names[1:37]),
                "backup": f"{rng.randint(0, 5):02}:{rng.choice(('00', '10', '20', '40'))}",
                "until": f"20{rng.randint(27, 31)}-{rng.randint(1, 12):02}",
            }
            servers.append(server)
            rows = [
                ("Location", server["city"]),
                ("Address", server["address"]),
                ("System", server["system"]),
                ("Memory", f"{server['memory']} GB"),
                ("Responsible", server["owner"]),
                ("Nightly backup", server["backup"]),
                ("Warranty until", server["until"]),
            ]
            self.pages[server["page"]] = (
                f"# {name}\n\nThe server {name} is for {what}.\n\n"
                f"{table(('Property', 'Value'), *rows)}\n\n"
                f"## Notes\n\n"
                f"Restart it only after a message in the channel of the team Platform. "
                f"See also [[Procedures/Backups]]."
            )
        self.facts["servers"] = servers
        listed = [(f"[[Servers/{s['name']}]]", s["what"], s["city"]) for s in servers]
        self.pages["Servers"] = (
            "# Servers\n\nAll our servers. Details are on their own pages.\n\n"
            + table(("Server", "Purpose", "Location"), *listed)
        )

    def _products(self) -> None:
        rng = self.rng
        products = []
        for name, team, what in PRODUCTS:
            lead = next(t["lead"] for t in self.facts["teams"] if t["name"] == team)
            price = rng.choice((29, 35, 39, 45, 49, 59, 69, 79, 95, 120))
            major = rng.randint(2, 6)
            releases = [
                (f"{major}.{minor}", f"2025-{3 + 3 * minor:02}-{rng.randint(3, 27):02}")
                for minor in range(4)
            ]
            product = {
                "name": name,
                "page": f"Products/{name}",
                "team": team,
                "owner": rng.choice([n for n in self.names[1:37] if n != lead]),
                "price": price,
                "old_price": price - rng.choice((3, 4, 5, 6)),
                "setup": rng.randint(4, 30) * 50,
                "limit": rng.choice((50, 80, 100, 150, 200, 250, 400)),
                "release": releases[-1][0],
                "released": releases[-1][1],
                "support_ends": f"20{rng.randint(27, 30)}-{rng.choice(('06-30', '12-31'))}",
            }
            products.append(product)
            head = (
                f"# {name}\n\n{name} is {what}. The team [[{team}|Teams/{team}]] develops it; "
                f"the product owner is {product['owner']}.\n\n## Facts\n\n"
            )
            tail = (
                f"## Releases\n\n{table(('Release', 'Date'), *releases)}\n\n"
                f"Support for release {major}.0 ends on {product['support_ends']}."
            )

            def facts(amount: int, product: dict[str, Any] = product) -> str:
                return bullets(
                    (
                        f"Price for a user and month: {amount} euros",
                        f"Setup fee: {product['setup']} euros",
                        f"Most users at one site: {product['limit']}",
                    )
                )

            self.pages[product["page"]] = f"{head}{facts(price)}\n\n{tail}"
            self.older[product["page"]] = [
                (f"{head}{facts(product['old_price'])}\n\n{tail}", "New price for 2026"),
            ]
        self.facts["products"] = products
        listed = [(f"[[{p['name']}|{p['page']}]]", p["team"], p["release"]) for p in products]
        self.pages["Products"] = "# Products\n\nWhat we sell.\n\n" + table(
            ("Product", "Team", "Current release"), *listed
        )

    def _customers(self) -> None:
        rng = self.rng
        customers = []
        numbers = rng.sample(range(3000, 9000), len(CUSTOMERS))
        for (name, sells, sites), number in zip(CUSTOMERS, numbers, strict=True):
            bought = sorted(rng.sample([p[0] for p in PRODUCTS[1:]], rng.randint(1, 4)))
            customer = {
                "name": name,
                "page": f"Customers/{name}",
                "sells": sells,
                "contact": f"{rng.choice(('Ms', 'Mr'))} {rng.choice(_SURNAMES)}",
                "contract": f"NC-{number}",
                "ends": f"202{rng.randint(6, 9)}-{rng.randint(4, 12):02}-{rng.choice((28, 30))}",
                "hours": rng.choice((2, 4, 8, 24)),
                "manager": rng.choice(self.names[1:37]),
                "users": [rng.randint(8, 140) for _ in sites],
                "sites": list(sites),
                "products": ["Northfield Warehouse", *bought],
            }
            customers.append(customer)
            rows = list(zip(sites, customer["users"], strict=True))
            head = (
                f"# {name}\n\n{name} sells {sells}. Our contact is {customer['contact']}; "
                f"at Northfield, {customer['manager']} looks after the customer.\n\n"
                f"## Contract\n\n"
            )
            tail = (
                f"\n\n## Sites\n\n{table(('Site', 'Users'), *rows)}\n\n"
                f"## Products\n\n{bullets([f'[[Products/{p}]]' for p in customer['products']])}"
            )
            parts = (
                f"Number: {customer['contract']}",
                f"Runs until: {customer['ends']}",
                f"Response time for blockers: {customer['hours']} hours",
            )
            self.pages[customer["page"]] = f"{head}{bullets(parts)}{tail}"
            self.older[customer["page"]] = [
                (f"{head}{bullets(parts[:2])}{tail}", "Response time added"),
            ]
        self.facts["customers"] = customers
        rows = [(f"[[{c['page']}]]", c["sells"]) for c in customers]
        self.pages["Customers"] = "# Customers\n\n" + table(("Customer", "Sells"), *rows)

    def _procedures(self) -> None:
        rng = self.rng
        procedures = []
        for name, team, steps in _PROCEDURES:
            gaps = {"a": rng.randint(2, 9), "b": rng.randint(10, 18), "c": rng.randint(19, 60)}
            procedure = {
                "name": name,
                "page": f"Procedures/{name}",
                "team": team,
                "owner": rng.choice(self.names[1:37]),
                "reviewed": f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
                "steps": [step.format(**gaps) for step in steps],
            }
            procedures.append(procedure)
            listed = "\n".join(f"{i}. {step}" for i, step in enumerate(procedure["steps"], 1))
            head = (
                f"# {name}\n\nResponsible: {procedure['owner']} "
                f"(team [[{team}|Teams/{team}]])\n\n"
                f"Last reviewed: {procedure['reviewed']}\n\n## Steps\n\n"
            )
            tail = "\n\n## Questions\n\nAsk the person above, or write a comment into the channel."
            self.pages[procedure["page"]] = f"{head}{listed}{tail}"
            shorter = "\n".join(listed.splitlines()[:-1])
            self.older[procedure["page"]] = [(f"{head}{shorter}{tail}", "Last step added")]
        self.facts["procedures"] = procedures

    def _meetings(self) -> None:
        rng = self.rng
        meetings = []
        for week in range(6):
            for team in rng.sample(self.facts["teams"], 6):
                day = datetime(2026, 1, 19, tzinfo=UTC) + timedelta(
                    days=7 * week + _DAYS.index(team["day"])
                )
                meetings.append(self._meeting(team, day))
        self.facts["meetings"] = sorted(meetings, key=lambda meeting: str(meeting["page"]))

    def _meeting(self, team: dict[str, Any], day: datetime) -> dict[str, Any]:
        rng = self.rng
        members = [member["name"] for member in team["members"]]

        def filled(pattern: str) -> str:
            return pattern.format(
                month=rng.choice(_MONTHS),
                count=rng.randint(2, 9),
                day=rng.choice(_DAYS),
                hour=rng.randint(9, 15),
                city=rng.choice(CITIES),
                customer=rng.choice(CUSTOMERS)[0],
                thing=rng.choice(_THINGS),
            )

        meeting: dict[str, Any] = {
            "page": f"Meetings/{day:%Y-%m-%d} {team['name']}",
            "team": team["name"],
            "date": f"{day:%Y-%m-%d}",
            "topic": rng.choice(_TOPICS),
            "minutes": rng.choice(members),
            "present": sorted(rng.sample(members, rng.randint(2, len(members)))),
            "decisions": [filled(one) for one in rng.sample(_DECISIONS, 3)],
            "next": f"{day + timedelta(days=rng.choice((7, 14, 21))):%Y-%m-%d}",
            "points": [
                {
                    "name": rng.choice(members),
                    "what": filled(what),
                    "done": rng.random() < 0.4,
                }
                for what in rng.sample(_POINTS, rng.randint(2, 4))
            ],
        }
        points = [
            f"[{'x' if point['done'] else ' '}] {point['name']}: {point['what']}"
            for point in meeting["points"]
        ]
        self.pages[meeting["page"]] = (
            f"# {meeting['date']} {team['name']}\n\n"
            f"Topic: {meeting['topic']}\n\n"
            f"Present: {', '.join(meeting['present'])}\n\nMinutes: {meeting['minutes']}\n\n"
            f"## Decisions\n\n{bullets(meeting['decisions'])}\n\n"
            f"## Open points\n\n{bullets(points)}\n\n"
            f"## Next meeting\n\nThe next meeting is on {meeting['next']}."
        )
        return meeting

    def _company(self) -> None:
        rng = self.rng
        offices = [
            {
                "city": city,
                "street": f"{rng.randint(2, 190)} {rng.choice(_STREETS)}",
                "seats": rng.randint(12, 90),
                "reception": str(rng.randint(700, 799)),
                "manager": rng.choice(self.names[1:37]),
            }
            for city in CITIES
        ]
        self.facts["offices"] = offices
        rows = [(o["city"], o["street"], o["seats"], o["reception"], o["manager"]) for o in offices]
        self.pages["Company/Offices"] = (
            "# Offices\n\nReception is open from 8:00 to 17:00.\n\n"
            + table(("City", "Street", "Seats", "Reception", "Office manager"), *rows)
        )
        chosen = sorted(rng.sample(sorted(_GLOSSARY), 9))
        self.facts["glossary"] = {word: _GLOSSARY[word] for word in chosen}
        self.facts["not_in_glossary"] = {w: t for w, t in _GLOSSARY.items() if w not in chosen}
        self.pages["Company/Glossary"] = "# Glossary\n\n" + table(
            ("Short", "Meaning"), *((word, _GLOSSARY[word]) for word in chosen)
        )
        holidays = [
            (f"2026-{month:02}-{rng.randint(1, 28):02}", name)
            for month, name in (
                (4, "Spring day"),
                (6, "Company day"),
                (9, "Harvest day"),
                (12, "Winter break"),
            )
        ]
        self.facts["holidays"] = [{"date": date, "name": name} for date, name in holidays]
        self.pages["Company/Holidays 2026"] = (
            "# Holidays 2026\n\nDays on which all offices are closed, besides the public ones.\n\n"
            + table(("Date", "Holiday"), *holidays)
        )
        self.pages["Company/About Northfield"] = (
            "# About Northfield\n\nNorthfield makes software for warehouses. "
            f"It was founded in {rng.randint(1994, 2009)} in Leeds and has offices in "
            f"{', '.join(CITIES[:-1])} and {CITIES[-1]}.\n\n"
            "See [[Products]], [[Customers]] and [[Company/Offices]]."
        )
        for name in _FUN:
            host = rng.choice(self.names[1:37])
            day = rng.choice(_DAYS)
            self.pages[f"Company/{name}"] = (
                f"# {name}\n\n{host} looks after this page. We meet on {day} at "
                f"{rng.randint(12, 18)}:00.\n\n## Rules\n\n"
                + bullets(("Everybody is welcome.", "Leave the place as you found it."))
            )
        teams = bullets([f"[[{t['name']}|{t['page']}]]" for t in self.facts["teams"]])
        procedures = bullets([f"[[{p['name']}|{p['page']}]]" for p in self.facts["procedures"]])
        company = bullets(
            [f"[[{page}]]" for page in sorted(self.pages) if page.startswith("Company/")]
        )
        self.pages["Procedures"] = f"# Procedures\n\n{procedures}"
        self.pages["Home"] = (
            "# Home\n\nWelcome to the wiki of Northfield.\n\n"
            f"## Company\n\n{company}\n\n## Teams\n\n{teams}\n\n"
            "## More\n\n- [[Products]]\n- [[Customers]]\n- [[Procedures]]\n- [[Servers]]\n\n"
            "Minutes of meetings are in the folder Meetings of the page index."
        )

    def _spoil(self) -> None:
        """Put typing mistakes into pages, and nonsense into others as their last change."""
        rng = self.rng
        mistakes: list[dict[str, str]] = []
        folders = ("Teams/", "Servers/", "Customers/")
        candidates = sorted(page for page in self.pages if page.startswith(folders))
        rng.shuffle(candidates)
        for page in candidates:
            text = self.pages[page]
            found = [(right, wrong) for right, wrong in _MISTAKES if text.count(right) == 1]
            if found and len(mistakes) < 14:
                right, wrong = rng.choice(found)
                self.pages[page] = text.replace(right, wrong)
                mistakes.append({"page": page, "wrong": wrong, "right": right})
        self.facts["mistakes"] = mistakes
        spoiled = []
        for name in rng.sample(_FUN, 8):
            page = f"Company/{name}"
            good = self.pages[page]
            bad = good + f"\n\n{rng.choice(_NONSENSE)}"
            author = rng.choice(self.names[1:37])
            self.pages[page] = bad
            self.older[page] = [(good, rng.choice(("hello", "my opinion", "test")))]
            spoiled.append({"page": page, "good": good, "author": author})
        self.facts["spoiled"] = spoiled

    def _history(self) -> list[dict[str, Any]]:
        """Return the revisions of all pages, in the order of time."""
        rng = self.rng
        authors = self.names[1:37]
        revisions = []
        nonsense = {one["page"]: one["author"] for one in self.facts["spoiled"]}
        for page, text in self.pages.items():
            texts = [*(older for older, _ in self.older.get(page, ())), text]
            messages = ["", *(message for _, message in self.older.get(page, ()))]
            first = _LAST - timedelta(days=rng.randint(200, 400), minutes=rng.randint(0, 480))
            if page.startswith("Meetings/"):
                day = datetime.fromisoformat(page[9:19]).replace(tzinfo=UTC)
                first = min(day, _LAST) + timedelta(
                    hours=rng.randint(10, 15), minutes=rng.randint(0, 59)
                )
            for number, (one, message) in enumerate(zip(texts, messages, strict=True)):
                when = (
                    first
                    if not number
                    else _LAST - timedelta(days=rng.randint(3, 150), minutes=rng.randint(0, 480))
                )
                last = number == len(texts) - 1
                author = nonsense.get(page, "") if last else ""
                revisions.append(
                    {
                        "author": author or rng.choice(authors),
                        "message": message or f"{page.rpartition('/')[2]} written",
                        "when": when.isoformat(),
                        "files": {page: one},
                        "page": page,
                    }
                )
        return sorted(revisions, key=lambda one: (str(one["when"]), str(one["page"])))


_SURNAMES = (
    "Abbott",
    "Bianchi",
    "Carlsen",
    "Dumont",
    "Ekberg",
    "Fischer",
    "Gallo",
    "Hopkins",
    "Iversen",
    "Jansen",
)
_STREETS = (
    "Mill Lane",
    "Canal Street",
    "Station Road",
    "Harbour Way",
    "Orchard Road",
    "Market Square",
)
_NONSENSE = (
    "THIS PAGE IS BORING!!! Who reads this???",
    "asdf asdf asdf asdf",
    "Free pizza for everybody who deletes this page :-)",
)
