"""What the worlds' texts are made of, read without servers: one company, told once."""

import email
import email.policy
import importlib.util
import itertools
import re
import sys
import tomllib
from collections import Counter
from datetime import date, datetime
from pathlib import Path

import pytest

import webtraj_apps
from webtraj_apps import company
from webtraj_apps.company import COMPANY, HELD_OUT, positions
from webtraj_apps.people import people

FOLDER = Path(webtraj_apps.__file__).parent
SEEDS = range(4)
ADDRESS = re.compile(r"\b\d+ [A-Z][a-z]+ (?:Road|Street|Lane|Way|Square)\b")
SYSTEM = re.compile(r"\bNorthfield ([A-Z][a-z]+)")
NOT_SOFTWARE = {"Home", "Systems", "Guest", "Office", "Forum", "Shop", "Tracker", "Wiki"}


def load(app):
    """Import the module of an application's content as its host does."""
    sys.path.insert(0, str(FOLDER))
    try:
        file = FOLDER / app / "content.py"
        spec = importlib.util.spec_from_file_location(f"content_of_{app}", file)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FOLDER))


def intranet(seed):
    words = vars(company.words(FOLDER / "cms", seed, "content.toml"))
    for kind in ("articles", "events", "archive", "policies", "jobs"):
        for row in words[kind]:
            yield "title", row["title"], row.get("date")
            yield "summary", row["summary"], None
            yield from (("paragraph", text, None) for text in row.get("body", ()))
    yield from (("addition", text, None) for text in words["additions"])


def tracker(seed):
    for ticket in load("tracker").make(seed, people(seed), company, load("helpdesk").voices.say)[
        "tickets"
    ]:
        yield "summary", ticket["summary"], None
        yield "description", ticket["description"], ticket["created"]
        for event in ticket["events"]:
            yield "comment", event["comment"], event["when"]


def wiki(seed):
    made = load("wiki").make(seed, people(seed))
    yield from (("page", text, None) for text in made["pages"].values())
    for meeting in made["meetings"]:
        yield from (("decision", text, None) for text in meeting["decisions"])
        yield from (("point", point["what"], None) for point in meeting["points"])
    yield from (("change", "", one["when"]) for one in made["revisions"])


def mail(seed):
    writer = load("mail").Writer(people(seed), seed)
    writer.write()
    yield from (("mail", one.text, one.date) for one in writer.mails)


def budget(seed):
    made = load("budget").projects(seed, [person.first for person in people(seed)])
    for project in made:
        yield from ((project.id, bill.what, None) for bill in project.bills)


def helpdesk(seed):
    content = load("helpdesk")
    for ticket in content.tickets(seed):
        yield "title", ticket["title"], None
        yield "text", ticket["text"], None if ticket["sender"] is None else ticket["created"]
        for turn in ticket["said"]:
            yield "turn", turn["text"], None if turn["by"] is None else turn["date"]


def forum(seed):
    content = load("forum")
    for threads in content.threads(seed, [person.name for person in people(seed)]):
        for thread in threads:
            yield "title", thread.title, None
            yield from (("comment", one.text, one.date) for one in thread.comments)


def shop(seed):
    for rows in company.words(FOLDER / "shop", seed, "reviews.toml").reviews.values():
        yield from (("title", row[1], None) for row in rows)
        yield from (("review", row[2], None) for row in rows)
    words = tomllib.loads((FOLDER / "shop/catalogue.toml").read_text("utf-8"))
    for leaves in words["departments"].values():
        yield from (("thing", one["text"], None) for leaf in leaves for one in leaf["things"])


APPS = {
    "budget": budget,
    "cms": intranet,
    "forum": forum,
    "helpdesk": helpdesk,
    "mail": mail,
    "shop": shop,
    "tracker": tracker,
    "wiki": wiki,
}


@pytest.mark.parametrize("app", APPS)
def test_nobody_says_twice_what_a_person_would_say_once(app):
    for seed in SEEDS:
        said = Counter((kind, text) for kind, text, _ in APPS[app](seed) if text)
        assert not [text for text, times in said.items() if times > 1], seed


@pytest.mark.parametrize("app", APPS)
def test_the_held_out_content_has_texts_of_its_own(app):
    usual = {
        (kind, text) for seed in SEEDS if seed != HELD_OUT for kind, text, _ in APPS[app](seed)
    }
    own = {(kind, text) for kind, text, _ in APPS[app](HELD_OUT) if text and kind != "thing"}
    same = {one for one in own & usual if len(one[1].split()) > 4}
    assert len(same) < 0.12 * len(own), sorted(same)[:9]


@pytest.mark.parametrize(
    ("manner", "written"),
    [
        ("plain", "Yes, it's the dock in Juniper. I've not tried 4.3, but we can't wait! Thanks."),
        ("brief", "Yes, it's the dock in Juniper. I've not tried 4.3, but we can't wait. Thanks"),
        ("lower", "yep, it's the dock in Juniper. i've not tried 4.3, but we can't wait. thanks"),
        (
            "formal",
            "Yes, it is the dock in Juniper. I have not tried 4.3, but we cannot wait. Thank you.",
        ),
        ("broad", "Aye, it's the dock in Juniper. I've not tried 4.3, but we can't wait. Ta."),
    ],
)
def test_each_person_writes_in_their_own_way(manner, written):
    text = "Yes, it's the dock in Juniper. I've not tried 4.3, but we can't wait! Thanks."
    number = [one["manner"] for one in COMPANY.positions].index(manner)
    assert load("helpdesk").voices.say(number, text) == written


def test_a_manner_changes_neither_numbers_nor_names():
    say = load("helpdesk").voices.say
    kept = re.compile(r"\d[\d.,:]*\d|\b[A-Z]{2,}\b|\b(?:Dundee|Leeds|Ghent|Merlin|Monday)\b")
    texts = sorted({text for app in APPS for _, text, _ in APPS[app](HELD_OUT)})[::16]
    manners = [one["manner"] for one in COMPANY.positions]
    for number in map(manners.index, COMPANY.manners):
        for text in texts:
            assert kept.findall(say(number, text)) == kept.findall(text)


def test_an_object_before_a_verb_is_not_contracted_with_it():
    number = [one["manner"] for one in COMPANY.positions].index("brief")
    text = "All that I know about it is on the page, and what hangs on that is below"
    assert load("helpdesk").voices.say(number, text) == text


def test_a_question_stays_a_question_when_contractions_are_written_out():
    number = [one["manner"] for one in COMPANY.positions].index("formal")
    say = load("helpdesk").voices.say
    for text in (
        "Isn't it the cable?",
        "Why don't you ask?",
        "It's gone, isn't it?",
        "It's been off.",
    ):
        assert say(number, text) == text


def test_nobody_reports_on_a_month_before_it_ends():
    for seed in SEEDS:
        writer = load("mail").Writer(people(seed), seed)
        writer.write()
        reports = [one for one in writer.mails if one.folder == "Archive" and one.attachments]
        assert len(reports) == 20
        for one in reports:
            month = datetime.strptime(one.attachments[0][-11:-4], "%Y-%m")
            assert (one.date.year, one.date.month) > (month.year, month.month), one.subject


def test_colleagues_post_about_work_on_working_days_and_have_a_place_in_one_car_pool():
    for seed in SEEDS:
        rides = Counter()
        for thread in load("forum").threads(seed, [person.name for person in people(seed)])[0]:
            said = [one for one in thread.comments if not one.spam]
            if thread.category in ("Hardware", "Software", "Network", "Ideas", "Projects"):
                assert all(one.date.weekday() < 5 for one in said), thread.title
            if thread.category == "Commuting":
                rides.update({one.author for one in said})
        assert set(rides.values()) == {1}


def test_nobody_is_on_two_trips_at_once_or_invites_themselves():
    for seed in SEEDS:
        writer = load("mail").Writer(people(seed), seed)
        writer.write()
        trips = sorted((one["there"], one["back"]) for one in writer.facts["trips"])
        assert all(back < there for (_, back), (there, _) in itertools.pairwise(trips))
        for meeting in writer.facts["meetings"]:
            assert meeting["email"] not in meeting["guests"]
            assert len(set(meeting["guests"])) == 3


def test_minutes_are_taken_by_somebody_present_and_name_the_next_meeting():
    for seed in SEEDS:
        meetings = load("wiki").make(seed, people(seed))["meetings"]
        for one in meetings:
            assert one["minutes"] in one["present"]
            later = [m["date"] for m in meetings if m["team"] == one["team"]]
            assert one["next"] == min((d for d in later if d > one["date"]), default=one["next"])


def test_a_trip_has_one_dinner_a_day_and_contracts_are_paid_on_one_day_by_one_member():
    for seed in SEEDS:
        made = load("budget").projects(seed, [person.first for person in people(seed)])
        for project in made:
            dinners = Counter(one.day for one in project.bills if one.what.startswith("Dinner"))
            assert max(dinners.values(), default=1) == 1
            paid = [one for one in project.bills if one.what.startswith("Internet")]
            assert len({(one.day.day, one.payer, one.amount) for one in paid}) <= 1


def test_who_takes_milk_takes_it_each_month_and_whoever_left_shares_nothing_more():
    for seed in SEEDS:
        made = load("budget").projects(seed, [person.first for person in people(seed)])
        for project in made:
            left = {one.name: one.left for one in project.members if one.left}
            for bill in project.bills:
                sharing = {bill.payer, *bill.owers}
                assert not [name for name in sharing if name in left and bill.day >= left[name]]
            milk = [set(one.owers) for one in project.bills if one.what.startswith("Milk ")]
            assert len({frozenset(owers - left.keys()) for owers in milk}) <= 1


def test_who_is_on_a_trip_shares_no_other_bill_of_those_days_but_the_standing_ones():
    for seed in SEEDS:
        budget = load("budget")
        made = budget.projects(seed, [person.first for person in people(seed)])
        words = budget.company.words(FOLDER / "budget", seed, "content.toml")
        monthly = tuple(what for what, *_ in words.flat["monthly"])
        for trip in (one for one in made if one.name.startswith(("Autumn week", "Holidays near"))):
            days = {bill.day for bill in trip.bills if not bill.reimbursement}
            away = {one.name for one in trip.members}
            for project in (one for one in made if one is not trip):
                for bill in project.bills:
                    standing = bill.what.startswith(monthly)
                    if min(days) <= bill.day <= max(days) and not standing:
                        assert not away & {bill.payer, *bill.owers}, bill


def test_each_member_notes_repayments_in_one_way_and_pays_no_more_than_they_owe():
    for seed in SEEDS:
        made = load("budget").projects(seed, [person.first for person in people(seed)])
        for project in made:
            weights = {one.name: one.weight for one in project.members}
            owed, forms = dict.fromkeys(weights, 0.0), {}
            for bill in project.bills:
                if bill.reimbursement:
                    assert bill.amount <= min(-owed[bill.payer], owed[bill.owers[0]]) + 0.01
                    form = bill.what.replace(bill.owers[0], "").replace(f"{bill.day:%b}", "")
                    assert forms.setdefault(bill.payer, form) == form
                owed[bill.payer] += bill.amount
                shares = sum(weights[name] for name in bill.owers)
                for name in bill.owers:
                    owed[name] -= bill.amount * weights[name] / shares


def test_whoever_leaves_a_budget_has_settled():
    for seed in SEEDS:
        for project in load("budget").projects(seed, [person.first for person in people(seed)]):
            owed = dict.fromkeys((one.name for one in project.members), 0.0)
            weights = {one.name: one.weight for one in project.members}
            for bill in project.bills:
                owed[bill.payer] += bill.amount
                shares = sum(weights[name] for name in bill.owers)
                for name in bill.owers:
                    owed[name] -= bill.amount * weights[name] / shares
            assert all(abs(owed[one.name]) < 0.1 for one in project.members if one.left)


def test_bills_are_shared_by_two_at_least_and_the_coffee_fund_rests_while_the_office_is_closed():
    for seed in SEEDS:
        for project in load("budget").projects(seed, [person.first for person in people(seed)]):
            for bill in (one for one in project.bills if not one.reimbursement):
                assert len(bill.owers) > 1, bill
                closed = date(2025, 12, 24) <= bill.day <= date(2026, 1, 2)
                assert not (project.id.startswith("coffee") and closed), bill


def test_an_attached_file_has_the_bytes_that_such_a_file_has():
    for seed in SEEDS:
        writer = load("mail").Writer(people(seed), seed)
        writer.write()
        for one in writer.mails:
            message = email.message_from_bytes(one.raw(), policy=email.policy.default)
            files = {part.get_filename(): part for part in message.iter_attachments()}
            assert list(files) == list(one.attachments)
            for name, part in files.items():
                data = part.get_payload(decode=True)
                assert 3_000 < len(data) < 60_000, name
                assert data.startswith(b"%PDF-") == name.endswith(".pdf")


def test_a_priority_and_an_end_follow_from_what_a_ticket_tells():
    content = load("tracker")
    for seed in SEEDS:
        made = content.make(seed, people(seed), company, load("helpdesk").voices.say)
        for ticket in made["tickets"]:
            told = f"{ticket['summary']} {ticket['description']}"
            if ticket["type"] == "defect" and re.search(content.WORDS.serious, told):
                assert ticket["first"]["priority"] in ("blocker", "critical", "major"), told
            assert ticket["reporter"] not in ticket["cc"].split(", "), ticket["summary"]
            assert ticket["resolution"] != "duplicate"


def test_a_tickets_version_customer_and_end_fit_its_text():
    content = load("tracker")
    known = {one["name"] for one in COMPANY.customers}
    assert {name for names in content.WORDS.only.values() for name in names} <= known
    completed = {name: day for name, _, day, _ in content.WORDS.milestones if day}
    for seed in SEEDS:
        words = company.words(FOLDER / "tracker", seed, "content.toml")
        units = {unit[2]: unit for units in words.units.values() for unit in units}
        assert {*words.ends} <= {*units}
        assert {summary for summary, unit in units.items() if unit[0] == "task"} <= {*words.ends}
        made = content.make(seed, people(seed), company, load("helpdesk").voices.say)
        for ticket in made["tickets"]:
            unit = units[ticket["summary"]]
            told = " ".join((*unit[2:4], *unit[4]))
            named = re.findall(r"\b4\.\d\b", told)
            assert not ticket["version"] or ticket["version"] >= max(named, default=""), told
            for has, names in content.WORDS.only.items():
                if ticket["customer"] and re.search(has, told):
                    assert ticket["customer"] in names, told
            for event in ticket["events"]:
                assert ".." not in event["comment"], told
                milestone = event["new"].get("milestone", "")
                assert event["when"][:10] <= completed.get(milestone, event["when"]), told


def test_the_wiki_contradicts_itself_in_no_number_product_or_role():
    for seed in SEEDS:
        made = load("wiki").make(seed, people(seed))
        for page, text in made["pages"].items():
            assert not re.search(r"\b1 (?:minute|hour|day|week|month|piece)s\b", text), page
        limits = {one["name"]: one["limit"] for one in made["products"]}
        for customer in made["customers"]:
            note = made["pages"][customer["page"]].partition("## ")[0]
            assert {name for name in limits if name in note} <= {*customer["products"]}
            assert max(customer["users"]) <= min(limits[name] for name in customer["products"])
        members = {
            one["name"]: {member["name"] for member in one["members"]} for one in made["teams"]
        }
        for meeting in made["meetings"]:
            assert {one["name"] for one in meeting["points"]} <= members[meeting["team"]]
        wrong = [one["wrong"] for one in made["mistakes"]]
        assert len(wrong) == len({*wrong})


def test_builds_count_up_and_work_takes_as_many_days_as_it_needs():
    content = load("tracker")
    for seed in SEEDS:
        made = content.make(seed, people(seed), company, load("helpdesk").voices.say)
        builds = []
        for ticket in made["tickets"]:
            moments = [ticket["created"], *(one["when"] for one in ticket["events"])]
            ends = [n for n, one in enumerate(ticket["events"]) if "closed" in one["new"].values()]
            for at in ends[:1]:
                took = datetime.fromisoformat(moments[at + 1]) - datetime.fromisoformat(moments[at])
                assert took.days + 1 >= int(ticket["estimate"]) // 8, ticket["summary"]
                if ticket["build"]:
                    builds.append((moments[at + 1], [*map(int, ticket["build"].split("."))]))
        numbers = [build for _, build in sorted(builds)]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("app", ["helpdesk", "tracker", "wiki", "mail"])
def test_people_write_when_they_work(app):
    moments = [
        when if isinstance(when, datetime) else datetime.fromisoformat(when)
        for seed in SEEDS
        for _, _, when in APPS[app](seed)
        if when
    ]
    working = [one for one in moments if one.weekday() < 5 and 7 <= one.hour < 19]
    assert len(working) > 0.92 * len(moments)
    assert not [one for one in moments if not 6 <= one.hour < 23]
    hours = Counter(one.hour for one in working)
    assert max(hours.values()) < 0.3 * len(working), "most is written in a single hour"


def test_members_of_the_forum_write_at_work_and_in_the_evening_but_not_at_night():
    hours = Counter(when.hour for seed in SEEDS for _, _, when in forum(seed) if when)
    assert not [hour for hour in hours if not 6 <= hour < 23]
    evening = sum(hours[hour] for hour in range(18, 23)) / hours.total()
    assert 0.05 < evening < 0.25


def test_an_answer_comes_after_its_question_and_before_the_world_begins():
    for seed in SEEDS:
        for ticket in load("helpdesk").tickets(seed):
            moments = [ticket["created"], *(turn["date"] for turn in ticket["said"])]
            assert moments == sorted(moments), ticket["title"]
            assert moments[-1] < company.NOW, ticket["title"]
        for thread in load("forum").threads(seed, [person.name for person in people(seed)])[0]:
            moments = [one.date for one in thread.comments]
            assert moments == sorted(moments), thread.title
            assert moments[-1] < company.NOW, thread.title


def test_tickets_name_days_by_slots_that_are_reckoned_from_the_ticket():
    fixed = re.compile(
        r"\b(?:Mon|Tues|Wednes|Thurs|Fri)day\b|\bthe \d+(?:st|nd|rd|th)\b|\byesterday"
    )
    for seed in SEEDS:
        for unit in load("helpdesk").words(seed).tickets:
            turns = [turn[1] for turn in unit["turns"]]
            told = [unit["title"], unit["text"], unit["end"], *unit.get("again", ()), *turns]
            assert "span" in unit or not [text for text in told if fixed.search(text)]


def test_a_ticket_ends_on_the_last_day_that_it_names_and_waits_only_for_older_ones():
    content = load("helpdesk")
    for seed in SEEDS:
        units = {unit["title"]: unit for unit in content.words(seed).tickets}
        made = content.tickets(seed)
        created = {ticket["unit"]: ticket["created"] for ticket in made}
        for ticket in made:
            assert not ticket["needs"] or created[ticket["needs"]] < ticket["created"]
            if ticket["status"] != content.OPEN:
                turns = " ".join(turn[1] for turn in units[ticket["unit"]]["turns"])
                days = [int(count) for count in re.findall(r"\{d(\d+)\}", turns)]
                last = content.working_day(ticket["created"].date(), max(days, default=0))
                assert ticket["said"][-1]["date"].date() >= last, ticket["title"]


@pytest.mark.parametrize("app", APPS)
def test_names_and_addresses_are_those_of_the_company(app):
    streets = {f"{one['address']} " for one in COMPANY.sites} | {
        one["what"] for one in COMPANY.history
    }
    known = {address for street in streets for address in ADDRESS.findall(street)}
    software = {one["name"].removeprefix("Northfield ") for one in COMPANY.software} | NOT_SOFTWARE
    texts = [text for seed in SEEDS for _, text, _ in APPS[app](seed)]
    assert {found for text in texts for found in ADDRESS.findall(text)} <= known
    assert {found for text in texts for found in SYSTEM.findall(text)} <= software


def test_what_takes_place_takes_place_at_the_companys_sites():
    for seed in SEEDS:
        takes_place(vars(company.words(FOLDER / "cms", seed, "content.toml")))


def test_no_article_of_the_intranet_names_its_author_as_somebody_else():
    for seed in SEEDS:
        for row in company.words(FOLDER / "cms", seed, "content.toml").articles:
            said = " ".join((row["title"], row["summary"], *row["body"]))
            assert f"{{n{row['author']}}}" not in said, row["title"]


def takes_place(words):
    """Check the places and seats of an intranet's events, and its jobs."""
    rooms = {room["name"]: room["seats"] for room in COMPANY.rooms}
    places = {(one["name"].lower(), one["town"]) for one in COMPANY.workshops}
    for site in COMPANY.sites:
        named = (*site["has"], *site["gates"], *site["floors"], site["what"])
        places |= {(name, site["town"]) for name in named}
    for event in (*words["events"], *words["archive"]):
        place, _, town = event["place"].rpartition(", ")
        if place not in rooms:
            assert (place.lower(), town) in places, event["place"]
        else:
            assert town == "Dundee"
            assert event["seats"][1] <= rooms[place], event["title"]
    assert {job["site"] for job in words["jobs"]} <= {one["key"] for one in COMPANY.sites}
    departments = {one["name"].lower() for one in COMPANY.departments}
    assert {job["department"] for job in words["jobs"]} <= departments


def test_the_company_is_consistent():
    teams = {one["name"]: one["department"] for one in COMPANY.teams}
    held = positions()
    assert len(held) == len(people(0))
    assert all(held[one["lead"]].department == one["name"] for one in COMPANY.departments)
    assert set(teams.values()) == {one["name"] for one in COMPANY.departments}
    opened = {one["key"]: one["since"] for one in COMPANY.sites}
    assert all(opened[one.site] <= one.joined.year for one in held)
    assert all(one.joined <= COMPANY.today and one.joined.weekday() < 5 for one in held)
    assert all(one["team"] in teams for one in COMPANY.software)
    assert [one["date"] for one in COMPANY.history] == sorted(
        one["date"] for one in COMPANY.history
    )


def test_products_are_titles_of_the_catalogue_and_made_by_a_workshop():
    words = tomllib.loads((FOLDER / "shop/catalogue.toml").read_text("utf-8"))
    leaves = {leaf["name"]: leaf for rows in words["departments"].values() for leaf in rows}
    since = {one["name"]: one["since"] for one in COMPANY.workshops}
    for product in COMPANY.products:
        leaf = leaves[product["category"]]
        series, _, rest = product["title"].partition(" ")
        assert series in words["series"]
        assert rest in {
            f"{made} {thing['name']}"
            for thing in leaf["things"]
            for made in thing.get("materials", leaf["materials"])
        }
        assert since[product["workshop"]] <= product["since"]
