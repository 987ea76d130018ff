"""Tasks over two applications, without the webmail."""

from __future__ import annotations

import functools
import random
from operator import itemgetter
from typing import Final

from webtraj_apps.across.visits import (
    BOARDS,
    answer_request,
    assign_across,
    at,
    draw_event,
    draw_project,
    enter_bills,
    file_points,
    in_ticket,
    name_of,
    read_topic,
    reply_in,
    start_topic,
    write_request,
    write_topic,
)
from webtraj_apps.budget import tasks as budget
from webtraj_apps.cms import tasks as cms
from webtraj_apps.forum import tasks as forum
from webtraj_apps.helpdesk import tasks as helpdesk
from webtraj_apps.shop.assignments import basket, common, office
from webtraj_apps.tasks import Assignment, Facts, draw_best, email_of, next_id, other_than, template
from webtraj_apps.tracker import content as tracker_content
from webtraj_apps.tracker import tasks as tracker
from webtraj_apps.wiki import tasks as wiki

task = functools.partial(template, user="user")
infeasible = functools.partial(task, infeasible=True)

# Help desk and tracker.


@task("across/report-defect", level=3, split="train", apps=("helpdesk", "tracker"))
def _report_defect(facts: Facts, rng: random.Random) -> Assignment:
    trac = facts["tracker"]
    ticket = rng.choice(helpdesk.find_tickets(facts["helpdesk"], lambda one: one["queue"] == "web"))
    component, priority = rng.choice(trac["components"]), rng.choice(("critical", "minor"))
    fields = {"summary": ticket["title"], "component": component["name"], "priority": priority}
    kept = {"type": "defect", "owner": component["owner"]}
    text = f"Filed in the tracker under the number {next_id(trac['tickets'])}."
    return assign_across(
        f"Help desk ticket #{ticket['id']} is about a mistake in our software. File it in the "
        f"tracker: type defect, component {component['name']}, priority {priority}, and as summary "
        "the title of the help desk ticket, word by word; leave the other fields as they are. Then "
        "add a note to the help desk ticket that its submitter must not see: “Filed in the "
        "tracker under the number N.”, with the number of the new defect in the place of N.",
        in_ticket(ticket),
        at("tracker", tracker.create_ticket(trac, kept=kept, **fields)),
        in_ticket(ticket, helpdesk.respond(ticket, text, public=False)),
    )


@task("across/fixed-in-build", level=2, split="train", apps=("helpdesk", "tracker"))
def _fixed_in_build(facts: Facts, rng: random.Random) -> Assignment:
    wanted = {"status": "closed", "resolution": "fixed", "code": bool}
    fixed = rng.choice(tracker.find_tickets(facts["tracker"], type="defect", **wanted))
    sender = helpdesk.draw_sender(facts["helpdesk"], rng)
    asks = f"We sent the problem report {fixed['code']}. Is there a build without the problem?"
    title = f"What became of report {fixed['code']}?"
    ticket, read = write_request(facts, "it", sender, title, asks)
    text = f"This was fixed in build {fixed['build']}."
    return assign_across(
        f"In {name_of(ticket)}, somebody asks about a problem. Find out in the "
        "tracker in which build it was fixed, and answer the ticket, so that the submitter can "
        "read it, with this sentence: “This was fixed in build X.”, with the build in the place "
        "of X.",
        read,
        at("tracker", tracker.search_ticket(fixed, fixed["code"])),
        answer_request(ticket, text),
    )


@task("across/pass-on-workaround", level=3, split="test", apps=("helpdesk", "tracker"))
def _pass_on_workaround(facts: Facts, rng: random.Random) -> Assignment:
    wanted = {"workaround": bool, "priority": ("major", "minor", "trivial")}
    defect = rng.choice(tracker.find_unclosed_tickets(facts["tracker"], **wanted))
    sender = helpdesk.draw_sender(facts["helpdesk"], rng)
    asks = (
        f"The problem that we reported as {defect['code']} appears several times a day. What can "
        "we do until it is gone?"
    )
    title = f"We cannot work: report {defect['code']}"
    ticket, read = write_request(facts, "it", sender, title, asks)
    return assign_across(
        f"In {name_of(ticket)}, somebody asks about a problem that the tracker knows. "
        "Answer it, so that the submitter can read it, with the workaround from the comments of "
        "the tracker's ticket: the words behind the colon, and nothing else. Then set the priority "
        "of the tracker's ticket to critical.",
        read,
        at(
            "tracker",
            tracker.search_ticket(defect, defect["code"]),
            tracker.edit(defect, priority="critical"),
        ),
        answer_request(ticket, defect["workaround"]),
    )


# Help desk and wiki.


_QUESTIONS: Final = (
    ("members", "extension", "Extension of {}", "I have to call {}. What is the extension?"),
    ("members", "room", "Room of {}", "I have a parcel for {}. Which room is that?"),
    ("customers", "contract", "Contract of {}", "What is the number of our contract with {}?"),
    (
        "products",
        "price",
        "Price of {}",
        "How many pounds does {} cost for a user and month? Just the number, please.",
    ),
    (
        "servers",
        "address",
        "Address of {}",
        "Which address does the server {} have in the network?",
    ),
    (
        "procedures",
        "owner",
        "Procedure “{}”",
        "Who is responsible for the procedure “{}”? The full name, please.",
    ),
)
"""Questions to the wiki: the kind of fact, the field with the answer, the title and the text."""


def _question(facts: Facts, rng: random.Random) -> tuple[str, str, str, str]:
    """Draw a question; return its title, its text, the answer, and the wiki page that has it."""
    kinds = ("teams", "customers", "products", "servers", "procedures")
    drawn = {kind: rng.choice(facts[kind]) for kind in kinds}
    team = drawn["teams"]
    drawn["members"] = {**rng.choice(team["members"]), "page": team["page"]}
    kind, field, title, text = rng.choice(_QUESTIONS)
    one = drawn[kind]
    return title.format(one["name"]), text.format(one["name"]), str(one[field]), one["page"]


@task("across/answer-from-wiki", level=2, split="train", apps=("helpdesk", "wiki"))
def _answer_from_wiki(facts: Facts, rng: random.Random) -> Assignment:
    title, text, answer, page = _question(facts["wiki"], rng)
    sender = helpdesk.draw_sender(facts["helpdesk"], rng)
    ticket, read = write_request(facts, "it", sender, title, text)
    return assign_across(
        f"There is a question in {name_of(ticket)}. The wiki "
        "knows the answer. Reply in the ticket, so that the submitter can read it, with nothing "
        "but what was asked for, as the wiki writes it.",
        read,
        at("wiki", wiki.open_page(page)),
        answer_request(ticket, answer),
    )


@infeasible("across/question-without-answer", level=2, split="test", apps=("helpdesk", "wiki"))
def _question_without_answer(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["wiki"]["customers"])
    what = rng.choice(("bank account", "tax number", "turnover of last year"))
    sender = helpdesk.draw_sender(facts["helpdesk"], rng)
    title = f"{what.capitalize()} of {customer['name']}"
    asks = f"What is the {what} of our customer {customer['name']}?"
    ticket, read = write_request(facts, "fin", sender, title, asks)
    return assign_across(
        f"There is a question in {name_of(ticket)}. Reply with "
        "the answer from the wiki, so that the submitter can read it. Do not reply anything else.",
        read,
        at("wiki", wiki.open_page(customer["page"])),
    )


@task("across/correct-the-wiki", level=3, split="train", apps=("helpdesk", "wiki"))
def _correct_the_wiki(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(facts["wiki"]["teams"])
    member = rng.choice(team["members"])
    room, extension = f"0.{rng.randint(30, 60)}", str(rng.randint(700, 999))
    ticket, read = write_request(
        facts,
        "it",
        email_of(member["name"].split()[0].lower()),
        f"{member['name']} has moved",
        f"I have moved: my room is {room} now, and my extension is {extension}. "
        f"Please correct the page of the team {team['name']} in the wiki.",
    )
    seat = wiki.change_seat(facts["wiki"], team, member, room=room, extension=extension)
    end = rng.choice(("Corrected in the wiki.", "Done, thank you.", "The page is right now."))
    return assign_across(
        f"In {name_of(ticket)}, somebody asks for a correction in the wiki. Make "
        f"it, then resolve the ticket with this public resolution: “{end}”",
        read,
        at("wiki", seat),
        in_ticket(ticket, helpdesk.resolve(ticket, end)),
    )


# Help desk and shop.


@task("across/status-of-order", level=3, split="test", apps=("helpdesk", "shop"), user="")
def _status_of_order(facts: Facts, rng: random.Random) -> Assignment:
    shop = facts["shop"]
    others = [one for one in shop["orders"] if one["user"] != shop["user"]]
    order = rng.choice([one for one in others if one["total"] < 1000])
    title = f"What about my order {order['number']}?"
    asks = f"What is the status of my order {order['number']}, and how much is it in total?"
    ticket, read = write_request(facts, "ord", email_of(order["user"]), title, asks)
    text = f"Status: {order['status']}. Total: £{order['total']:.2f}."
    return assign_across(
        f"In {name_of(ticket)}, a customer asks about an order. Look "
        "it up in the back office of the shop (Dashboard; you are logged in there as staff), and "
        "answer the ticket, so that the submitter can read it, with this text: “Status: X. "
        "Total: £Y.”, as the back office says, with two decimals.",
        read,
        at("shop", office.open_order(order), path="/dashboard/"),
        answer_request(ticket, text),
        users={"helpdesk": facts["helpdesk"]["user"], "shop": shop["staff"]},
    )


# Wiki and tracker.


@task("across/points-to-tickets", level=3, split="train", apps=("wiki", "tracker"))
def _points_to_tickets(facts: Facts, rng: random.Random) -> Assignment:
    meeting, points = wiki.draw_open_points(facts["wiki"], rng, 2)
    component = rng.choice(facts["tracker"]["components"])
    milestone = rng.choice(tracker.UPCOMING)
    return assign_across(
        "In the tracker, file a ticket for each open point of the wiki page "
        f"{meeting['page']} that is not ticked off yet: type task, component "
        f"{component['name']}, milestone {milestone}, and as summary the words of the "
        "point without the name of the person. Leave the other fields as they are.",
        at("wiki", wiki.open_page(meeting["page"])),
        file_points(facts, points, component, milestone),
    )


@task("across/tick-off-closed", level=3, split="test", apps=("wiki", "tracker"))
def _tick_off_closed(facts: Facts, rng: random.Random) -> Assignment:
    meeting, points = wiki.draw_open_points(facts["wiki"], rng, 3)
    page, trac = meeting["page"], facts["tracker"]
    count = rng.randint(1, len(points) - 1)
    done = sorted(rng.sample(range(len(points)), count))
    closed = rng.sample(tracker.find_tickets(trac, type="task", status="closed"), count)
    working = rng.sample(tracker.find_unclosed_tickets(trac, type="task"), len(points) - count)
    tickets = [
        {**(closed if place in done else working).pop(), "summary": point["what"]}
        for place, point in enumerate(points)
    ]
    change = "UPDATE ticket SET summary = ?, description = 'From the minutes.' WHERE id = ?"
    return assign_across(
        f"The open points of the wiki page {page} are in the tracker, as tickets "
        "with the same words as summary. Tick off in the wiki those points whose ticket is closed.",
        at("wiki", wiki.open_page(page)),
        at(
            "tracker",
            map(tracker.search_ticket, tickets),
            prepare=[(change, (one["summary"], one["id"])) for one in tickets],
        ),
        at("wiki", wiki.tick_off(facts["wiki"], page, *(points[place] for place in done))),
    )


@task("across/lead-in-copy", level=2, split="train", apps=("wiki", "tracker"))
def _lead_in_copy(facts: Facts, rng: random.Random) -> Assignment:
    trac, team = facts["tracker"], rng.choice(facts["wiki"]["teams"])
    lead = team["lead"].split()[0].lower()
    ticket = rng.choice(
        tracker.find_unclosed_tickets(trac, cc=lambda cc: cc and lead not in cc.split(", "))
    )
    return assign_across(
        f"Find the lead of the team {team['name']} in the wiki, and add this person to the Cc "
        f"of ticket #{ticket['id']} in the tracker, by user name: the first name in small letters. "
        "Keep those who are there.",
        at("wiki", wiki.open_page(team["page"])),
        at("tracker", tracker.open_ticket(ticket), tracker.add_to_cc(ticket, lead)),
    )


@task("across/defects-of-contract", level=2, split="test", apps=("wiki", "tracker"))
def _defects_of_contract(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["wiki"]["customers"])
    kind = rng.choice(tracker_content.WORDS.types)
    wanted = {"customer": customer["name"], "type": kind}
    return assign_across(
        f"Which customer has the contract {customer['contract']} according to the wiki, and "
        f"how many tickets of the type {kind} of this customer are not closed in the tracker? "
        "Answer with the customer's name and the number, separated by a semicolon.",
        at("wiki", wiki.search_page(customer["contract"], customer["page"])),
        at("tracker", tracker.query_tickets(**wanted)),
        answer=(
            customer["name"],
            str(len(tracker.find_unclosed_tickets(facts["tracker"], **wanted))),
        ),
    )


# Shop and budget.


def _mine(facts: Facts) -> list[Facts]:
    """Return the user's orders that were neither cancelled nor returned."""
    lost = ("Cancelled", "Returned")
    return [one for one in common.orders_of(facts) if one["status"] not in lost]


@task("across/order-to-budget", level=3, split="train", apps=("shop", "budget"))
def _order_to_budget(facts: Facts, rng: random.Random) -> Assignment:
    own, order = facts["budget"], rng.choice(_mine(facts["shop"]))
    project = draw_project(facts, rng)
    what = f"Order {order['number']}"
    bill = budget.bill_for_everyone(own, project, what, order["total"])
    return assign_across(
        f"I have bought my order {order['number']} of the shop for everyone in the budget "
        f'"{project["name"]}". Enter it there as one bill that I ({bill["payer"]}) paid, for '
        f'everyone: the description is "{what}", the date is that of the order, and the '
        "amount is its total, delivery included.",
        at("shop", common.to_order(order)),
        enter_bills(project, bill, day=order["date"]),
    )


@task("across/products-to-budget", level=3, split="test", apps=("shop", "budget"))
def _products_to_budget(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice([one for one in _mine(facts["shop"]) if 2 <= len(one["lines"]) <= 3])
    own = facts["budget"]
    project = draw_project(facts, rng)
    bought = [(line["title"], line["price"] * line["quantity"]) for line in order["lines"]]
    bills = [budget.bill_for_everyone(own, project, what, price) for what, price in bought]
    return assign_across(
        f"I ({own['name']}) have paid order {order['number']} of the shop for everyone "
        f'in the budget "{project["name"]}". Enter a bill of today (2 March 2026) there for each '
        "product of the order, for everyone, with the product's name as description. The amount "
        "is what all pieces of the product cost together, without delivery.",
        at("shop", common.to_order(order)),
        enter_bills(project, *bills),
    )


@infeasible("across/missing-order", level=2, split="train", apps=("shop", "budget"))
def _missing_order(facts: Facts, rng: random.Random) -> Assignment:
    project = draw_project(facts, rng)
    number = f"100{rng.randint(400, 990)}"
    return assign_across(
        f"Enter my order {number} of the shop as a bill in the budget "
        f'"{project["name"]}": paid by {facts["budget"]["name"]}, for everyone, with the '
        f'description "Order {number}", and with the date and the total of the order.',
        at("shop", common.to_account("Order History")),
    )


# Forum and budget.


@task("across/second-hand", level=2, split="train", apps=("forum", "budget"))
def _second_hand(facts: Facts, rng: random.Random) -> Assignment:
    own, project = facts["budget"], draw_project(facts, rng)
    shown = forum.visible_topics(facts["forum"])
    sold = [one for one in shown if one["category"] == "For Sale"]
    topic = other_than(rng, sold, author=facts["forum"]["user"])
    item, price = topic["details"]["item"], float(topic["details"]["price"])
    return assign_across(
        f'I have bought what the topic "{topic["title"]}" in the forum offers, at the price '
        f'that its opening comment asks for. Enter this in the budget "{project["name"]}" as a '
        f"bill of today (2 March 2026) that I ({own['name']}) paid for everyone, with the "
        f'description "{item}".',
        read_topic(topic),
        enter_bills(project, budget.bill_for_everyone(own, project, item, price)),
    )


@task("across/who-paid-most", level=3, split="test", apps=("budget", "forum"))
def _who_paid_most(facts: Facts, rng: random.Random) -> Assignment:
    projects = budget.find_known_projects(facts["budget"])
    project, best = draw_best(rng, projects, itemgetter("members"), itemgetter("paid"))
    board, title = rng.choice(BOARDS), f"{project['name']}: thank you"
    text = f"{best['name']} has paid most, {best['paid']:.2f} in total. Thank you!"
    return assign_across(
        f'Who has paid most in the budget "{project["name"]}", by the column "Paid" of its '
        f'statistics? Create a topic in the category "{board}" of the forum with the title '
        f'"{title}" and this text, with the name and the amount in the places of X and Y: '
        '"X has paid most, Y in total. Thank you!" Write the amount like 1234.50.',
        at("budget", budget.open_project(project), budget.open_tab("Statistics")),
        start_topic(facts, board, title, text),
    )


# Tracker and forum.


@task("across/milestone-complete", level=3, split="train", apps=("tracker", "forum"))
def _milestone_complete(facts: Facts, rng: random.Random) -> Assignment:
    name, _, day, _ = rng.choice([m for m in tracker_content.WORDS.milestones if m[2]])
    count = len(tracker.find_unclosed_tickets(facts["tracker"], milestone=name))
    board, title = rng.choice(BOARDS), f"{name} is {rng.choice(('complete', 'finished', 'out'))}"
    text = f"{name} was completed on {day}. Tickets that are not closed: {count}."
    return assign_across(
        f"Look up in the tracker when the milestone {name} was completed, and how many of "
        f'its tickets are not closed. Then create a topic in the category "{board}" of the forum, '
        f'with the title "{title}" and this text: "{name} was completed on YYYY-MM-DD. Tickets '
        'that are not closed: N." Write the date and the number in these places.',
        at("tracker", tracker.query_tickets(milestone=name), tracker.open_roadmap(completed=True)),
        start_topic(facts, board, title, text),
    )


@task("across/release-status", level=3, split="train", apps=("tracker", "forum"))
def _release_status(facts: Facts, rng: random.Random) -> Assignment:
    trac = facts["tracker"]
    name, due = tracker.draw_release(trac, rng)
    tickets = tracker.find_unclosed_tickets(trac, milestone=name)
    component = rng.choice(tickets)["component"]
    count = sum(one["component"] == component for one in tickets)
    board, title = rng.choice(BOARDS), f"{name}: {component}"
    text = f"{name} is due on {due}. Tickets that are not closed: {count}."
    return assign_across(
        f"Look up in the tracker when the milestone {name} is due, and how many of its "
        f"tickets of the component {component} are not closed. Then create a topic in the category "
        f'"{board}" of the forum, with the title "{title}" and this text: "{name} is due on '
        'YYYY-MM-DD. Tickets that are not closed: N." Write the date and the number in these '
        "places.",
        at(
            "tracker",
            tracker.query_tickets(milestone=name, component=component),
            tracker.open_roadmap(),
        ),
        start_topic(facts, board, title, text),
    )


# Forum and shop.


@task("across/cheapest-for-wish", level=3, split="train", apps=("forum", "shop"))
def _cheapest_for_wish(facts: Facts, rng: random.Random) -> Assignment:
    name, found = common.draw_category(facts["shop"], rng)
    best = found[0]
    title = f"Wanted: something cheap from {name}"
    asks = (
        f"Which product in the category {name} of our shop is the cheapest? I would take that one."
    )
    topic, read = write_topic(facts, rng, "Wanted", title, asks)
    text = f"The {best['title']} costs £{best['price']:.2f}."
    return assign_across(
        f'In the forum, the topic "{topic["title"]}" asks for a product of our shop. '
        'Find it, and reply in the topic with this text: "The X costs £Y.", with the full name of '
        "the product and its price in the places of X and Y.",
        read,
        at("shop", common.open_in_category(facts["shop"], best, "price-asc")),
        reply_in(facts, topic, text),
    )


@task("across/list-to-basket", level=3, split="test", apps=("forum", "shop"))
def _list_to_basket(facts: Facts, rng: random.Random) -> Assignment:
    shop, room = facts["shop"], rng.choice(forum.ROOMS)
    chosen = [(one, rng.randint(1, 4)) for one in rng.sample(common.free(shop), 3)]
    title, asks = f"Shopping list for the {room} room", "Could somebody order this for us, please?"
    lines = [f"{count} x {product['title']}" for product, count in chosen]
    topic, read = write_topic(facts, rng, "Office Life", title, asks, lines)
    return assign_across(
        f'Put everything from the list in the forum\'s topic "{topic["title"]}" into my '
        "basket of the shop, as many pieces as the list says. Do not order yet.",
        read,
        at("shop", [basket.add_to_basket(shop, product, count) for product, count in chosen]),
    )


@infeasible("across/list-with-unknown-product", level=3, split="test", apps=("forum", "shop"))
def _list_with_unknown_product(facts: Facts, rng: random.Random) -> Assignment:
    shop, room = facts["shop"], rng.choice(forum.ROOMS)
    products, unknown = rng.sample(common.free(shop), 6), common.absent(shop, rng)
    titles = [unknown, *(one["title"] for one in products)]
    asks = "Could somebody order one of each for us, please?"
    lines = rng.sample(titles, len(titles))
    title = f"Shopping list for the {room} room"
    topic, read = write_topic(facts, rng, "Office Life", title, asks, lines)
    return assign_across(
        "See whether our shop has every product of the list in the forum's topic "
        f'"{topic["title"]}". If it has them all, put one of each into my basket. If it lacks '
        "one, put none of them into the basket, and report that it cannot be done.",
        read,
        at("shop", map(common.to_product, products), common.search(unknown)),
    )


# Forum and tracker.


@infeasible("across/list-with-unknown-ticket", level=3, split="test", apps=("forum", "tracker"))
def _list_with_unknown_ticket(facts: Facts, rng: random.Random) -> Assignment:
    tickets = rng.sample(tracker.find_unclosed_tickets(facts["tracker"]), 7)
    numbers = [rng.randint(400, 990), *(one["id"] for one in tickets)]
    title = rng.choice(("Tickets to close", "Done last week", "Finished tickets"))
    lines = [f"#{number}" for number in rng.sample(numbers, len(numbers))]
    says = "We have finished these tickets of the tracker:"
    topic, read = write_topic(facts, rng, "Software", title, says, lines)
    return assign_across(
        f'The topic "{topic["title"]}" in the forum lists tickets. See whether each of '
        "them is in the tracker and not closed yet. If they all are, close them as fixed. If one "
        "is not, change none of them, and report that it cannot be done.",
        read,
        at("tracker", [tracker.open_ticket({"id": number}) for number in reversed(numbers)]),
    )


# Forum and help desk.


@task("across/topic-to-ticket", level=3, split="train", apps=("forum", "helpdesk"))
def _topic_to_ticket(facts: Facts, rng: random.Random) -> Assignment:
    desk, own = facts["helpdesk"], facts["forum"]
    plain = forum.plain_topics(own)
    fits = [one for one in plain if one["category"] in ("Hardware", "Network")]
    topic = other_than(rng, fits, author=own["user"])
    number = next_id(desk["tickets"])
    sender, title = email_of(topic["author"]), topic["title"]
    queue, body = helpdesk.find_queue(desk, "it"), f"See the forum: {title}."
    priority = rng.choice((2, 4))
    text = f"I have entered this as ticket {number} of the help desk."
    return assign_across(
        f"In the forum, {forum.name_of(own, topic['author'])} ({sender}) describes "
        f'a problem: "{title}". Enter a ticket for this address in the help desk: queue '
        f'{queue["title"]}, the title of the topic as summary, "{body}" as description, priority '
        f'"{helpdesk.PRIORITIES[priority]}", no owner and no date. Then reply in the topic with '
        'this text: "I have entered this as ticket N of the help desk.", with the number of the '
        "new ticket in the place of N.",
        read_topic(topic),
        at("helpdesk", helpdesk.create_ticket(queue, title, body, priority, sender, id=number)),
        reply_in(facts, topic, text),
    )


# The intranet.


@task("across/glossary-to-intranet", level=2, split="train", apps=("wiki", "cms"))
def _glossary_to_intranet(facts: Facts, rng: random.Random) -> Assignment:
    meanings = facts["wiki"]["glossary"]
    words = rng.sample(sorted(meanings), 2)
    return assign_across(
        f"The terms {words[0]} and {words[1]} are in the wiki's glossary. Add both to the "
        "glossary of the intranet too (Snippets), with the meanings that the wiki gives.",
        at("wiki", wiki.open_page("Company/Glossary")),
        at("cms", [cms.add_term(word, meanings[word]) for word in words], path=cms.START),
    )


@task("across/event-to-forum", level=2, split="train", apps=("cms", "forum"))
def _event_to_forum(facts: Facts, rng: random.Random) -> Assignment:
    page, board = draw_event(facts, rng), rng.choice(BOARDS)
    event = page["fields"]
    text = f"{event['date']}, {event['place']}. Seats: {event['seats']}."
    return assign_across(
        f"Announce the intranet's event {cms.name_of(page)} in the forum: create a topic in "
        f'the category "{board}" with the title of the event as title, and this text: "YYYY-MM-DD, '
        'PLACE. Seats: N." Write the date, the place and the number of seats in these places, as '
        "the page of the event says.",
        at("cms", cms.visit_page(page)),
        start_topic(facts, board, page["title"], text),
    )
