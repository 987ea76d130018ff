"""The pages of Northfield's wiki and their history, as plain data."""

import random
import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import company

__all__ = ["make"]

_TOWNS = [one["town"] for one in company.COMPANY.sites]
"""Where servers stand."""
_LAST = date(2026, 2, 27)
_MEETINGS = 36
_PER_WEEK = 6
_NEAR = (
    ("Shop", "Design", "Logistics", "Finance", "People"),
    ("Systems", "IT", "Sales", "Support"),
)
"""Departments whose people sit in each other's meetings."""


def make(seed: int, people: Sequence[Any]) -> dict[str, Any]:
    """Return all pages, their history, the users, and what the pages say.

    Args:
        seed: Decides everything.
        people: All people; the first one uses the browser.
    """
    words = company.words(Path(__file__).parent, seed, "content.toml")
    return _Maker(random.Random(f"wiki {seed}"), people, words).make()


def table(*rows: Sequence[Any]) -> str:
    """Return a Markdown table; the first row is its head."""
    lines = [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])


def bullets(items: Sequence[str]) -> str:
    """Return a Markdown list."""
    return "\n".join(f"- {item}" for item in items)


class _Maker:
    """Writes the pages, one kind after another."""

    def __init__(self, rng: random.Random, people: Sequence[Any], words: Any) -> None:
        self.rng = rng
        self.words = words
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
        joined = [datetime.combine(one.joined, time(9, 10), UTC) for one in company.positions()]
        return [
            {
                "username": person.username,
                "name": person.name,
                "email": person.email,
                "approved": number < len(self.people) - 3,
                "admin": number == 0,
                "joined": max(start + timedelta(minutes=6 * number), joined[number]).isoformat(),
            }
            for number, person in enumerate(self.people)
        ]

    def _teams(self) -> None:
        rng = self.rng
        positions = company.positions()
        extensions = rng.sample(range(200, 699), len(self.names))
        teams = []
        for row in company.COMPANY.teams:
            name, what = row["name"], row["what"]
            own = [
                (self.names[number], positions[number])
                for number in range(1, 37)
                if positions[number].team == name
            ]
            members = [
                {
                    "name": member,
                    "role": position.title,
                    "room": self._room(position.site, row["floor"]),
                    "extension": str(extensions.pop()),
                }
                for member, position in own
            ]
            team = {
                "name": name,
                "page": f"Teams/{name}",
                "lead": own[0][0],
                "members": members,
                "day": rng.choice(self.words.days),
                "time": f"{rng.choice((9, 10, 11, 13, 14, 15))}:{rng.choice(('00', '15', '30'))}",
                "duty": rng.choice(own[1:])[0],
                "cost_centre": str(self._cost_centre(row["department"])),
                "what": what,
            }
            teams.append(team)
            self.pages[team["page"]] = self._team_page(team)
        self.facts["teams"] = teams

    def _of(self, *departments: str) -> list[str]:
        """Return the names of those who work in some departments."""
        rows = list(zip(self.names, company.positions(), strict=True))[1:37]
        return [name for name, position in rows if position.department in departments]

    def _room(self, site: str, floor: int) -> str:
        """Return a room for a desk at a site."""
        place = company.site(site)
        floor = floor if site == "dundee" else place["highest_floor"]
        return f"{floor}.{self.rng.randint(1, place['rooms_per_floor']):02}"

    @staticmethod
    def _cost_centre(department: str) -> int:
        found = (one for one in company.COMPANY.departments if one["name"] == department)
        return int(next(found)["cost_centre"])

    def _team_page(self, team: dict[str, Any]) -> str:
        note = self.words.notes[team["name"]]
        rows = [(m["name"], m["role"], m["room"], m["extension"]) for m in team["members"]]
        return (
            f"# {team['name']}\n\n"
            f"{team['what'][0].upper()}{team['what'][1:]}.\n\nLead: {team['lead']}\n\n"
            f"## Members\n\n{table(('Name', 'Role', 'Room', 'Extension'), *rows)}\n\n"
            f"## Meetings\n\n"
            f"Team meeting: {team['day']} {team['time']}\n\n"
            f"On duty this quarter: {team['duty']}\n\n"
            f"## Good to know\n\n{note}\n\n"
            f"Cost centre: {team['cost_centre']}"
        )

    def _servers(self) -> None:
        rng = self.rng
        servers = []
        hosts = rng.sample(range(11, 240), len(self.words.servers))
        for (name, what, note), host in zip(self.words.servers, hosts, strict=True):
            server = {
                "name": name,
                "page": f"Servers/{name}",
                "what": what,
                "city": rng.choice(_TOWNS),
                "address": f"10.20.{rng.randint(1, 9)}.{host}",
                "system": rng.choice(self.words.systems),
                "memory": rng.choice((16, 32, 48, 64, 96, 128)),
                "owner": rng.choice(self._of("IT", "Systems")),
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
                f"# {name}\n\nPurpose: {what}.\n\n"
                f"{table(('Property', 'Value'), *rows)}\n\n"
                f"## Notes\n\n"
                f"{note} See also [[Procedures/Backups]]."
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
        for row in company.COMPANY.software:
            name, team, what = row["name"], row["team"], row["what"]
            lead = next(t["lead"] for t in self.facts["teams"] if t["name"] == team)
            price = rng.randint(*row["price"])
            major = max(1, (2025 - row["since"]) // 3)  # None has the 4 of the main software.
            # Weeks lie between two releases: one month at least is left out.
            count = rng.randint(2, 5)
            months = [
                month + i for i, month in enumerate(sorted(rng.sample(range(1, 14 - count), count)))
            ]
            # 1.0 is of the year in which the product came out.
            first_minor = 2 * (2025 - row["since"]) if major == 1 else 0
            releases = [
                (f"{major}.{minor}", company.workday(rng, first, first + timedelta(25)).isoformat())
                for minor, first in enumerate((date(2025, m, 3) for m in months), first_minor)
            ]
            # The releases of the company's main software are told; others have their own.
            if name == company.COMPANY.software[0]["name"]:
                releases = [
                    (one["version"], one["date"].isoformat())
                    for one in company.COMPANY.releases
                    if one["version"].count(".") == 1 and one["date"] < company.COMPANY.today
                ]
            product = {
                "name": name,
                "page": f"Products/{name}",
                "team": team,
                "since": row["since"],
                "owner": rng.choice([n for n in self._of("Systems", "Sales") if n != lead]),
                "price": price,
                "old_price": price - rng.choice((3, 4, 5, 6)),
                "setup": rng.randint(4, 30) * 50,
                "limit": rng.choice((150, 200, 250, 300, 400, 500, 800)),
                "release": releases[-1][0],
                "released": releases[-1][1],
                "support_ends": f"20{rng.randint(27, 30)}-{rng.choice(('06-30', '12-31'))}",
            }
            products.append(product)
            head = (
                f"# {name}\n\n{what[0].upper()}{what[1:]}. {self.words.about[name]}\n\n## Facts\n\n"
            )
            tail = (
                f"## Releases\n\n{table(('Release', 'Date'), *releases)}\n\n"
                f"Support for {releases[0][0]} until {product['support_ends']}"
            )

            def facts(amount: int, product: dict[str, Any] = product) -> str:
                return bullets(
                    (
                        f"Team: [[{product['team']}|Teams/{product['team']}]]",
                        f"Product owner: {product['owner']}",
                        f"First release: {product['since']}",
                        f"Price per user per month: {amount} pounds",
                        f"Setup fee: {product['setup']} pounds",
                        f"Maximum users per site: {product['limit']}",
                    )
                )

            self.pages[product["page"]] = f"{head}{facts(price)}\n\n{tail}"
            self.older[product["page"]] = [
                (f"{head}{facts(product['old_price'])}\n\n{tail}", "New price for 2026"),
            ]
        self.facts["products"] = products
        listed = [(f"[[{p['name']}|{p['page']}]]", p["team"], p["release"]) for p in products]
        self.pages["Products"] = (
            "# Products\n\nWhat we sell. Each product counts its own releases; the versions in the "
            "tracker are those of Northfield Warehouse.\n\n"
            + table(("Product", "Team", "Current release"), *listed)
        )

    def _customers(self) -> None:
        rng = self.rng
        customers = []
        rows = company.COMPANY.customers
        numbers = rng.sample(range(3000, 9000), len(rows))
        surnames = rng.sample(self.words.surnames, len(rows))
        months = [(year, month) for year in range(2026, 2030) for month in range(4, 13)]
        ends = [
            f"{year}-{month:02}-{monthrange(year, month)[1]}"
            for year, month in rng.sample(months, len(rows))
        ]
        others = [one["name"] for one in company.COMPANY.software[1:]]
        for row, number, surname in zip(rows, numbers, surnames, strict=True):
            name, sells, sites = row["name"], row["sells"], row["sites"]
            note = self.words.customer_notes[name]
            # Who is said to use a product has bought it.
            used = [one for one in others if one in note]
            bought = sorted({*used, *rng.sample(others, rng.randint(1, 4))})
            customer = {
                "name": name,
                "page": f"Customers/{name}",
                "sells": sells,
                "contact": f"{rng.choice(('Ms', 'Mr'))} {surname}",
                "contract": f"NC-{number}",
                "ends": ends.pop(),
                "hours": rng.choice((2, 4, 8, 24)),
                "manager": rng.choice(self._of("Sales", "Support")),
                "users": [rng.randint(8, 140) for _ in sites],
                "sites": list(sites),
                "products": ["Northfield Warehouse", *bought],
            }
            customers.append(customer)
            users = list(zip(sites, customer["users"], strict=True))
            head = f"# {name}\n\n{note}\n\n## Contract\n\n"
            tail = (
                f"\n\n## Sites\n\n{table(('Site', 'Users'), *users)}\n\n"
                f"## Products\n\n{bullets([f'[[Products/{p}]]' for p in customer['products']])}"
            )
            parts = (
                f"Number: {customer['contract']}",
                f"Customer since: {row['since']}",
                f"Runs until: {customer['ends']}",
                f"Contact: {customer['contact']}",
                f"Looked after by: {customer['manager']}",
                f"Response time for blockers: {customer['hours']} hours",
            )
            self.pages[customer["page"]] = f"{head}{bullets(parts)}{tail}"
            self.older[customer["page"]] = [
                (f"{head}{bullets(parts[:-1])}{tail}", "Response time added"),
            ]
        self.facts["customers"] = customers
        listed = [(f"[[{c['page']}]]", c["sells"]) for c in customers]
        self.pages["Customers"] = "# Customers\n\n" + table(("Customer", "Sells"), *listed)

    def _procedures(self) -> None:
        rng = self.rng
        procedures = []
        for name, team, about, steps in self.words.procedures:
            members = next(t["members"] for t in self.facts["teams"] if t["name"] == team)
            procedure = {
                "name": name,
                "page": f"Procedures/{name}",
                "team": team,
                "owner": rng.choice(members)["name"],
                "reviewed": company.workday(rng, date(2025, 1, 8), date(2025, 12, 19)).isoformat(),
                "steps": [re.sub(r"\{([^}]+)\}", self._number, step) for step in steps],
            }
            procedures.append(procedure)
            listed = "\n".join(f"{i}. {step}" for i, step in enumerate(procedure["steps"], 1))
            head = (
                f"# {name}\n\nResponsible: {procedure['owner']} "
                f"([[{team}|Teams/{team}]])\n\n"
                f"Last reviewed: {procedure['reviewed']}\n\n## Steps\n\n"
            )
            tail = f"\n\n## Good to know\n\n{about}"
            self.pages[procedure["page"]] = f"{head}{listed}{tail}"
            shorter = "\n".join(listed.splitlines()[:-1])
            self.older[procedure["page"]] = [(f"{head}{shorter}{tail}", "Last step added")]
        self.facts["procedures"] = procedures

    def _number(self, gap: re.Match[str]) -> str:
        return self.rng.choice(str(gap[1]).split("|"))

    def _meetings(self) -> None:
        rng = self.rng
        teams = rng.sample(self.facts["teams"], len(self.facts["teams"]))
        meetings, begun = [], datetime(2026, 1, 19, tzinfo=UTC)
        for number in range(_MEETINGS):
            # Each team in turn, so that nobody meets twice in a week.
            team, turn = teams[number % len(teams)], number // len(teams)
            first = begun + timedelta(days=self.words.days.index(team["day"]))
            day, coming = (
                first + timedelta(weeks=one // _PER_WEEK) for one in (number, number + len(teams))
            )
            meetings.append(self._meeting(team, day, coming, turn))
        self.facts["meetings"] = sorted(meetings, key=lambda meeting: str(meeting["page"]))

    def _meeting(
        self,
        team: dict[str, Any],
        day: datetime,
        coming: datetime,
        turn: int,
    ) -> dict[str, Any]:
        """Return a team's meeting; each turn has its own topic."""
        rng = self.rng
        name = team["name"]
        members = [member["name"] for member in team["members"]]
        topic, decisions, points = self.words.minutes[name][turn]
        clerk = rng.choice(members)
        department = next(t["department"] for t in company.COMPANY.teams if t["name"] == name)
        near = next(group for group in _NEAR if department in group)
        outside = [one for one in self._of(*near) if one not in members]
        guests = rng.sample(outside, rng.choice((0, 0, 0, 1, 1, 2)))
        own = [
            clerk,
            *rng.sample([m for m in members if m != clerk], rng.randint(1, len(members) - 1)),
        ]
        # Guests take nothing home, and no clerk does it all.
        doers = rng.sample(own * (len(points) // len(own) + 1), len(points))
        if len(doers) > 1 and {*doers} == {clerk}:
            doers[rng.randrange(len(doers))] = own[1]
        meeting: dict[str, Any] = {
            "page": f"Meetings/{day:%Y-%m-%d} {name}",
            "team": name,
            "date": f"{day:%Y-%m-%d}",
            "topic": topic,
            "minutes": clerk,
            "present": sorted({*own, *guests}),
            "decisions": list(decisions),
            "next": f"{coming:%Y-%m-%d}",
            "points": [
                {"name": doer, "what": what, "done": rng.random() < 0.4}
                for doer, what in zip(doers, points, strict=True)
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
            f"## Next meeting\n\n{meeting['next']}, {team['time']}"
        )
        return meeting

    def _company(self) -> None:
        rng = self.rng
        rows = [
            (one["town"], one["street"], one["what"], one["people"], one["phone"])
            for one in company.COMPANY.sites
        ]
        self.pages["Company/Sites"] = (
            f"# Sites\n\nThe offices are open from {company.COMPANY.hours['office']}, the "
            f"distribution centre from {company.COMPANY.hours['distribution_centre']}.\n\n"
            + table(("Town", "Street", "What it is", "People", "Phone"), *rows)
        )
        chosen = sorted(rng.sample(sorted(self.words.glossary), 9))
        self.facts["glossary"] = {word: self.words.glossary[word] for word in chosen}
        self.facts["not_in_glossary"] = {
            w: t for w, t in self.words.glossary.items() if w not in chosen
        }
        self.pages["Company/Glossary"] = "# Glossary\n\n" + table(
            ("Short", "Meaning"), *((word, self.words.glossary[word]) for word in chosen)
        )
        year = date(company.COMPANY.today.year, 1, 1)
        holidays = [
            (max(one["date"], year).isoformat(), one["what"])
            for one in company.COMPANY.calendar
            if one["kind"] == "holiday" and one["date"].year <= year.year
            if one.get("until", one["date"]) >= year
        ]
        self.pages["Company/Holidays 2026"] = (
            "# Holidays 2026\n\nDays on which our offices are closed. Ghent has the Belgian ones "
            "as well, and Leeds a plan of its own for the weeks before Christmas.\n\n"
            + table(("Date", "Holiday"), *holidays)
        )
        told = bullets([f"{one['date'].year}: {one['what']}" for one in company.COMPANY.history])
        self.pages["Company/About Northfield"] = (
            f"# About Northfield\n\n{company.COMPANY.about.strip()}\n\n## History\n\n{told}\n\n"
            "See also [[Products]], [[Customers]] and [[Company/Sites]]."
        )
        for name, about, rules in self.words.fun:
            host, asked = rng.choice(self.names[1:37]), rng.choice(self.words.contact)
            self.pages[f"Company/{name}"] = (
                f"# {name}\n\n{about}\n\n{asked.format(host)}\n\n## Rules\n\n{bullets(rules)}"
            )
        teams = bullets([f"[[{t['name']}|{t['page']}]]" for t in self.facts["teams"]])
        procedures = bullets([f"[[{p['name']}|{p['page']}]]" for p in self.facts["procedures"]])
        listed = bullets(
            [f"[[{page}]]" for page in sorted(self.pages) if page.startswith("Company/")]
        )
        self.pages["Procedures"] = f"# Procedures\n\n{procedures}"
        self.pages["Home"] = (
            "# Home\n\nWelcome to the wiki of Northfield.\n\n"
            f"## Company\n\n{listed}\n\n## Teams\n\n{teams}\n\n"
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
            made = {mistake["wrong"] for mistake in mistakes}
            found = [
                (right, wrong)
                for right, wrong in self.words.mistakes
                if text.count(right) == 1 and wrong not in made
            ]
            if found and len(mistakes) < 10:
                right, wrong = rng.choice(found)
                self.pages[page] = text.replace(right, wrong)
                mistakes.append({"page": page, "wrong": wrong, "right": right})
        self.facts["mistakes"] = mistakes
        spoiled = []
        nonsense = rng.sample(self.words.nonsense, 8)
        careless = rng.sample(self.words.careless, 8)
        fun = rng.sample(self.words.fun, 8)
        for (name, _, _), added, message in zip(fun, nonsense, careless, strict=True):
            page = f"Company/{name}"
            good = self.pages[page]
            bad = good + f"\n\n{added}"
            author = rng.choice(self.names[1:37])
            self.pages[page] = bad
            self.older[page] = [(good, message)]
            spoiled.append({"page": page, "good": good, "author": author})
        self.facts["spoiled"] = spoiled

    def _history(self) -> list[dict[str, Any]]:
        """Return the revisions of all pages, in the order of time."""
        rng = self.rng
        authors = self.names[1:37]
        revisions = []
        nonsense = {one["page"]: one["author"] for one in self.facts["spoiled"]}
        clerks = {one["page"]: one["minutes"] for one in self.facts["meetings"]}
        for page, text in self.pages.items():
            texts = [*(older for older, _ in self.older.get(page, ())), text]
            messages = ["", *(message for _, message in self.older.get(page, ()))]
            first = company.moment(rng, _LAST - timedelta(400), _LAST - timedelta(200))
            if page.startswith("Meetings/"):
                held = date.fromisoformat(page[9:19])
                first = company.moment(rng, min(held, _LAST), min(held, _LAST))
            for number, (one, message) in enumerate(zip(texts, messages, strict=True)):
                when = (
                    first
                    if not number
                    else company.moment(rng, _LAST - timedelta(150), _LAST - timedelta(3))
                )
                last = number == len(texts) - 1
                author = nonsense.get(page, "") if last else ""
                revisions.append(
                    {
                        "author": author or clerks.get(page) or rng.choice(authors),
                        "message": message
                        or (
                            "Minutes"
                            if page.startswith("Meetings/")
                            else rng.choice(self.words.begun)
                        ),
                        "when": when.isoformat(),
                        "files": {page: one},
                        "page": page,
                    }
                )
        return sorted(revisions, key=lambda one: (str(one["when"]), str(one["page"])))
