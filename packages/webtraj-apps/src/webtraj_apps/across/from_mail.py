"""Tasks that begin or end in the webmail, and act in one more application."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final

from webtraj_apps.across.visits import (
    Visit,
    answer_mail,
    assign_across,
    at,
    do_as_asked,
    draw_project,
    enter_bills,
    in_ticket,
    read_mail,
    read_topic,
    reply_in,
    start_topic,
    write_mail,
)
from webtraj_apps.budget import tasks as budget
from webtraj_apps.forum import tasks as forum
from webtraj_apps.helpdesk import tasks as helpdesk
from webtraj_apps.mail import tasks as mail
from webtraj_apps.shop.assignments import basket
from webtraj_apps.shop.assignments import common as shop
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    draw_day,
    draw_distinct,
    find,
    format_date,
    join_names,
    next_id,
    other_than,
    template,
)
from webtraj_apps.tracker import tasks as tracker
from webtraj_apps.wiki import tasks as wiki

task = functools.partial(template, user="user")


# What these tasks share.


def _person(facts: Facts, username: str) -> Facts:
    return find(facts["mail"]["people"], username=username)


def _draw_request(facts: Facts, rng: random.Random, app: str) -> Facts:
    found: Facts = rng.choice([one for one in facts["mail"]["requests"] if one["app"] == app])
    return found


def _is_known(facts: Facts, username: str) -> bool:
    """Return whether somebody other than the user is in the address book."""
    email = _person(facts, username)["email"]
    contacts = {contact["email"] for contact in facts["mail"]["contacts"]}
    return email in contacts - {facts["mail"]["email"]}


def _question(
    facts: Facts,
    rng: random.Random,
    question: str,
    answer: str,
    look_up: Visit,
    sender: Facts | None = None,
) -> Assignment:
    """Return the assignment to answer a colleague's question from another application.

    Args:
        facts: The facts.
        rng: Chooses the rest.
        question: What the colleague writes, with the form of the answer.
        answer: The whole text of the right answer.
        look_up: The visit that finds it.
        sender: Who asks; anybody by default.
    """
    sender = sender or mail.draw_colleague(facts["mail"], rng)
    subject = rng.choice(("A question", "Can you look this up?", "I need to know something"))
    letter, read = write_mail(facts, sender, subject, question)
    return assign_across(
        f"{sender['name']} has sent you a question, the mail “{subject}” in the inbox. Find the "
        f"answer in the {_PLACES[look_up.app]}, and answer the mail in the way it asks for, only "
        "to the sender.",
        read,
        look_up,
        answer_mail(facts, letter, answer),
    )


_PLACES: Final = {
    "budget": "shared budgets",
    "helpdesk": "help desk",
    "shop": "shop",
    "tracker": "issue tracker",
    "wiki": "wiki",
}


# The issue tracker.


@task("across/file-ticket", apps=("mail", "tracker"), level=3, split="train")
def _file_ticket(facts: Facts, rng: random.Random) -> Assignment:
    own, request = facts["tracker"], _draw_request(facts, rng, "tracker")
    letter = mail.find_mail(facts["mail"], request["mail"])
    component = rng.choice(own["components"])
    priority = rng.choice(("blocker", "critical", "minor", "trivial"))
    texts = {"summary": request["summary"], "description": request["description"]}
    kept = {"type": "defect", "owner": component["owner"], "reporter": own["user"]}
    return assign_across(
        f"{request['from']} has asked you by mail to file a ticket: {mail.name_of(letter)} in the "
        "inbox. File it in the issue tracker as a defect, with the summary and the description "
        f"that the mail gives, the component {component['name']} and the priority {priority}; "
        "leave the other fields as they are. Then answer the mail with the sentence “It is ticket "
        "#N.”, with the number of the ticket in place of N.",
        read_mail(letter),
        at(
            "tracker",
            tracker.create_ticket(
                own, kept=kept, **texts, component=component["name"], priority=priority
            ),
        ),
        answer_mail(facts, letter, f"It is ticket #{next_id(own['tickets'])}."),
    )


_ASKED: Final[dict[str, tuple[Callable[..., list[Any]], dict[str, Any], str]]] = {
    "build": (
        tracker.find_tickets,
        {"type": "defect", "resolution": "fixed", "build": bool},
        "in which build was it fixed? Answer with the number of the build",
    ),
    "owner": (tracker.find_unclosed_tickets, {}, "who owns it now? Answer with the full name"),
    "milestone": (
        tracker.find_unclosed_tickets,
        {"milestone": bool},
        "which milestone is it in? Answer with its name",
    ),
    "workaround": (
        tracker.find_tickets,
        {"workaround": bool},
        (
            "one of its comments names a workaround; which? Answer with the words of the comment "
            "after the colon"
        ),
    ),
}
"""By the column with the answer: how to find tickets that have one, and the question."""


@task("across/ask-tracker", apps=("mail", "tracker"), level=2, split="train")
def _ask_tracker(facts: Facts, rng: random.Random) -> Assignment:
    own, kind = facts["tracker"], rng.choice(list(_ASKED))
    find_among, wanted, asked = _ASKED[kind]
    ticket = rng.choice(find_among(own, **wanted))
    return _question(
        facts,
        rng,
        f"this is about ticket #{ticket['id']} in the tracker, “{ticket['summary']}”: {asked} and "
        "with nothing else, please.",
        tracker.name_of(own, ticket["owner"]) if kind == "owner" else ticket[kind],
        at("tracker", tracker.open_ticket(ticket)),
    )


@task("across/hand-over-ticket", apps=("mail", "tracker"), level=2, split="train")
def _hand_over_ticket(facts: Facts, rng: random.Random) -> Assignment:
    own = facts["tracker"]
    ticket = rng.choice(tracker.find_unclosed_tickets(own, owner=lambda name: name != own["user"]))
    owner = other_than(rng, own["developers"], ticket["owner"])
    sender = _person(facts, ticket["owner"])
    comment = f"{sender['name']} is away until {rng.randint(9, 27)} March."
    return do_as_asked(
        facts,
        rng,
        ("While I am away", "My ticket"),
        "do something in the issue tracker",
        f"could you please reassign my ticket “{ticket['summary']}” to "
        f"{tracker.name_of(own, owner)}, with this comment?\n\n{comment}",
        at(
            "tracker",
            tracker.search_ticket(ticket),
            tracker.edit(ticket, tracker.reassign(own, owner), comment=comment),
        ),
        sender=sender,
    )


@task("across/note-decision", apps=("mail", "tracker"), level=3, split="train")
def _note_decision(facts: Facts, rng: random.Random) -> Assignment:
    thread = rng.choice(facts["mail"]["threads"])
    first = mail.find_mail(facts["mail"], thread["mail"])
    ticket = rng.choice(tracker.find_unclosed_tickets(facts["tracker"]))
    asked = {
        "budget": "the amount that may be spent, as in “£4,000”",
        "deadline": "the day by which it has to be ready, as in “Monday 2 March”",
        "supplier": "the name of the company that gets the order",
    }[thread["topic"]]
    return assign_across(
        f"In the mail folder Projects/{thread['project']} colleagues write about "
        f"“{first['subject']}”. Find out what was decided; one answer was corrected. Then "
        f"comment on ticket #{ticket['id']} in the issue tracker with “Decided by mail: ” followed "
        f"by {asked}, and with nothing else.",
        _read_thread(first["folder"], first["subject"], (2, 1, 0)),
        at(
            "tracker",
            tracker.open_ticket(ticket),
            tracker.comment_on(ticket, f"Decided by mail: {thread['value']}"),
        ),
    )


def _read_thread(folder: str, subject: str, places: Iterable[int]) -> Visit:
    """Read the mails that a search finds in a folder, by their places in the list."""
    found = mail.to_folder(folder), mail.search(subject)
    return at("mail", found, map(mail.read_nth, places), mail.READABLE)


@task("across/mail-owner", apps=("tracker", "mail"), level=2, split="train")
def _mail_owner(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(
        tracker.find_unclosed_tickets(facts["tracker"], owner=lambda name: _is_known(facts, name))
    )
    owner, text = _person(facts, ticket["owner"]), rng.choice(mail.TEXTS)
    return assign_across(
        f"Send a mail to the owner of the ticket “{ticket['summary']}” in the issue tracker, whose "
        f"address is in the address book of the webmail. The subject is “Ticket #N”, with the "
        f"ticket's number in place of N, and the text “{text}”",
        at("tracker", tracker.search_ticket(ticket)),
        at("mail", mail.write_to_contacts([owner], f"Ticket #{ticket['id']}", text)),
    )


@task("across/no-such-ticket", apps=("mail", "tracker"), level=2, split="test", infeasible=True)
def _no_such_ticket(facts: Facts, rng: random.Random) -> Assignment:
    sender = mail.draw_colleague(facts["mail"], rng)
    number = rng.randint(400, 990)
    return do_as_asked(
        facts,
        rng,
        ("Please close a ticket", "A ticket of mine"),
        "close a ticket in the issue tracker",
        f"could you please close ticket #{number} in the tracker as fixed? I cannot do it myself.",
        at("tracker", tracker.open_ticket({"id": number})),
        sender=sender,
    )


# The shop.


def _order_product(facts: Facts, request: Facts, product: str) -> tuple[Facts, Visit, str]:
    """Deliver a request for a product; return the mail, its visit, and the start of the goal."""
    sender = {**request, "name": request["from"]}
    letter, read = write_mail(facts, sender, request["subject"], product=product)
    wants = f"{request['from']} wants something from our shop, see {mail.name_of(letter)} in the"
    return letter, read, f"{wants} inbox."


@task("across/basket-for-colleague", apps=("mail", "shop"), level=3, split="train")
def _basket_for_colleague(facts: Facts, rng: random.Random) -> Assignment:
    request, product = _draw_request(facts, rng, "shop"), rng.choice(shop.free(facts["shop"]))
    letter, read, wants = _order_product(facts, request, product["title"])
    answer = rng.choice(("It is in the basket.", "I will order it tomorrow.", "Done, thank you."))
    return assign_across(
        f"{wants} Add what the mail asks for to your basket in the shop, in the right quantity, "
        "and leave what is there already. Do not order yet. Then answer the mail with the text "
        f"“{answer}”",
        read,
        at("shop", basket.add_to_basket(facts["shop"], product, request["quantity"])),
        answer_mail(facts, letter, answer),
    )


@task("across/order-for-colleague", apps=("mail", "shop"), level=3, split="test")
def _order_for_colleague(facts: Facts, rng: random.Random) -> Assignment:
    own = facts["shop"]
    request, product = _draw_request(facts, rng, "shop"), rng.choice(shop.free(own))
    letter, read, wants = _order_product(facts, request, product["title"])
    address, method, ship = basket.draw_shipping(own, rng)
    count = request["quantity"]
    bought = basket.bought_with(own, product, count)
    return assign_across(
        f"{wants} Add what the mail asks for to your basket in the shop, in the right quantity, "
        f"then order everything in the basket. {ship} Then answer the mail with the text “Order "
        "N”, with the number of the order in place of N.",
        read,
        at(
            "shop",
            basket.add_to_basket(own, product, count),
            basket.check_out(own, bought, address, method),
            allow=shop.ORDERED,
        ),
        answer_mail(facts, letter, f"Order {_FIRST_ORDER + own['basket']['id']}"),
    )


_FIRST_ORDER: Final = 100_000
"""An order's number is this plus the id of its basket."""


@task("across/cheapest-of-three", apps=("mail", "shop"), level=3, split="train")
def _cheapest_of_three(facts: Facts, rng: random.Random) -> Assignment:
    what, of = rng.choice((("cheapest", "price"), ("lightest", "weight")))
    there = [one for one in facts["shop"]["products"] if one["stock"]]
    three = draw_distinct(rng, there, 3, itemgetter(of))
    names = join_names([f"the {one['title']}" for one in three], "or")
    return _question(
        facts,
        rng,
        f"which of these three products in our shop is the {what}: {names}? "
        "Answer with its full name and with nothing else, please.",
        min(three, key=itemgetter(of))["title"],
        at("shop", map(shop.to_product, three)),
    )


@task("across/unknown-product", apps=("mail", "shop"), level=2, split="train", infeasible=True)
def _unknown_product(facts: Facts, rng: random.Random) -> Assignment:
    request, wanted = _draw_request(facts, rng, "shop"), shop.absent(facts["shop"], rng)
    _, read, wants = _order_product(facts, request, wanted)
    return assign_across(
        f"{wants} Add exactly what the mail asks for to your basket in the shop. If the shop does "
        "not have it, report that it cannot be done; buy nothing instead of it.",
        read,
        at("shop", shop.search(wanted)),
    )


# The forum.


@task("across/start-thread", apps=("mail", "forum"), level=2, split="train")
def _start_thread(facts: Facts, rng: random.Random) -> Assignment:
    categories = [one["title"] for one in facts["forum"]["categories"]]
    request = _draw_request(facts, rng, "forum")
    letter = mail.find_mail(facts["mail"], request["mail"])
    category = other_than(rng, categories, "Announcements")
    return assign_across(
        f"{request['from']} has asked you by mail to start a thread in the forum: "
        f"{mail.name_of(letter)} in the inbox. Create this topic in the category "
        f"“{category}”, with the title and the text that the mail gives. No answer is needed.",
        read_mail(letter),
        start_topic(facts, category, request["title"], request["text"]),
    )


@task("across/announce-vote", apps=("mail", "forum"), level=3, split="test")
def _announce_vote(facts: Facts, rng: random.Random) -> Assignment:
    vote = rng.choice(facts["mail"]["votes"])
    first = mail.find_mail(facts["mail"], vote["mail"])
    count = vote["counts"][vote["winner"]]
    topic = rng.choice(forum.find_unclosed_topics(facts["forum"]))
    return assign_across(
        f"In the mail folder Team there is a vote, “{first['subject']}”. Count the votes in the "
        f"answers. Then reply in the forum, in the topic “{topic['title']}”, with the text "
        f"“{vote['title']}: N votes for X.”, with the option that won in place of X, in the words "
        "of the first mail, and the number of its votes in place of N.",
        _read_thread("Team", vote["title"], range(vote["voters"] + 1)),
        reply_in(facts, topic, f"{vote['title']}: {count} votes for {vote['winner']}."),
    )


@task("across/mail-author", apps=("forum", "mail"), level=2, split="train")
def _mail_author(facts: Facts, rng: random.Random) -> Assignment:
    topics = forum.visible_topics(facts["forum"])
    topic = rng.choice([one for one in topics if _is_known(facts, one["author"])])
    subject, text = rng.choice(mail.SUBJECTS), rng.choice(mail.TEXTS)
    return assign_across(
        f"Who started the topic “{topic['title']}” in the forum? Send this person a mail with the "
        f"subject “{subject}” and the text “{text}” The address is in the address book of the "
        "webmail.",
        read_topic(topic),
        at("mail", mail.write_to_contacts([_person(facts, topic["author"])], subject, text)),
    )


# The wiki.


@task("across/new-page", apps=("mail", "wiki"), level=2, split="train")
def _new_page(facts: Facts, rng: random.Random) -> Assignment:
    request = _draw_request(facts, rng, "wiki")
    letter = mail.find_mail(facts["mail"], request["mail"])
    parent, folder = rng.choice(("Company", "Procedures")), rng.choice(mail.TARGETS)
    page = f"{parent}/{request['title']}"
    return assign_across(
        f"{request['from']} has asked you by mail to make a page in the wiki: "
        f"{mail.name_of(letter)} in the inbox. Create the page {page}; it consists of the text "
        f"that the mail gives, without a heading and without anything else. Then move the mail to "
        f"the folder {folder}.",
        read_mail(letter),
        at("wiki", wiki.create_page(page, request["text"])),
        at("mail", mail.pick(letter), mail.move([letter], folder)),
    )


@task("across/moved-desk", apps=("mail", "wiki"), level=2, split="train")
def _moved_desk(facts: Facts, rng: random.Random) -> Assignment:
    own = facts["wiki"]
    team = rng.choice(own["teams"])
    member = other_than(rng, team["members"], name=own["name"])
    room, extension = f"1.{rng.randint(30, 79)}", str(rng.randint(700, 999))
    return do_as_asked(
        facts,
        rng,
        ("I have moved", "New desk"),
        "correct something in the wiki",
        f"I sit in room {room} now, and my extension is {extension}. Could you please correct both "
        f"in the table on the page of the team {team['name']} in the wiki?",
        at("wiki", wiki.change_seat(own, team, member, room=room, extension=extension)),
        sender=find(facts["mail"]["people"], name=member["name"]),
    )


@task("across/ask-wiki", apps=("mail", "wiki"), level=2, split="test")
def _ask_wiki(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(facts["wiki"]["customers"])
    ends = "until which day does our contract with {} run? Answer with the date, as YYYY-MM-DD,"
    number = "what is the number of our contract with {}? Answer with it"
    manager = "who at Northfield looks after the customer {}? Answer with the full name"
    kind, asked = rng.choice((("ends", ends), ("contract", number), ("manager", manager)))
    return _question(
        facts,
        rng,
        f"{asked.format(customer['name'])} and with nothing else, please.",
        customer[kind],
        at("wiki", wiki.open_page(customer["page"])),
    )


@task("across/meeting-page", apps=("mail", "wiki"), level=3, split="train")
def _meeting_page(facts: Facts, rng: random.Random) -> Assignment:
    meeting = rng.choice(facts["mail"]["meetings"])
    title, organiser = meeting["title"], find(facts["mail"]["people"], name=meeting["organiser"])
    day, hour = draw_day(rng, 4, days=(13, 30)), f"{rng.randint(8, 16):02d}:00"
    room = other_than(rng, mail.ROOMS, meeting["room"])
    letter, delivery = mail.write_mail(
        facts["mail"],
        organiser,
        f"Moved again: {title}",
        f"the {title.lower()} has to be moved once more. It is now on {mail.long_day(day)} at "
        f"{hour}. The room is {room}.",
    )
    invitation = mail.find_mail(facts["mail"], meeting["invitation"])
    text = f"# {day} {title}\n\nTime: {hour}\n\nRoom: {room}\n\nInvited by: {organiser['name']}"
    return assign_across(
        f"You have been invited by mail to the {title.lower()}, which has been moved since. Create "
        f"the page “Meetings/DAY {title}” in the wiki, with the day on which it takes place now, "
        "written like 2026-03-02, in place of DAY. The page has four lines, each a paragraph: the "
        f"heading “# DAY {title}”, then “Time: ” and the time, written like 08:00, then “Room: ” "
        "and the room, then “Invited by: ” and the full name of who wrote the mails. The last mail "
        "about the meeting counts.",
        at("mail", mail.pick(invitation), mail.pick(letter), prepare=delivery),
        at("wiki", wiki.create_page(f"Meetings/{day} {title}", text)),
    )


# The shared budgets.


def _draw_spender(
    facts: Facts, rng: random.Random, *, everyone: bool
) -> tuple[budget.Project, budget.Bill, Facts]:
    """Draw a project and a bill that somebody else paid; return them and the payer."""
    own = facts["budget"]
    while True:
        project, bill = budget.draw_bill(own, rng, everyone=everyone)
        if bill["payer"] != own["name"]:
            return project, bill, _person(facts, bill["payer"].lower())


@task("across/enter-expense", apps=("mail", "budget"), level=2, split="train")
def _enter_expense(facts: Facts, rng: random.Random) -> Assignment:
    project, bill, sender = _draw_spender(facts, rng, everyone=False)
    day = draw_day(rng, 1, 2)
    return do_as_asked(
        facts,
        rng,
        ("I have paid something", "One more bill"),
        "enter a bill in the shared budgets",
        f"on {format_date(day)} I paid {bill['amount']:.2f} for “{bill['what']}”. Could you please "
        f"enter this in our budget “{project['name']}”, with these words? It is only for "
        f"{join_names(bill['owers'])}.",
        enter_bills(project, bill, day=day),
        sender=sender,
    )


@task("across/enter-expenses", apps=("mail", "budget"), level=3, split="test")
def _enter_expenses(facts: Facts, rng: random.Random) -> Assignment:
    project, first, sender = _draw_spender(facts, rng, everyone=True)
    day, titles = draw_day(rng, 1, 2), budget.titles_of(project)
    things = rng.sample([one for one in budget.PURCHASES if one not in titles], 3)
    bills = [{**first, "what": what, "amount": budget.draw_amount(rng)} for what in things]
    lines = "\n".join(f"- {bill['what']}: {bill['amount']:.2f}" for bill in bills)
    return do_as_asked(
        facts,
        rng,
        ("My shopping", "Three bills"),
        "enter bills in the shared budgets",
        f"on {format_date(day)} I paid for three things for our budget “{project['name']}”:\n\n"
        f"{lines}\n\nEach of them is for everyone. Could you please enter them as three bills, "
        "and tell me what they cost together? Answer with nothing but the amount, please.",
        enter_bills(project, *bills, day=day),
        sender=sender,
        answer=f"{sum(bill['amount'] for bill in bills):.2f}",
        hint="Write the amount like 1234.50.",
    )


@task("across/ask-budget", apps=("mail", "budget"), level=2, split="train")
def _ask_budget(facts: Facts, rng: random.Random) -> Assignment:
    own = facts["budget"]
    project = draw_project(facts, rng)
    members = [one for one in budget.active_members(project) if one["name"] != own["name"]]
    member = rng.choice([one for one in members if one["paid"] and one["spent"]])
    column = rng.choice(("paid", "spent"))
    return _question(
        facts,
        rng,
        f"how much have I {column} in our budget “{project['name']}” so far, according to the "
        f"column “{column.title()}” of its statistics? Answer with nothing but the amount, written "
        "like 1234.50, please.",
        f"{member[column]:.2f}",
        at("budget", budget.open_project(project), budget.open_tab("Statistics")),
        sender=_person(facts, member["name"].lower()),
    )


# The help desk.


@task("across/report-problem", apps=("mail", "helpdesk"), level=3, split="train")
def _report_problem(facts: Facts, rng: random.Random) -> Assignment:
    own, sender = facts["helpdesk"], mail.draw_colleague(facts["mail"], rng)
    slug, title, body = helpdesk.draw_case(rng)
    queue, priority = helpdesk.find_queue(own, slug), rng.choice((1, 2, 4, 5))
    letter, read = write_mail(facts, sender, title, body)
    return assign_across(
        f"{sender['name']} reports something by mail (“{title}”, in the inbox). Enter a ticket for "
        f"{sender['email']} in the help desk, in the queue {queue['title']}. Its summary is the "
        "subject of the mail, and its description what the mail says between the greeting and the "
        f"closing; its priority is “{helpdesk.PRIORITIES[priority]}”. Nobody owns it, and it has "
        "no due date. Then answer the mail with “Your ticket has the number N.”, with the number "
        "of the ticket in place of N.",
        read,
        at("helpdesk", helpdesk.create_ticket(queue, title, body, priority, sender["email"])),
        answer_mail(facts, letter, f"Your ticket has the number {next_id(own['tickets'])}."),
    )


@task("across/resolve-as-told", apps=("mail", "helpdesk"), level=2, split="train")
def _resolve_as_told(facts: Facts, rng: random.Random) -> Assignment:
    sender = mail.draw_colleague(facts["mail"], rng)
    ticket = rng.choice(helpdesk.find_tickets(facts["helpdesk"], lambda one: not one["depends"]))
    letter, read = write_mail(
        facts,
        sender,
        rng.choice(("It is done", "News about a ticket")),
        f"I have dealt with the ticket “{ticket['title']}”. Could you please set it to resolved? "
        f"The resolution is:\n\n{ticket['end']}",
    )
    return assign_across(
        f"{sender['name']} has written to you about a ticket of the help desk (“"
        f"{letter['subject']}”, in the inbox). Do what the mail says; the submitter must be able "
        "to read the resolution. The mail needs no answer.",
        read,
        at("helpdesk", helpdesk.search_ticket(ticket), helpdesk.resolve(ticket, ticket["end"])),
    )


@task("across/ask-helpdesk", apps=("mail", "helpdesk"), level=2, split="test")
def _ask_helpdesk(facts: Facts, rng: random.Random) -> Assignment:
    own = facts["helpdesk"]
    senders = {one["email"]: one for one in facts["mail"]["people"][1:]}
    known = helpdesk.find_tickets(own, lambda one: one["email"] in senders)
    ticket = rng.choice([one for one in known if one["owner"] and one["due"]])
    owner = helpdesk.find_agent(own, ticket["owner"])
    return _question(
        facts,
        rng,
        f"whom is my ticket “{ticket['title']}” in the help desk assigned to, and when is it due? "
        "Answer with the full name, a comma, a space and the date, like “Jo Smith, 2026-03-02”, "
        "and with nothing else, please.",
        f"{owner['name']}, {ticket['due']}",
        at("helpdesk", helpdesk.search_ticket(ticket)),
        sender=senders[ticket["email"]],
    )


@task("across/note-invoice", apps=("mail", "helpdesk"), level=2, split="train")
def _note_invoice(facts: Facts, rng: random.Random) -> Assignment:
    invoice = rng.choice(facts["mail"]["invoices"])
    letter = mail.find_mail(facts["mail"], invoice["mail"])
    ticket = rng.choice(helpdesk.find_tickets(facts["helpdesk"]))
    note = f"{invoice['number']}: {invoice['amount']} GBP until {invoice['due']}"
    return assign_across(
        f"Find the mail with the invoice {invoice['number']}; it is {mail.place_of(letter)}. Then "
        f"add a note to ticket #{ticket['id']} of the help desk, which its submitter must not see: "
        "“NUMBER: AMOUNT GBP until DAY”, with the number of the invoice, its amount, written like "
        "1234.50, and the day by which it is payable, written like 2026-03-02.",
        read_mail(letter),
        in_ticket(ticket, helpdesk.respond(ticket, note, public=False)),
    )
