"""Tasks in the help desk.

Functions named like `respond` return the steps of an oracle together with the changes that they
make. Each template combines them with its goal.
"""

from __future__ import annotations

import base64
import functools
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from webtraj.environments import actions
from webtraj.environments.browser.oracles import (
    OracleView,
    Step,
    check,
    click,
    fill,
    select,
    uncheck,
    wait_until,
)
from webtraj_apps.fields import Field, columns_of, set_fields, tick
from webtraj_apps.state import Expected
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    Parts,
    Row,
    Statement,
    Steps,
    added,
    anything,
    assign,
    changed,
    changed_row,
    draw_best,
    draw_day,
    find,
    find_best,
    group_rows,
    in_new,
    next_id,
    on_day,
    optional,
    other_than,
    removed,
    same_answer,
    same_text,
    template,
)

task = functools.partial(template, user="user", start="/dashboard/")
colleague_task = functools.partial(template, user="colleague", start="/")
"""Register a template for a colleague without special rights."""

_OPEN: Final = (1, 2)
_REOPENED, _RESOLVED, _CLOSED, _DUPLICATE = 2, 3, 4, 5
PRIORITIES: Final = {1: "1. Critical", 2: "2. High", 3: "3. Normal", 4: "4. Low", 5: "5. Very Low"}
_MINUTE: Final = 60_000_000
"""A minute as the database counts it, in microseconds."""
_TEXTS: Final = (
    "Thank you for your patience. A colleague will call you this afternoon.",
    "We have found the cause and expect to have it solved by tomorrow.",
    "Could you tell us when this happened for the first time?",
    "The supplier has confirmed the delivery for Thursday.",
    "Please send us the number on the back of the article.",
    "We have tried this here and could not make it happen again.",
)
_NOTES: Final = (
    "Waits for an offer from the supplier.",
    "Same cause as last autumn, see the wiki.",
    "Do not close before Friday.",
    "The customer prefers to be called after four.",
    "Costs go to cost centre 4300.",
)


# Facts.


def find_agent(facts: Facts, username: str) -> Row:
    """Return the person with a username."""
    return find(facts["people"], username=username)


def find_queue(facts: Facts, slug: str) -> Row:
    """Return the queue with a slug."""
    return find(facts["queues"], slug=slug)


def find_tickets(
    facts: Facts, *tests: Callable[[Any], Any], status: tuple[int, ...] = _OPEN, **has: bool
) -> list[Row]:
    """Return the tickets in one of these states that pass all tests.

    `has` names fields that must be set (True) or empty (False): `owner=False` finds the tickets
    that nobody owns.
    """
    return [
        ticket
        for ticket in facts["tickets"]
        if ticket["status"] in status
        and all(test(ticket) for test in tests)
        and all(bool(ticket[name]) is wanted for name, wanted in has.items())
    ]


def _others(facts: Facts, *usernames: str) -> list[Row]:
    """Return the agents other than these and the user."""
    left_out = {facts["user"], *usernames}
    return [agent for agent in facts["agents"] if agent["username"] not in left_out]


def _colleagues(facts: Facts) -> list[Row]:
    """Return the people who are not agents."""
    agents = {agent["id"] for agent in facts["agents"]}
    return [one for one in facts["people"] if one["id"] not in agents]


def draw_sender(facts: Facts, rng: random.Random) -> str:
    """Draw the mail address of a colleague who is not an agent."""
    return str(rng.choice(_colleagues(facts))["email"])


def _mine(facts: Facts) -> list[Row]:
    """Return the newest tickets of the colleague without special rights, 25 at most."""
    email = find_agent(facts, facts["colleague"])["email"]
    mine = [ticket for ticket in facts["tickets"] if ticket["email"] == email]
    return sorted(mine, key=itemgetter("created"))[-25:]


def _name(ticket: Row) -> str:
    return f'"{ticket["title"]}"'


class Request(NamedTuple):
    """A ticket that somebody has just opened."""

    ticket: Row
    prepare: tuple[Statement, ...]
    """The SQL that opens it."""


def prepare_ticket(facts: Facts, queue: str, sender: str, title: str, text: str) -> Request:
    """Return a new ticket in a queue, with the SQL that opens it."""
    number = next_id(facts["tickets"])
    opened = "2026-03-02 08:40:00"
    ticket = (
        "INSERT INTO helpdesk_ticket (id, title, created, modified, submitter_email, status, "
        "on_hold, description, resolution, priority, queue_id, secret_key) "
        "VALUES (?, ?, ?, ?, ?, 1, 0, ?, '', 3, ?, ?)"
    )
    follow_up = (
        "INSERT INTO helpdesk_followup (date, title, comment, public, ticket_id) "
        "VALUES (?, 'Ticket Opened Via Web', ?, 1, ?)"
    )
    place = find_queue(facts, queue)["id"]
    return Request(
        {"id": number, "title": title, "email": sender},
        (
            (ticket, (number, title, opened, opened, sender, text, place, f"{number:016x}")),
            (follow_up, (opened, text, number)),
        ),
    )


def _prepare_resolved(ticket: Row, text: str) -> tuple[Statement, ...]:
    statement = "UPDATE helpdesk_ticket SET status = ?, resolution = ? WHERE id = ?"
    return ((statement, (_RESOLVED, text, ticket["id"])),)


# Expectations.


def allow_notes(*tickets: Row, **more: Any) -> tuple[Expected, ...]:
    """Allow the follow-ups without a text in which the help desk records changes."""
    return tuple(
        optional(added("helpdesk_followup", ticket_id=ticket["id"], comment=comment, **more))
        for ticket in tickets
        for comment in ("", "", None, None)
    )


def _expect_changed(ticket: Row, **new: Any) -> Expected:
    return changed_row("helpdesk_ticket", ticket, **new)


def _expect_noted(ticket: Row, **new: Any) -> tuple[Expected, ...]:
    """Expect new values of a ticket, and allow its notes."""
    return (_expect_changed(ticket, **new), *allow_notes(ticket))


def _expect_reply(ticket: Row, text: str, *, public: bool, **more: Any) -> Expected:
    """Expect a follow-up with a text. The submitter can read public ones."""
    comment, shown = same_text(text), int(public)
    return added("helpdesk_followup", ticket_id=ticket["id"], comment=comment, public=shown, **more)


# Steps.


def _search(words: object) -> tuple[Step, ...]:
    return fill("#search_query", str(words)), click("#searchform button")


def open_ticket(ticket: Row) -> tuple[Step, ...]:
    """Open a ticket by its number."""
    return _search(ticket["id"])


def search_ticket(ticket: Row) -> tuple[Step, ...]:
    """Open a ticket by its title."""
    return (
        *_search(ticket["title"]),
        wait_until(".tickettitle a"),
        click(".tickettitle a", f"{ticket['id']}. {ticket['title']}"),
    )


def _open_mine(ticket: Row, *first: Step) -> Steps:
    """Open a ticket, as its submitter."""
    return (
        click(".sidebar a", "My Tickets"),
        wait_until("#ticketsTable tbody a"),
        *first,
        fill('input[type="search"]', ticket["title"]),
        click("#ticketsTable tbody a", ticket["title"]),
    )


def _act(entry: str, text: str | None = None) -> Steps:
    """Choose an action in the menu of the open ticket."""
    return click("#content-wrapper .dropdown > button", "Actions"), click(entry, text)


def _follow(ticket: Row, path: str) -> Step:
    """Follow a link of the open ticket."""
    return click(f'a[href="/tickets/{ticket["id"]}/{path}"]')


def _open_articles(*articles: Row) -> Steps:
    """Open articles in one category of the knowledge base."""
    return (
        click(".sidebar a", "Knowledge Base"),
        click(f'a[href="/kb/{articles[0]["slug"]}/"]'),
        [click(f'button[data-bs-target="#collapse-{one["id"]}"]') for one in articles],
    )


def _report(kind: str) -> Steps:
    return (
        click(".sidebar a", "Reports"),
        click("#content-wrapper button.dropdown-toggle", "Create new report"),
        click(f'a[href="/reports/{kind}/"]'),
    )


def _filter(*changes: Step, **boxes: int) -> Steps:
    """Filter the list of all tickets, which shows open and reopened ones by default.

    Args:
        *changes: Steps that change which states are shown.
        **boxes: The box to tick in each part of the filters, such as `queue=3`.
    """
    return (
        click(".sidebar a", "All Tickets"),
        click("#advanced-filters"),
        *changes,
        [
            (
                click(f'button[data-bs-target="#collapse{part.title()}"]'),
                _scroll_filters,
                check(f"#{part}-check-{value}"),
            )
            for part, value in boxes.items()
        ],
        click('button[form="filtersForm"]'),
    )


async def _scroll_filters(page: OracleView) -> AsyncIterator[actions.Action]:
    yield actions.Scroll(0, 400, (await page.one("#offcanvasFilters .offcanvas-body")).ref)


def _bulk(action: str, *tickets: Row) -> Steps:
    """Apply an action to these tickets in the list, or to all if none are given."""
    return (
        wait_until("input[name=ticket_id]"),
        [check(f'input[name=ticket_id][value="{ticket["id"]}"]') for ticket in tickets],
        click("#actions-dropdown > button"),
        () if tickets else click("#select_all_btn"),
        select("#id_mass_action", action),
        click('#actions-dropdown button[type="submit"]'),
    )


_OPEN_MENU: Final = click("#userDropdown")


def _admin(panel: str) -> Steps:
    """Open a list of the back office."""
    settings = click("a.dropdown-item", "System Settings")
    return _OPEN_MENU, settings, click("#content-wrapper a", panel)


_RESPOND: Final = click("#respond-tab")
_SAVE: Final = click('#ticket-respond-form button[type="submit"]')
_SAVE_LIST: Final = click('#content-wrapper button[type="submit"]', "Save")
_SAVE_ROW: Final = click('input[name="_save"]')
_DELETE: Final = click("button.btn-danger")


def _write_reply(text: str, *more: Step, public: bool) -> tuple[Step, ...]:
    """Reply in the open ticket, with the steps `more` before sending."""
    private = () if public else (uncheck("#id_public"),)
    return (_RESPOND, fill("#commentBox", text), *private, *more, _SAVE)


# Steps with the changes that they make.


FIELDS: Final[Mapping[str, Field]] = {
    "owner": Field(select, '#collapseDetails [name="owner"]', "assigned_to_id"),
    "priority": Field(select, '#collapseDetails [name="priority"]'),
    "queue": Field(select, '#collapseDetails [name="queue"]', "queue_id"),
    "due_date": Field(fill, '#collapseDetails [name="due_date"]', kept=on_day),
}
"""The details in the form to respond."""


def respond(
    ticket: Row,
    text: str = "",
    *choices: Step,
    public: bool = True,
    new: Facts = MappingProxyType({}),
    **fields: Any,
) -> Parts:
    """Respond to the open ticket.

    Args:
        ticket: The ticket.
        text: The reply; none if empty.
        *choices: Further steps in the form.
        public: Whether the submitter can read the text.
        new: The values that `choices` set, by column.
        **fields: New details, by the names of `FIELDS`.
    """
    details = (click('a[href="#collapseDetails"]'), *set_fields(FIELDS, fields)) if fields else ()
    more, columns = (*choices, *details), {**new, **columns_of(FIELDS, fields)}
    return (
        _write_reply(text, *more, public=public) if text else (_RESPOND, *more, _SAVE),
        _expect_reply(ticket, text, public=public) if text else (),
        _expect_noted(ticket, **columns) if columns else (),
    )


def resolve(ticket: Row, text: str) -> Parts:
    """Resolve the open ticket with a public text."""
    new = {"status": _RESOLVED, "resolution": same_text(text)}
    return respond(ticket, text, check("#st_resolved"), new=new)


def _give(ticket: Row, agent: int | None) -> Parts:
    """Assign the open ticket to an agent, or to nobody."""
    return (
        select('select[name="owner"]', str(agent or 0)),
        click('form select[name="owner"] ~ button'),
        _expect_noted(ticket, assigned_to_id=agent),
    )


def _expect_task(checklist: Any, text: str) -> Expected:
    """Expect a new task in a checklist."""
    table = "helpdesk_checklisttask"
    return added(table, checklist_id=checklist, description=text, completion_date=None)


def create_ticket(
    queue: Row, title: str, body: str, priority: int, email: str, *more: Step, **new: Any
) -> Parts:
    """Enter a ticket for an address, by default without an owner or a due date.

    Args:
        queue: The queue.
        title: The title.
        body: The description.
        priority: The priority, of `PRIORITIES`.
        email: The address.
        *more: Steps that fill in other fields.
        **new: The values that `more` sets, by column.
    """
    columns = {"due_date": None, "assigned_to_id": None, "status": 1} | new
    columns |= {"queue_id": queue["id"], "priority": priority, "submitter_email": email}
    return (
        (click(".sidebar a", "New Ticket"), select("#id_queue", str(queue["id"]))),
        (fill("#id_title", title), fill("#id_body", body), select("#id_priority", str(priority))),
        (fill("#id_submitter_email", email), more),
        click('#content-wrapper form button[type="submit"]'),
        _expect_opened(title, body, **columns),
    )


def _expect_opened(title: str, body: str, **more: Any) -> tuple[Expected, Expected]:
    """Expect a new ticket, with its first follow-up."""
    return (
        added("helpdesk_ticket", title=same_text(title), description=same_text(body), **more),
        added("helpdesk_followup", ticket_id=in_new("helpdesk_ticket"), comment=same_text(body)),
    )


def _submit_ticket(facts: Facts, title: str, body: str, *more: Step, **columns: Any) -> Parts:
    """Submit a ticket as the colleague, with the steps `more` and the other columns they set."""
    email = find_agent(facts, facts["colleague"])["email"]
    return (
        (fill("#id_title", title), fill("#id_body", body), *more),
        click('#content-wrapper form[enctype] button[type="submit"]'),
        _expect_opened(title, body, submitter_email=email, **columns),
    )


_LINES: Final = ("name", "title", "slug", "email_address", "escalate_days")
_ROW_FIELDS: Final[Mapping[str, Field]] = {
    **{name: Field(fill, f"#id_{name}") for name in _LINES},
    **{name: Field(fill, f"#id_{name}", kept=same_text) for name in ("body", "question", "answer")},
    "allow_public_submission": Field(tick, "#id_allow_public_submission"),
    "category": Field(select, "#id_category", "category_id"),
}
"""The fields of the back office."""


def _add_row(panel: str, table: str, fields: Facts, *first: Step, **kept: Any) -> Parts:
    """Add a row in the back office; `kept` are columns that the form sets by itself."""
    return (
        (_admin(panel), click(".object-tools a.addlink"), *first),
        (set_fields(_ROW_FIELDS, fields), _SAVE_ROW),
        added(table, **columns_of(_ROW_FIELDS, fields), **kept),
    )


# Single tickets.


@task("helpdesk/set-priority", level=1, split="train")
def _set_priority(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts))
    priority = other_than(rng, PRIORITIES, ticket["priority"])
    goal = f'Change the priority of ticket #{ticket["id"]} to "{PRIORITIES[priority]}".'
    return assign(goal, open_ticket(ticket), respond(ticket, priority=priority))


@task("helpdesk/assign", level=1, split="train")
def _assign(facts: Facts, rng: random.Random) -> Assignment:
    # Assigning a ticket quickly unticks the tasks of its checklists.
    ticket = rng.choice(find_tickets(facts, lists=False))
    agent = rng.choice(_others(facts, ticket["owner"]))
    goal = f"Assign the ticket {_name(ticket)} to {agent['name']}."
    return assign(goal, search_ticket(ticket), _give(ticket, agent["id"]))


@task("helpdesk/take", level=1, split="train")
def _take(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, owner=False))
    return assign(
        f"Nobody works on the ticket {_name(ticket)} yet. Take it yourself.",
        (search_ticket(ticket), click('a[href="?take"]')),
        _expect_noted(ticket, assigned_to_id=find_agent(facts, facts["user"])["id"]),
    )


@task("helpdesk/unassign", level=1, split="test")
def _unassign(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, lists=False, owner=True))
    goal = f"Nobody should own the ticket {_name(ticket)} any more: make it unassigned."
    return assign(goal, search_ticket(ticket), _give(ticket, None))


@task("helpdesk/public-reply", level=1, split="train")
def _public_reply(facts: Facts, rng: random.Random) -> Assignment:
    ticket, text = rng.choice(find_tickets(facts)), rng.choice(_TEXTS)
    goal = f'Answer ticket #{ticket["id"]}, so that the submitter can read it: "{text}"'
    return assign(goal, open_ticket(ticket), respond(ticket, text))


@task("helpdesk/private-note", level=1, split="train")
def _private_note(facts: Facts, rng: random.Random) -> Assignment:
    ticket, text = rng.choice(find_tickets(facts)), rng.choice(_NOTES)
    goal = f'Add a note to the ticket {_name(ticket)} that its submitter must not see: "{text}"'
    return assign(goal, search_ticket(ticket), respond(ticket, text, public=False))


@task("helpdesk/hold", level=1, split="train")
def _hold(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, hold=False))
    return assign(
        f"Put ticket #{ticket['id']} on hold.",
        (open_ticket(ticket), _act(".ticket-hold button"), _expect_noted(ticket, on_hold=1)),
    )


@task("helpdesk/unhold", level=1, split="test")
def _unhold(facts: Facts, rng: random.Random) -> Assignment:
    ticket, text = rng.choice(find_tickets(facts, hold=True)), rng.choice(_NOTES)
    return assign(
        f"The ticket {_name(ticket)} need not wait any longer. Take it off hold, and leave a"
        f' private note in it: "{text}"',
        (search_ticket(ticket), _act(".ticket-hold button"), _expect_noted(ticket, on_hold=0)),
        respond(ticket, text, public=False),
    )


@task("helpdesk/set-due", level=1, split="train")
def _set_due(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts))
    date = draw_day(rng, 3, 4, days=(10, 28))
    goal = f"Ticket #{ticket['id']} should be due on {date}. Enter this."
    return assign(goal, open_ticket(ticket), respond(ticket, due_date=date))


@task("helpdesk/move-queue", level=1, split="train")
def _move_queue(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts))
    queue = other_than(rng, facts["queues"], slug=ticket["queue"])
    goal = f"The ticket {_name(ticket)} is in the wrong queue. Move it to {queue['title']}."
    return assign(goal, search_ticket(ticket), respond(ticket, queue=queue["id"]))


@task("helpdesk/triage", level=2, split="train")
def _triage(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, owner=False, due=False))
    priority = other_than(rng, PRIORITIES, ticket["priority"])
    agent, text = rng.choice(_others(facts)), rng.choice(_NOTES)
    date = draw_day(rng, 3, days=(10, 28))
    return assign(
        f"Triage the ticket {_name(ticket)}: give it to {agent['name']} with priority"
        f' "{PRIORITIES[priority]}", due on {date}. Add the private note "{text}"',
        search_ticket(ticket),
        respond(ticket, text, public=False, owner=agent["id"], priority=priority, due_date=date),
    )


@task("helpdesk/resolve", level=1, split="train")
def _resolve(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, depends=False))
    goal = f'Resolve the ticket {_name(ticket)} with this public resolution: "{ticket["end"]}"'
    return assign(goal, search_ticket(ticket), resolve(ticket, ticket["end"]))


@task("helpdesk/close-with-time", level=2, split="test")
def _close_with_time(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, depends=False))
    text, minutes = ticket["end"], rng.randint(2, 23) * 5
    time = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return assign(
        f'Close ticket #{ticket["id"]} with the private comment "{text}" and enter {minutes}'
        " minutes as the time spent, in the same update.",
        open_ticket(ticket),
        _write_reply(text, check("#st_closed"), fill('[name="time_spent"]', time), public=False),
        _expect_changed(ticket, status=_CLOSED),
        _expect_reply(ticket, text, public=False, time_spent=minutes * _MINUTE),
    )


@task("helpdesk/preset-reply", level=2, split="train")
def _preset_reply(facts: Facts, rng: random.Random) -> Assignment:
    preset = rng.choice(facts["presets"])
    queues = preset["queues"]
    ticket = rng.choice(find_tickets(facts, lambda one: not queues or one["queue"] in queues))
    return assign(
        f'Answer the ticket {_name(ticket)} with the pre-set reply "{preset["name"]}", without'
        " changing its text. The submitter should receive it.",
        (search_ticket(ticket), _RESPOND, select("#id_preset", str(preset["id"])), _SAVE),
        _expect_reply(ticket, preset["text"], public=True),
    )


@task("helpdesk/reopen", level=2, split="train")
def _reopen(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, status=(_CLOSED,)))
    agent, text = rng.choice(_others(facts, ticket["owner"])), rng.choice(_TEXTS)
    return assign(
        f'Reopen ticket #{ticket["id"]} with the public comment "{text}" and assign it to'
        f" {agent['name']}.",
        open_ticket(ticket),
        respond(ticket, text, check("#st_reopened"), new={"status": _REOPENED}, owner=agent["id"]),
    )


@task("helpdesk/edit-ticket", level=2, split="test")
def _edit_ticket(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts))
    sender = other_than(rng, facts["people"], email=ticket["email"])
    title = f"{ticket['title']} - {rng.choice(('second report', 'urgent', 'by phone'))}"
    return assign(
        f"Correct ticket #{ticket['id']}: its submitter is {sender['name']}"
        f' ({sender["email"]}), and its title should be "{title}".',
        (open_ticket(ticket), _act("a.dropdown-item", "Edit"), fill("#id_title", title)),
        (fill("#id_submitter_email", sender["email"]), click('input[value="Save Changes"]')),
        _expect_noted(ticket, submitter_email=sender["email"], title=title),
    )


def _plain(ticket: Row) -> bool:
    """Return whether a ticket has no dependencies, copies or checklists."""
    return not (ticket["depends"] or ticket["copies"] or ticket["lists"])


@task("helpdesk/delete-ticket", level=2, split="train")
def _delete_ticket(facts: Facts, rng: random.Random) -> Assignment:
    needed = {other for ticket in facts["tickets"] for other in ticket["depends"]}
    ticket = rng.choice(find_tickets(facts, _plain, lambda one: one["id"] not in needed))
    return assign(
        f"The ticket {_name(ticket)} was entered by mistake. Delete it.",
        (search_ticket(ticket), _act("a.dropdown-item", "Delete"), _DELETE),
        removed("helpdesk_ticket", id=ticket["id"]),
        [removed("helpdesk_followup", ticket_id=ticket["id"])] * (1 + len(ticket["replies"])),
    )


@task("helpdesk/delete-note", level=2, split="test")
def _delete_note(facts: Facts, rng: random.Random) -> Assignment:
    def find_notes(ticket: Row) -> list[int]:
        return [at for at, reply in enumerate(ticket["replies"]) if not reply["public"]]

    ticket = rng.choice(find_tickets(facts, lambda one: len(find_notes(one)) == 1))
    (at,) = find_notes(ticket)
    row, text = f"#followup-list > li:nth-child({at + 2})", ticket["replies"][at]["text"]
    return assign(
        f"Delete the private note in ticket #{ticket['id']}; all else stays.",
        (open_ticket(ticket), click(f"{row} .dropdown > a"), click(f"{row} a.link-danger")),
        removed("helpdesk_followup", ticket_id=ticket["id"], public=0, comment=text),
    )


@task("helpdesk/copy-to", level=2, split="train")
def _copy_to(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, copies=False))
    agent, may_update = rng.choice(_others(facts, ticket["owner"])), rng.random() < 0.5
    copy = {"ticket_id": ticket["id"], "user_id": agent["id"]}
    return assign(
        f"Put {agent['name']} (helpdesk user) on the copy list of ticket #{ticket['id']}, with"
        f" the right to view the ticket {'and' if may_update else 'but not'} to update it.",
        (open_ticket(ticket), _follow(ticket, "cc/")),
        (click('a[href="add/"] button'), click('a[href="#UserCC"]')),
        (select("#UserCC #id_user", str(agent["id"])), check("#UserCC #id_can_view")),
        check("#UserCC #id_can_update") if may_update else (),
        click('#UserCC button[type="submit"]'),
        added("helpdesk_ticketcc", **copy, can_view=1, can_update=int(may_update)),
    )


@task("helpdesk/stop-copy", level=2, split="test")
def _stop_copy(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, copies=True))
    agent = find_agent(facts, ticket["copies"][0])
    return assign(
        f"{agent['name']} no longer wants copies of the ticket {_name(ticket)}. Change that.",
        (search_ticket(ticket), _follow(ticket, "cc/")),
        click(f'a[href^="/tickets/{ticket["id"]}/cc/delete/"] button'),
        click('button.btn-danger[type="submit"]'),
        removed("helpdesk_ticketcc", ticket_id=ticket["id"], user_id=agent["id"]),
    )


@task("helpdesk/depend", level=2, split="train")
def _depend(facts: Facts, rng: random.Random) -> Assignment:
    ticket, other = rng.sample(find_tickets(facts, depends=False), 2)
    return assign(
        f"Ticket #{ticket['id']} cannot be solved before ticket #{other['id']}. Enter this"
        " dependency.",
        (open_ticket(ticket), _follow(ticket, "dependency/add/")),
        (select("#id_depends_on", str(other["id"])), click('input[type="submit"]')),
        added("helpdesk_ticketdependency", ticket_id=ticket["id"], depends_on_id=other["id"]),
    )


@task("helpdesk/drop-dependency", level=2, split="train")
def _drop_dependency(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, depends=True))
    number, text = ticket["id"], ticket["end"]
    return assign(
        f"Ticket #{number} need not wait for ticket #{ticket['depends'][0]} any more."
        f' Remove the dependency, and resolve ticket #{number} with the public text "{text}"',
        (open_ticket(ticket), click(f'a[href^="/tickets/{number}/dependency/delete/"]')),
        click('button.btn-danger[type="submit"]'),
        (removed("helpdesk_ticketdependency", ticket_id=number), resolve(ticket, text)),
    )


@task("helpdesk/merge", level=2, split="train")
def _merge(facts: Facts, rng: random.Random) -> Assignment:
    kept = rng.choice(find_tickets(facts, _plain, twin=True))
    other = find(facts["tickets"], id=kept["twin"])
    moved = {"ticket_id": other["id"]}
    reply = changed("helpdesk_followup", moved, ticket_id=kept["id"], title=anything)
    return assign(
        f"The tickets {_name(kept)} and {_name(other)} are about the same thing. Merge the"
        " second one into the first one, whose data stay as they are.",
        (_search(f"{kept['title']} OR {other['title']}"), _bulk("merge", kept, other)),
        (check(f'input[name="chosen_ticket"][value="{kept["id"]}"]'), click("button", "Validate")),
        _expect_changed(other, merged_to_id=kept["id"], status=_DUPLICATE),
        [reply] * (1 + len(other["replies"])),
        allow=(
            added("helpdesk_ticketcc", ticket_id=kept["id"]),
            changed("helpdesk_ticketcc", moved, ticket_id=kept["id"]),
        ),
    )


# Checklists.


@task("helpdesk/add-checklist", level=2, split="train")
def _add_checklist(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, lists=False))
    kind = rng.choice(facts["checklist_templates"])
    name = f"{kind['name']} {rng.choice(('(week 10)', '(morning)', '(second time)', '(test)'))}"
    form, checklist = "#createChecklistModal", "helpdesk_checklist"
    return assign(
        f'Add a checklist to ticket #{ticket["id"]} from the template "{kind["name"]}", and'
        f' call it "{name}".',
        (open_ticket(ticket), click(f'a[data-bs-target="{form}"]')),
        select("#id_checklist_template", str(kind["id"])),
        (fill(f"{form} #id_name", name), click(f"{form} button.btn-primary")),
        added(checklist, ticket_id=ticket["id"], name=name),
        [_expect_task(in_new(checklist), text) for text in kind["tasks"]],
    )


@task("helpdesk/tick-tasks", level=2, split="train")
def _tick_tasks(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, lists=True))
    left = [task["id"] for task in ticket["lists"][0]["tasks"] if not task["done"]]
    return assign(
        f"All tasks of the checklist in the ticket {_name(ticket)} are done now. Tick those"
        " that are left.",
        (search_ticket(ticket), _RESPOND, click('a[href="#collapseChecklists"]')),
        ([check(f"#task-{number}") for number in left], _SAVE, allow_notes(ticket)),
        [changed("helpdesk_checklisttask", {"id": n}, completion_date=anything) for n in left],
    )


@task("helpdesk/edit-checklist", level=2, split="test")
def _edit_checklist(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, lists=True))
    text = rng.choice(("Call the insurance", "Take photos", "Ask for a receipt", "Thank everyone"))
    checklist = ticket["lists"][0]
    tasks = checklist["tasks"]
    return assign(
        f'Add the task "{text}" at the end of the checklist in ticket #{ticket["id"]}.',
        (open_ticket(ticket), _follow(ticket, f"checklists/{checklist['id']}/")),
        (click("#addRow"), fill(f"#id_tasks-{len(tasks)}-description", text), _SAVE_LIST),
        _expect_task(checklist["id"], text),
        # The page may renumber the tasks.
        [
            optional(changed_row("helpdesk_checklisttask", one, position=position))
            for position, one in enumerate(tasks, 1)
        ],
    )


_JOBS = ("Write the plan", "Inform everyone", "Order the material", "Book a room", "Check the list")


@task("helpdesk/checklist-template", level=2, split="train")
def _checklist_template(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(("Fair stand", "Phone number change", "Stock taking", "Visitor day", "Audit"))
    tasks = rng.sample(_JOBS, 3)
    rows = [fill(f"#tasks tr:nth-child({n}) input", text) for n, text in enumerate(tasks, 1)]
    return assign(
        f'Create a checklist template "{name}" with these tasks, in this order:'
        f" {', '.join(tasks)}.",
        (_admin("Checklist Templates"), fill("#id_name", name)),
        (rows[0], click("#addTask"), rows[1], click("#addTask"), rows[2], _SAVE_LIST),
        added(
            "helpdesk_checklisttemplate",
            name=name,
            task_list=lambda text: json.loads(text) == tasks,
        ),
    )


# New tickets.


_NEW: Final = (
    ("it", "Headset for room {n}", "The headset in room {n} is gone. Please order a new one."),
    ("fac", "Plant in room {n} needs water", "Nobody waters the plant in room {n}."),
    ("hr", "Change of my address, file {n}", "I have moved. My file number is {n}."),
    ("web", "Old picture on page {n}", "Page {n} of the catalogue shows last year's picture."),
    ("ord", "Second parcel of order NF-{n}", "Only one of two parcels of order NF-{n} has come."),
    ("ret", "Wrong sum refunded for NF-{n}", "The refund for NF-{n} is ten euros short."),
)


def draw_case(rng: random.Random) -> tuple[str, str, str]:
    """Draw the queue, title and description of a new ticket."""
    slug, title, body = rng.choice(_NEW)
    number = rng.randint(100, 999)
    return slug, title.format(n=number), body.format(n=number)


@task("helpdesk/new-ticket", level=2, split="train")
def _new_ticket(facts: Facts, rng: random.Random) -> Assignment:
    slug, title, body = draw_case(rng)
    queue, caller = find_queue(facts, slug), rng.choice(_colleagues(facts))
    agent, priority = rng.choice(_others(facts)), rng.choice((1, 2, 4, 5))
    date = draw_day(rng, 3, days=(10, 28))
    more = (fill("#id_due_date", date), select("#id_assigned_to", str(agent["id"])))
    new = {"due_date": on_day(date), "assigned_to_id": agent["id"]}
    return assign(
        f"{caller['name']} ({caller['email']}) is on the phone. Enter a ticket for this address in"
        f' the queue {queue["title"]}, with the summary "{title}" and the description "{body}" Its'
        f' priority is "{PRIORITIES[priority]}", it is due on {date}, and {agent["name"]} owns it.',
        create_ticket(queue, title, body, priority, caller["email"], *more, **new),
    )


@colleague_task("helpdesk/submit", level=1, split="train")
def _submit(facts: Facts, rng: random.Random) -> Assignment:
    slug, title, body = draw_case(rng)
    queue, priority = find_queue(facts, slug), rng.choice((2, 3, 4))
    columns = {"queue_id": queue["id"], "priority": priority, "due_date": None, "kbitem_id": None}
    return assign(
        f'Submit a ticket to {queue["title"]}: "{title}". Describe it as "{body}" and choose'
        f' the priority "{PRIORITIES[priority]}".',
        select("#id_queue", str(queue["id"])),
        _submit_ticket(facts, title, body, select("#id_priority", str(priority)), **columns),
    )


@colleague_task("helpdesk/submit-from-article", level=2, split="test")
def _submit_from_article(facts: Facts, rng: random.Random) -> Assignment:
    article = rng.choice(facts["answers"])
    title = f"Question {rng.randint(100, 999)} about an article"
    body = rng.choice(
        ("Is this still true?", "Does this hold for me too?", "Who has decided this?")
    )
    return assign(
        f'Find the article "{article["title"]}" in the knowledge base and create a ticket'
        f' from it, so that the ticket refers to it. Summary: "{title}". Description: "{body}"',
        (_open_articles(article), click(f"#collapse-{article['id']} a", "Create New Ticket")),
        _submit_ticket(facts, title, body, kbitem_id=article["id"], queue_id=anything),
    )


@colleague_task("helpdesk/accept-resolution", level=1, split="train")
def _accept_resolution(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(_mine(facts))
    note = "Submitter accepted resolution and closed ticket"
    return assign(
        f"Your ticket {_name(ticket)} has been resolved to your satisfaction. Accept the"
        " resolution, so that it is closed.",
        (_open_mine(ticket), click('a[href$="&close"] button')),
        _expect_changed(ticket, status=_CLOSED),
        added("helpdesk_followup", ticket_id=ticket["id"], comment=note),
        prepare=_prepare_resolved(ticket, ticket["end"]),
    )


@colleague_task("helpdesk/my-ticket", level=1, split="test")
def _my_ticket(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(_mine(facts))
    text = f"{ticket['end']} Reference {rng.randint(1000, 9999)}."
    return assign(
        f"What is written as the resolution of your ticket {_name(ticket)}? Answer with its"
        " whole text.",
        _open_mine(ticket),
        prepare=_prepare_resolved(ticket, text),
        answer=text,
    )


# The knowledge base.


@colleague_task("helpdesk/look-up", level=1, split="train")
def _look_up(facts: Facts, rng: random.Random) -> Assignment:
    article = rng.choice(facts["answers"])
    goal = f"Look it up in the knowledge base: {article['asks']} Answer with nothing else."
    return assign(goal, _open_articles(article), answer=article["value"])


@colleague_task("helpdesk/vote", level=1, split="train")
def _vote(facts: Facts, rng: random.Random) -> Assignment:
    me = find_agent(facts, facts["colleague"])
    article = rng.choice([one for one in facts["answers"] if me["username"] not in one["voters"]])
    up = rng.random() < 0.5
    thumb, table = ("up", "voted_by") if up else ("down", "downvoted_by")
    new = {"votes": article["votes"] + 1, "recommendations": article["useful"] + up}
    return assign(
        f'Mark the article "{article["title"]}" in the knowledge base as'
        f" {'useful' if up else 'not useful'} (thumb {thumb}).",
        _open_articles(article),
        click(f'form[action="/kb/{article["id"]}/vote/{thumb}/"] button'),
        changed_row("helpdesk_kbitem", article, **new),
        added(f"helpdesk_kbitem_{table}", kbitem_id=article["id"], user_id=me["id"]),
    )


@task("helpdesk/most-useful", level=2, split="test")
def _most_useful(facts: Facts, rng: random.Random) -> Assignment:
    word, choose = rng.choice((("most", max), ("fewest", min)))
    groups = group_rows(facts["answers"], "slug")
    group, found = draw_best(rng, groups, list, itemgetter("useful"), choose)
    return assign(
        f'Which article of the category "{found["category"]}" in the knowledge base was'
        f" found useful by the {word} people? Answer with its title.",
        _open_articles(*group),
        answer=found["title"],
    )


@task("helpdesk/answer-from-article", level=3, split="train")
def _answer_from_article(facts: Facts, rng: random.Random) -> Assignment:
    article, sender = rng.choice(facts["answers"]), rng.choice(_colleagues(facts))
    title = f"Question of {sender['name']}"
    ticket, opened = prepare_ticket(facts, "it", sender["email"], title, article["asks"])
    text, says = f"The answer is: {article['value']}", _says(article["value"])
    return assign(
        f'The ticket "{title}" asks for something that is in the knowledge base. Look it up'
        " there, answer the submitter with it, and set the ticket to resolved in the same update.",
        (search_ticket(ticket), _open_articles(article), open_ticket(ticket)),
        _write_reply(text, check("#st_resolved"), public=True),
        _expect_changed(ticket, status=_RESOLVED, resolution=says),
        added("helpdesk_followup", ticket_id=ticket["id"], public=1, comment=says),
        prepare=opened,
    )


def _says(value: str) -> Callable[[Any], bool]:
    """Return a test that a text contains the value in any form, and not much else."""

    def test(text: str) -> bool:
        words = text.split()
        parts = (words[at : at + n] for at in range(len(words)) for n in (1, 2, 3))
        return len(text) <= len(value) + 200 and any(
            same_answer(" ".join(part).strip("()"), value) for part in parts
        )

    return test


# Looking into tickets.


@task("helpdesk/owner-and-date", level=1, split="train")
def _owner_and_date(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, owner=True, due=True))
    return assign(
        f"Who is the ticket {_name(ticket)} assigned to, and when is it due? Answer with the"
        " full name and the date as YYYY-MM-DD, separated by a comma.",
        search_ticket(ticket),
        answer=(find_agent(facts, ticket["owner"])["name"], ticket["due"]),
    )


@task("helpdesk/submitter", level=1, split="test")
def _submitter(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts))
    return assign(
        f"From which mail address was the ticket {_name(ticket)} submitted? Answer with "
        "the address.",
        search_ticket(ticket),
        answer=ticket["email"],
    )


@task("helpdesk/count", level=2, split="train")
def _count(facts: Facts, rng: random.Random) -> Assignment:
    group = rng.choice(group_rows(find_tickets(facts), "queue", "priority"))
    queue, priority = find_queue(facts, group[0]["queue"]), group[0]["priority"]
    return assign(
        f"How many tickets of the queue {queue['title']} with the priority"
        f' "{PRIORITIES[priority]}" are open or reopened, and what is the number (ID) of the'
        " oldest of them? Answer with both numbers, separated by a semicolon.",
        _filter(priority=priority, queue=queue["id"]),
        answer=(str(len(group)), str(min(group, key=itemgetter("created"))["id"])),
        ordered=True,
    )


@task("helpdesk/longest-unassigned", level=2, split="test")
def _longest_unassigned(facts: Facts, rng: random.Random) -> Assignment:
    group = rng.choice(group_rows(find_tickets(facts, owner=False), "queue"))
    queue = find_queue(facts, group[0]["queue"])
    word, choose = rng.choice((("oldest", min), ("newest", max)))
    return assign(
        f"Of the tickets in the queue {queue['title']} that are open or reopened and belong to"
        f" nobody: what is the number (ID) of the {word} one? Answer with the number.",
        _filter(owner=-1, queue=queue["id"]),
        answer=str(choose(group, key=itemgetter("created"))["id"]),
    )


def _draw_share(facts: Facts, rng: random.Random, groups: list[list[Row]]) -> tuple[Any, Row, Row]:
    """Draw one of these groups, and return it with its queue and its owner."""
    group = rng.choice(groups)
    return group, find_queue(facts, group[0]["queue"]), find_agent(facts, group[0]["owner"])


@task("helpdesk/time-spent", level=3, split="train")
def _time_spent(facts: Facts, rng: random.Random) -> Assignment:
    def add_up(group: list[Row]) -> int:
        return sum(ticket["minutes"] for ticket in group)

    groups = group_rows(find_tickets(facts, owner=True), "queue", "owner", most=5)
    group, queue, agent = _draw_share(facts, rng, list(filter(add_up, groups)))
    return assign(
        f"How many minutes in all have been spent on the tickets of the queue {queue['title']}"
        f" that are open or reopened and assigned to {agent['name']}? Answer with the number of"
        " minutes.",
        _filter(owner=agent["id"], queue=queue["id"]),
        map(open_ticket, group),
        answer=f"{add_up(group)} minutes",
    )


@task("helpdesk/closed-of-queue", level=1, split="train")
def _closed_of_queue(facts: Facts, rng: random.Random) -> Assignment:
    queue = rng.choice(facts["queues"])
    state, status = rng.choice((("resolved", _RESOLVED), ("closed", _CLOSED)))
    found = find_tickets(facts, lambda one: one["queue"] == queue["slug"], status=(status,))
    return assign(
        f"By the reports, how many tickets of the queue {queue['title']} are {state}?"
        " Answer with the number.",
        click(".sidebar a", "Reports"),
        answer=str(len(found)),
    )


@task("helpdesk/report-by-user", level=2, split="train")
def _report_by_user(facts: Facts, rng: random.Random) -> Assignment:
    agent, priority = rng.choice(facts["agents"]), rng.choice(list(PRIORITIES))
    other = other_than(rng, facts["agents"], agent)
    found = Counter(one["owner"] for one in facts["tickets"] if one["priority"] == priority)
    return assign(
        f"By the report of users by priority, how many tickets with the priority"
        f' "{PRIORITIES[priority]}" are assigned to {agent["name"]}, and how many to'
        f" {other['name']}, in whatever state? Answer with both numbers, separated by a semicolon.",
        _report("userpriority"),
        answer=(str(found[agent["username"]]), str(found[other["username"]])),
        ordered=True,
    )


@task("helpdesk/busiest-agent", level=2, split="test")
def _busiest_agent(facts: Facts, rng: random.Random) -> Assignment:
    owned = [one for one in facts["tickets"] if one["owner"]]

    def find_busiest(key: str, value: Any) -> Any:
        """Return the agent with the most such tickets, and their number; None if there is a tie."""
        found = Counter(one["owner"] for one in owned if one[key] == value)
        return find_best(found.items(), itemgetter(1))

    kinds = [
        *(("queue", one["slug"], f"of the queue {one['title']}") for one in facts["queues"]),
        *(("priority", n, f'with the priority "{title}"') for n, title in PRIORITIES.items()),
    ]
    found = [(words, key, find_busiest(key, value)) for key, value, words in kinds]
    words, key, best, most = rng.choice([(words, key, *best) for words, key, best in found if best])
    return assign(
        f"By the reports, which agent has the most tickets {words} assigned, whatever their"
        " state, and how many? Answer with the full name and the number, separated by a comma.",
        _report(f"user{key}"),
        answer=(find_agent(facts, best)["name"], str(most)),
    )


# Searches and settings.


@task("helpdesk/save-search", level=2, split="train")
def _save_search(facts: Facts, rng: random.Random) -> Assignment:
    queue, priority = rng.choice(facts["queues"]), rng.choice(list(PRIORITIES))
    shared = rng.random() < 0.5
    name = f"{rng.choice(('Watch', 'Daily look', 'Round', 'To do'))} {rng.randint(10, 99)}"
    wanted = {"status__in": [1, 2], "priority__in": [priority], "queue__id__in": [queue["id"]]}
    return assign(
        f'Save a query "{name}" that lists the open and reopened tickets of the queue'
        f' {queue["title"]} with priority "{PRIORITIES[priority]}".'
        + (" Share it with the others." if shared else " Do not share it."),
        (_filter(priority=priority, queue=queue["id"]), click("#queries")),
        fill("#offcanvasQueries #id_title", name),
        check("#id_shared") if shared else (),
        click('#offcanvasQueries button[type="submit"]', "Save"),
        added(
            "helpdesk_savedsearch",
            title=name,
            shared=int(shared),
            query=lambda text: _read_filter(text) == wanted,
        ),
    )


def _read_filter(text: str) -> Any:
    """Return the filter of a saved search; None if it searches for more than that."""
    query = json.loads(base64.b64decode(text, validate=True))
    if query.get("filtering_null") or query.get("search_string"):
        return None
    return {name: sorted(values) for name, values in query["filtering"].items()}


@task("helpdesk/delete-search", level=1, split="test")
def _delete_search(facts: Facts, rng: random.Random) -> Assignment:
    title = f"{rng.choice(('Old list', 'Try', 'Before the fair', 'Handover'))} {rng.randint(2, 99)}"
    me, number = find_agent(facts, facts["user"])["id"], next_id(facts["searches"])
    query = base64.b64encode(json.dumps({"filtering": {"status__in": [1]}}).encode()).decode()
    insert = (
        "INSERT INTO helpdesk_savedsearch (id, title, shared, query, user_id) "
        "VALUES (?, ?, 0, ?, ?)"
    )
    return assign(
        f'Delete your saved query "{title}".',
        (click(".sidebar a", "Manage Saved Queries"), click(f'a[href="/delete_query/{number}/"]')),
        (_DELETE, removed("helpdesk_savedsearch", id=number)),
        prepare=((insert, (number, title, query, me)),),
    )


_SETTINGS: Final = (
    ("email_on_ticket_change", "send you no mail when a ticket is changed"),
    ("email_on_ticket_assign", "send you no mail when you are assigned a ticket"),
    ("login_view_ticketlist", "do not show the ticket list on login"),
    ("use_email_as_submitter", "do not use your address when you submit tickets"),
)


@task("helpdesk/settings", level=1, split="train")
def _settings(facts: Facts, rng: random.Random) -> Assignment:
    pages, layout = rng.choice((10, 50, 100)), rng.choice(("bottom", "top"))
    column, words = rng.choice(_SETTINGS)
    new = {"tickets_per_page": pages, "ticket_respond_layout": layout, column: 0}
    me = find_agent(facts, facts["user"])["id"]
    return assign(
        f"Change your settings: show {pages} tickets per page, put the respond form"
        f" {'below' if layout == 'bottom' else 'above'} the follow-ups, and {words}. Leave the rest"
        " as it is.",
        (_OPEN_MENU, click("a.dropdown-item", "User Settings")),
        (select("#id_tickets_per_page", str(pages)), select("#id_ticket_respond_layout", layout)),
        (uncheck(f"#id_{column}"), click('input[value="Save Changes"]')),
        changed("helpdesk_usersettings", {"user_id": me}, **new),
    )


# The back office.


@task("helpdesk/ignore-address", level=2, split="train")
def _ignore_address(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(("Press list", "Job portal", "Lottery", "Calendar robot", "Supplier's news"))
    domain = name.split()[0].lower().replace("'", "")
    email = f"{rng.choice(('info', 'news', 'bot'))}{rng.randint(10, 99)}@{domain}.example"
    queues, keep = rng.sample(facts["queues"], 2), rng.random() < 0.5
    table, numbers = "helpdesk_ignoreemail", [queue["id"] for queue in queues]
    return assign(
        f'Add {email} to the e-mail ignore list under the name "{name}", for the queues'
        f" {queues[0]['title']} and {queues[1]['title']} only. Its mails should"
        f" {'be kept' if keep else 'not be kept'} in the mailbox.",
        (_admin("E-Mail Ignore list"), click("#content-wrapper a", "Add an Email")),
        [check(f'input[name="queues"][value="{number}"]') for number in numbers],
        (fill("#id_name", name), fill("#id_email_address", email)),
        check("#id_keep_in_mailbox") if keep else (),
        click('#content-wrapper button[type="submit"]'),
        added(table, name=name, email_address=email, keep_in_mailbox=int(keep)),
        [added(f"{table}_queues", ignoreemail_id=in_new(table), queue_id=n) for n in numbers],
    )


@task("helpdesk/stop-ignoring", level=2, split="test")
def _stop_ignoring(facts: Facts, rng: random.Random) -> Assignment:
    email = f"{rng.choice(('lists', 'alerts', 'hello'))}{rng.randint(10, 99)}@oldgate.example"
    number = next_id(facts["ignored"])
    insert = (
        "INSERT INTO helpdesk_ignoreemail (id, name, date, email_address, keep_in_mailbox)"
        " VALUES (?, 'Oldgate', '2026-02-11', ?, 1)"
    )
    return assign(
        f"Mails from {email} should make tickets again. Take the address off the ignore list.",
        (_admin("E-Mail Ignore list"), click(f'a[href="/ignore/delete/{number}/"]')),
        (_DELETE, removed("helpdesk_ignoreemail", id=number)),
        prepare=((insert, (number, email)),),
    )


@task("helpdesk/new-preset", level=2, split="train")
def _new_preset(facts: Facts, rng: random.Random) -> Assignment:
    queue, text = rng.choice(facts["queues"]), rng.choice(_TEXTS)
    name = f"{rng.choice(('Short answer', 'Standard text', 'Polite answer'))} {rng.randint(10, 99)}"
    table, choice = "helpdesk_presetreply", select("#id_queues", str(queue["id"]))
    return assign(
        f'Create a pre-set reply "{name}" for the queue {queue["title"]} only, with the text'
        f' "{text}"',
        _add_row("Maintain Pre-Set Replies", table, {"name": name, "body": text}, choice),
        added(f"{table}_queues", presetreply_id=in_new(table), queue_id=queue["id"]),
    )


@task("helpdesk/correct-article", level=2, split="train")
def _correct_article(facts: Facts, rng: random.Random) -> Assignment:
    article = rng.choice(facts["answers"])
    text = f"This has changed: ask extension {rng.randint(4000, 4999)}."
    return assign(
        f'Replace the answer of the knowledge base article "{article["title"]}" by "{text}"',
        (_admin("Maintain Knowledgebase Items"), click("#result_list a", article["title"])),
        (fill("#id_answer", text), _SAVE_ROW),
        changed_row("helpdesk_kbitem", article, answer=same_text(text)),
    )


@task("helpdesk/new-article", level=2, split="test")
def _new_article(facts: Facts, rng: random.Random) -> Assignment:
    categories = list(dict.fromkeys(one["category"] for one in facts["answers"]))
    category = rng.choice(sorted(categories))
    thing = rng.choice(("bicycle", "coffee grounds", "old paper", "lost glove", "empty battery"))
    title, question = f"Where do I leave my {thing}?", f"What shall I do with my {thing}?"
    answer = f"In room {rng.randint(1, 4)}.{rng.randint(10, 28)}, between nine and ten."
    fields = {"category": 1 + categories.index(category), "title": title}
    fields |= {"question": question, "answer": answer}
    return assign(
        f'Add an article to the knowledge base category "{category}" with the title "{title}",'
        f' the question "{question}" and the answer "{answer}"',
        _add_row("Maintain Knowledgebase Items", "helpdesk_kbitem", fields, enabled=1),
    )


@task("helpdesk/new-queue", level=2, split="train")
def _new_queue(facts: Facts, rng: random.Random) -> Assignment:
    title = rng.choice(("Fleet", "Canteen", "Warehouse", "Training", "Press"))
    slug = title.lower()
    place = {"title": title, "slug": slug, "email_address": f"{slug}@desk.northfield.test"}
    rules = {"allow_public_submission": 1, "escalate_days": rng.randint(2, 9)}
    return assign(
        f'Set up a new queue "{title}" with the slug "{slug}" and the e-mail address'
        f" {place['email_address']}, open to public submission, with {rules['escalate_days']}"
        " escalation days.",
        _add_row("Maintain Queues", "helpdesk_queue", place | rules),
        added("auth_permission", codename=f"queue_access_{slug}"),
    )


@task("helpdesk/deactivate-user", level=2, split="train")
def _deactivate_user(facts: Facts, rng: random.Random) -> Assignment:
    person = other_than(rng, _colleagues(facts), username=facts["colleague"])
    return assign(
        f"{person['name']} has left the company. Make the account inactive, but do not delete it.",
        (_admin("Maintain Users"), click("#result_list a", person["username"])),
        (uncheck("#id_is_active"), _SAVE_ROW),
        changed_row("auth_user", person, is_active=0),
    )


# Many tickets.


@task("helpdesk/reassign-all", level=3, split="train")
def _reassign_all(facts: Facts, rng: random.Random) -> Assignment:
    owned = find_tickets(facts, lambda one: one["owner"] != facts["user"], owner=True)
    group = rng.choice(group_rows(owned, "owner", most=25))
    away = find_agent(facts, group[0]["owner"])
    agent = rng.choice(_others(facts, away["username"]))
    return assign(
        f"{away['name']} is ill. Give {agent['name']} all tickets that are assigned to"
        f" {away['name']} and are open or reopened.",
        (_filter(owner=away["id"]), _bulk(f"assign_{agent['id']}")),
        [_expect_noted(ticket, assigned_to_id=agent["id"]) for ticket in group],
    )


@task("helpdesk/close-resolved", level=3, split="test")
def _close_resolved(facts: Facts, rng: random.Random) -> Assignment:
    groups = group_rows(find_tickets(facts, status=(_RESOLVED,)), "queue", "owner", most=8)
    group, queue, agent = _draw_share(facts, rng, groups)
    resolved = (uncheck("#status-check-1"), uncheck("#status-check-2"), check("#status-check-3"))
    return assign(
        f"Close all resolved tickets of the queue {queue['title']} that are assigned to"
        f" {agent['name']}, without sending mails or writing comments.",
        (_filter(*resolved, owner=agent["id"], queue=queue["id"]), _bulk("close")),
        [_expect_changed(ticket, status=_CLOSED) for ticket in group],
        # A public follow-up would send a mail.
        allow_notes(*group, public=0),
    )


@task("helpdesk/share-unassigned", level=3, split="train")
def _share_unassigned(facts: Facts, rng: random.Random) -> Assignment:
    group = rng.choice(group_rows(find_tickets(facts, owner=False), "queue", most=12))
    agent, queue = rng.choice(_others(facts)), find_queue(facts, group[0]["queue"])
    chosen = [ticket for ticket in group if not ticket["hold"]]
    return assign(
        f"Give {agent['name']} the tickets of the queue {queue['title']} that are open or"
        " reopened, belong to nobody and are not on hold.",
        (_filter(owner=-1, queue=queue["id"]), _bulk(f"assign_{agent['id']}", *chosen)),
        [_expect_noted(ticket, assigned_to_id=agent["id"]) for ticket in chosen],
    )


@task("helpdesk/raise-overdue", level=3, split="train")
def _raise_overdue(facts: Facts, rng: random.Random) -> Assignment:
    late = find_tickets(facts, lambda one: one["due"] and one["due"] < "2026-03-02", owner=True)
    priority = rng.choice((1, 2))
    groups = group_rows(late, "owner", least=1, most=4)
    wrong = [[one for one in group if one["priority"] != priority] for group in groups]
    chosen = rng.choice([group for group in wrong if group])
    agent = find_agent(facts, chosen[0]["owner"])
    return assign(
        f"Today is 2 March 2026. Every open or reopened ticket that is assigned to"
        f" {agent['name']} and was due before today should have the priority"
        f' "{PRIORITIES[priority]}". Change those that do not have it.',
        _filter(owner=agent["id"]),
        [(open_ticket(ticket), respond(ticket, priority=priority)) for ticket in chosen],
    )


@task("helpdesk/answer-several", level=3, split="test")
def _answer_several(facts: Facts, rng: random.Random) -> Assignment:
    groups = group_rows(find_tickets(facts, owner=True), "queue", "owner", most=3)
    group, queue, agent = _draw_share(facts, rng, groups)
    text, due = rng.choice(_TEXTS), {one["due"] for one in group}
    date = other_than(rng, [f"2026-03-{day}" for day in range(10, 29)], *due)
    return assign(
        f"Write to the submitters of all tickets of the queue {queue['title']} that are open"
        f' or reopened and assigned to {agent["name"]}: "{text}" Make these tickets due on {date}.',
        _filter(owner=agent["id"], queue=queue["id"]),
        [(open_ticket(ticket), respond(ticket, text, due_date=date)) for ticket in group],
    )


# What cannot be done.


@colleague_task("helpdesk/not-permitted", level=1, split="test", infeasible=True)
def _not_permitted(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(_mine(facts))
    priority = other_than(rng, PRIORITIES, ticket["priority"])
    goal = f'Change the priority of your ticket {_name(ticket)} to "{PRIORITIES[priority]}".'
    return assign(goal, _open_mine(ticket, uncheck("#hideClosed")))
