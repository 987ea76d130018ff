"""Tasks in the issue tracker."""

from __future__ import annotations

import base64
import functools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

from webtraj.environments.browser.oracles import (
    Step,
    check,
    click,
    fill,
    press,
    select,
    wait_until,
)
from webtraj_apps.company import COMPANY
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    added,
    anything,
    changed,
    find,
    format_date,
    join_names,
    optional,
    other_than,
    removed,
    same_text,
    template,
)
from webtraj_apps.tracker.content import REPORTS, WORDS

task = functools.partial(template, user="user")

Ticket = dict[str, Any]
_CUSTOMERS = [one["name"] for one in COMPANY.customers]
UPCOMING = [name for name, _, completed, _ in WORDS.milestones if not completed]
DATED = {name: due for name, due, completed, _ in WORDS.milestones if due and not completed}
_OPEN = ("accepted", "assigned", "new", "reopened")
_CUSTOM = ("customer", "estimate", "billable")


# What tasks are about.


def find_tickets(facts: Facts, **wanted: Any) -> list[Ticket]:
    """Return the tickets with these values; a value may be a list of values or a test."""

    def fits(value: Any, wish: Any) -> bool:
        if callable(wish):
            return bool(wish(value))
        return value in wish if isinstance(wish, (list, tuple)) else value == wish

    return [
        ticket
        for ticket in facts["tickets"]
        if all(fits(ticket[name], wish) for name, wish in wanted.items())
    ]


def find_unclosed_tickets(facts: Facts, **wanted: Any) -> list[Ticket]:
    """Return the tickets with these values that are not closed. See `find_tickets`."""
    return find_tickets(facts, status=_OPEN, **wanted)


def draw_release(facts: Facts, rng: random.Random, components: int = 1) -> tuple[str, str]:
    """Return a milestone that is to come, and when it is due, as YYYY-MM-DD.

    Args:
        facts: The facts of the world.
        rng: The source of what the goal draws.
        components: Of how many components it has unclosed tickets, at least.
    """

    def components_of(name: str) -> set[str]:
        return {one["component"] for one in find_unclosed_tickets(facts, milestone=name)}

    name = rng.choice([name for name in DATED if len(components_of(name)) >= components])
    return name, DATED[name]


def name_of(facts: Facts, username: str) -> str:
    """Return a person's full name, as pages show it."""
    return str(find(facts["people"], username=username)["name"])


def _quote(ticket: Ticket) -> str:
    return f"“{ticket['summary']}”"


def _micros(when: datetime) -> int:
    return int(when.timestamp()) * 1_000_000


def _on(day: str) -> Callable[[Any], bool]:
    """Test that a time is on a day."""
    start = _micros(datetime.fromisoformat(day).replace(tzinfo=UTC))
    return lambda value: start <= value < start + 86_400_000_000


def _evening(day: str) -> str:
    """Return a time of a day as the tracker writes it."""
    return f"{day}T18:00:00Z"


def _numbers(tickets: Sequence[Ticket]) -> tuple[str, ...]:
    return tuple(str(ticket["id"]) for ticket in tickets)


# What they change.


def expect_comment(number: int | Callable[[Any], bool], comment: str) -> Expected:
    """Expect a comment on a ticket."""
    return added("ticket_change", ticket=number, field="comment", newvalue=same_text(comment))


def expect_changed(ticket: Ticket, comment: str = "", **new: Any) -> tuple[Expected, ...]:
    """Expect new values of a ticket."""
    number = ticket["id"]
    plain = {name: value for name, value in new.items() if name not in _CUSTOM}
    custom = tuple(
        changed("ticket_custom", {"ticket": number, "name": name}, value=value)
        for name, value in new.items()
        if name in _CUSTOM
    )
    columns = (changed("ticket", {"id": number}, **plain),) if plain else ()
    return (*columns, *custom, *([expect_comment(number, comment)] if comment else []))


_UNSET: Mapping[str, Any] = {
    **dict.fromkeys(("description", "keywords", "cc", "milestone", "version")),
    "status": "new",
}
"""Columns of new tickets whose fields nobody has touched."""


def expect_ticket(number: int, **values: Any) -> tuple[Expected, ...]:
    """Expect a new ticket, with a number that follows from those before."""
    plain = {name: value for name, value in values.items() if name not in _CUSTOM}
    custom = {name: values.get(name, "0" if name == "billable" else None) for name in _CUSTOM}
    return (
        added("ticket", id=number, **{**_UNSET, **plain}),
        *(
            added("ticket_custom", ticket=number, name=name, value=value)
            for name, value in custom.items()
        ),
    )


def expect_tasks(
    facts: Facts, summaries: Sequence[str], owner: str, **shared: str
) -> tuple[list[Expected], list[Expected]]:
    """Expect a new ticket of the type task for each summary, in any order."""
    first = len(facts["tickets"]) + 1
    fields = {**_UNSET, "type": "task", "owner": owner, "priority": "major", **shared}
    return (
        [added("ticket", summary=same_text(summary), **fields) for summary in summaries],
        [
            added(
                "ticket_custom",
                ticket=first + at,
                name=name,
                value="0" if name == "billable" else None,
            )
            for at in range(len(summaries))
            for name in _CUSTOM
        ],
    )


# How they are done.


def open_ticket(ticket: Ticket) -> tuple[Step, ...]:
    """Open a ticket by its number."""
    return fill("#proj-search", f"#{ticket['id']}"), press("#proj-search", "Enter")


def search_ticket(ticket: Ticket, text: str = "") -> tuple[Step, ...]:
    """Search for a text, the summary if there is none, and open the ticket from the results."""
    words = f'"{text or ticket["summary"]}"'
    return (
        fill("#proj-search", words),
        press("#proj-search", "Enter"),
        click(f'#results a[href^="/ticket/{ticket["id"]}"]'),
    )


def _set(**new: str) -> tuple[Step, ...]:
    """Set fields in the form of a ticket."""
    steps: list[Step] = []
    for name, value in new.items():
        field = f"#field-{name}"
        if name == "billable":
            steps.append(check(field))
        elif name in ("type", "priority", "milestone", "component", "version", "customer"):
            steps.append(select(field, value))
        else:
            steps.append(fill(field, value))
    return tuple(steps)


def _unfold(heading: str, text: str | None = None) -> tuple[Step, ...]:
    """Open a part of a page that is folded by a script."""
    return wait_until(f"{heading} a"), click(f"{heading} a", text)


_MODIFY = _unfold("h3.foldable", "Modify Ticket")
_SUBMIT = click('#propertyform input[name="submit"]')


def change_ticket(*more: Step, **new: str) -> tuple[Step, ...]:
    """Change the ticket whose page is open."""
    return (*_MODIFY, *_set(**new), *more, _SUBMIT)


def write_comment(text: str) -> Step:
    """Write a comment on the ticket that is open, to be sent with its changes."""
    return fill("#comment", text)


def add_comment_to(ticket: Ticket, text: str) -> tuple[Step, ...]:
    """Open a ticket by its number, and comment on it."""
    return (*open_ticket(ticket), write_comment(text), _SUBMIT)


def _resolve(resolution: str) -> tuple[Step, ...]:
    return check("#action_resolve"), select("#action_resolve_resolve_resolution", resolution)


def hand_to(name: str) -> tuple[Step, ...]:
    """Choose another owner of the ticket that is open."""
    return check("#action_reassign"), select("#action_reassign_reassign_owner", name)


def query_tickets(*filters: tuple[str, str, str], closed: bool = False) -> tuple[Step, ...]:
    """Ask for the tickets that are not closed, or for all, with these fields.

    Args:
        *filters: Name, label and value of each field.
        closed: Whether closed tickets count too.
    """
    steps: list[Step] = [
        click("#ctxtnav a", "New Custom Query"),
        click('#filters tr.owner input[type="button"]'),
    ]
    if closed:
        steps.append(click('#filters tr.status input[type="button"]'))
    for name, label, value in filters:
        steps += [select("#add_filter_0", label), select(f'select[name="0_{name}"]', value)]
    return (*steps, click('#query input[name="update"]'))


def _batch(name: str, label: str, value: str) -> tuple[Step, ...]:
    """Change a field of all tickets that a query shows."""
    return (
        click("th.sel input"),
        *_unfold("#batchmod_fieldset legend"),
        select("#add_batchmod_field", label),
        select(f'[name="batchmod_value_{name}"]', value),
        click("#batchmod_submit"),
    )


def _admin(panel: str) -> tuple[Step, ...]:
    return click("#mainnav a", "Admin"), click("#tabs a", panel)


# Reading: one ticket.


@task("tracker/find-owner", level=1, split="train")
def find_owner(facts: Facts, rng: random.Random) -> Assignment:
    """Ask who owns a ticket."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    return Assignment(
        goal=f"Who owns the ticket {_quote(ticket)}? Answer with the full name.",
        answer=name_of(facts, ticket["owner"]),
        steps=search_ticket(ticket),
    )


@task("tracker/find-error-code", level=1, split="train")
def find_error_code(facts: Facts, rng: random.Random) -> Assignment:
    """Ask which ticket is about a problem report."""
    ticket = rng.choice(find_tickets(facts, type="defect"))
    return Assignment(
        goal=f"A customer asks what became of the problem report {ticket['code']}. "
        "Which ticket is about it? Answer with its number.",
        answer=f"{ticket['id']}",
        steps=search_ticket(ticket, ticket["code"]),
    )


@task("tracker/find-build", level=1, split="train")
def find_build(facts: Facts, rng: random.Random) -> Assignment:
    """Ask in which build something was fixed."""
    ticket = rng.choice(find_tickets(facts, type="defect", status="closed", resolution="fixed"))
    return Assignment(
        goal=f"In which build was the defect {_quote(ticket)} fixed? Answer with the number of the "
        "build.",
        answer=ticket["build"],
        steps=search_ticket(ticket),
    )


@task("tracker/find-workaround", level=1, split="test")
def find_workaround(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for the workaround in a ticket's comments."""
    ticket = rng.choice(find_tickets(facts, workaround=bool))
    return Assignment(
        goal=f"Support needs the workaround for the problem of report {ticket['code']}. "
        "Answer with the words of the comment that names it, without the words before the colon.",
        answer=ticket["workaround"],
        steps=search_ticket(ticket, ticket["code"]),
    )


@task("tracker/who-closed", level=1, split="train")
def who_closed(facts: Facts, rng: random.Random) -> Assignment:
    """Ask who closed a ticket, and when."""
    ticket = rng.choice(find_tickets(facts, status="closed"))
    closed = next(e for e in reversed(ticket["events"]) if e["new"].get("status") == "closed")
    return Assignment(
        goal=f"Who closed ticket #{ticket['id']}, and on which day? "
        "Answer with the full name and the date (YYYY-MM-DD), separated by a comma.",
        answer=(name_of(facts, closed["author"]), closed["when"][:10]),
        steps=open_ticket(ticket),
    )


@task("tracker/find-last-failure", level=2, split="train")
def find_last_failure(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for a line of an attached log."""
    log = rng.choice(facts["attachments"])
    ticket = find(facts["tickets"], id=log["ticket"])
    return Assignment(
        goal=f"A log file is attached to the ticket {_quote(ticket)}. "
        "What is the number of the last job in it that failed? Answer with the number.",
        answer=log["last_error"].removeprefix("job "),
        steps=(search_ticket(ticket), _to_log(log)),
    )


@task("tracker/count-failures", level=2, split="test")
def count_failures(facts: Facts, rng: random.Random) -> Assignment:
    """Count the errors in an attached log, and say so in a comment."""
    log = rng.choice(facts["attachments"])
    ticket = find(facts["tickets"], id=log["ticket"])
    text = f"The log has {log['errors']} failed jobs."
    return Assignment(
        goal=f"Count the failed jobs in the log file attached to ticket #{ticket['id']}, and "
        "comment on the ticket with this sentence: “The log has N failed jobs.”, with the number "
        "in place of N.",
        expect=expect_comment(ticket["id"], text),
        steps=(
            open_ticket(ticket),
            _to_log(log),
            click("#content h1 a"),
            write_comment(text),
            _SUBMIT,
        ),
    )


def _milestone(name: str, form: str) -> tuple[Step, ...]:
    """Open a milestone from the roadmap, and one of its forms."""
    return (
        click("#mainnav a", "Roadmap"),
        click(f'.milestone h2 a[href="/milestone/{name.replace(" ", "%20")}"]'),
        click(f'#{form} input[type="submit"]'),
    )


def _to_log(log: dict[str, Any]) -> tuple[Step, ...]:
    return (
        *_unfold("#attachments h3"),
        click("dl.attachments dt a", log["filename"]),
    )


# Reading: several tickets.


@task("tracker/milestone-due", level=1, split="train")
def milestone_due(facts: Facts, rng: random.Random) -> Assignment:
    """Ask when a milestone is due."""
    name, due, completed, _ = rng.choice([m for m in WORDS.milestones if m[1]])
    what = "completed" if completed else "due"
    return Assignment(
        goal=f"On which day {'was' if completed else 'is'} the milestone {name} {what}? "
        "Answer as YYYY-MM-DD.",
        answer=completed or due,
        steps=(
            click("#mainnav a", "Roadmap"),
            (check("#showcompleted"), click("#prefs input[type=submit]")) if completed else (),
        ),
    )


@task("tracker/count-by-query", level=2, split="train")
def count_by_query(facts: Facts, rng: random.Random) -> Assignment:
    """Ask how many open tickets have a component and a priority."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    component, priority = ticket["component"], ticket["priority"]
    found = find_unclosed_tickets(facts, component=component, priority=priority)
    return Assignment(
        goal=f"How many tickets of the component {component} with the priority {priority} are "
        "not closed? Answer with the number.",
        answer=str(len(found)),
        steps=query_tickets(
            ("component", "Component", component), ("priority", "Priority", priority)
        ),
    )


@task("tracker/list-by-query", level=2, split="train")
def list_by_query(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for the numbers of a customer's open tickets in a milestone."""
    ticket = rng.choice(find_unclosed_tickets(facts, customer=bool, milestone=bool))
    customer, milestone = ticket["customer"], ticket["milestone"]
    found = find_unclosed_tickets(facts, customer=customer, milestone=milestone)
    return Assignment(
        goal=f"Which tickets of the customer {customer} in the milestone {milestone} are not "
        "closed? Answer with their numbers, separated by commas.",
        answer=_numbers(found),
        steps=query_tickets(
            ("customer", "Customer", customer), ("milestone", "Milestone", milestone)
        ),
    )


@task("tracker/oldest-ticket", level=2, split="test")
def oldest_ticket(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for the oldest open ticket of a person."""
    owner = rng.choice(
        [t["owner"] for t in find_unclosed_tickets(facts) if t["owner"] != facts["user"]]
    )
    found = find_unclosed_tickets(facts, owner=owner)
    return Assignment(
        goal=f"Of the tickets that {name_of(facts, owner)} owns and that are not closed, which one "
        "was created first? Answer with its number.",
        answer=str(found[0]["id"]),
        steps=(
            click("#ctxtnav a", "New Custom Query"),
            select('select[name="0_owner"]', name_of(facts, owner)),
            click('#query input[name="update"]'),
            click("th.id a"),
        ),
    )


@task("tracker/sum-estimates", level=2, split="train")
def sum_estimates(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for the sum of the estimates of open tickets."""
    field, value = rng.choice(_groups(facts))
    found = find_unclosed_tickets(facts, **{field: value})
    return Assignment(
        goal=f"Add up the estimates of all tickets of the {field} {value} that are not closed. "
        "How many hours is that? Answer with the number.",
        answer=f"{sum(int(ticket['estimate']) for ticket in found)} hours",
        steps=(
            query_tickets((field, field.capitalize(), value))[:-1],
            _unfold("#columns legend"),
            check('#columns input[value="estimate"]'),
            click('#query input[name="update"]'),
        ),
    )


def _groups(facts: Facts) -> list[tuple[str, str]]:
    """Return fields and values that open tickets have."""
    return sorted(
        {
            (field, ticket[field])
            for ticket in find_unclosed_tickets(facts)
            for field in ("component", "customer", "milestone")
            if ticket[field]
        }
    )


@task("tracker/busiest-owner", level=2, split="test")
def busiest_owner(facts: Facts, rng: random.Random) -> Assignment:
    """Ask who has the most open tickets of some kind."""

    def winners(field: str, value: str) -> list[str]:
        counts = Counter(t["owner"] for t in find_unclosed_tickets(facts, **{field: value}))
        return [owner for owner, count in counts.items() if count == max(counts.values())]

    field, value = rng.choice([group for group in _groups(facts) if len(winners(*group)) == 1])
    return Assignment(
        goal=f"Who owns the most tickets of the {field} {value} that are not closed? "
        "Answer with the full name.",
        answer=name_of(facts, winners(field, value)[0]),
        steps=(
            query_tickets((field, field.capitalize(), value))[:-1],
            select("#group", "Owner"),
            click('#query input[name="update"]'),
        ),
    )


@task("tracker/compare-customers", level=3, split="test")
def compare_customers(facts: Facts, rng: random.Random) -> Assignment:
    """Ask which of three customers has the most open defects."""

    def count(customer: str) -> int:
        return len(find_unclosed_tickets(facts, customer=customer, type="defect"))

    while True:
        three = rng.sample(_CUSTOMERS, 3)
        best, second, _ = sorted(three, key=count, reverse=True)
        if count(best) > count(second):
            break
    return Assignment(
        goal=f"Which of the customers {three[0]}, {three[1]} and {three[2]} has the most open "
        "defects, that is, tickets of the type defect that are not closed? Answer with the name "
        "of the customer and the number of the defects, separated by a comma.",
        answer=(best, str(count(best))),
        steps=[
            (
                click("#mainnav a", "View Tickets"),
                query_tickets(("customer", "Customer", customer), ("type", "Type", "defect")),
            )
            for customer in three
        ],
    )


@task("tracker/billable-report", level=2, split="train")
def billable_report(facts: Facts, rng: random.Random) -> Assignment:
    """Ask a report for the billable tickets of a customer."""
    billable = find_tickets(facts, billable="1")
    customer = rng.choice([ticket["customer"] for ticket in billable])
    found = [ticket for ticket in billable if ticket["customer"] == customer]
    return Assignment(
        goal=f"How many billable tickets of {customer} does the report “Billable tickets by "
        "customer” list, closed ones included? Answer with the number.",
        answer=str(len(found)),
        steps=click('h3 a[href="/report/5"]'),
    )


# Changing one ticket.


@task("tracker/set-priority", level=1, split="train")
def set_priority(facts: Facts, rng: random.Random) -> Assignment:
    """Change a priority."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    priority = other_than(rng, WORDS.priorities, ticket["priority"])
    return Assignment(
        goal=f"Set the priority of ticket #{ticket['id']} to {priority}.",
        expect=expect_changed(ticket, priority=priority),
        steps=(open_ticket(ticket), change_ticket(priority=priority)),
    )


@task("tracker/set-milestone", level=1, split="train")
def set_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Move a ticket to a milestone."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    milestone = other_than(rng, UPCOMING, ticket["milestone"])
    return Assignment(
        goal=f"Move the ticket {_quote(ticket)} to the milestone {milestone}.",
        expect=expect_changed(ticket, milestone=milestone),
        steps=(search_ticket(ticket), change_ticket(milestone=milestone)),
    )


_REMARKS = (
    "Please send us the log of that day.",
    "The customer confirmed it on the phone.",
    "I will look at this on Thursday.",
    "Tested with the new build, it still happens.",
    "Let us decide in the planning meeting.",
    "The manual has to be changed as well.",
)


@task("tracker/add-comment", level=1, split="train")
def add_comment(facts: Facts, rng: random.Random) -> Assignment:
    """Comment on a ticket."""
    ticket, text = rng.choice(find_unclosed_tickets(facts)), rng.choice(_REMARKS)
    return Assignment(
        goal=f"Add this comment to ticket #{ticket['id']}: “{text}”",
        expect=expect_comment(ticket["id"], text),
        steps=add_comment_to(ticket, text),
    )


@task("tracker/accept", level=1, split="train")
def accept(facts: Facts, rng: random.Random) -> Assignment:
    """Accept a ticket."""
    ticket = rng.choice(find_tickets(facts, status=("new", "assigned", "reopened")))
    return Assignment(
        goal=f"Accept the ticket {_quote(ticket)}, so that it is yours.",
        expect=expect_changed(ticket, owner=facts["user"], status="accepted"),
        steps=(search_ticket(ticket), change_ticket(check("#action_accept"))),
    )


@task("tracker/reassign", level=1, split="train")
def reassign(facts: Facts, rng: random.Random) -> Assignment:
    """Give a ticket to somebody else."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    owner = other_than(rng, facts["developers"][1:], ticket["owner"])
    name = name_of(facts, owner)
    return Assignment(
        goal=f"Reassign ticket #{ticket['id']} to {name}.",
        expect=expect_changed(ticket, owner=owner, status="assigned"),
        steps=(open_ticket(ticket), change_ticket(*hand_to(name))),
    )


_ENDS = {
    "fixed": "Fixed and tested on the demo system.",
    "invalid": "The manual describes exactly this.",
    "wontfix": "The screen goes away with version 5.0.",
    "worksforme": "Tried it on two scanners, no problem.",
}


@task("tracker/resolve", level=1, split="train")
def resolve(facts: Facts, rng: random.Random) -> Assignment:
    """Close a ticket with a resolution and a comment."""
    ticket, resolution = rng.choice(find_unclosed_tickets(facts)), rng.choice(list(_ENDS))
    text = _ENDS[resolution]
    return Assignment(
        goal=f"Close ticket #{ticket['id']} with the resolution {resolution} and the comment "
        f"“{text}”",
        expect=expect_changed(ticket, text, status="closed", resolution=resolution),
        steps=(
            open_ticket(ticket),
            change_ticket(*_resolve(resolution), write_comment(text)),
        ),
    )


@task("tracker/reopen", level=1, split="test")
def reopen(facts: Facts, rng: random.Random) -> Assignment:
    """Open the closed ticket of a problem report again."""
    ticket = rng.choice(find_tickets(facts, status="closed", type="defect"))
    text = "It happened again this morning."
    return Assignment(
        goal=f"The problem of report {ticket['code']} is back. Reopen its ticket, with the comment "
        f"“{text}”",
        expect=expect_changed(ticket, text, status="reopened", resolution=None),
        steps=(
            search_ticket(ticket, ticket["code"]),
            change_ticket(check("#action_reopen"), write_comment(text)),
        ),
    )


@task("tracker/close-duplicate", level=2, split="train")
def close_duplicate(facts: Facts, rng: random.Random) -> Assignment:
    """Close a ticket as a duplicate of another, whose number must be found."""
    ticket, original = rng.sample(find_unclosed_tickets(facts, type="defect"), 2)
    text = f"Duplicate of #{original['id']}."
    return Assignment(
        goal=f"The ticket {_quote(ticket)} is the same problem as {_quote(original)}. Close the "
        "first one as a duplicate, with the comment “Duplicate of #N.”, where N is the number of "
        "the other ticket.",
        expect=expect_changed(ticket, text, status="closed", resolution="duplicate"),
        steps=(
            search_ticket(original),
            search_ticket(ticket),
            change_ticket(*_resolve("duplicate"), write_comment(text)),
        ),
    )


@task("tracker/correct-summary", level=1, split="test")
def correct_summary(facts: Facts, rng: random.Random) -> Assignment:
    """Correct the summary of a ticket that was prepared with a mistake in it."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    words = ticket["summary"].split()
    place = max(range(len(words)), key=lambda i: len(words[i]))
    word = words[place]
    wrong = " ".join([*words[:place], word[0] + word[2] + word[1] + word[3:], *words[place + 1 :]])
    if wrong == ticket["summary"]:
        wrong = " ".join([*words[:place], word + word[-1], *words[place + 1 :]])
    return Assignment(
        goal=f"The summary of ticket #{ticket['id']} has a spelling mistake. It should be: "
        f"“{ticket['summary']}”. Please correct it.",
        prepare=(("UPDATE ticket SET summary = ? WHERE id = ?", (wrong, ticket["id"])),),
        expect=expect_changed(ticket, summary=ticket["summary"]),
        steps=(open_ticket(ticket), change_ticket(summary=ticket["summary"])),
    )


@task("tracker/add-cc", level=1, split="train")
def add_cc(facts: Facts, rng: random.Random) -> Assignment:
    """Add a person to the Cc field, besides those who are in it."""
    ticket = rng.choice(find_unclosed_tickets(facts, cc=bool))
    there = ticket["cc"].split(", ")
    person = other_than(rng, facts["support"], *there)
    wanted = {*there, person}
    return Assignment(
        goal=f"Add {name_of(facts, person)} (user name {person}) to the Cc of ticket "
        f"#{ticket['id']}, and keep those who are there.",
        expect=expect_changed(ticket, cc=lambda cc: set(cc.replace(",", " ").split()) == wanted),
        steps=(open_ticket(ticket), change_ticket(cc=f"{ticket['cc']}, {person}")),
    )


@task("tracker/set-several", level=2, split="train")
def set_several(facts: Facts, rng: random.Random) -> Assignment:
    """Change several fields of a ticket."""
    # Trac gives a new ticket to the owner of its new component.
    ticket = rng.choice(find_tickets(facts, type="defect", status=("accepted", "assigned")))
    new = {
        "component": other_than(rng, WORDS.components, ticket["component"]),
        "version": other_than(rng, [name for name, _, _ in WORDS.versions], ticket["version"]),
        "milestone": other_than(rng, UPCOMING, ticket["milestone"]),
        "keywords": other_than(rng, ("barcode", "layout", "network"), ticket["keywords"]),
    }
    return Assignment(
        goal=f"The defect {_quote(ticket)} is filed wrongly. Set its component to "
        f"{new['component']}, its version to {new['version']}, its milestone to "
        f"{new['milestone']}, and replace its keywords by “{new['keywords']}”.",
        expect=expect_changed(ticket, **new),
        steps=(search_ticket(ticket), change_ticket(**new)),
    )


@task("tracker/make-billable", level=2, split="train")
def make_billable(facts: Facts, rng: random.Random) -> Assignment:
    """Charge a ticket to a customer."""
    ticket = rng.choice(find_unclosed_tickets(facts, customer="", billable="0"))
    hours = str(other_than(rng, ("5", "7", "10", "14", "20"), ticket["estimate"]))
    customer = rng.choice(_CUSTOMERS)
    new = {"customer": customer, "estimate": hours, "billable": "1"}
    return Assignment(
        goal=f"{customer} pays for the ticket {_quote(ticket)}: enter the customer, an estimate "
        f"of {hours} hours, and mark it as billable.",
        expect=expect_changed(ticket, **new),
        steps=(search_ticket(ticket), change_ticket(**new)),
    )


@task("tracker/escalate", level=2, split="train")
def escalate(facts: Facts, rng: random.Random) -> Assignment:
    """Raise the priority of a problem report's ticket, and hand it to the component's owner."""
    leads = {one["name"]: one["owner"] for one in facts["components"]}
    ticket = rng.choice(
        [
            one
            for one in find_unclosed_tickets(
                facts, type="defect", priority=("major", "minor", "trivial")
            )
            if one["owner"] != leads[one["component"]]
        ]
    )
    owner = leads[ticket["component"]]
    return Assignment(
        goal=f"The problem of report {ticket['code']} stops a whole site. Set its ticket to the "
        "priority blocker and reassign it to the owner of its component, as listed in the "
        "administration.",
        expect=expect_changed(ticket, priority="blocker", owner=owner, status="assigned"),
        steps=(
            search_ticket(ticket, ticket["code"]),
            _admin("Components"),
            open_ticket(ticket),
            change_ticket(*hand_to(name_of(facts, owner)), priority="blocker"),
        ),
    )


@task("tracker/edit-comment", level=2, split="test")
def edit_comment(facts: Facts, rng: random.Random) -> Assignment:
    """Correct the build number in the last comment of a closed ticket."""
    ticket = rng.choice(
        [
            one
            for one in find_tickets(facts, status="closed", resolution="fixed", build=bool)
            if one["build"] in one["events"][-1]["comment"]
        ]
    )
    count = len(ticket["events"])
    release = ticket["build"].rpartition(".")[0]
    build = other_than(rng, [f"{release}.{number}" for number in range(100, 1000)], ticket["build"])
    text = ticket["events"][-1]["comment"].replace(ticket["build"], build)
    number = ticket["id"]
    return Assignment(
        goal=f"The last comment of ticket #{number} names the wrong build: it should be {build} "
        f"instead of {ticket['build']}. Edit that comment.",
        expect=(
            changed(
                "ticket_change",
                {"ticket": number, "field": "comment", "oldvalue": str(count)},
                newvalue=same_text(text),
            ),
            # Each edit keeps what the comment said before; who corrects a slip edits twice.
            added("ticket_change", ticket=number, field="_comment0", newvalue=anything),
            optional(added("ticket_change", ticket=number, field="_comment1", newvalue=anything)),
        ),
        steps=(
            open_ticket(ticket),
            click(f'#edit-comment-{count} input[type="submit"]'),
            fill('textarea[name="edited_comment"]', text),
            click('input[name="edit_comment"]'),
        ),
    )


@task("tracker/delete-comment", level=2, split="train")
def delete_comment(facts: Facts, rng: random.Random) -> Assignment:
    """Delete a comment with advertising from a ticket."""
    ticket = rng.choice(
        [t for t in find_unclosed_tickets(facts) if t["events"] and not t["events"][-1]["new"]]
    )
    number, count = ticket["id"], len(ticket["events"])
    when = _micros(datetime.fromisoformat(ticket["events"][-1]["when"]))
    text = "Cheap toner and labels, call now and save 40 percent!"
    return Assignment(
        goal=f"Somebody posted an advertisement as a comment on ticket #{number}. Delete that "
        "comment, and nothing else.",
        prepare=(
            (
                "INSERT INTO ticket_change VALUES (?, ?, ?, 'comment', ?, ?)",
                (number, when + 60_000_000, ticket["reporter"], str(count + 1), text),
            ),
        ),
        expect=removed("ticket_change", ticket=number, newvalue=text),
        steps=(
            open_ticket(ticket),
            click(f'#trac-change-{count + 1}-{when + 60_000_000} input[value*="Delete"]'),
            click('#content input[value="Delete comment"]'),
        ),
    )


@task("tracker/delete-ticket", level=1, split="train")
def delete_ticket(facts: Facts, rng: random.Random) -> Assignment:
    """Delete a ticket that is advertising."""
    number = len(facts["tickets"]) + 1
    summary = rng.choice(
        ("Win {n} euros today", "Save {n} euros on pallets", "Your loan of {n} euros is ready")
    ).format(n=rng.randint(11, 99) * 50)
    moment = 1_772_200_000_000_000
    return Assignment(
        goal=f"The ticket “{summary}” is advertising. Delete it.",
        prepare=(
            (
                (
                    "INSERT INTO ticket (id, type, time, changetime, component, priority, owner, "
                    "reporter, status, summary, description, keywords, cc, version, milestone, "
                    "resolution, severity) VALUES (?, 'defect', ?, ?, 'Search', 'major', ?, "
                    "'anonymous', 'new', ?, 'Visit us today!', '', '', '', '', '', '')"
                ),
                (number, moment, moment, facts["components"][-1]["owner"], summary),
            ),
        ),
        expect=removed("ticket", id=number),
        steps=(
            search_ticket({"id": number, "summary": summary}),
            click('.description input[value*="Delete"]'),
            click('#content input[value="Delete ticket"]'),
        ),
    )


@task("tracker/delete-attachment", level=2, split="test")
def delete_attachment(facts: Facts, rng: random.Random) -> Assignment:
    """Delete an attachment and say so."""
    log = rng.choice(facts["attachments"])
    ticket = find(facts["tickets"], id=log["ticket"])
    text = "Removed the log, it contained personal data."
    return Assignment(
        goal=f"The log file attached to the ticket {_quote(ticket)} contains personal data. "
        f"Delete it, and add the comment “{text}” to the ticket.",
        expect=(
            removed("attachment", id=str(ticket["id"]), filename=log["filename"]),
            expect_comment(ticket["id"], text),
        ),
        steps=(
            search_ticket(ticket),
            _to_log(log),
            click('#delete input[type="submit"]'),
            click('#content input[value="Delete attachment"]'),
            write_comment(text),
            _SUBMIT,
        ),
    )


# New tickets.

_NEWS = (
    ("Label printer in hall {n} prints two copies", "Shipping labels"),
    ("Scanner {n} shows a white screen after the update", "Handheld app"),
    ("Delivery {n} cannot be booked", "Goods in"),
    ("Stock of location {n} is negative", "Stock count"),
    ("Order {n} was imported twice", "Integrations"),
    ("Invoice {n} has no tax number", "Billing"),
    ("Search for article {n} finds nothing", "Search"),
    ("Pick list {n} has no locations", "Picking"),
)


@task("tracker/create-defect", level=1, split="train")
def create_defect(facts: Facts, rng: random.Random) -> Assignment:
    """File a defect."""
    pattern, component = rng.choice(_NEWS)
    summary = pattern.format(n=rng.randint(11, 989))
    priority = rng.choice(("critical", "minor", "blocker"))
    owner = find(facts["components"], name=component)["owner"]
    return Assignment(
        goal=f"File a new ticket: type defect, summary “{summary}”, component {component}, "
        f"priority {priority}. Leave the other fields as they are.",
        expect=expect_ticket(
            len(facts["tickets"]) + 1,
            type="defect",
            summary=same_text(summary),
            component=component,
            priority=priority,
            reporter=facts["user"],
            owner=owner,
        ),
        steps=file_ticket(summary=summary, component=component, priority=priority),
    )


def file_ticket(*more: Step, **new: str) -> tuple[Step, ...]:
    """File a ticket."""
    return (click("#mainnav a", "New Ticket"), *_set(**new), *more, _SUBMIT)


@task("tracker/create-assigned", level=2, split="train")
def create_assigned(facts: Facts, rng: random.Random) -> Assignment:
    """File a ticket with most of its fields."""
    customer, version = rng.choice(_CUSTOMERS), rng.choice(WORDS.versions)[0]
    pattern, component = rng.choice(_NEWS)
    summary = pattern.format(n=rng.randint(11, 989))
    milestone, owner = rng.choice(UPCOMING), rng.choice(facts["developers"][1:])
    text = f"Called in by {customer} this morning."
    new = {
        "summary": summary,
        "description": text,
        "component": component,
        "milestone": milestone,
        "version": version,
        "customer": customer,
    }
    name = name_of(facts, owner)
    return Assignment(
        goal=f"File a new defect with the summary “{summary}” and the description “{text}” "
        f"Component {component}, version {version}, milestone {milestone}, customer {customer}. "
        f"Assign it to {name} straight away; keep the other fields as they are.",
        expect=expect_ticket(
            len(facts["tickets"]) + 1,
            **new | {"summary": same_text(summary), "description": same_text(text)},
            type="defect",
            priority="major",
            owner=owner,
            status="assigned",
        ),
        steps=file_ticket(
            check("#action_create_and_assign"),
            select("#action_create_and_assign_reassign_owner", name),
            **new,
        ),
    )


@task("tracker/create-wish", level=2, split="test")
def create_wish(facts: Facts, rng: random.Random) -> Assignment:
    """File a billable wish of a customer."""
    customer, component = (
        rng.choice(_CUSTOMERS),
        rng.choice(list(WORDS.components)),
    )
    summary = rng.choice(
        (
            "Show the weight of each parcel in the overview",
            "Send a text message when a delivery is late",
            "Let visitors book a gate themselves",
            "Mark dangerous goods in red",
        )
    )
    hours = str(rng.choice((5, 9, 15, 30)))
    new = {
        "summary": summary,
        "type": "enhancement",
        "component": component,
        "milestone": "Backlog",
        "keywords": "wish",
        "customer": customer,
        "estimate": hours,
        "billable": "1",
    }
    return Assignment(
        goal=f"{customer} wants something new and will pay for it. File an enhancement for the "
        f"component {component} in the milestone Backlog with the summary “{summary}”, the "
        f"keyword “wish”, the customer, an estimate of {hours} hours, and marked as billable. "
        "Leave the other fields as they are.",
        expect=expect_ticket(
            len(facts["tickets"]) + 1,
            **new | {"summary": same_text(summary)},
            priority="major",
        ),
        steps=file_ticket(**new),
    )


@task("tracker/split-ticket", level=3, split="train")
def split_ticket(facts: Facts, rng: random.Random) -> Assignment:
    """File two tasks that follow from a wish, and say so in the wish."""
    ticket = rng.choice(find_unclosed_tickets(facts, type="enhancement", milestone=UPCOMING))
    first, second = len(facts["tickets"]) + 1, len(facts["tickets"]) + 2
    summaries = [f"Design: {ticket['summary']}", f"Test: {ticket['summary']}"]
    text = f"Split into #{first} and #{second}."
    shared = {"component": ticket["component"], "milestone": ticket["milestone"]}
    filed = [
        expect_ticket(number, type="task", summary=same_text(summary), **shared)
        for number, summary in zip((first, second), summaries, strict=True)
    ]
    return Assignment(
        goal=f"Split the wish {_quote(ticket)} into two new tickets of the type task, with the "
        f"summaries “{summaries[0]}” and “{summaries[1]}”, in the same component and milestone as "
        "the wish; leave the other fields as they are. File the design first. Then comment on the "
        "wish with “Split into #A and #B.”, where A and B are the numbers of the two, the lower "
        "one first.",
        expect=(filed, expect_comment(ticket["id"], text)),
        steps=(
            search_ticket(ticket),
            [file_ticket(summary=summary, type="task", **shared) for summary in summaries],
            search_ticket(ticket),
            write_comment(text),
            _SUBMIT,
        ),
    )


# Changing many tickets.


def _group(
    facts: Facts, rng: random.Random, names: tuple[str, str], least: int, most: int
) -> list[Ticket]:
    """Return all open tickets that share two fields with one of them."""
    groups: dict[tuple[str, ...], list[Ticket]] = {}
    for ticket in find_unclosed_tickets(facts):
        if all(ticket[name] for name in names):
            groups.setdefault(tuple(ticket[name] for name in names), []).append(ticket)
    return rng.choice([group for group in groups.values() if least <= len(group) <= most])


@task("tracker/retarget-component", level=2, split="train")
def retarget_component(facts: Facts, rng: random.Random) -> Assignment:
    """Move all open tickets of a component from one milestone to another."""
    found = _group(facts, rng, ("component", "milestone"), 2, 6)
    component, milestone = found[0]["component"], found[0]["milestone"]
    target = other_than(rng, UPCOMING, milestone)
    return Assignment(
        goal=f"Move to the milestone {target} all tickets of the component {component} that are in "
        f"the milestone {milestone} and not closed.",
        expect=[expect_changed(ticket, milestone=target) for ticket in found],
        steps=(
            query_tickets(
                ("component", "Component", component), ("milestone", "Milestone", milestone)
            ),
            _batch("milestone", "Milestone", target),
        ),
    )


@task("tracker/change-priorities", level=2, split="test")
def change_priorities(facts: Facts, rng: random.Random) -> Assignment:
    """Change the priority of a customer's open tickets."""
    found = _group(facts, rng, ("customer", "priority"), 2, 6)
    customer, priority = found[0]["customer"], found[0]["priority"]
    target = other_than(rng, WORDS.priorities, priority)
    return Assignment(
        goal=f"All tickets of the customer {customer} that have the priority {priority} and are "
        f"not closed should get the priority {target}.",
        expect=[expect_changed(ticket, priority=target) for ticket in found],
        steps=(
            query_tickets(("customer", "Customer", customer), ("priority", "Priority", priority)),
            _batch("priority", "Priority", target),
        ),
    )


@task("tracker/hand-over", level=2, split="train")
def hand_over(facts: Facts, rng: random.Random) -> Assignment:
    """Hand all open tickets of a person in a milestone to somebody else."""
    while True:
        found = _group(facts, rng, ("owner", "milestone"), 2, 7)
        owner, milestone = found[0]["owner"], found[0]["milestone"]
        if owner != facts["user"]:
            break
    taker = other_than(rng, facts["developers"][1:], owner)
    name, new = name_of(facts, owner), name_of(facts, taker)
    return Assignment(
        goal=f"{name} is ill. Reassign to {new} all tickets of the milestone {milestone} that "
        f"{name} owns and that are not closed.",
        expect=[expect_changed(ticket, owner=taker, status="assigned") for ticket in found],
        steps=(
            click("#ctxtnav a", "New Custom Query"),
            select('select[name="0_owner"]', name),
            select("#add_filter_0", "Milestone"),
            select('select[name="0_milestone"]', milestone),
            click('#query input[name="update"]'),
            click("th.sel input"),
            _unfold("#batchmod_fieldset legend"),
            check("#action_reassign"),
            select("#action_reassign_reassign_owner", new),
            click("#batchmod_submit"),
        ),
    )


@task("tracker/plan-defects", level=3, split="train")
def plan_defects(facts: Facts, rng: random.Random) -> Assignment:
    """Put the listed tickets into milestones, by their types."""
    found = rng.sample(find_unclosed_tickets(facts, milestone="Release 4.4"), 3)
    found.sort(key=lambda ticket: int(ticket["id"]))
    targets = {"defect": "Release 4.5", "enhancement": "Release 5.0", "task": "Backlog"}
    numbers = join_names([f"#{ticket['id']}" for ticket in found])
    return Assignment(
        goal=f"Release 4.4 is too full. Move the tickets {numbers} out of it: a defect to "
        "Release 4.5, an enhancement to Release 5.0, a task to the Backlog.",
        expect=[expect_changed(t, milestone=targets[t["type"]]) for t in found],
        steps=[
            (open_ticket(ticket), change_ticket(milestone=targets[ticket["type"]]))
            for ticket in found
        ],
    )


@task("tracker/close-fixed", level=3, split="test")
def close_fixed(facts: Facts, rng: random.Random) -> Assignment:
    """Close the tickets of three problem reports, with the build in a comment."""
    found = rng.sample(find_unclosed_tickets(facts, type="defect"), 3)
    text = f"Fixed in build 4.4.{rng.randint(10, 99)}."
    codes = [ticket["code"] for ticket in found]
    return Assignment(
        goal=f"The problems of the reports {codes[0]}, {codes[1]} and {codes[2]} are gone. Close "
        f"the ticket of each as fixed, with the comment “{text}”",
        expect=[expect_changed(t, text, status="closed", resolution="fixed") for t in found],
        steps=[
            (
                search_ticket(ticket, ticket["code"]),
                change_ticket(*_resolve("fixed"), write_comment(text)),
            )
            for ticket in found
        ],
    )


# Administration.


@task("tracker/add-milestone", level=1, split="train")
def add_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Add a milestone with a due date."""
    name = rng.choice(("Release 4.6", "Release 4.7", "Pilot Ghent", "Security review"))
    due = f"2026-{rng.randint(4, 12):02}-{rng.randint(1, 28):02}"
    return Assignment(
        goal=f"Add a milestone {name} that is due on {format_date(due)}, at any time of that day.",
        expect=added("milestone", name=name, due=_on(due), completed=0),
        steps=(
            _admin("Milestones"),
            fill('#addmilestone input[name="name"]', name),
            fill('#addmilestone input[name="duedate"]', _evening(due)),
            click('#addmilestone input[name="add"]'),
        ),
    )


@task("tracker/postpone-milestone", level=1, split="train")
def postpone_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Change the due date of a milestone."""
    name = rng.choice([*DATED])
    due = f"2026-12-{rng.randint(1, 28):02}"
    return Assignment(
        goal=f"The milestone {name} is delayed. Set its due date to {format_date(due)}, at any "
        "time of that day.",
        expect=changed("milestone", {"name": name}, due=_on(due)),
        steps=(
            _milestone(name, "editmilestone"),
            fill("#duedate", _evening(due)),
            click('#edit input[name="save"]'),
        ),
    )


@task("tracker/complete-milestone", level=2, split="test")
def complete_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Complete a milestone, and move its open tickets to another."""
    # Trac asks for another milestone only where there is something to move.
    name = rng.choice(find_unclosed_tickets(facts, milestone=[*DATED]))["milestone"]
    target = other_than(rng, UPCOMING, name)
    found = find_unclosed_tickets(facts, milestone=name)
    return Assignment(
        goal=f"Mark the milestone {name} as completed now, and move its tickets that are not "
        f"closed to the milestone {target}.",
        expect=(
            changed("milestone", {"name": name}, completed=anything),
            [_retargeted(ticket, target) for ticket in found],
        ),
        steps=(
            _milestone(name, "editmilestone"),
            check("#completed"),
            check("#retarget"),
            select("#target", target),
            click('#edit input[name="save"]'),
        ),
    )


def _retargeted(ticket: Ticket, target: str) -> tuple[Expected, ...]:
    """Expect what Trac does to a ticket whose milestone ends; it comments on its own."""
    return (
        changed("ticket", {"id": ticket["id"]}, milestone=target),
        *(
            optional(expect_comment(ticket["id"], f"Ticket retargeted after milestone {what}"))
            for what in ("closed", "deleted")
        ),
    )


@task("tracker/delete-milestone", level=2, split="train")
def delete_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Delete a milestone, and move its tickets to another."""
    name = rng.choice(find_tickets(facts, milestone=UPCOMING))["milestone"]
    target = other_than(rng, UPCOMING, name)
    return Assignment(
        goal=f"The milestone {name} is cancelled. Delete it, and move all of its tickets to the "
        f"milestone {target}.",
        expect=(
            removed("milestone", name=name),
            [_retargeted(t, target) for t in find_tickets(facts, milestone=name)],
        ),
        steps=(
            _milestone(name, "deletemilestone"),
            select("#target", target),
            click("#delete"),
        ),
    )


@task("tracker/add-version", level=1, split="test")
def add_version(facts: Facts, rng: random.Random) -> Assignment:
    """Add a version."""
    name = f"4.3.{rng.randint(1, 9)}"
    released = f"2026-02-{rng.randint(2, 27):02}"
    return Assignment(
        goal=f"Version {name} was released on {format_date(released)}. Add it to the versions.",
        expect=added("version", name=name, time=_on(released)),
        steps=(
            _admin("Versions"),
            fill('#addversion input[name="name"]', name),
            fill("#releaseddate", _evening(released)),
            click('#addversion input[name="add"]'),
        ),
    )


@task("tracker/add-component", level=2, split="train")
def add_component(facts: Facts, rng: random.Random) -> Assignment:
    """Add a component with an owner and a description."""
    name, about = rng.choice(
        (
            ("Visitor desk", "Registration of drivers and visitors"),
            ("Yard", "Parking and gates for lorries"),
            ("Pricing", "Special prices and agreements"),
            ("Monitoring", "Health of servers and scanners"),
        )
    )
    owner = rng.choice(facts["developers"][1:])
    return Assignment(
        goal=f"Add a component {name} that {name_of(facts, owner)} (user name {owner}) owns, with "
        f"the description “{about}”.",
        expect=added("component", name=name, owner=owner, description=same_text(about)),
        steps=(
            _admin("Components"),
            fill('#addcomponent input[name="name"]', name),
            select("#addcomponent select", owner),
            click('#addcomponent input[name="add"]'),
            click("#component_table a", name),
            fill("#description", about),
            click('#edit input[name="save"]'),
        ),
    )


@task("tracker/change-lead", level=1, split="train")
def change_lead(facts: Facts, rng: random.Random) -> Assignment:
    """Change the owner of a component."""
    component = rng.choice(facts["components"])
    owner = other_than(rng, facts["developers"][1:], component["owner"])
    return Assignment(
        goal=f"From now on {name_of(facts, owner)} (user name {owner}) is the owner of the "
        f"component {component['name']}. Change that in the administration; existing tickets stay "
        "as they are.",
        expect=changed("component", {"name": component["name"]}, owner=owner),
        steps=(
            _admin("Components"),
            click("#component_table a", component["name"]),
            select("#edit select", owner),
            click('#edit input[name="save"]'),
        ),
    )


@task("tracker/rename-component", level=2, split="test")
def rename_component(facts: Facts, rng: random.Random) -> Assignment:
    """Rename a component; its tickets follow."""
    old = rng.choice(list(WORDS.components))
    new = rng.choice(("New {}", "{} and tools", "{} (core)", "{} team")).format(old)
    found = find_tickets(facts, component=old)
    return Assignment(
        goal=f"Rename the component {old} to “{new}”.",
        expect=(
            removed("component", name=old),
            added("component", **find(facts["components"], name=old) | {"name": new}),
            [changed("ticket", {"id": t["id"]}, component=new) for t in found],
        ),
        steps=(
            _admin("Components"),
            click("#component_table a", old),
            fill('#edit input[name="name"]', new),
            click('#edit input[name="save"]'),
        ),
    )


@task("tracker/add-type", level=1, split="train")
def add_type(facts: Facts, rng: random.Random) -> Assignment:
    """Add a ticket type, a resolution, a priority or a severity."""
    panel, kind, what, names = rng.choice(
        (
            (
                "Ticket Types",
                "ticket_type",
                "ticket type",
                ("question", "incident", "training", "complaint", "visit", "audit", "research"),
            ),
            (
                "Resolutions",
                "resolution",
                "resolution",
                ("postponed", "obsolete", "documented", "merged", "sold", "explained", "moved"),
            ),
            ("Priorities", "priority", "priority", ("urgent", "someday", "normal", "high", "low")),
            ("Severities", "severity", "severity", ("crash", "cosmetic", "annoying", "harmless")),
        )
    )
    name = rng.choice(names)
    return Assignment(
        goal=f"Add a {what} “{name}” to the tracker.",
        expect=added("enum", type=kind, name=name),
        steps=(
            _admin(panel),
            fill('#addenum input[name="name"]', name),
            click('#addenum input[name="add"]'),
        ),
    )


@task("tracker/default-milestone", level=1, split="test")
def default_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Set the milestone, or the component, that new tickets get."""
    panel, name, value = rng.choice(
        [
            *(("Milestones", "milestone", name) for name in UPCOMING),
            *(("Components", "component", name) for name in WORDS.components),
        ]
    )
    return Assignment(
        goal=f"New tickets should have the {name} {value} by default. Set this in the "
        "administration.",
        expect=added("setting", section="ticket", name=f"default_{name}", value=value),
        steps=(
            _admin(panel),
            check(
                f'input[name="{"ticket_default" if name == "milestone" else "default"}"]'
                f'[value="{value}"]'
            ),
            click(f'#{name}_table input[name="apply"]'),
        ),
    )


@task("tracker/add-to-group", level=1, split="train")
def add_to_group(facts: Facts, rng: random.Random) -> Assignment:
    """Put a person into a permission group."""
    outside = [
        p["username"]
        for p in facts["people"]
        if p["username"] not in (*facts["developers"], *facts["support"])
    ]
    person, group = rng.choice(outside), rng.choice(("developers", "support"))
    return Assignment(
        goal=f"{name_of(facts, person)} (user name {person}) joins us. Add this user to the "
        f"permission group {group}.",
        expect=added("permission", username=person, action=group),
        steps=(
            _admin("Permissions"),
            fill("#sg_subject", person),
            fill("#sg_group", group),
            click('#addsubj input[name="add"]'),
        ),
    )


@task("tracker/leave-group", level=2, split="test")
def leave_group(facts: Facts, rng: random.Random) -> Assignment:
    """Move a person from one permission group to another."""
    person = rng.choice(facts["support"])
    return Assignment(
        goal=f"{name_of(facts, person)} (user name {person}) moves from support to development. "
        "Take this user out of the permission group support and add them to the group developers.",
        expect=(
            removed("permission", username=person, action="support"),
            added("permission", username=person, action="developers"),
        ),
        steps=(
            _admin("Permissions"),
            fill("#sg_subject", person),
            fill("#sg_group", "developers"),
            click('#addsubj input[name="add"]'),
            check(f'#revokeform input[value="{_encode(person)}:{_encode("support")}"]'),
            click('#revokeform input[name="remove"]'),
        ),
    )


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Reports.


@task("tracker/save-query", level=2, split="test")
def save_query(facts: Facts, rng: random.Random) -> Assignment:
    """Save a query as a report."""
    component, kind = rng.choice(list(WORDS.components)), rng.choice(WORDS.types)
    title = f"Open {kind}s in {component}"
    return Assignment(
        goal=f"Make a custom query for all tickets of the component {component} and the type "
        f"{kind} that are not closed, whoever owns them, and save it as a report with the title "
        f"“{title}”.",
        expect=added(
            "report",
            title=same_text(title),
            query=lambda text: _asks(
                text, {"component": component, "type": kind, "status": "!closed"}
            ),
        ),
        steps=(
            query_tickets(("component", "Component", component), ("type", "Type", kind)),
            click('#trac-report-save input[type="submit"]'),
            fill("#title", title),
            click('#edit_report input[value="Save query"]'),
        ),
    )


def _asks(query: str, wanted: dict[str, str]) -> bool:
    """Return whether a saved query has exactly these conditions."""
    parts = "".join(query.split("\n")).removeprefix("query:").lstrip("?").split("&")
    shown = ("col", "order", "group", "max", "row", "desc", "groupdesc", "report")
    given: dict[str, set[str]] = {}
    for part in parts:
        name, _, value = part.strip().partition("=")
        if name not in shown:
            given.setdefault(name, set()).add(unquote_plus(value.strip()))
    if given.get("status") == set(_OPEN):
        given["status"] = {"!closed"}
    return given == {name: {value} for name, value in wanted.items()}


@task("tracker/rename-report", level=1, split="train")
def rename_report(facts: Facts, rng: random.Random) -> Assignment:
    """Give a report a new title."""
    number = rng.randint(1, len(REPORTS))
    old = REPORTS[number - 1][0]
    new = f"{old} ({rng.choice(('weekly', 'for the team', 'all sites'))})"
    return Assignment(
        goal=f"Change the title of the report “{old}” to “{new}”.",
        expect=changed("report", {"id": number}, title=same_text(new)),
        steps=(
            click(f'form[action="/report/{number}"] input[value*="Edit"]'),
            fill("#title", new),
            click('#edit_report input[value="Save report"]'),
        ),
    )


@task("tracker/delete-reports", level=1, split="train")
def delete_reports(facts: Facts, rng: random.Random) -> Assignment:
    """Delete two reports."""
    numbers = rng.sample(range(1, len(REPORTS) + 1), 2)
    titles = [f"“{REPORTS[number - 1][0]}”" for number in numbers]
    return Assignment(
        goal=f"Nobody needs the reports {titles[0]} and {titles[1]}. Delete both.",
        expect=[removed("report", id=number) for number in numbers],
        steps=[
            (
                click("#mainnav a", "View Tickets"),
                click(f'form[action="/report/{number}"] input[value*="Delete"]'),
                click('#content input[value="Delete report"]'),
            )
            for number in numbers
        ],
    )


# What cannot be done.


@task("tracker/no-such-ticket", level=1, split="train", infeasible=True)
def no_such_ticket(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for a change of a ticket that does not exist."""
    number = rng.randint(400, 900)
    return Assignment(
        goal=f"Close ticket #{number} as fixed.",
        steps=open_ticket({"id": number}),
    )


@task("tracker/no-such-milestone", level=1, split="train", infeasible=True)
def no_such_milestone(facts: Facts, rng: random.Random) -> Assignment:
    """Ask for a milestone that does not exist."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    name = rng.choice(("Release 4.9", "Release 6.0", "Partner portal"))
    return Assignment(
        goal=f"Put ticket #{ticket['id']} into the milestone {name}. Use the existing milestone, "
        "do not make a new one.",
        steps=(open_ticket(ticket), _MODIFY),
    )


@task("tracker/not-permitted", level=1, split="train", infeasible=True)
def not_permitted(facts: Facts, rng: random.Random) -> Assignment:
    """Ask somebody in support to delete a ticket, which they may not."""
    ticket = rng.choice(find_unclosed_tickets(facts))
    return Assignment(
        goal=f"Delete ticket #{ticket['id']} completely; closing it is not enough.",
        user=rng.choice(facts["support"]),
        steps=open_ticket(ticket),
    )
