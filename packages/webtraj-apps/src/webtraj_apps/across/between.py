"""Tasks between the help desk, the tracker, the wiki, the forum, the shop, budgets and intranet."""

from __future__ import annotations

import functools
import random
from typing import Final, NamedTuple

from webtraj.environments.browser.oracles import Step, check, click, goto, select
from webtraj_apps.budget import tasks as budget
from webtraj_apps.cms import tasks as cms
from webtraj_apps.forum import tasks as forum
from webtraj_apps.helpdesk import tasks as helpdesk
from webtraj_apps.shop.assignments import basket, common, office
from webtraj_apps.shop.assignments import products as products_lib
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    Statement,
    Steps,
    added,
    assign,
    find_best,
    same_text,
    template,
)
from webtraj_apps.tracker import content as tracker_content
from webtraj_apps.tracker import tasks as tracker
from webtraj_apps.wiki import tasks as wiki

task = functools.partial(template, user="user")

_TODAY: Final = "2026-03-02"
_DESK: Final = "/dashboard/"
_HOMES: Final = {"helpdesk": _DESK}
"""Where an agent's way begins, if it is not the front page."""
BOARDS: Final = ("Ideas", "Projects", "Software")
"""Categories of the forum where everybody may start a topic."""


def to_site(app: str, path: str = "") -> Step:
    """Change to another application."""
    return goto(f"http://{app}.test{path or _HOMES.get(app, '/')}")


# The help desk.


def _look_up(request: helpdesk.Request, app: str, *steps: Steps, path: str = "") -> Steps:
    """Read a ticket, find something out in another application, and come back to the ticket."""
    ticket = helpdesk.open_ticket(request.ticket)
    return (ticket, to_site(app, path), steps, to_site("helpdesk"), ticket)


def _from(request: helpdesk.Request) -> str:
    """Return what a goal calls a new ticket."""
    return f"help desk ticket #{request.ticket['id']} from {request.ticket['email']}"


# Help desk and tracker.


@task("across/report-defect", level=3, split="train", apps=("helpdesk", "tracker"), start=_DESK)
def _report_defect(facts: Facts, rng: random.Random) -> Assignment:
    desk, trac = facts["helpdesk"], facts["tracker"]
    ticket = rng.choice(helpdesk.find_tickets(desk, lambda one: one["queue"] == "web"))
    component, priority = rng.choice(trac["components"]), rng.choice(("critical", "minor"))
    number = len(trac["tickets"]) + 1
    text = f"Filed in the tracker under the number {number}."
    return Assignment(
        goal=f"Help desk ticket #{ticket['id']} is about a mistake in our software. File it in the "
        f"tracker: type defect, component {component['name']}, priority {priority}, and as summary "
        "the title of the help desk ticket, word by word; leave the other fields as they are. Then "
        "add a note to the help desk ticket that its submitter must not see: “Filed in the "
        "tracker under the number N.”, with the number of the new defect in the place of N.",
        expect={
            "helpdesk": (
                helpdesk.expect_reply(ticket, text, public=False),
                helpdesk.allow_notes(ticket),
            ),
            "tracker": tracker.expect_ticket(
                number,
                type="defect",
                summary=same_text(ticket["title"]),
                component=component["name"],
                priority=priority,
                owner=component["owner"],
            ),
        },
        steps=(
            helpdesk.open_ticket(ticket),
            to_site("tracker"),
            tracker.file_ticket(
                summary=ticket["title"], component=component["name"], priority=priority
            ),
            to_site("helpdesk"),
            helpdesk.open_ticket(ticket),
            helpdesk.write_reply(text, public=False),
        ),
    )


@task("across/fixed-in-build", level=2, split="train", apps=("helpdesk", "tracker"), start=_DESK)
def _fixed_in_build(facts: Facts, rng: random.Random) -> Assignment:
    desk, trac = facts["helpdesk"], facts["tracker"]
    fixed = rng.choice(
        tracker.find_tickets(trac, type="defect", status="closed", resolution="fixed", code=bool)
    )
    request = helpdesk.prepare_ticket(
        desk,
        "it",
        helpdesk.draw_sender(desk, rng),
        f"What became of report {fixed['code']}?",
        f"We sent the problem report {fixed['code']}. Is there a build without the problem?",
    )
    text = f"This was fixed in build {fixed['build']}."
    return Assignment(
        goal=f"In {_from(request)}, somebody asks about a problem. Find out in the "
        "tracker in which build it was fixed, and answer the ticket, so that the submitter can "
        "read it, with this sentence: “This was fixed in build X.”, with the build in the place "
        "of X.",
        prepare={"helpdesk": request.prepare},
        expect={"helpdesk": helpdesk.expect_answer(request.ticket, text)},
        steps=(
            _look_up(request, "tracker", tracker.search_ticket(fixed, fixed["code"])),
            helpdesk.write_reply(text, public=True),
        ),
    )


@task("across/pass-on-workaround", level=3, split="test", apps=("helpdesk", "tracker"), start=_DESK)
def _pass_on_workaround(facts: Facts, rng: random.Random) -> Assignment:
    desk, trac = facts["helpdesk"], facts["tracker"]
    defect = rng.choice(
        tracker.find_unclosed_tickets(trac, workaround=bool, priority=("major", "minor", "trivial"))
    )
    request = helpdesk.prepare_ticket(
        desk,
        "it",
        helpdesk.draw_sender(desk, rng),
        f"We cannot work: report {defect['code']}",
        f"The problem that we reported as {defect['code']} appears several times a day. What can "
        "we do until it is gone?",
    )
    return Assignment(
        goal=f"In {_from(request)}, somebody asks about a problem that the tracker knows. "
        "Answer it, so that the submitter can read it, with the workaround from the comments of "
        "the tracker's ticket: the words behind the colon, and nothing else. Then set the priority "
        "of the tracker's ticket to critical.",
        prepare={"helpdesk": request.prepare},
        expect={
            "helpdesk": helpdesk.expect_answer(request.ticket, defect["workaround"]),
            "tracker": tracker.expect_changed(defect, priority="critical"),
        },
        steps=(
            _look_up(
                request,
                "tracker",
                tracker.search_ticket(defect, defect["code"]),
                tracker.change_ticket(priority="critical"),
            ),
            helpdesk.write_reply(defect["workaround"], public=True),
        ),
    )


# Help desk and wiki.


class _Question(NamedTuple):
    """What the wiki answers."""

    title: str
    text: str
    answer: str
    page: str


def _question(facts: Facts, rng: random.Random) -> _Question:
    """Return a question whose answer is on a page of the wiki."""
    team, customer, product, server, procedure = (
        rng.choice(facts[kind])
        for kind in ("teams", "customers", "products", "servers", "procedures")
    )
    member = rng.choice(team["members"])
    return rng.choice(
        (
            _Question(
                f"Extension of {member['name']}",
                f"I have to call {member['name']}. What is the extension?",
                member["extension"],
                team["page"],
            ),
            _Question(
                f"Room of {member['name']}",
                f"I have a parcel for {member['name']}. Which room is that?",
                member["room"],
                team["page"],
            ),
            _Question(
                f"Contract of {customer['name']}",
                f"What is the number of our contract with {customer['name']}?",
                customer["contract"],
                customer["page"],
            ),
            _Question(
                f"Price of {product['name']}",
                f"How many pounds does {product['name']} cost for a user and month? Just the "
                "number, please.",
                str(product["price"]),
                product["page"],
            ),
            _Question(
                f"Address of {server['name']}",
                f"Which address does the server {server['name']} have in the network?",
                server["address"],
                server["page"],
            ),
            _Question(
                f"Procedure “{procedure['name']}”",
                f"Who is responsible for the procedure “{procedure['name']}”? The full name, "
                "please.",
                procedure["owner"],
                procedure["page"],
            ),
        )
    )


@task("across/answer-from-wiki", level=2, split="train", apps=("helpdesk", "wiki"), start=_DESK)
def _answer_from_wiki(facts: Facts, rng: random.Random) -> Assignment:
    desk = facts["helpdesk"]
    question = _question(facts["wiki"], rng)
    request = helpdesk.prepare_ticket(
        desk, "it", helpdesk.draw_sender(desk, rng), question.title, question.text
    )
    return Assignment(
        goal=f"There is a question in {_from(request)}. The wiki "
        "knows the answer. Reply in the ticket, so that the submitter can read it, with nothing "
        "but what was asked for, as the wiki writes it.",
        prepare={"helpdesk": request.prepare},
        expect={"helpdesk": helpdesk.expect_answer(request.ticket, question.answer)},
        steps=(
            _look_up(request, "wiki", wiki.open_page(question.page)),
            helpdesk.write_reply(question.answer, public=True),
        ),
    )


@task(
    "across/question-without-answer",
    level=2,
    split="test",
    apps=("helpdesk", "wiki"),
    start=_DESK,
    infeasible=True,
)
def _question_without_answer(facts: Facts, rng: random.Random) -> Assignment:
    desk = facts["helpdesk"]
    customer = rng.choice(facts["wiki"]["customers"])
    what = rng.choice(("bank account", "tax number", "turnover of last year"))
    request = helpdesk.prepare_ticket(
        desk,
        "fin",
        helpdesk.draw_sender(desk, rng),
        f"{what.capitalize()} of {customer['name']}",
        f"What is the {what} of our customer {customer['name']}?",
    )
    return assign(
        f"There is a question in {_from(request)}. Reply with "
        "the answer from the wiki, so that the submitter can read it. Do not reply anything else.",
        (helpdesk.open_ticket(request.ticket), to_site("wiki"), wiki.open_page(customer["page"])),
        prepare={"helpdesk": request.prepare},
    )


@task(
    "across/correct-the-wiki",
    level=3,
    split="train",
    apps=("helpdesk", "wiki"),
    start=_DESK,
    allow={"wiki": wiki.COMMITS},
)
def _correct_the_wiki(facts: Facts, rng: random.Random) -> Assignment:
    desk, team = facts["helpdesk"], rng.choice(facts["wiki"]["teams"])
    member = rng.choice(team["members"])
    room, extension = f"0.{rng.randint(30, 60)}", str(rng.randint(700, 999))
    request = helpdesk.prepare_ticket(
        desk,
        "it",
        f"{member['name'].split()[0].lower()}@northfield.test",
        f"{member['name']} has moved",
        f"I have moved: my room is {room} now, and my extension is {extension}. "
        f"Please correct the page of the team {team['name']} in the wiki.",
    )
    text = wiki.seat(facts["wiki"], team, member, room=room, extension=extension)
    end = rng.choice(("Corrected in the wiki.", "Done, thank you.", "The page is right now."))
    return Assignment(
        goal=f"In {_from(request)}, somebody asks for a correction in the wiki. Make "
        f"it, then resolve the ticket with this public resolution: “{end}”",
        prepare={"helpdesk": request.prepare},
        expect={
            "helpdesk": helpdesk.expect_resolved(request.ticket, end),
            "wiki": wiki.expect_text(team["page"], text),
        },
        steps=(
            _look_up(request, "wiki", wiki.edit_page(team["page"], text)),
            helpdesk.write_reply(end, check("#st_resolved"), public=True),
        ),
    )


# Help desk and shop.


@task(
    "across/status-of-order", level=3, split="test", apps=("helpdesk", "shop"), user="", start=_DESK
)
def _status_of_order(facts: Facts, rng: random.Random) -> Assignment:
    desk, shop = facts["helpdesk"], facts["shop"]
    others = [one for one in shop["orders"] if one["user"] != shop["user"]]
    order = rng.choice([one for one in others if one["total"] < 1000])
    request = helpdesk.prepare_ticket(
        desk,
        "ord",
        f"{order['user']}@northfield.test",
        f"What about my order {order['number']}?",
        f"What is the status of my order {order['number']}, and how much is it in total?",
    )
    text = f"Status: {order['status']}. Total: £{order['total']:.2f}."
    return Assignment(
        goal=f"In {_from(request)}, a customer asks about an order. Look "
        "it up in the back office of the shop (Dashboard; you are logged in there as staff), and "
        "answer the ticket, so that the submitter can read it, with this text: “Status: X. "
        "Total: £Y.”, as the back office says, with two decimals.",
        users={"helpdesk": desk["user"], "shop": shop["staff"]},
        prepare={"helpdesk": request.prepare},
        expect={"helpdesk": helpdesk.expect_answer(request.ticket, text)},
        steps=(
            _look_up(request, "shop", office.open_order(order["number"]), path="/dashboard/"),
            helpdesk.write_reply(text, public=True),
        ),
    )


# Wiki and tracker.


@task("across/points-to-tickets", level=3, split="train", apps=("wiki", "tracker"))
def _points_to_tickets(facts: Facts, rng: random.Random) -> Assignment:
    meeting, points = wiki.open_points(facts["wiki"], rng, 2)
    component = rng.choice(facts["tracker"]["components"])
    shared = {"component": component["name"], "milestone": rng.choice(tracker.UPCOMING)}
    return Assignment(
        goal="In the tracker, file a ticket for each open point of the wiki page "
        f"{meeting['page']} that is not ticked off yet: type task, component "
        f"{shared['component']}, milestone {shared['milestone']}, and as summary the words of the "
        "point without the name of the person. Leave the other fields as they are.",
        expect={
            "tracker": tracker.expect_tasks(
                facts["tracker"], [point["what"] for point in points], component["owner"], **shared
            )
        },
        steps=(
            wiki.open_page(meeting["page"]),
            to_site("tracker"),
            [tracker.file_ticket(summary=point["what"], type="task", **shared) for point in points],
        ),
    )


@task(
    "across/tick-off-closed",
    level=3,
    split="test",
    apps=("wiki", "tracker"),
    allow={"wiki": wiki.COMMITS},
)
def _tick_off_closed(facts: Facts, rng: random.Random) -> Assignment:
    meeting, points = wiki.open_points(facts["wiki"], rng, 3)
    trac = facts["tracker"]
    count = rng.randint(1, len(points) - 1)
    done = set(rng.sample(range(len(points)), count))
    closed = rng.sample(tracker.find_tickets(trac, type="task", status="closed"), count)
    working = rng.sample(tracker.find_unclosed_tickets(trac, type="task"), len(points) - count)
    text = facts["wiki"]["pages"][meeting["page"]]
    prepare: list[Statement] = []
    looking: list[Step] = []
    for at, point in enumerate(points):
        ticket = {**(closed if at in done else working).pop(), "summary": point["what"]}
        change = "UPDATE ticket SET summary = ?, description = 'From the minutes.' WHERE id = ?"
        prepare.append((change, (ticket["summary"], ticket["id"])))
        looking += tracker.search_ticket(ticket)
        if at in done:
            line = f"{point['name']}: {point['what']}"
            text = wiki.replace_once(text, f"[ ] {line}", f"[x] {line}")
    return Assignment(
        goal=f"The open points of the wiki page {meeting['page']} are in the tracker, as tickets "
        "with the same words as summary. Tick off in the wiki those points whose ticket is closed.",
        prepare={"tracker": prepare},
        expect={"wiki": wiki.expect_text(meeting["page"], text)},
        steps=(
            wiki.open_page(meeting["page"]),
            to_site("tracker"),
            looking,
            to_site("wiki"),
            wiki.edit_page(meeting["page"], text),
        ),
    )


@task("across/lead-in-copy", level=2, split="train", apps=("wiki", "tracker"))
def _lead_in_copy(facts: Facts, rng: random.Random) -> Assignment:
    trac, team = facts["tracker"], rng.choice(facts["wiki"]["teams"])
    lead = team["lead"].split()[0].lower()
    ticket = rng.choice(
        tracker.find_unclosed_tickets(trac, cc=lambda cc: cc and lead not in cc.split(", "))
    )
    wanted = {*ticket["cc"].split(", "), lead}
    return Assignment(
        goal=f"Find the lead of the team {team['name']} in the wiki, and add this person to the Cc "
        f"of ticket #{ticket['id']} in the tracker, by user name: the first name in small letters. "
        "Keep those who are there.",
        expect={
            "tracker": tracker.expect_changed(
                ticket, cc=lambda cc: set(cc.replace(",", " ").split()) == wanted
            )
        },
        steps=(
            wiki.open_page(team["page"]),
            to_site("tracker"),
            tracker.open_ticket(ticket),
            tracker.change_ticket(cc=f"{ticket['cc']}, {lead}"),
        ),
    )


@task("across/defects-of-contract", level=2, split="test", apps=("wiki", "tracker"))
def _defects_of_contract(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["wiki"]["customers"])
    kind = rng.choice(tracker_content.WORDS.types)
    found = tracker.find_unclosed_tickets(facts["tracker"], customer=customer["name"], type=kind)
    return assign(
        f"Which customer has the contract {customer['contract']} according to the wiki, and "
        f"how many tickets of the type {kind} of this customer are not closed in the tracker? "
        "Answer with the customer's name and the number, separated by a semicolon.",
        (wiki.search_page(customer["contract"], customer["page"]), to_site("tracker")),
        tracker.query_tickets(customer=customer["name"], type=kind),
        answer=(customer["name"], str(len(found))),
    )


# Shop and budget.


def _mine(facts: Facts) -> list[Facts]:
    """Return the user's orders that were neither cancelled nor returned."""
    lost = ("Cancelled", "Returned")
    return [o for o in common.orders_of(facts, facts["user"]) if o["status"] not in lost]


@task("across/order-to-budget", level=3, split="train", apps=("shop", "budget"))
def _order_to_budget(facts: Facts, rng: random.Random) -> Assignment:
    order, project = (
        rng.choice(_mine(facts["shop"])),
        rng.choice(budget.find_known_projects(facts["budget"])),
    )
    bill = budget.bill_for_everyone(
        facts["budget"], project, f"Order {order['number']}", order["total"]
    )
    return Assignment(
        goal=f"I have bought my order {order['number']} of the shop for everyone in the budget "
        f'"{project["name"]}". Enter it there as one bill that I ({bill["payer"]}) paid, for '
        f'everyone: the description is "{bill["what"]}", the date is that of the order, and the '
        "amount is its total, delivery included.",
        expect={"budget": budget.expect_bill(project, bill, day=order["date"])},
        steps=(
            common.to_order(order["number"]),
            to_site("budget"),
            budget.open_project(project),
            budget.enter_bill(project, bill, day=order["date"]),
        ),
    )


@task("across/products-to-budget", level=3, split="test", apps=("shop", "budget"))
def _products_to_budget(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice([one for one in _mine(facts["shop"]) if 2 <= len(one["lines"]) <= 3])
    project = rng.choice(budget.find_known_projects(facts["budget"]))
    bills = [
        budget.bill_for_everyone(
            facts["budget"], project, line["title"], line["price"] * line["quantity"]
        )
        for line in order["lines"]
    ]
    return Assignment(
        goal=f"I ({bills[0]['payer']}) have paid order {order['number']} of the shop for everyone "
        f'in the budget "{project["name"]}". Enter a bill of today (2 March 2026) there for each '
        "product of the order, for everyone, with the product's name as description. The amount "
        "is what all pieces of the product cost together, without delivery.",
        expect={"budget": [budget.expect_bill(project, bill) for bill in bills]},
        steps=(
            common.to_order(order["number"]),
            to_site("budget"),
            budget.open_project(project),
            [budget.enter_bill(project, bill) for bill in bills],
        ),
    )


@task("across/missing-order", level=2, split="train", apps=("shop", "budget"), infeasible=True)
def _missing_order(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(budget.find_known_projects(facts["budget"]))
    number = f"100{rng.randint(400, 990)}"
    return assign(
        f"Enter my order {number} of the shop as a bill in the budget "
        f'"{project["name"]}": paid by {facts["budget"]["name"]}, for everyone, with the '
        f'description "Order {number}", and with the date and the total of the order.',
        common.to_account("Order History"),
    )


# Forum and budget.


@task("across/second-hand", level=2, split="train", apps=("forum", "budget"))
def _second_hand(facts: Facts, rng: random.Random) -> Assignment:
    forum_facts, project = facts["forum"], rng.choice(budget.find_known_projects(facts["budget"]))
    topic = rng.choice(
        [
            one
            for one in forum.visible_topics(forum_facts)
            if one["category"] == "For Sale" and one["author"] != forum_facts["user"]
        ]
    )
    item, price = topic["details"]["item"], float(topic["details"]["price"])
    bill = budget.bill_for_everyone(facts["budget"], project, item, price)
    return Assignment(
        goal=f'I have bought what the topic "{topic["title"]}" in the forum offers, at the price '
        f'that its opening comment asks for. Enter this in the budget "{project["name"]}" as a '
        f"bill of today (2 March 2026) that I ({bill['payer']}) paid for everyone, with the "
        f'description "{item}".',
        expect={"budget": budget.expect_bill(project, bill)},
        steps=(
            forum.find_topic(topic),
            to_site("budget"),
            budget.open_project(project),
            budget.enter_bill(project, bill),
        ),
    )


@task(
    "across/who-paid-most",
    level=3,
    split="test",
    apps=("budget", "forum"),
)
def _who_paid_most(facts: Facts, rng: random.Random) -> Assignment:
    project, best = rng.choice(
        [
            (one, best)
            for one in budget.find_known_projects(facts["budget"])
            if (best := find_best(one["members"], lambda member: member["paid"]))
        ]
    )
    board, title = rng.choice(BOARDS), f"{project['name']}: thank you"
    text = f"{best['name']} has paid most, {best['paid']:.2f} in total. Thank you!"
    return Assignment(
        goal=f'Who has paid most in the budget "{project["name"]}", by the column "Paid" of its '
        f'statistics? Create a topic in the category "{board}" of the forum with the title '
        f'"{title}" and this text, with the name and the amount in the places of X and Y: '
        '"X has paid most, Y in total. Thank you!" Write the amount like 1234.50.',
        expect={"forum": forum.expect_topic(facts["forum"], board, title, text)},
        steps=(
            budget.open_project(project),
            budget.open_tab("Statistics"),
            to_site("forum"),
            forum.start_topic(facts["forum"], board, title, text),
        ),
    )


# Tracker and forum.


@task(
    "across/milestone-complete",
    level=3,
    split="train",
    apps=("tracker", "forum"),
)
def _milestone_complete(facts: Facts, rng: random.Random) -> Assignment:
    name, _, day, _ = rng.choice([m for m in tracker_content.WORDS.milestones if m[2]])
    count = len(tracker.find_unclosed_tickets(facts["tracker"], milestone=name))
    board, title = rng.choice(BOARDS), f"{name} is {rng.choice(('complete', 'finished', 'out'))}"
    text = f"{name} was completed on {day}. Tickets that are not closed: {count}."
    return Assignment(
        goal=f"Look up in the tracker when the milestone {name} was completed, and how many of "
        f'its tickets are not closed. Then create a topic in the category "{board}" of the forum, '
        f'with the title "{title}" and this text: "{name} was completed on YYYY-MM-DD. Tickets '
        'that are not closed: N." Write the date and the number in these places.',
        expect={"forum": forum.expect_topic(facts["forum"], board, title, text)},
        steps=(
            tracker.query_tickets(milestone=name),
            click("#mainnav a", "Roadmap"),
            check("#showcompleted"),
            click("#prefs input[type=submit]"),
            to_site("forum"),
            forum.start_topic(facts["forum"], board, title, text),
        ),
    )


@task(
    "across/release-status",
    level=3,
    split="train",
    apps=("tracker", "forum"),
)
def _release_status(facts: Facts, rng: random.Random) -> Assignment:
    name, due = tracker.draw_release(facts["tracker"], rng)
    component = rng.choice(tracker.find_unclosed_tickets(facts["tracker"], milestone=name))[
        "component"
    ]
    count = len(
        tracker.find_unclosed_tickets(facts["tracker"], milestone=name, component=component)
    )
    board, title = rng.choice(BOARDS), f"{name}: {component}"
    text = f"{name} is due on {due}. Tickets that are not closed: {count}."
    return Assignment(
        goal=f"Look up in the tracker when the milestone {name} is due, and how many of its "
        f"tickets of the component {component} are not closed. Then create a topic in the category "
        f'"{board}" of the forum, with the title "{title}" and this text: "{name} is due on '
        'YYYY-MM-DD. Tickets that are not closed: N." Write the date and the number in these '
        "places.",
        expect={"forum": forum.expect_topic(facts["forum"], board, title, text)},
        steps=(
            tracker.query_tickets(milestone=name, component=component),
            click("#mainnav a", "Roadmap"),
            to_site("forum"),
            forum.start_topic(facts["forum"], board, title, text),
        ),
    )


# Forum and shop.


@task(
    "across/cheapest-for-wish",
    level=3,
    split="train",
    apps=("forum", "shop"),
)
def _cheapest_for_wish(facts: Facts, rng: random.Random) -> Assignment:
    name, found = products_lib.draw_category(facts["shop"], rng)
    best, user = found[0], facts["forum"]["user"]
    post = forum.prepare_topic(
        facts["forum"],
        rng,
        "Wanted",
        f"Wanted: something cheap from {name}",
        f"Which product in the category {name} of our shop is the cheapest? I would take that one.",
    )
    text = f"The {best['title']} costs £{best['price']:.2f}."
    return Assignment(
        goal=f'In the forum, the topic "{post.topic["title"]}" asks for a product of our shop. '
        'Find it, and reply in the topic with this text: "The X costs £Y.", with the full name of '
        "the product and its price in the places of X and Y.",
        user=user,
        prepare={"forum": post.prepare},
        expect={"forum": forum.expect_reply(facts["forum"], post.topic, user, text)},
        steps=(
            forum.find_topic(post.topic),
            to_site("shop"),
            products_lib.open_category(facts["shop"], name),
            select("#id_sort_by", "price-asc"),
            click(f".product_pod h3 a[href='{best['url']}']"),
            to_site("forum"),
            forum.find_topic(post.topic),
            forum.write_reply(text),
        ),
    )


@task("across/list-to-basket", level=3, split="test", apps=("forum", "shop"))
def _list_to_basket(facts: Facts, rng: random.Random) -> Assignment:
    shop, room = facts["shop"], rng.choice(forum.ROOMS)
    chosen = [(one, rng.randint(1, 4)) for one in rng.sample(common.free(shop), 3)]
    post = forum.prepare_topic(
        facts["forum"],
        rng,
        "Office Life",
        f"Shopping list for the {room} room",
        "Could somebody order this for us, please?",
        [f"{count} x {product['title']}" for product, count in chosen],
    )
    return Assignment(
        goal=f'Put everything from the list in the forum\'s topic "{post.topic["title"]}" into my '
        "basket of the shop, as many pieces as the list says. Do not order yet.",
        prepare={"forum": post.prepare},
        expect={"shop": [basket.expect_line(shop, product, count) for product, count in chosen]},
        steps=(
            forum.find_topic(post.topic),
            to_site("shop"),
            [basket.add_to_basket(product, count) for product, count in chosen],
        ),
    )


@task(
    "across/list-with-unknown-product",
    level=3,
    split="test",
    apps=("forum", "shop"),
    infeasible=True,
)
def _list_with_unknown_product(facts: Facts, rng: random.Random) -> Assignment:
    shop, room = facts["shop"], rng.choice(forum.ROOMS)
    products, unknown = rng.sample(common.free(shop), 6), common.absent(shop, rng)
    titles = [unknown, *(one["title"] for one in products)]
    post = forum.prepare_topic(
        facts["forum"],
        rng,
        "Office Life",
        f"Shopping list for the {room} room",
        "Could somebody order one of each for us, please?",
        rng.sample(titles, len(titles)),
    )
    return assign(
        "See whether our shop has every product of the list in the forum's topic "
        f'"{post.topic["title"]}". If it has them all, put one of each into my basket. If it lacks '
        "one, put none of them into the basket, and report that it cannot be done.",
        (forum.find_topic(post.topic), to_site("shop")),
        ([common.to_product(one) for one in products], common.search(unknown)),
        prepare={"forum": post.prepare},
    )


# Forum and tracker.


@task(
    "across/list-with-unknown-ticket",
    level=3,
    split="test",
    apps=("forum", "tracker"),
    infeasible=True,
)
def _list_with_unknown_ticket(facts: Facts, rng: random.Random) -> Assignment:
    tickets = rng.sample(tracker.find_unclosed_tickets(facts["tracker"]), 7)
    numbers = [rng.randint(400, 990), *(one["id"] for one in tickets)]
    post = forum.prepare_topic(
        facts["forum"],
        rng,
        "Software",
        rng.choice(("Tickets to close", "Done last week", "Finished tickets")),
        "We have finished these tickets of the tracker:",
        [f"#{number}" for number in rng.sample(numbers, len(numbers))],
    )
    return assign(
        f'The topic "{post.topic["title"]}" in the forum lists tickets. See whether each of '
        "them is in the tracker and not closed yet. If they all are, close them as fixed. If one "
        "is not, change none of them, and report that it cannot be done.",
        (forum.find_topic(post.topic), to_site("tracker")),
        [tracker.open_ticket({"id": number}) for number in reversed(numbers)],
        prepare={"forum": post.prepare},
    )


# Forum and help desk.


@task(
    "across/topic-to-ticket",
    level=3,
    split="train",
    apps=("forum", "helpdesk"),
)
def _topic_to_ticket(facts: Facts, rng: random.Random) -> Assignment:
    desk, user = facts["helpdesk"], facts["forum"]["user"]
    topic = rng.choice(
        [
            one
            for one in forum.plain_topics(facts["forum"])
            if one["category"] in ("Hardware", "Network") and one["author"] != user
        ]
    )
    number = 1 + max(int(ticket["id"]) for ticket in desk["tickets"])
    sender = f"{topic['author']}@northfield.test"
    queue, body = helpdesk.find_queue(desk, "it"), f"See the forum: {topic['title']}."
    priority = rng.choice((2, 4))
    text = f"I have entered this as ticket {number} of the help desk."
    return Assignment(
        goal=f"In the forum, {forum.name_of(facts['forum'], topic['author'])} ({sender}) describes "
        f'a problem: "{topic["title"]}". Enter a ticket for this address in the help desk: queue '
        f'{queue["title"]}, the title of the topic as summary, "{body}" as description, priority '
        f'"{helpdesk.PRIORITIES[priority]}", no owner and no date. Then reply in the topic with '
        'this text: "I have entered this as ticket N of the help desk.", with the number of the '
        "new ticket in the place of N.",
        user=user,
        expect={
            "forum": forum.expect_reply(facts["forum"], topic, user, text),
            "helpdesk": (
                helpdesk.expect_ticket(queue, topic["title"], body, priority, sender, id=number),
            ),
        },
        steps=(
            forum.find_topic(topic),
            to_site("helpdesk"),
            helpdesk.enter_ticket(queue, topic["title"], body, priority, sender),
            to_site("forum"),
            forum.find_topic(topic),
            forum.write_reply(text),
        ),
    )


# The intranet.


@task("across/glossary-to-intranet", level=2, split="train", apps=("wiki", "cms"))
def _glossary_to_intranet(facts: Facts, rng: random.Random) -> Assignment:
    meanings = facts["wiki"]["glossary"]
    words = rng.sample(sorted(meanings), 2)
    return Assignment(
        goal=f"The terms {words[0]} and {words[1]} are in the wiki's glossary. Add both to the "
        "glossary of the intranet too (Snippets), with the meanings that the wiki gives.",
        expect={
            "cms": [
                added("northfield_term", word=word, meaning=same_text(meanings[word]))
                for word in words
            ]
        },
        steps=(
            wiki.open_page("Company/Glossary"),
            to_site("cms", cms.START),
            [cms.add_term(word, meanings[word]) for word in words],
        ),
    )


@task(
    "across/event-to-forum",
    level=2,
    split="train",
    apps=("cms", "forum"),
)
def _event_to_forum(facts: Facts, rng: random.Random) -> Assignment:
    coming = cms.live_pages(
        facts["cms"], lambda one: one["fields"]["date"] > _TODAY, sections=("events",)
    )
    page, board = rng.choice(coming), rng.choice(BOARDS)
    event = page["fields"]
    text = f"{event['date']}, {event['place']}. Seats: {event['seats']}."
    return Assignment(
        goal=f"Announce the intranet's event {cms.name_of(page)} in the forum: create a topic in "
        f'the category "{board}" with the title of the event as title, and this text: "YYYY-MM-DD, '
        'PLACE. Seats: N." Write the date, the place and the number of seats in these places, as '
        "the page of the event says.",
        expect={"forum": forum.expect_topic(facts["forum"], board, page["title"], text)},
        steps=(
            cms.visit_page(page),
            to_site("forum"),
            forum.start_topic(facts["forum"], board, page["title"], text),
        ),
    )
