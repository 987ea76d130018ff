"""Tasks over three applications, of some 20 to 50 actions."""

from __future__ import annotations

import functools
import random

from webtraj_apps.across.visits import (
    BOARDS,
    answer_mail,
    assign_across,
    at,
    do_as_asked,
    draw_event,
    draw_project,
    enter_bills,
    file_points,
    reply_in,
    start_topic,
    write_mail,
    write_topic,
)
from webtraj_apps.budget import tasks as budget
from webtraj_apps.cms import tasks as cms
from webtraj_apps.forum import tasks as forum
from webtraj_apps.helpdesk import tasks as helpdesk
from webtraj_apps.mail import tasks as mail
from webtraj_apps.shop.assignments import basket
from webtraj_apps.shop.assignments import common as shop
from webtraj_apps.tasks import Assignment, Facts, find, join_names, next_id, other_than, template
from webtraj_apps.tracker import content as tracker_content
from webtraj_apps.tracker import tasks as tracker
from webtraj_apps.wiki import tasks as wiki

task = functools.partial(template, level=3, user="user")


@task("across/points-for-colleague", apps=("mail", "wiki", "tracker"), split="train")
def _points_for_colleague(facts: Facts, rng: random.Random) -> Assignment:
    meeting, points = wiki.draw_open_points(facts["wiki"], rng, 3)
    component = rng.choice(facts["tracker"]["components"])
    milestone = rng.choice(tracker.UPCOMING)
    return do_as_asked(
        facts,
        rng,
        ("Open points", "After the meeting"),
        "file something in the tracker",
        f"could you please file the points of {meeting['page']} (it is in the wiki) that are not "
        "ticked off yet? One ticket each, with the words of the point without the name as summary; "
        f"type task, component {component['name']}, milestone {milestone}, and the rest as it is. "
        "Then tell me how many there were: “Filed: N.”, and nothing else.",
        at("wiki", wiki.open_page(meeting["page"])),
        file_points(facts, points, component, milestone),
        answer=f"Filed: {len(points)}.",
    )


@task("across/list-to-bills", apps=("forum", "shop", "budget"), split="test")
def _list_to_bills(facts: Facts, rng: random.Random) -> Assignment:
    own, project = facts["budget"], draw_project(facts, rng)
    titles = budget.titles_of(project)
    products = [one for one in shop.free(facts["shop"]) if one["title"] not in titles]
    chosen = [(one, rng.randint(2, 5)) for one in rng.sample(products, 3)]
    title = f"What we used up in the {rng.choice(forum.ROOMS)} room"
    asks = "I took all of this from our own shop. What does it cost, please?"
    lines = [f"{count} x {product['title']}" for product, count in chosen]
    topic, read = write_topic(facts, rng, "Office Life", title, asks, lines)
    prices = [(one["title"], one["price"] * count) for one, count in chosen]
    bills = [budget.bill_for_everyone(own, project, what, price) for what, price in prices]
    text = f"Together that is £{sum(price for _, price in prices):.2f}."
    return assign_across(
        f'The topic "{title}" in the forum lists products of our shop. Enter a '
        f'bill of today (2 March 2026) for each of them in the budget "{project["name"]}": the '
        "description is the product's full name, the amount is what all pieces of it cost at the "
        f"price in the shop, {own['name']} paid, and it is for everyone. Then reply in the "
        'topic with this text: "Together that is £N.", with the sum of the bills, written like '
        "1234.50, in the place of N.",
        read,
        at("shop", [shop.to_product(product) for product, _ in chosen]),
        enter_bills(project, *bills),
        reply_in(facts, topic, text),
    )


@task("across/report-on-contract", apps=("wiki", "tracker", "forum"), split="train")
def _report_on_contract(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["wiki"]["customers"])
    number, name = customer["contract"], customer["name"]
    first, second = sorted(tracker_content.WORDS.types)[:2]
    tickets = tracker.find_unclosed_tickets(facts["tracker"], customer=name)
    counts = [sum(one["type"] == kind for one in tickets) for kind in (first, second)]
    board, title = rng.choice(BOARDS), f"Contract {number}"
    text = (
        f"{name}, until {customer['ends']}. "
        f"{first.capitalize()}: {counts[0]}, {second}: {counts[1]}."
    )
    return assign_across(
        f"Find out from the wiki which customer has the contract {number} and "
        f"until which day it runs, and from the tracker how many tickets of the type {first} "
        f"and how many of the type {second} of this customer are not closed. Then create a topic "
        f'in the category "{board}" of the forum with the title "{title}" and this text: "NAME, '
        f"until YYYY-MM-DD. {first.capitalize()}: N, {second}: M.\" Write the customer's "
        "name, the date and the numbers in these places.",
        at("wiki", wiki.search_page(number, customer["page"])),
        at(
            "tracker", [tracker.query_tickets(customer=name, type=kind) for kind in (first, second)]
        ),
        start_topic(facts, board, title, text),
    )


@task("across/new-desk", apps=("mail", "wiki", "helpdesk"), split="test")
def _new_desk(facts: Facts, rng: random.Random) -> Assignment:
    own, desk = facts["wiki"], facts["helpdesk"]
    team = rng.choice(own["teams"])
    member = other_than(rng, team["members"], name=own["name"])
    room, thing = f"1.{rng.randint(30, 79)}", rng.choice(("telephone", "screen", "desk lamp"))
    sender = find(facts["mail"]["people"], name=member["name"])
    queue, priority = helpdesk.find_queue(desk, "it"), rng.choice((2, 4))
    title, body = f"A {thing} for room {room}", f"There is no {thing} in room {room} yet."
    letter, read = write_mail(
        facts,
        sender,
        rng.choice(("I have moved", "My new desk")),
        f"I sit in room {room} now; my extension has not changed. Could you please correct the "
        f"page of the team {team['name']} in the wiki, and enter a ticket for me in the help desk? "
        f"The queue is {queue['title']}, the summary “{title}”, the description “{body}”, the "
        f"priority “{helpdesk.PRIORITIES[priority]}”, without an owner and without a date. Please "
        "answer with the number of the ticket: “It is ticket N.”",
    )
    return assign_across(
        f"{sender['name']} ({sender['email']}) asks you by mail (“{letter['subject']}”, in "
        "the inbox) for two things. Do what the mail says, and answer it, only to the sender, in "
        "the way it asks for.",
        read,
        at("wiki", wiki.change_seat(own, team, member, room=room)),
        at("helpdesk", helpdesk.create_ticket(queue, title, body, priority, sender["email"])),
        answer_mail(facts, letter, f"It is ticket {next_id(desk['tickets'])}."),
    )


@task("across/buy-and-share", apps=("mail", "shop", "budget"), split="train")
def _buy_and_share(facts: Facts, rng: random.Random) -> Assignment:
    own, project = facts["budget"], draw_project(facts, rng)
    products = rng.sample(shop.free(facts["shop"]), 2)
    chosen = [(one, rng.randint(2, 6)) for one in products]
    lines = "\n".join(f"- {count} x {one['title']}" for one, count in chosen)
    total = sum(one["price"] * count for one, count in chosen)
    what = other_than(rng, budget.PURCHASES, *budget.titles_of(project))
    return do_as_asked(
        facts,
        rng,
        ("For the next meeting", "A shopping list"),
        "put products into your basket in the shop and to enter what they cost in a shared budget",
        f"could you please put this into your basket in our shop?\n\n{lines}\n\nDo not order it "
        f"yet. Please enter what it costs together, without delivery, in the budget "
        f"“{project['name']}”, as one bill of today that you paid for everyone, with the "
        f"description “{what}”. Then answer with the amount and nothing else, written like "
        "1234.50.",
        at("shop", [basket.add_to_basket(facts["shop"], one, count) for one, count in chosen]),
        enter_bills(project, budget.bill_for_everyone(own, project, what, total)),
        answer=f"{total:.2f}",
        hint=f"Today is 2 March 2026, and you are {own['name']} in the budget.",
    )


@task("across/page-of-release", apps=("tracker", "wiki", "forum"), split="test")
def _page_of_release(facts: Facts, rng: random.Random) -> Assignment:
    name, due = tracker.draw_release(facts["tracker"], rng, components=2)
    open_tickets = tracker.find_unclosed_tickets(facts["tracker"], milestone=name)
    first, second = rng.sample(sorted({one["component"] for one in open_tickets}), 2)
    counts = [sum(one["component"] == part for one in open_tickets) for part in (first, second)]
    short = name.replace(".", "-")  # A page's name in the wiki cannot contain a full stop.
    page = f"Company/{short}"
    text = f"# {name}\n\nDue: {due}\n\n{first}: {counts[0]}\n\n{second}: {counts[1]}"
    board, title = rng.choice(BOARDS), f"How far is {name}?"
    says = f"See the page “{short}” in the wiki."
    return assign_across(
        f"Look up in the tracker when the milestone {name} is due, and how many of its "
        f"tickets of the component {first} and how many of the component {second} are not closed. "
        f"Create the page “{page}” in the wiki. It has four lines, each a paragraph: the heading "
        f"“# {name}”, then “Due: ” and the day, written like 2026-03-02, then “{first}: ” and "
        f"the number, then “{second}: ” and the number. Then create a topic in the category "
        f"“{board}” of the forum with the title “{title}” and the text “{says}”",
        at(
            "tracker",
            [tracker.query_tickets(milestone=name, component=part) for part in (first, second)],
            tracker.open_roadmap(),
        ),
        at("wiki", wiki.create_page(page, text)),
        start_topic(facts, board, title, says),
    )


@task("across/event-for-all", apps=("cms", "wiki", "mail"), split="train")
def _event_for_all(facts: Facts, rng: random.Random) -> Assignment:
    page = draw_event(facts, rng)
    event, people = page["fields"], facts["mail"]["people"]
    known = {one["email"] for one in facts["mail"]["contacts"]} - {facts["mail"]["email"]}
    guests = rng.sample([one for one in people if one["email"] in known], 2)
    note = f"Meetings/{event['date']} {rng.choice(('Visit', 'Outing', 'Together'))}"
    text = f"{page['title']}\n\nPlace: {event['place']}\n\nSeats: {event['seats']}"
    subject = f"{event['date']}: will you come?"
    return assign_across(
        f"Look up the event {cms.name_of(page)} in the intranet. Create the page “{note}” in "
        "the wiki, with three paragraphs: the title of the event, then “Place: ” and its place, "
        "then “Seats: ” and the number of seats. Then send one mail to "
        f"{join_names([one['name'] for one in guests])}, whose addresses are in the address book "
        f"of the webmail, with the subject “{subject}” and the text “It is at PLACE.”, with the "
        "place of the event in place of PLACE.",
        at("cms", cms.visit_page(page)),
        at("wiki", wiki.create_page(note, text)),
        at("mail", mail.write_to_contacts(guests, subject, f"It is at {event['place']}.")),
    )
