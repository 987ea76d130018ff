"""Visits: the parts of tasks over several applications.

A visit holds the steps in one application, the changes that they make, and what its world holds
before the episode. `assign_across` joins visits; the other functions build those that
several tasks share.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from webtraj.environments.browser.oracles import Step, goto
from webtraj_apps.budget import tasks as budget
from webtraj_apps.cms import tasks as cms
from webtraj_apps.forum import tasks as forum
from webtraj_apps.helpdesk import tasks as helpdesk
from webtraj_apps.mail import tasks as mail
from webtraj_apps.tasks import Assignment, Changes, Facts, Parts, Statement, Steps, assign
from webtraj_apps.tracker import tasks as tracker
from webtraj_apps.wiki import tasks as wiki

_HOMES: Final = {"helpdesk": "/dashboard/"}
"""The page to open by default, if it is not the front page."""
BOARDS: Final = ("Ideas", "Projects", "Software")
"""Categories of the forum where everybody may start a topic."""


class Visit(NamedTuple):
    """What an agent does in one application before it changes to another."""

    app: str
    parts: Parts
    """The steps there, and the changes that they make."""
    path: str
    """The page to open; the default page of the application if empty."""
    prepare: Sequence[Statement]
    """SQL that changes the world before the episode."""
    allow: Changes
    """Other changes that may happen."""


def at(
    app: str, *parts: Parts, path: str = "", prepare: Sequence[Statement] = (), allow: Changes = ()
) -> Visit:
    """Return a visit to an application. See `Visit`."""
    return Visit(app, parts, path, prepare, allow)


def assign_across(goal: str, *visits: Visit, **more: Any) -> Assignment:
    """Return an assignment over several applications.

    Reading mails is always allowed. A change of the wiki may also add to its history.

    Args:
        goal: The goal.
        *visits: The visits in their order. The episode starts in the first one's application.
        **more: Other fields of the assignment, such as `answer`.
    """
    steps: list[Steps] = []
    expect: dict[str, list[Changes]] = {}
    allow: dict[str, list[Changes]] = {}
    prepare: dict[str, list[Statement]] = {}
    for app, parts, path, prepared, allowed in visits:
        made = assign("", parts)
        steps += [_to_site(app, path) if steps else (), made.steps]
        expect.setdefault(app, []).append(made.expect)
        allow.setdefault(app, []).append(allowed)
        prepare.setdefault(app, []).extend(prepared)
    if "mail" in allow:
        allow["mail"].append(mail.READ)
    if any(expect.get("wiki", ())):
        allow["wiki"].append(wiki.COMMITS)
    start = _HOMES.get(visits[0].app, "/")
    return Assignment(
        goal=goal, start=start, steps=steps, expect=expect, allow=allow, prepare=prepare, **more
    )


def _to_site(app: str, path: str) -> Step:
    """Go to another application."""
    return goto(f"http://{app}.test{path or _HOMES.get(app, '/')}")


# The webmail.


def write_mail(
    facts: Facts, sender: Facts, subject: str, text: str = "", **values: str
) -> tuple[Facts, Visit]:
    """Let somebody write a mail; return it, and the visit that reads it."""
    letter, delivery = mail.write_mail(facts["mail"], sender, subject, text, **values)
    return letter, at("mail", mail.pick(letter), prepare=delivery)


def read_mail(letter: Facts) -> Visit:
    """Read a mail."""
    return at("mail", mail.pick(letter))


def answer_mail(facts: Facts, letter: Facts, text: str) -> Visit:
    """Find a mail and answer it."""
    return at("mail", mail.pick(letter), mail.answer(facts["mail"], letter, text))


def do_as_asked(
    facts: Facts,
    rng: random.Random,
    subjects: Sequence[str],
    wish: str,
    text: str,
    *visits: Visit,
    sender: Facts | None = None,
    answer: str = "",
    hint: str = "",
) -> Assignment:
    """Return the assignment to do what a colleague asks for by mail.

    Args:
        facts: The facts.
        rng: Chooses the rest.
        subjects: Subjects that the mail may have.
        wish: What the goal says about the wish, behind "asks you to".
        text: What the colleague writes.
        *visits: The visits that fulfil the wish.
        sender: Who asks; anybody by default.
        answer: The answer that the mail asks for; none if empty.
        hint: What the goal adds.
    """
    sender = sender or mail.draw_colleague(facts["mail"], rng)
    letter, read = write_mail(facts, sender, rng.choice(subjects), text)
    how = "; no answer is needed."
    if answer:
        how = ", and answer it, only to the sender, in the way it asks for."
    goal = f"{sender['name']} asks you by mail (“{letter['subject']}”, in the inbox) to {wish}."
    return assign_across(
        f"{goal} Do what the mail says{how} {hint}".rstrip(),
        read,
        *visits,
        *([answer_mail(facts, letter, answer)] if answer else []),
    )


# The help desk.


def write_request(
    facts: Facts, queue: str, sender: str, title: str, text: str
) -> tuple[Facts, Visit]:
    """Let somebody open a ticket; return it, and the visit that reads it."""
    ticket, prepare = helpdesk.prepare_ticket(facts["helpdesk"], queue, sender, title, text)
    return ticket, at("helpdesk", helpdesk.open_ticket(ticket), prepare=prepare)


def in_ticket(ticket: Facts, *parts: Parts) -> Visit:
    """Open a ticket by its number, and do something there."""
    return at("helpdesk", helpdesk.open_ticket(ticket), parts)


def answer_request(ticket: Facts, text: str) -> Visit:
    """Answer a ticket, so that the submitter can read it."""
    return in_ticket(ticket, helpdesk.respond(ticket, text))


def name_of(ticket: Facts) -> str:
    """Return the name of a new ticket in goals."""
    return f"help desk ticket #{ticket['id']} from {ticket['email']}"


# The tracker.


def file_points(facts: Facts, points: Sequence[Facts], component: Facts, milestone: str) -> Visit:
    """File a ticket of the type task for each open point of a meeting."""
    words = [point["what"] for point in points]
    return at("tracker", tracker.create_tasks(facts["tracker"], words, component, milestone))


# The forum and the intranet.


def draw_event(facts: Facts, rng: random.Random) -> Facts:
    """Draw an intranet page of a future event."""
    coming = cms.live_pages(
        facts["cms"], lambda one: one["fields"]["date"] > "2026-03-02", sections=("events",)
    )
    return rng.choice(coming)


def start_topic(facts: Facts, board: str, title: str, text: str) -> Visit:
    """Start a topic in a category."""
    return at("forum", forum.start_topic(facts["forum"], board, title, text))


def write_topic(
    facts: Facts, rng: random.Random, board: str, title: str, text: str, items: Sequence[str] = ()
) -> tuple[forum.Topic, Visit]:
    """Let somebody start a topic, with a list below its text.

    Return it, and the visit that reads it.
    """
    topic, prepare = forum.prepare_topic(facts["forum"], rng, board, title, text, items)
    return topic, at("forum", forum.find_topic(topic), prepare=prepare)


def read_topic(topic: forum.Topic) -> Visit:
    """Find and read a topic."""
    return at("forum", forum.find_topic(topic))


def reply_in(facts: Facts, topic: forum.Topic, text: str) -> Visit:
    """Find a topic and reply there."""
    return at("forum", forum.find_topic(topic), forum.reply(facts["forum"], topic, text))


# Shared budgets.


def draw_project(facts: Facts, rng: random.Random) -> budget.Project:
    """Draw a project that the user's browser knows."""
    return rng.choice(budget.find_known_projects(facts["budget"]))


def enter_bills(project: budget.Project, *bills: budget.Bill, day: str = "") -> Visit:
    """Enter bills of a day, by default of today."""
    added = [budget.add_bill(project, bill, day=day) for bill in bills]
    return at("budget", budget.open_project(project), added)
