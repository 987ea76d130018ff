"""Tasks over three applications, of some 20 to 50 actions."""

from __future__ import annotations

import functools
import random

from webtraj.environments.browser.oracles import click
from webtraj_apps.across import between
from webtraj_apps.budget import tasks as budget
from webtraj_apps.cms import tasks as cms
from webtraj_apps.forum import tasks as forum
from webtraj_apps.helpdesk import tasks as helpdesk
from webtraj_apps.mail import tasks as mail
from webtraj_apps.shop.assignments import basket
from webtraj_apps.shop.assignments import common as shop
from webtraj_apps.tasks import Assignment, Facts, find, join_names, same_text, template
from webtraj_apps.tracker import content as tracker_content
from webtraj_apps.tracker import tasks as tracker
from webtraj_apps.wiki import tasks as wiki

task = functools.partial(template, level=3, user="user")


@task("across/points-for-colleague", apps=("mail", "wiki", "tracker"), split="train")
def _points_for_colleague(facts: Facts, rng: random.Random) -> Assignment:
    meeting, points = wiki.open_points(facts["wiki"], rng, 3)
    component = rng.choice(facts["tracker"]["components"])
    shared = {"component": component["name"], "milestone": rng.choice(tracker.UPCOMING)}
    sender = mail.draw_colleague(facts["mail"], rng)
    letter, delivery = mail.write_mail(
        facts["mail"],
        sender,
        rng.choice(("Open points", "After the meeting")),
        f"could you please file the points of {meeting['page']} (it is in the wiki) that are not "
        "ticked off yet? One ticket each, with the words of the point without the name as summary; "
        f"type task, component {shared['component']}, milestone {shared['milestone']}, and the "
        "rest as it is. Then tell me how many there were: “Filed: N.”, and nothing else.",
    )
    answer = f"Filed: {len(points)}."
    return Assignment(
        goal=f"{sender['name']} asks you by mail (“{letter['subject']}”, in the inbox) to file "
        "something in the tracker. Do what the mail says, and answer it, only to the sender, in "
        "the way it asks for.",
        prepare={"mail": delivery},
        expect={
            "mail": mail.expect_answer(facts["mail"], letter, answer),
            "tracker": tracker.expect_tasks(
                facts["tracker"], [point["what"] for point in points], component["owner"], **shared
            ),
        },
        allow={"mail": mail.READ},
        steps=(
            mail.pick(letter),
            between.to_site("wiki"),
            wiki.open_page(meeting["page"]),
            between.to_site("tracker"),
            [tracker.file_ticket(summary=point["what"], type="task", **shared) for point in points],
            between.to_site("mail"),
            mail.pick(letter),
            mail.reply(answer),
        ),
    )


@task("across/list-to-bills", apps=("forum", "shop", "budget"), split="test")
def _list_to_bills(facts: Facts, rng: random.Random) -> Assignment:
    own, project = facts["forum"], rng.choice(budget.find_known_projects(facts["budget"]))
    titles = budget.titles_of(project)
    products = [one for one in shop.free(facts["shop"]) if one["title"] not in titles]
    chosen = [(one, rng.randint(2, 5)) for one in rng.sample(products, 3)]
    post = forum.prepare_topic(
        own,
        rng,
        "Office Life",
        f"What we used up in the {rng.choice(forum.ROOMS)} room",
        "I took all of this from our own shop. What does it cost, please?",
        [f"{count} x {product['title']}" for product, count in chosen],
    )
    bills = [
        budget.bill_for_everyone(facts["budget"], project, one["title"], one["price"] * count)
        for one, count in chosen
    ]
    text = f"Together that is £{sum(bill['amount'] for bill in bills):.2f}."
    return Assignment(
        goal=f'The topic "{post.topic["title"]}" in the forum lists products of our shop. Enter a '
        f'bill of today (2 March 2026) for each of them in the budget "{project["name"]}": the '
        "description is the product's full name, the amount is what all pieces of it cost at the "
        f"price in the shop, {bills[0]['payer']} paid, and it is for everyone. Then reply in the "
        'topic with this text: "Together that is £N.", with the sum of the bills, written like '
        "1234.50, in the place of N.",
        prepare={"forum": post.prepare},
        expect={
            "budget": [budget.expect_bill(project, bill) for bill in bills],
            "forum": forum.expect_reply(own, post.topic, own["user"], text),
        },
        steps=(
            forum.find_topic(post.topic),
            between.to_site("shop"),
            [shop.to_product(product) for product, _ in chosen],
            between.to_site("budget"),
            budget.open_project(project),
            [budget.enter_bill(project, bill) for bill in bills],
            between.to_site("forum"),
            forum.find_topic(post.topic),
            forum.write_reply(text),
        ),
    )


@task("across/report-on-contract", apps=("wiki", "tracker", "forum"), split="train")
def _report_on_contract(facts: Facts, rng: random.Random) -> Assignment:
    customer, own = rng.choice(facts["wiki"]["customers"]), facts["forum"]
    kinds = sorted(tracker_content.WORDS.types)[:2]
    counts = [
        len(tracker.find_unclosed_tickets(facts["tracker"], customer=customer["name"], type=kind))
        for kind in kinds
    ]
    board, title = rng.choice(between.BOARDS), f"Contract {customer['contract']}"
    text = (
        f"{customer['name']}, until {customer['ends']}. "
        f"{kinds[0].capitalize()}: {counts[0]}, {kinds[1]}: {counts[1]}."
    )
    return Assignment(
        goal=f"Find out from the wiki which customer has the contract {customer['contract']} and "
        f"until which day it runs, and from the tracker how many tickets of the type {kinds[0]} "
        f"and how many of the type {kinds[1]} of this customer are not closed. Then create a topic "
        f'in the category "{board}" of the forum with the title "{title}" and this text: "NAME, '
        f"until YYYY-MM-DD. {kinds[0].capitalize()}: N, {kinds[1]}: M.\" Write the customer's "
        "name, the date and the numbers in these places.",
        expect={"forum": forum.expect_topic(own, board, title, text)},
        steps=(
            wiki.search_page(customer["contract"], customer["page"]),
            between.to_site("tracker"),
            [tracker.query_tickets(customer=customer["name"], type=kind) for kind in kinds],
            between.to_site("forum"),
            forum.start_topic(own, board, title, text),
        ),
    )


@task("across/new-desk", apps=("mail", "wiki", "helpdesk"), split="test")
def _new_desk(facts: Facts, rng: random.Random) -> Assignment:
    own, desk = facts["wiki"], facts["helpdesk"]
    team = rng.choice(own["teams"])
    member = rng.choice([one for one in team["members"] if one["name"] != own["name"]])
    room, thing = f"1.{rng.randint(30, 79)}", rng.choice(("telephone", "screen", "desk lamp"))
    text = wiki.seat(own, team, member, room=room)
    sender = find(facts["mail"]["people"], name=member["name"])
    queue, priority = helpdesk.find_queue(desk, "it"), rng.choice((2, 4))
    title, body = f"A {thing} for room {room}", f"There is no {thing} in room {room} yet."
    letter, delivery = mail.write_mail(
        facts["mail"],
        sender,
        rng.choice(("I have moved", "My new desk")),
        f"I sit in room {room} now; my extension has not changed. Could you please correct the "
        f"page of the team {team['name']} in the wiki, and enter a ticket for me in the help desk? "
        f"The queue is {queue['title']}, the summary “{title}”, the description “{body}”, the "
        f"priority “{helpdesk.PRIORITIES[priority]}”, without an owner and without a date. Please "
        "answer with the number of the ticket: “It is ticket N.”",
    )
    answer = f"It is ticket {len(desk['tickets']) + 1}."
    return Assignment(
        goal=f"{sender['name']} ({sender['email']}) asks you by mail (“{letter['subject']}”, in "
        "the inbox) for two things. Do what the mail says, and answer it, only to the sender, in "
        "the way it asks for.",
        prepare={"mail": delivery},
        expect={
            "mail": mail.expect_answer(facts["mail"], letter, answer),
            "wiki": wiki.expect_text(team["page"], text),
            "helpdesk": helpdesk.expect_ticket(queue, title, body, priority, sender["email"]),
        },
        allow={"mail": mail.READ, "wiki": wiki.COMMITS},
        steps=(
            mail.pick(letter),
            between.to_site("wiki"),
            wiki.edit_page(team["page"], text),
            between.to_site("helpdesk"),
            helpdesk.enter_ticket(queue, title, body, priority, sender["email"]),
            between.to_site("mail"),
            mail.pick(letter),
            mail.reply(answer),
        ),
    )


@task("across/buy-and-share", apps=("mail", "shop", "budget"), split="train")
def _buy_and_share(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(budget.find_known_projects(facts["budget"]))
    products = rng.sample(shop.free(facts["shop"]), 2)
    counts = [rng.randint(2, 6) for _ in products]
    lines = "\n".join(f"- {n} x {one['title']}" for one, n in zip(products, counts, strict=True))
    total = sum(one["price"] * count for one, count in zip(products, counts, strict=True))
    what = rng.choice([one for one in budget.PURCHASES if one not in budget.titles_of(project)])
    bill = budget.bill_for_everyone(facts["budget"], project, what, total)
    sender = mail.draw_colleague(facts["mail"], rng)
    letter, delivery = mail.write_mail(
        facts["mail"],
        sender,
        rng.choice(("For the next meeting", "A shopping list")),
        f"could you please put this into your basket in our shop?\n\n{lines}\n\nDo not order it "
        f"yet. Please enter what it costs together, without delivery, in the budget "
        f"“{project['name']}”, as one bill of today that you paid for everyone, with the "
        f"description “{what}”. Then answer with the amount and nothing else, written like "
        "1234.50.",
    )
    answer = f"{total:.2f}"
    return Assignment(
        goal=f"{sender['name']} asks you by mail (“{letter['subject']}”, in the inbox) to put "
        "products into your basket in the shop and to enter what they cost in a shared budget. Do "
        "what the mail says, and answer it, only to the sender, in the way it asks for. Today is "
        f"2 March 2026, and you are {bill['payer']} in the budget.",
        prepare={"mail": delivery},
        expect={
            "mail": mail.expect_answer(facts["mail"], letter, answer),
            "shop": [
                basket.expect_line(facts["shop"], one, count)
                for one, count in zip(products, counts, strict=True)
            ],
            "budget": budget.expect_bill(project, bill),
        },
        allow={"mail": mail.READ},
        steps=(
            mail.pick(letter),
            between.to_site("shop"),
            [basket.add_to_basket(one, count) for one, count in zip(products, counts, strict=True)],
            between.to_site("budget"),
            budget.open_project(project),
            budget.enter_bill(project, bill),
            between.to_site("mail"),
            mail.pick(letter),
            mail.reply(answer),
        ),
    )


@task("across/page-of-release", apps=("tracker", "wiki", "forum"), split="test")
def _page_of_release(facts: Facts, rng: random.Random) -> Assignment:
    name, due = tracker.draw_release(facts["tracker"], rng, components=2)
    open_tickets = tracker.find_unclosed_tickets(facts["tracker"], milestone=name)
    first, second = rng.sample(sorted({one["component"] for one in open_tickets}), 2)
    counts = [sum(one["component"] == part for one in open_tickets) for part in (first, second)]
    short = name.replace(".", "-")  # The wiki takes no full stop in a page's name.
    page, own = f"Company/{short}", facts["forum"]
    text = f"# {name}\n\nDue: {due}\n\n{first}: {counts[0]}\n\n{second}: {counts[1]}"
    board, title = rng.choice(between.BOARDS), f"How far is {name}?"
    says = f"See the page “{short}” in the wiki."
    return Assignment(
        goal=f"Look up in the tracker when the milestone {name} is due, and how many of its "
        f"tickets of the component {first} and how many of the component {second} are not closed. "
        f"Create the page “{page}” in the wiki. It has four lines, each a paragraph: the heading "
        f"“# {name}”, then “Due: ” and the day, written like 2026-03-02, then “{first}: ” and "
        f"the number, then “{second}: ” and the number. Then create a topic in the category "
        f"“{board}” of the forum with the title “{title}” and the text “{says}”",
        expect={
            "wiki": wiki.expect_page(page, text),
            "forum": forum.expect_topic(own, board, title, says),
        },
        allow={"wiki": wiki.COMMITS},
        steps=(
            [
                tracker.query_tickets(milestone=name, component=component)
                for component in (first, second)
            ],
            click("#mainnav a", "Roadmap"),
            between.to_site("wiki"),
            wiki.write_page(page, text),
            between.to_site("forum"),
            forum.start_topic(own, board, title, says),
        ),
    )


@task("across/event-for-all", apps=("cms", "wiki", "mail"), split="train")
def _event_for_all(facts: Facts, rng: random.Random) -> Assignment:
    coming = cms.live_pages(
        facts["cms"], lambda one: one["fields"]["date"] > "2026-03-02", sections=("events",)
    )
    page = rng.choice(coming)
    event, people = page["fields"], facts["mail"]["people"]
    known = {one["email"] for one in facts["mail"]["contacts"]} - {facts["mail"]["email"]}
    guests = rng.sample([one for one in people if one["email"] in known], 2)
    note = f"Meetings/{event['date']} {rng.choice(('Visit', 'Outing', 'Together'))}"
    text = f"{page['title']}\n\nPlace: {event['place']}\n\nSeats: {event['seats']}"
    subject = f"{event['date']}: will you come?"
    says = f"It is at {event['place']}."
    return Assignment(
        goal=f"Look up the event {cms.name_of(page)} in the intranet. Create the page “{note}” in "
        "the wiki, with three paragraphs: the title of the event, then “Place: ” and its place, "
        "then “Seats: ” and the number of seats. Then send one mail to "
        f"{join_names([one['name'] for one in guests])}, whose addresses are in the address book "
        f"of the webmail, with the subject “{subject}” and the text “It is at PLACE.”, with the "
        "place of the event in place of PLACE.",
        expect={
            "wiki": wiki.expect_page(note, text),
            "mail": mail.expect_sent(
                [one["email"] for one in guests], subject, text=same_text(says)
            ),
        },
        allow={"mail": mail.READ, "wiki": wiki.COMMITS},
        steps=(
            cms.visit_page(page),
            between.to_site("wiki"),
            wiki.write_page(note, text),
            between.to_site("mail"),
            mail.write_to_contacts(guests, subject, says),
        ),
    )
