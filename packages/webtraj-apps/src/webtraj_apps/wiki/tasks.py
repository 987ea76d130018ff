"""Tasks in the wiki.

Functions named like `change_page` return the steps of an oracle together with the changes that
they make.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from webtraj.environments.browser.oracles import Step, click, fill, press
from webtraj_apps.company import COMPANY
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Parts,
    Row,
    Steps,
    added,
    anything,
    assign,
    changed,
    find,
    find_best,
    join_names,
    other_than,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="user")

COMMITS = (added("commit"),)
"""Every change of a page makes a commit. Only tasks that ask for a message check it."""

edit_task = functools.partial(task, allow=COMMITS)
"""Register a template that changes pages."""


# Pages and their texts.


def _reads(text: str) -> Callable[[Any], bool]:
    """Test that a page has this text, except for blank lines, spaces and the case of ticks."""

    def lines(given: str) -> list[str]:
        squeezed = (re.sub(r"\s*\|\s*", "|", re.sub(r"\s+", " ", s)) for s in given.splitlines())
        return [line.strip().replace("[X]", "[x]") for line in squeezed if line.strip()]

    wanted = lines(text)
    return lambda value: lines(value) == wanted


def _table_row(*cells: object) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def _seat_row(member: Row, **new: str) -> str:
    """Return a member's row in the table of a team."""
    seat = {**member, **new}
    return _table_row(*(seat[name] for name in ("name", "role", "room", "extension")))


def _line(point: Row) -> str:
    """Return a point as the minutes write it, without its box."""
    return f"{point['name']}: {point['what']}"


def _find_open_points(meeting: Row) -> list[dict[str, Any]]:
    return [point for point in meeting["points"] if not point["done"]]


def draw_open_points(
    facts: Facts, rng: random.Random, least: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw a meeting with enough open points, all worded differently. Return it and them."""
    while True:
        meeting = rng.choice(facts["meetings"])
        points = _find_open_points(meeting)
        words = {point["what"] for point in meeting["points"]}
        if len(points) >= least and len(words) == len(meeting["points"]):
            return meeting, points


def _revisions(facts: Facts, page: str) -> list[dict[str, Any]]:
    """Return the revisions of a page, oldest first."""
    return [one for one in facts["revisions"] if one["page"] == page]


def _meetings(facts: Facts, team: Row) -> list[dict[str, Any]]:
    return [meeting for meeting in facts["meetings"] if meeting["team"] == team["name"]]


def _colleagues(facts: Facts) -> list[str]:
    return [member["name"] for team in facts["teams"] for member in team["members"]]


# Steps.


def _path(page: str) -> str:
    return "/" + quote(page, safe="/&")


def open_page(page: str) -> tuple[Step, ...]:
    """Open a page from the index of all pages."""
    return (
        click('.sidebar-link[href="/-/index"]'),
        click(f'a.pageindex-page[href="{_path(page)}"], a.pageindex-folder[href="{_path(page)}"]'),
    )


def search_page(words: str, page: str) -> tuple[Step, ...]:
    """Search for words, and open a page from the results."""
    return (
        fill("#search-query", words),
        press("#search-query", "Enter"),
        click(f'#column-main a[href^="{_path(page)}"]'),
    )


def _follow(page: str) -> Step:
    """Follow a link to a page from the open page."""
    return click(f'.content a[href="{_path(page)}"]')


def _menu(entry: str) -> Steps:
    """Choose an entry of the menu of the open page."""
    return (
        click("#navbar-dropdown-toggle-btn-1"),
        click(f'.dropdown-item-with-icon[href$="{entry}"]'),
    )


_EDIT = click('a.btn[href$="?edit"]')
_UPDATE_USER = click('input[value="Update"]')
_UPDATE = click('input[name="update_preferences"]')


def _write(text: str, message: str = "") -> Steps:
    """Write a text into the editor, and save it."""
    return (
        fill("#content_editor", text),
        click("#save-page-btn"),
        fill("#commit-message", message) if message else (),
        click('#modal-commit input[type="submit"]'),
    )


def _expect_text(page: str, text: str) -> Expected:
    """Expect a page to have a new text."""
    return changed("page", {"path": page}, text=_reads(text))


def _expect_page(page: str, text: str) -> Expected:
    """Expect a new page."""
    return added("page", path=page, text=_reads(text))


# Steps with the changes that they make.


def change_page(page: str, text: str, way: Steps = (), message: str = "") -> Parts:
    """Replace the text of a page. `way` opens the page, by default from the index."""
    return way or open_page(page), _EDIT, _write(text, message), _expect_text(page, text)


def _replace(
    facts: Facts, page: str, *changes: tuple[str, str], way: Steps = (), message: str = ""
) -> Parts:
    """Replace old by new passages in the text of a page. See `change_page`.

    Raises:
        ValueError: An old passage does not occur exactly once.
    """
    text: str = facts["pages"][page]
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} occurs {text.count(old)} times in {text!r:.200}.")
        text = text.replace(old, new)
    return change_page(page, text, way, message)


def change_seat(facts: Facts, team: Row, member: Row, **new: str) -> Parts:
    """Give a member a new `room` or `extension` on the page of the team."""
    return _replace(facts, team["page"], (_seat_row(member), _seat_row(member, **new)))


def tick_off(facts: Facts, page: str, *points: Row) -> Parts:
    """Tick off open points of a meeting on its page."""
    lines = map(_line, points)
    return _replace(facts, page, *((f"[ ] {line}", f"[x] {line}") for line in lines))


def create_page(page: str, text: str) -> Parts:
    """Create a page with a text."""
    opened = click('input[value="Create and open in editor"]')
    return (
        (click("#create-page-btn"), fill("#pagename", page), opened),
        (_write(text), _expect_page(page, text)),
    )


def _revert(page: str, revision: str, text: str) -> Parts:
    """Revert a revision of a page, which restores a text."""
    return (
        (open_page(page), _menu("/history"), click(f'a[href="/-/revert/{revision[:6]}"]')),
        click('input[value="Revert"], button.btn-primary[type="submit"]'),
        _expect_text(page, text),
    )


# Finding things out.


@task("wiki/find-extension", level=1, split="train")
def _find_extension(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(facts["teams"])
    member = rng.choice(team["members"])
    what = rng.choice(("extension", "room"))
    goal = f"What is the {what} of {member['name']}? Answer with the {what}."
    return assign(goal, search_page(member["name"], team["page"]), answer=f"{what} {member[what]}")


@task("wiki/find-price", level=1, split="train")
def _find_price(facts: Facts, rng: random.Random) -> Assignment:
    product, users = rng.choice(facts["products"]), rng.randint(3, 40)
    total = product["price"] * users * 12 + product["setup"]
    return assign(
        f"What does {product['name']} cost {users} users in the first year, the setup fee "
        "included? Answer with the number of pounds.",
        open_page(product["page"]),
        answer=f"{total} pounds",
    )


@task("wiki/find-step", level=1, split="train")
def _find_step(facts: Facts, rng: random.Random) -> Assignment:
    procedure = rng.choice(facts["procedures"])
    number = rng.randint(2, len(procedure["steps"]))
    goal = f"What is step {number} of the procedure “{procedure['name']}”? Answer with its words."
    return assign(goal, open_page(procedure["page"]), answer=procedure["steps"][number - 1])


@task("wiki/contact-of-customer", level=1, split="test")
def _contact_of_customer(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["customers"])
    return assign(
        f"Which customer has the contract {customer['contract']}, and who at Northfield "
        "looks after this customer? Answer with the customer's name and the person's full name, "
        "separated by a semicolon.",
        search_page(customer["contract"], customer["page"]),
        answer=(customer["name"], customer["manager"]),
    )


@task("wiki/team-of-product", level=2, split="train")
def _team_of_product(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    team = find(facts["teams"], name=product["team"])
    who, name = rng.choice((("its lead", team["lead"]), ("who is on duty there", team["duty"])))
    what = rng.choice(("extension", "room"))
    member = find(team["members"], name=name)
    return assign(
        f"Find the team that develops {product['name']}, and {who}. Answer with the full "
        f"name and the {what} of that person, separated by a comma.",
        (open_page(product["page"]), _follow(team["page"])),
        answer=(name, f"{what} {member[what]}"),
    )


@task("wiki/find-server", level=2, split="train")
def _find_server(facts: Facts, rng: random.Random) -> Assignment:
    server = rng.choice(facts["servers"])
    what, value = rng.choice(
        (
            ("the time of its nightly backup", server["backup"]),
            ("its address", server["address"]),
            ("its system", server["system"]),
            ("the month in which its warranty ends, as the page writes it", server["until"]),
        )
    )
    return assign(
        f"Which server is for {server['what']}? Answer with its name and {what}, separated "
        "by a comma.",
        (open_page("Servers"), _follow(server["page"])),
        answer=(server["name"], value),
    )


@task("wiki/sum-memory", level=3, split="train")
def _sum_memory(facts: Facts, rng: random.Random) -> Assignment:
    found = rng.sample(facts["servers"], 5)
    names = join_names([server["name"] for server in found])
    return assign(
        f"How much memory do the servers {names} have together? Answer with the number of GB.",
        [(open_page("Servers"), _follow(server["page"])) for server in found],
        answer=f"{sum(server['memory'] for server in found)} GB",
    )


@task("wiki/largest-customer", level=3, split="test")
def _largest_customer(facts: Facts, rng: random.Random) -> Assignment:
    best = None
    while best is None:
        seven = rng.sample(facts["customers"], 7)
        best = find_best(seven, lambda customer: sum(customer["users"]))
    return assign(
        f"Which of the customers {join_names([one['name'] for one in seven])} has the "
        "most users, all sites together? Answer with the name and the number of users, separated "
        "by a semicolon.",
        [open_page(customer["page"]) for customer in seven],
        answer=(best["name"], str(sum(best["users"]))),
    )


@task("wiki/first-contract-to-end", level=3, split="train")
def _first_contract_to_end(facts: Facts, rng: random.Random) -> Assignment:
    seven = rng.sample(facts["customers"], 7)
    first = min(seven, key=lambda customer: str(customer["ends"]))
    return assign(
        f"The contracts of {join_names([one['name'] for one in seven])} are to be "
        "renewed. Which one ends first? Answer with its number and its last day (YYYY-MM-DD), "
        "separated by a comma.",
        [open_page(customer["page"]) for customer in seven],
        answer=(first["contract"], first["ends"]),
    )


@task("wiki/open-points-of-person", level=2, split="train")
def _open_points_of_person(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice([team for team in facts["teams"] if len(_meetings(facts, team)) >= 3])
    held = _meetings(facts, team)
    counts = Counter(point["name"] for meeting in held for point in _find_open_points(meeting))
    name = rng.choice(sorted(counts) or [team["lead"]])
    return assign(
        f"Look through the minutes of all meetings of the team {team['name']}. How many of "
        f"their open points belong to {name} and are not ticked off yet? Answer with the number.",
        [open_page(meeting["page"]) for meeting in held],
        answer=str(counts[name]),
    )


@task("wiki/next-meeting", level=1, split="train")
def _next_meeting(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice([team for team in facts["teams"] if _meetings(facts, team)])
    last = _meetings(facts, team)[-1]
    return assign(
        f"Who wrote the minutes of the latest meeting of the team {team['name']}, and for "
        "which day do they announce the next one? Answer with the full name and the date "
        "(YYYY-MM-DD), separated by a comma.",
        open_page(last["page"]),
        answer=(last["minutes"], last["next"]),
    )


@task("wiki/who-changed", level=1, split="train")
def _who_changed(facts: Facts, rng: random.Random) -> Assignment:
    kind = rng.choice(("products", "customers", "procedures"))
    page = rng.choice(facts[kind])["page"]
    last = _revisions(facts, page)[-1]
    return assign(
        f"Who made the last change to the page {page}, and on which day? Answer with the "
        "full name and the date (YYYY-MM-DD), separated by a comma.",
        (open_page(page), _menu("/history")),
        answer=(last["author"], last["when"][:10]),
    )


@task("wiki/old-price", level=2, split="test")
def _old_price(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    name = _revisions(facts, product["page"])[-1]["name"]
    return assign(
        f"The price of {product['name']} was changed. What was it before, in pounds for a "
        "user and month? Answer with the number.",
        (open_page(product["page"]), _menu("/history"), click(f'a[href="/-/commit/{name[:6]}"]')),
        answer=f"{product['old_price']} pounds",
    )


# Changing a page.


@edit_task("wiki/change-extension", level=1, split="train")
def _change_extension(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(facts["teams"])
    member = rng.choice(team["members"])
    new = str(other_than(rng, map(str, range(700, 999)), member["extension"]))
    goal = f"{member['name']} has a new extension: {new}. Correct the page of the team."
    return assign(goal, change_seat(facts, team, member, extension=new))


@edit_task("wiki/add-member", level=2, split="train")
def _add_member(facts: Facts, rng: random.Random) -> Assignment:
    team, user = rng.choice(facts["teams"]), facts["name"]
    room, extension = f"0.{rng.randint(30, 60)}", str(rng.randint(700, 999))
    role = rng.choice(("developer", "tester", "analyst"))
    last, new = _seat_row(team["members"][-1]), _table_row(user, role, room, extension)
    return assign(
        f"Add yourself at the end of the table of members of the team {team['name']}: {user}, "
        f"{role}, room {room}, extension {extension}.",
        _replace(facts, team["page"], (last, f"{last}\n{new}")),
    )


@edit_task("wiki/correct-spelling", level=1, split="train")
def _correct_spelling(facts: Facts, rng: random.Random) -> Assignment:
    mistake = rng.choice(facts["mistakes"])
    page, wrong, right = mistake["page"], mistake["wrong"], mistake["right"]
    what = "Find it and correct it."
    if [one["wrong"] for one in facts["mistakes"]].count(wrong) > 1:
        what = f"Correct it on the page {page}; other pages are looked after already."
    goal = f"A page has “{wrong}” instead of “{right}” on it. {what}"
    return assign(goal, _replace(facts, page, (wrong, right), way=search_page(wrong, page)))


@edit_task("wiki/change-price", level=1, split="train")
def _change_price(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    page, old, new = product["page"], product["price"], product["price"] + rng.randint(2, 9)
    message = f"Price from {rng.choice(('April', 'May', 'June'))} on"
    prices = (f"month: {old} pounds", f"month: {new} pounds")
    return assign(
        f"{product['name']} costs {new} pounds for a user and month now. Change its page, "
        f"with the commit message “{message}”.",
        _replace(facts, page, prices, message=message),
        added("commit", message=same_text(message)),
    )


@edit_task("wiki/extend-contract", level=1, split="test")
def _extend_contract(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["customers"])
    page, contract = customer["page"], customer["contract"]
    new = f"2031-{rng.randint(1, 12):02}-15"
    return assign(
        f"The contract {contract} is extended and now runs until {new}. Change "
        "the page of the customer.",
        _replace(facts, page, (customer["ends"], new), way=search_page(contract, page)),
    )


_STEPS = ("Write a line into the log book", "Tell the team lead", "Ask for feedback after a month")


@edit_task("wiki/add-step", level=1, split="train")
def _add_step(facts: Facts, rng: random.Random) -> Assignment:
    procedure, step = rng.choice(facts["procedures"]), rng.choice(_STEPS)
    page, steps = procedure["page"], procedure["steps"]
    last, new = f"{len(steps)}. {steps[-1]}", f"{len(steps) + 1}. {step}"
    return assign(
        f"Add a step to the end of the numbered list of the procedure “{procedure['name']}”: "
        f"“{step}”.",
        _replace(facts, page, (last, f"{last}\n{new}")),
    )


@edit_task("wiki/new-reviewer", level=2, split="train")
def _new_reviewer(facts: Facts, rng: random.Random) -> Assignment:
    procedure = rng.choice(facts["procedures"])
    page, owner = procedure["page"], procedure["owner"]
    name = other_than(rng, _colleagues(facts), owner)
    responsible = (f"Responsible: {owner}", f"Responsible: {name}")
    reviewed = (f"reviewed: {procedure['reviewed']}", "reviewed: 2026-03-02")
    return assign(
        f"{name} is responsible for the procedure “{procedure['name']}” from today on, and has "
        "reviewed it. Change the name and set the date of the last review to 2026-03-02.",
        _replace(facts, page, responsible, reviewed),
    )


def _draw_open_point(facts: Facts, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw an open point. Return its meeting, and the point."""
    points = [(one, point) for one in facts["meetings"] for point in _find_open_points(one)]
    return rng.choice(points)


@edit_task("wiki/tick-off", level=1, split="train")
def _tick_off(facts: Facts, rng: random.Random) -> Assignment:
    meeting, point = _draw_open_point(facts, rng)
    page = meeting["page"]
    return assign(
        f"In the minutes {page.removeprefix('Meetings/')}, tick off this open point: "
        f"“{_line(point)}”. It is done.",
        tick_off(facts, page, point),
    )


@edit_task("wiki/pass-on-point", level=2, split="test")
def _pass_on_point(facts: Facts, rng: random.Random) -> Assignment:
    meeting, point = _draw_open_point(facts, rng)
    taker, page = other_than(rng, _colleagues(facts), point["name"]), meeting["page"]
    lines = f"[ ] {_line(point)}", f"[ ] {_line({**point, 'name': taker})}"
    return assign(
        f"{taker} takes over the open point “{point['what']}” of the team {meeting['team']}'s "
        f"meeting on {meeting['date']}. Replace the name in the minutes.",
        _replace(facts, page, lines),
    )


@edit_task("wiki/add-to-glossary", level=2, split="train")
def _add_to_glossary(facts: Facts, rng: random.Random) -> Assignment:
    word = rng.choice(sorted(facts["not_in_glossary"]))
    meaning, page = facts["not_in_glossary"][word], "Company/Glossary"
    lines = facts["pages"][page].splitlines()
    place = next((i for i, line in enumerate(lines) if i > 3 and line > f"| {word}"), len(lines))
    lines.insert(place, _table_row(word, meaning))
    return assign(
        f"Add “{word}” to the glossary, with the meaning “{meaning}”. Keep the table in "
        "alphabetical order.",
        change_page(page, "\n".join(lines)),
    )


@edit_task("wiki/move-server", level=2, split="train")
def _move_server(facts: Facts, rng: random.Random) -> Assignment:
    server = rng.choice(facts["servers"])
    page, old = server["page"], server["city"]
    new = other_than(rng, (one["town"] for one in COMPANY.sites), old)
    own = _table_row("Location", old), _table_row("Location", new)
    row = functools.partial(_table_row, f"[[{page}]]", server["what"])
    return assign(
        f"The server {server['name']} has moved to {new}. Change the location on its own "
        "page and in the list on the page Servers.",
        _replace(facts, page, own),
        _replace(facts, "Servers", (row(old), row(new))),
    )


@edit_task("wiki/change-lead", level=2, split="test")
def _change_lead(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(facts["teams"])
    old, new = team["members"][0], rng.choice(team["members"][1:])
    changes = (
        (f"Lead: {old['name']}\n", f"Lead: {new['name']}\n"),
        (_seat_row(old), _seat_row(old, role=new["role"])),
        (_seat_row(new), _seat_row(new, role=old["role"])),
    )
    return assign(
        f"{new['name']} becomes the lead of the team {team['name']}. Change the page of the team: "
        "the line “Lead” at its top, and the roles in the table, where the two change places: "
        f"{new['name']} becomes {old['role']}, and {old['name']} {new['role']}.",
        _replace(facts, team["page"], *changes),
    )


@edit_task("wiki/remove-section", level=1, split="test")
def _remove_section(facts: Facts, rng: random.Random) -> Assignment:
    server = rng.choice(facts["servers"])
    text = facts["pages"][server["page"]].partition("## Notes")[0].rstrip()
    goal = f"Remove the section “Notes” with its text from the page of the server {server['name']}."
    return assign(goal, change_page(server["page"], text))


# New pages, names and old texts.

_CLUBS = (
    ("Book club", "We read one novel a month."),
    ("Chess", "We play every second Thursday."),
    ("Garden", "Everybody waters the plants once a week."),
    ("Lost and found", "Things are kept for three months."),
)


@edit_task("wiki/create-page", level=1, split="train")
def _create_page(facts: Facts, rng: random.Random) -> Assignment:
    name, line = rng.choice(_CLUBS)
    host = rng.choice(_colleagues(facts))
    page, text = f"Company/{name}", f"# {name}\n\n{line}\n\nContact: {host}"
    return assign(f"Create the page {page} with this text:\n\n{text}", create_page(page, text))


_PROCEDURES = (
    ("First aid", "Call reception", "Fetch the box from the kitchen"),
    ("Parking", "Ask reception for a card", "Leave the gate free"),
    ("Visitors", "Announce visitors a day before", "Fetch them at reception"),
)


@edit_task("wiki/announce-page", level=3, split="train")
def _announce_page(facts: Facts, rng: random.Random) -> Assignment:
    name, first, second = rng.choice(_PROCEDURES)
    owner, page = rng.choice(_colleagues(facts)), f"Procedures/{name}"
    text = f"# {name}\n\nResponsible: {owner}\n\n## Steps\n\n1. {first}\n2. {second}"
    listed = f"{facts['pages']['Procedures']}\n- [[{name}|{page}]]"
    return assign(
        f"Create the page {page} with this text:\n\n{text}\n\nThen add a link to it, in the "
        "same form as the others, at the end of the list on the page Procedures.",
        (create_page(page, text), change_page("Procedures", listed)),
    )


@edit_task("wiki/write-minutes", level=2, split="test")
def _write_minutes(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(facts["teams"])
    topic = rng.choice(("new printers", "the audit in May", "summer holidays", "test data"))
    title = f"2026-03-02 {team['name']}"
    page, lead, duty = f"Meetings/{title}", team["lead"], team["duty"]
    text = f"# {title}\n\nTopic: {topic}\n\nLead: {lead}\n\nOn duty: {duty}"
    return assign(
        f"Create the page {page} with four lines, each a paragraph: the heading "
        f"“# {title}”, then “Topic: {topic}”, then “Lead: ” and the lead of the "
        "team, then “On duty: ” and who is on duty this quarter. The page of the team knows both.",
        (open_page(team["page"]), create_page(page, text)),
    )


@edit_task("wiki/collect-points", level=3, split="train")
def _collect_points(facts: Facts, rng: random.Random) -> Assignment:
    held = [one for one in facts["meetings"] if 1 <= len(_find_open_points(one)) <= 3]
    four = sorted(rng.sample(held, 4), key=itemgetter("page"))
    pages = [meeting["page"] for meeting in four]
    names = ", ".join(f"“{page.removeprefix('Meetings/')}”" for page in pages)
    points = [point for meeting in four for point in _find_open_points(meeting)]
    text = "\n".join(f"- {_line(point)}" for point in points)
    return assign(
        "Create the page Company/To do with a line for each point that is still open in the "
        f"minutes {names}. Keep the order of the minutes and of their points. A line has the form "
        "“- Name: what is to be done”. Nothing else is on the page, not even a heading.",
        (map(open_page, pages), create_page("Company/To do", text)),
    )


@edit_task("wiki/rename-page", level=1, split="train")
def _rename_page(facts: Facts, rng: random.Random) -> Assignment:
    meeting = rng.choice(facts["meetings"])
    old, new = meeting["page"], f"{meeting['page']} {meeting['topic']}"
    return assign(
        f"Rename the page {old} to “{new}”.",
        (open_page(old), _menu("/rename"), fill("#new_pagename", new)),
        click('input[value="Rename"]'),
        (removed("page", path=old), _expect_page(new, facts["pages"][old])),
    )


@edit_task("wiki/delete-page", level=1, split="train")
def _delete_page(facts: Facts, rng: random.Random) -> Assignment:
    meeting = rng.choice(facts["meetings"])
    team, day, page = meeting["team"], meeting["date"], meeting["page"]
    return assign(
        f"The meeting of the team {team} on {day} did not take place. Delete its minutes.",
        (open_page(page), _menu("/delete"), click('input[value="Delete"]')),
        removed("page", path=page),
    )


@edit_task("wiki/revert", level=2, split="train")
def _revert_page(facts: Facts, rng: random.Random) -> Assignment:
    spoiled = rng.choice(facts["spoiled"])
    page = spoiled["page"]
    return assign(
        f"Somebody wrote nonsense at the end of the page {page}. Bring back the text from before.",
        _revert(page, _revisions(facts, page)[-1]["name"], spoiled["good"]),
    )


@edit_task("wiki/revert-mistake", level=2, split="test")
def _revert_mistake(facts: Facts, rng: random.Random) -> Assignment:
    # Leave out pages whose last change also has a spelling mistake: an agent that restores the
    # text by hand may keep it.
    misspelt = {mistake["page"] for mistake in facts["mistakes"]}
    things = facts[rng.choice(("products", "customers", "procedures"))]
    page = rng.choice([thing["page"] for thing in things if thing["page"] not in misspelt])
    before, last = _revisions(facts, page)
    return assign(
        f"The last change of the page {page}, with the message “{last['message']}”, was a "
        "mistake. Take it back.",
        _revert(page, last["name"], before["files"][page]),
    )


# Administration.


def _admin(panel: str) -> Steps:
    return _menu("/-/settings"), click(".sidebar-link", panel)


def _draw_user(facts: Facts, rng: random.Random, *approved: bool) -> tuple[int, dict[str, Any]]:
    """Draw a user other than the administrator, with one of these values of `approved`.

    Returns:
        The user's id, and the user.
    """
    users = enumerate(facts["users"], 1)
    return rng.choice([(n, user) for n, user in users if n > 1 and user["approved"] in approved])


def _open_user(number: int) -> Steps:
    return _admin("User Management"), click(f'a[href="/-/user/{number}"]')


def _toggle_rights(number: int, value: int, *boxes: str) -> Parts:
    """Switch rights of a user on (1) or off (0)."""
    return (
        (_open_user(number), [click(f'label[for="{box}"]') for box in boxes], _UPDATE_USER),
        changed("user", {"id": number}, **dict.fromkeys(boxes, value)),
    )


_RIGHTS = (
    (("allow_read",), "to read, but neither to write nor to upload files"),
    (("allow_read", "allow_write"), "to read and to write, but not to upload files"),
    (("allow_read", "allow_write", "allow_upload"), "to read, to write and to upload"),
)


@task("wiki/approve-user", level=1, split="train")
def _approve_user(facts: Facts, rng: random.Random) -> Assignment:
    number, user = _draw_user(facts, rng, False)
    rights, words = rng.choice(_RIGHTS)
    goal = f"Let {user['name']} into the wiki: approve the account, and allow it {words}."
    return assign(goal, _toggle_rights(number, 1, "is_approved", *rights))


@task("wiki/lock-user", level=1, split="test")
def _lock_user(facts: Facts, rng: random.Random) -> Assignment:
    number, user = _draw_user(facts, rng, True)
    return assign(
        f"{user['name']} ({user['email']}) may still read the wiki, but must not write or "
        "upload files any more. Change the rights of the account; it stays approved.",
        _toggle_rights(number, 0, "allow_write", "allow_upload"),
    )


@task("wiki/rename-user", level=1, split="train")
def _rename_user(facts: Facts, rng: random.Random) -> Assignment:
    number, user = _draw_user(facts, rng, True, False)
    name = f"{user['name'].split()[0]} {rng.choice(('Winter', 'Sommer', 'Castle', 'Rivers'))}"
    return assign(
        f"{user['name']} has married and is called {name} now. Change the name of the "
        "account; the mail address stays.",
        (_open_user(number), fill("#name", name), _UPDATE_USER),
        changed("user", {"id": number}, name=name),
    )


@task("wiki/site-description", level=1, split="train")
def _site_description(facts: Facts, rng: random.Random) -> Assignment:
    what = rng.choice(("name", "description"))
    first = rng.choice(("Northfield", "Our", "The", "Internal", "Company"))
    second = rng.choice(("handbook", "notes", "memory", "knowledge", "pages", "library"))
    value, preference = f"{first} {second}", f"SITE_{what.upper()}"
    return assign(
        f"Change the {what} of this wiki, in its application preferences, to “{value}”.",
        (_admin("Application Preferences"), fill(f'input[name="site_{what}"]', value), _UPDATE),
        added("preferences", name=preference, value=value),
        allow=_kept(preference),
    )


_PLACES = ("Company/Glossary", "Company/Offices", "Company/Holidays 2026")


@task("wiki/menu-entry", level=2, split="test")
def _menu_entry(facts: Facts, rng: random.Random) -> Assignment:
    page = rng.choice((*_PLACES, rng.choice(facts["procedures"])["page"]))
    title, preference = page.rpartition("/")[2], "SIDEBAR_CUSTOM_MENU"
    menu = [{"link": page, "title": title, "icon": ""}]
    return assign(
        f"Add an entry to the custom menu of the sidebar, with the link “{page}” and the "
        f"title “{title}”.",
        (_admin("Sidebar Preferences"), fill('input[name="link"]', page)),
        (fill('input[name="title"]', title), _UPDATE),
        added("preferences", name=preference, value=json.dumps(menu)),
        allow=_kept(preference),
    )


_PREFERENCES = {
    "HIDE_LOGO": "True",
    "HOME_PAGE": "",
    "OPEN_LINKS_IN_NEW_TAB": "False",
    "ROBOTS_TXT": "allow",
    "SERVER_NAME": None,
    "SIDEBAR_MENUTREE_FOCUS": "SUBTREE",
    "SIDEBAR_MENUTREE_IGNORE_CASE": "False",
    "SIDEBAR_MENUTREE_MAXDEPTH": "",
    "SIDEBAR_MENUTREE_MODE": "SORTED",
    "SIDEBAR_SHORTCUTS": "home pageindex changelog createpage",
    "SITE_DESCRIPTION": anything,
    "SITE_ICON": "",
    "SITE_LANG": "en",
    "SITE_LOGO": "",
    "SITE_NAME": "Northfield Wiki",
}
"""The initial preferences. Saving a form stores all that are on it."""


def _kept(but: str) -> list[Expected]:
    """Allow a save to store any unchanged preferences besides this one."""
    return [added("preferences", name=n, value=v) for n, v in _PREFERENCES.items() if n != but]


# What cannot be done.


@task("wiki/unknown-fact", level=1, split="test", infeasible=True)
def _unknown_fact(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["customers"])
    what = rng.choice(("turnover of last year", "number of employees", "bank account"))
    goal = f"According to the wiki, what is the {what} of the customer {customer['name']}?"
    return assign(goal, open_page(customer["page"]))
