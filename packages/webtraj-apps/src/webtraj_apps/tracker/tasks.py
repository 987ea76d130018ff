"""Tasks in the issue tracker.

Functions named like `edit` return the steps of an oracle together with the changes that they make.
Each template combines them with its goal.
"""

from __future__ import annotations

import base64
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

from webtraj.environments.browser.oracles import Step, check, click, fill, press, select, wait_until
from webtraj_apps.company import COMPANY
from webtraj_apps.fields import Field, columns_of, set_fields, tick
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Parts,
    Row,
    added,
    anything,
    assign,
    changed,
    changed_row,
    draw_day,
    find,
    format_date,
    group_rows,
    join_names,
    next_id,
    optional,
    other_than,
    removed,
    same_text,
    template,
)
from webtraj_apps.tracker.content import REPORTS, WORDS

task = functools.partial(template, user="user")

_CUSTOMERS = [one["name"] for one in COMPANY.customers]
UPCOMING = [name for name, _, completed, _ in WORDS.milestones if not completed]
DATED = {name: due for name, due, completed, _ in WORDS.milestones if due and not completed}
_OPEN = ("accepted", "assigned", "new", "reopened")
_CUSTOM = ("customer", "estimate", "billable")
_LISTS = ("type", "priority", "milestone", "component", "version", "customer")
_TEXTS = ("summary", "description", "keywords", "cc", "estimate")
FIELDS: Final[Mapping[str, Field]] = {
    **{name: Field(select, f"#field-{name}") for name in _LISTS},
    **{name: Field(fill, f"#field-{name}") for name in _TEXTS},
    "billable": Field(tick, "#field-billable"),
}
"""The fields of a ticket's form."""


# Facts.


def find_tickets(facts: Facts, **wanted: Any) -> list[Row]:
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


def find_unclosed_tickets(facts: Facts, **wanted: Any) -> list[Row]:
    """Return the tickets with these values that are not closed. See `find_tickets`."""
    return find_tickets(facts, status=_OPEN, **wanted)


def draw_release(facts: Facts, rng: random.Random, components: int = 1) -> tuple[str, str]:
    """Draw an upcoming milestone, and return it with its due date (YYYY-MM-DD).

    At least `components` components have unclosed tickets in it.
    """

    def components_of(name: str) -> set[str]:
        return {one["component"] for one in find_unclosed_tickets(facts, milestone=name)}

    name = rng.choice([name for name in DATED if len(components_of(name)) >= components])
    return name, DATED[name]


def name_of(facts: Facts, username: str) -> str:
    """Return a person's full name, as pages show it."""
    return str(find(facts["people"], username=username)["name"])


def _quote(ticket: Row) -> str:
    return f"“{ticket['summary']}”"


def _micros(when: datetime) -> int:
    return int(when.timestamp()) * 1_000_000


def _on(day: str) -> Callable[[Any], bool]:
    """Return a test that a time is on a day."""
    start = _micros(datetime.fromisoformat(day).replace(tzinfo=UTC))
    return lambda value: start <= value < start + 86_400_000_000


def _evening(day: str) -> str:
    """Return six in the evening of a day, as forms take it."""
    return f"{day}T18:00:00Z"


def _numbers(tickets: Sequence[Row]) -> tuple[str, ...]:
    return tuple(str(ticket["id"]) for ticket in tickets)


def _draw_kind(facts: Facts, rng: random.Random, *names: str) -> dict[str, str]:
    """Draw values of these fields that an unclosed ticket has, and return them by field."""
    ticket = rng.choice(find_unclosed_tickets(facts, **dict.fromkeys(names, bool)))
    return {name: ticket[name] for name in names}


def _draw_group(
    facts: Facts, rng: random.Random, names: tuple[str, str], most: int
) -> tuple[dict[str, str], list[Row]]:
    """Draw values of two fields, and return them with all unclosed tickets that have them."""
    fit = find_unclosed_tickets(facts, **dict.fromkeys(names, bool))
    found = rng.choice(group_rows(fit, *names, most=most))
    return {name: found[0][name] for name in names}, found


def _draw_log(facts: Facts, rng: random.Random) -> tuple[Row, Row]:
    """Draw an attached log file, and return it with its ticket."""
    log: Row = rng.choice(facts["attachments"])
    return log, find(facts["tickets"], id=log["ticket"])


def _groups(facts: Facts) -> list[tuple[str, str]]:
    """Return the pairs of a field and a value that unclosed tickets have."""
    names, found = ("component", "customer", "milestone"), find_unclosed_tickets(facts)
    return sorted({(name, ticket[name]) for ticket in found for name in names if ticket[name]})


# Expectations.


def _expect_comment(number: int, comment: str) -> Expected:
    """Expect a comment on a ticket."""
    return added("ticket_change", ticket=number, field="comment", newvalue=same_text(comment))


def _expect_changed(ticket: Row, comment: str = "", **new: Any) -> tuple[Expected, ...]:
    """Expect new values of a ticket, and a comment if there is one."""
    number = ticket["id"]
    plain = {name: value for name, value in new.items() if name not in _CUSTOM}
    custom = {name: value for name, value in new.items() if name in _CUSTOM}
    return (
        *([changed("ticket", {"id": number}, **plain)] if plain else []),
        *(
            changed("ticket_custom", {"ticket": number, "name": name}, value=value)
            for name, value in custom.items()
        ),
        *([_expect_comment(number, comment)] if comment else []),
    )


_UNSET: Mapping[str, Any] = {
    **dict.fromkeys(("description", "keywords", "cc", "milestone", "version")),
    "status": "new",
}
"""The columns of a new ticket whose form fields were left alone."""


def _expect_custom(number: int, values: Mapping[str, Any]) -> Iterator[Expected]:
    for name in _CUSTOM:
        value = values.get(name, "0" if name == "billable" else None)
        yield added("ticket_custom", ticket=number, name=name, value=value)


# Steps.


def open_ticket(ticket: Row) -> tuple[Step, ...]:
    """Open a ticket by its number."""
    return fill("#proj-search", f"#{ticket['id']}"), press("#proj-search", "Enter")


def search_ticket(ticket: Row, text: str = "") -> tuple[Step, ...]:
    """Search for a text, by default the summary, and open the ticket from the results."""
    words = f'"{text or ticket["summary"]}"'
    return (
        fill("#proj-search", words),
        press("#proj-search", "Enter"),
        click(f'#results a[href^="/ticket/{ticket["id"]}"]'),
    )


def _unfold(heading: str, text: str | None = None) -> tuple[Step, ...]:
    """Unfold a part of a page, once the script has folded it."""
    return wait_until(f"{heading} a"), click(f"{heading} a", text)


_MODIFY = _unfold("h3.foldable", "Modify Ticket")
_SUBMIT = click('#propertyform input[name="submit"]')


def _change(*more: Step, **new: str) -> tuple[Step, ...]:
    """Change the open ticket."""
    return (*_MODIFY, *set_fields(FIELDS, new), *more, _SUBMIT)


def _file(*more: Step, **new: str) -> tuple[Step, ...]:
    """File a ticket."""
    return (click("#mainnav a", "New Ticket"), *set_fields(FIELDS, new), *more, _SUBMIT)


def query_tickets(*more: Step, owner: str = "", **fields: str) -> tuple[Step, ...]:
    """Query the unclosed tickets with these fields, of one owner or of all.

    The steps `more` come before the query is sent.
    """
    anybody = click('#filters tr.owner input[type="button"]')
    whose = select('select[name="0_owner"]', owner) if owner else anybody
    return (click("#ctxtnav a", "New Custom Query"), whose, *_filter(**fields), *more, _UPDATE)


def _filter(**fields: str) -> Iterator[Step]:
    for name, value in fields.items():
        yield select("#add_filter_0", name.capitalize())
        yield select(f'select[name="0_{name}"]', value)


_UPDATE = click('#query input[name="update"]')
_SAVE = click('#edit input[name="save"]')


def _admin(panel: str) -> tuple[Step, ...]:
    return click("#mainnav a", "Admin"), click("#tabs a", panel)


def _add(panel: str, form: str, name: str, *more: Step) -> tuple[Step, ...]:
    """Add something with a form of the administration."""
    start = (*_admin(panel), fill(f'#{form} input[name="name"]', name))
    return (*start, *more, click(f'#{form} input[name="add"]'))


def open_roadmap(*, completed: bool = False) -> tuple[Step, ...]:
    """Show the upcoming milestones, and the completed ones too if `completed`."""
    more = (check("#showcompleted"), click("#prefs input[type=submit]")) if completed else ()
    return click("#mainnav a", "Roadmap"), *more


def _milestone(name: str, form: str) -> tuple[Step, ...]:
    """Open a milestone from the roadmap, and one of its forms."""
    return (
        *open_roadmap(),
        click(f'.milestone h2 a[href="/milestone/{name.replace(" ", "%20")}"]'),
        click(f'#{form} input[type="submit"]'),
    )


def _to_log(log: Mapping[str, Any]) -> tuple[Step, ...]:
    return (*_unfold("#attachments h3"), click("dl.attachments dt a", log["filename"]))


# Steps with the changes that they make.


class Action(NamedTuple):
    """A choice in a form, such as closing the ticket, and the columns that it sets."""

    steps: tuple[Step, ...]
    columns: Mapping[str, Any]


_NO_ACTION = Action((), {})


def reassign(facts: Facts, owner: str) -> Action:
    """Give the ticket to a person, by username."""
    choice = select("#action_reassign_reassign_owner", name_of(facts, owner))
    columns = {"owner": owner, "status": "assigned"}
    return Action((check("#action_reassign"), choice), columns)


def resolve(resolution: str) -> Action:
    """Close the ticket."""
    choice = select("#action_resolve_resolve_resolution", resolution)
    columns = {"status": "closed", "resolution": resolution}
    return Action((check("#action_resolve"), choice), columns)


def edit(ticket: Row, action: Action = _NO_ACTION, /, *, comment: str = "", **fields: Any) -> Parts:
    """Edit the open ticket: set fields by the names of `FIELDS`, and add a comment."""
    written = (fill("#comment", comment),) if comment else ()
    columns = {**columns_of(FIELDS, fields), **action.columns}
    return _change(*action.steps, *written, **fields), _expect_changed(ticket, comment, **columns)


def add_to_cc(ticket: Row, username: str) -> Parts:
    """Add a person to the Cc of the open ticket."""
    wanted = {*ticket["cc"].split(", "), username}
    return (
        _change(cc=f"{ticket['cc']}, {username}"),
        _expect_changed(ticket, cc=lambda cc: set(cc.replace(",", " ").split()) == wanted),
    )


def comment_on(ticket: Row, text: str) -> Parts:
    """Comment on the open ticket."""
    return fill("#comment", text), _SUBMIT, _expect_comment(ticket["id"], text)


def create_ticket(
    facts: Facts, *more: Step, after: int = 0, kept: Facts = MappingProxyType({}), **fields: str
) -> Parts:
    """File a ticket.

    Args:
        facts: The facts of the world.
        *more: Steps before the form is sent.
        after: How many tickets the task files before this one.
        kept: Other expected columns, such as defaults of the form.
        **fields: Values by the names of `FIELDS`.
    """
    number = next_id(facts["tickets"]) + after
    columns: dict[str, Any] = {**fields, **kept}
    for name in {"summary", "description"} & fields.keys():
        columns[name] = same_text(fields[name])
    plain = {name: value for name, value in columns.items() if name not in _CUSTOM}
    return (
        _file(*more, **fields),
        (added("ticket", id=number, **{**_UNSET, **plain}), _expect_custom(number, columns)),
    )


def create_tasks(facts: Facts, summaries: Sequence[str], component: Facts, milestone: str) -> Parts:
    """File a ticket of the type task for each summary; they may come in any order."""
    shared = {"component": component["name"], "milestone": milestone}
    fields = {**_UNSET, "type": "task", "owner": component["owner"], "priority": "major", **shared}
    first = next_id(facts["tickets"])
    return (
        [_file(summary=one, type="task", **shared) for one in summaries],
        [added("ticket", summary=same_text(one), **fields) for one in summaries],
        [_expect_custom(number, {}) for number in range(first, first + len(summaries))],
    )


def set_all(name: str, value: str) -> Action:
    """Set a field of all tickets that a query shows."""
    field = select("#add_batchmod_field", name.capitalize())
    return Action((field, select(f'[name="batchmod_value_{name}"]', value)), {name: value})


def edit_found(found: Iterable[Row], action: Action) -> Parts:
    """Edit all tickets that a query shows."""
    return (
        (click("th.sel input"), _unfold("#batchmod_fieldset legend")),
        (action.steps, click("#batchmod_submit")),
        [_expect_changed(ticket, **action.columns) for ticket in found],
    )


# Reading: one ticket.


@task("tracker/find-owner", level=1, split="train")
def _find_owner(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    return assign(
        f"Who owns the ticket {_quote(ticket)}? Answer with the full name.",
        search_ticket(ticket),
        answer=name_of(facts, ticket["owner"]),
    )


@task("tracker/find-error-code", level=1, split="train")
def _find_error_code(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, type="defect"))
    return assign(
        f"A customer asks what became of the problem report {ticket['code']}. "
        "Which ticket is about it? Answer with its number.",
        search_ticket(ticket, ticket["code"]),
        answer=str(ticket["id"]),
    )


@task("tracker/find-build", level=1, split="train")
def _find_build(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, type="defect", status="closed", resolution="fixed"))
    return assign(
        f"In which build was the defect {_quote(ticket)} fixed? Answer with the number of the "
        "build.",
        search_ticket(ticket),
        answer=ticket["build"],
    )


@task("tracker/find-workaround", level=1, split="test")
def _find_workaround(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, workaround=bool))
    return assign(
        f"Support needs the workaround for the problem of report {ticket['code']}. "
        "Answer with the words of the comment that names it, without the words before the colon.",
        search_ticket(ticket, ticket["code"]),
        answer=ticket["workaround"],
    )


@task("tracker/who-closed", level=1, split="train")
def _who_closed(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, status="closed"))
    closed = next(e for e in reversed(ticket["events"]) if e["new"].get("status") == "closed")
    return assign(
        f"Who closed ticket #{ticket['id']}, and on which day? "
        "Answer with the full name and the date (YYYY-MM-DD), separated by a comma.",
        open_ticket(ticket),
        answer=(name_of(facts, closed["author"]), closed["when"][:10]),
    )


@task("tracker/find-last-failure", level=2, split="train")
def _find_last_failure(facts: Facts, rng: random.Random) -> Assignment:
    log, ticket = _draw_log(facts, rng)
    return assign(
        f"A log file is attached to the ticket {_quote(ticket)}. "
        "What is the number of the last job in it that failed? Answer with the number.",
        (search_ticket(ticket), _to_log(log)),
        answer=log["last_error"].removeprefix("job "),
    )


@task("tracker/count-failures", level=2, split="test")
def _count_failures(facts: Facts, rng: random.Random) -> Assignment:
    log, ticket = _draw_log(facts, rng)
    return assign(
        f"Count the failed jobs in the log file attached to ticket #{ticket['id']}, and "
        "comment on the ticket with this sentence: “The log has N failed jobs.”, with the number "
        "in place of N.",
        (open_ticket(ticket), _to_log(log), click("#content h1 a")),
        comment_on(ticket, f"The log has {log['errors']} failed jobs."),
    )


# Reading: several tickets.


@task("tracker/milestone-due", level=1, split="train")
def _milestone_due(facts: Facts, rng: random.Random) -> Assignment:
    name, due, completed, _ = rng.choice([m for m in WORDS.milestones if m[1]])
    return assign(
        f"On which day {'was' if completed else 'is'} the milestone {name} "
        f"{'completed' if completed else 'due'}? Answer as YYYY-MM-DD.",
        open_roadmap(completed=bool(completed)),
        answer=completed or due,
    )


@task("tracker/count-by-query", level=2, split="train")
def _count_by_query(facts: Facts, rng: random.Random) -> Assignment:
    kind = _draw_kind(facts, rng, "component", "priority")
    return assign(
        f"How many tickets of the component {kind['component']} with the priority "
        f"{kind['priority']} are not closed? Answer with the number.",
        query_tickets(**kind),
        answer=str(len(find_unclosed_tickets(facts, **kind))),
    )


@task("tracker/list-by-query", level=2, split="train")
def _list_by_query(facts: Facts, rng: random.Random) -> Assignment:
    kind = _draw_kind(facts, rng, "customer", "milestone")
    return assign(
        f"Which tickets of the customer {kind['customer']} in the milestone {kind['milestone']} "
        "are not closed? Answer with their numbers, separated by commas.",
        query_tickets(**kind),
        answer=_numbers(find_unclosed_tickets(facts, **kind)),
    )


@task("tracker/oldest-ticket", level=2, split="test")
def _oldest_ticket(facts: Facts, rng: random.Random) -> Assignment:
    others = find_unclosed_tickets(facts, owner=lambda owner: owner != facts["user"])
    owner = rng.choice(others)["owner"]
    return assign(
        f"Of the tickets that {name_of(facts, owner)} owns and that are not closed, which one "
        "was created first? Answer with its number.",
        (query_tickets(owner=name_of(facts, owner)), click("th.id a")),
        answer=str(find_unclosed_tickets(facts, owner=owner)[0]["id"]),
    )


@task("tracker/sum-estimates", level=2, split="train")
def _sum_estimates(facts: Facts, rng: random.Random) -> Assignment:
    field, value = rng.choice(_groups(facts))
    found = find_unclosed_tickets(facts, **{field: value})
    columns = (*_unfold("#columns legend"), check('#columns input[value="estimate"]'))
    return assign(
        f"Add up the estimates of all tickets of the {field} {value} that are not closed. "
        "How many hours is that? Answer with the number.",
        query_tickets(*columns, **{field: value}),
        answer=f"{sum(int(ticket['estimate']) for ticket in found)} hours",
    )


@task("tracker/busiest-owner", level=2, split="test")
def _busiest_owner(facts: Facts, rng: random.Random) -> Assignment:
    def winners(field: str, value: str) -> list[str]:
        counts = Counter(t["owner"] for t in find_unclosed_tickets(facts, **{field: value}))
        return [owner for owner, count in counts.items() if count == max(counts.values())]

    field, value = rng.choice([group for group in _groups(facts) if len(winners(*group)) == 1])
    return assign(
        f"Who owns the most tickets of the {field} {value} that are not closed? "
        "Answer with the full name.",
        query_tickets(select("#group", "Owner"), **{field: value}),
        answer=name_of(facts, winners(field, value)[0]),
    )


@task("tracker/compare-customers", level=3, split="test")
def _compare_customers(facts: Facts, rng: random.Random) -> Assignment:
    def count(customer: str) -> int:
        return len(find_unclosed_tickets(facts, customer=customer, type="defect"))

    while True:
        three = rng.sample(_CUSTOMERS, 3)
        best, second, _ = sorted(three, key=count, reverse=True)
        if count(best) > count(second):
            break
    return assign(
        f"Which of the customers {join_names(three)} has the most open "
        "defects, that is, tickets of the type defect that are not closed? Answer with the name "
        "of the customer and the number of the defects, separated by a comma.",
        [
            (click("#mainnav a", "View Tickets"), query_tickets(customer=one, type="defect"))
            for one in three
        ],
        answer=(best, str(count(best))),
    )


@task("tracker/billable-report", level=2, split="train")
def _billable_report(facts: Facts, rng: random.Random) -> Assignment:
    customer = rng.choice(find_tickets(facts, billable="1"))["customer"]
    return assign(
        f"How many billable tickets of {customer} does the report “Billable tickets by "
        "customer” list, closed ones included? Answer with the number.",
        click('h3 a[href="/report/5"]'),
        answer=str(len(find_tickets(facts, billable="1", customer=customer))),
    )


# Changing one ticket.


@task("tracker/set-priority", level=1, split="train")
def _set_priority(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    priority = other_than(rng, WORDS.priorities, ticket["priority"])
    return assign(
        f"Set the priority of ticket #{ticket['id']} to {priority}.",
        (open_ticket(ticket), edit(ticket, priority=priority)),
    )


@task("tracker/set-milestone", level=1, split="train")
def _set_milestone(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    milestone = other_than(rng, UPCOMING, ticket["milestone"])
    return assign(
        f"Move the ticket {_quote(ticket)} to the milestone {milestone}.",
        (search_ticket(ticket), edit(ticket, milestone=milestone)),
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
def _add_comment(facts: Facts, rng: random.Random) -> Assignment:
    ticket, text = rng.choice(find_unclosed_tickets(facts)), rng.choice(_REMARKS)
    return assign(
        f"Add this comment to ticket #{ticket['id']}: “{text}”",
        (open_ticket(ticket), comment_on(ticket, text)),
    )


@task("tracker/accept", level=1, split="train")
def _accept(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, status=("new", "assigned", "reopened")))
    action = Action((check("#action_accept"),), {"owner": facts["user"], "status": "accepted"})
    return assign(
        f"Accept the ticket {_quote(ticket)}, so that it is yours.",
        (search_ticket(ticket), edit(ticket, action)),
    )


@task("tracker/reassign", level=1, split="train")
def _reassign(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    owner = other_than(rng, facts["developers"][1:], ticket["owner"])
    return assign(
        f"Reassign ticket #{ticket['id']} to {name_of(facts, owner)}.",
        (open_ticket(ticket), edit(ticket, reassign(facts, owner))),
    )


_ENDS = {
    "fixed": "Fixed and tested on the demo system.",
    "invalid": "The manual describes exactly this.",
    "wontfix": "The screen goes away with version 5.0.",
    "worksforme": "Tried it on two scanners, no problem.",
}


@task("tracker/resolve", level=1, split="train")
def _resolve(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    resolution, text = rng.choice(list(_ENDS.items()))
    return assign(
        f"Close ticket #{ticket['id']} with the resolution {resolution} and the comment “{text}”",
        (open_ticket(ticket), edit(ticket, resolve(resolution), comment=text)),
    )


@task("tracker/reopen", level=1, split="test")
def _reopen(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_tickets(facts, status="closed", type="defect"))
    text = "It happened again this morning."
    action = Action((check("#action_reopen"),), {"status": "reopened", "resolution": None})
    return assign(
        f"The problem of report {ticket['code']} is back. Reopen its ticket, with the comment "
        f"“{text}”",
        (search_ticket(ticket, ticket["code"]), edit(ticket, action, comment=text)),
    )


@task("tracker/close-duplicate", level=2, split="train")
def _close_duplicate(facts: Facts, rng: random.Random) -> Assignment:
    ticket, original = rng.sample(find_unclosed_tickets(facts, type="defect"), 2)
    text = f"Duplicate of #{original['id']}."
    return assign(
        f"The ticket {_quote(ticket)} is the same problem as {_quote(original)}. Close the "
        "first one as a duplicate, with the comment “Duplicate of #N.”, where N is the number of "
        "the other ticket.",
        (search_ticket(original), search_ticket(ticket)),
        edit(ticket, resolve("duplicate"), comment=text),
    )


@task("tracker/correct-summary", level=1, split="test")
def _correct_summary(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    update = "UPDATE ticket SET summary = ? WHERE id = ?"
    return assign(
        f"The summary of ticket #{ticket['id']} has a spelling mistake. It should be: "
        f"“{ticket['summary']}”. Please correct it.",
        (open_ticket(ticket), edit(ticket, summary=ticket["summary"])),
        prepare=[(update, (_misspell(ticket["summary"]), ticket["id"]))],
    )


def _misspell(text: str) -> str:
    """Swap two letters of the longest word, or double its last letter."""
    word = max(text.split(), key=len)
    swapped = text.replace(word, word[0] + word[2] + word[1] + word[3:], 1)
    return swapped if swapped != text else text.replace(word, word + word[-1], 1)


@task("tracker/add-cc", level=1, split="train")
def _add_cc(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts, cc=bool))
    person = other_than(rng, facts["support"], *ticket["cc"].split(", "))
    return assign(
        f"Add {name_of(facts, person)} (user name {person}) to the Cc of ticket "
        f"#{ticket['id']}, and keep those who are there.",
        (open_ticket(ticket), add_to_cc(ticket, person)),
    )


@task("tracker/set-several", level=2, split="train")
def _set_several(facts: Facts, rng: random.Random) -> Assignment:
    # When the component of a ticket with the status new changes, Trac changes its owner too.
    ticket = rng.choice(find_tickets(facts, type="defect", status=("accepted", "assigned")))
    new = {
        "component": other_than(rng, WORDS.components, ticket["component"]),
        "version": other_than(rng, [name for name, _, _ in WORDS.versions], ticket["version"]),
        "milestone": other_than(rng, UPCOMING, ticket["milestone"]),
        "keywords": other_than(rng, ("barcode", "layout", "network"), ticket["keywords"]),
    }
    return assign(
        f"The defect {_quote(ticket)} is filed wrongly. Set its component to "
        f"{new['component']}, its version to {new['version']}, its milestone to "
        f"{new['milestone']}, and replace its keywords by “{new['keywords']}”.",
        (search_ticket(ticket), edit(ticket, **new)),
    )


@task("tracker/make-billable", level=2, split="train")
def _make_billable(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts, customer="", billable="0"))
    hours = str(other_than(rng, ("5", "7", "10", "14", "20"), ticket["estimate"]))
    customer = rng.choice(_CUSTOMERS)
    return assign(
        f"{customer} pays for the ticket {_quote(ticket)}: enter the customer, an estimate "
        f"of {hours} hours, and mark it as billable.",
        search_ticket(ticket),
        edit(ticket, customer=customer, estimate=hours, billable="1"),
    )


@task("tracker/escalate", level=2, split="train")
def _escalate(facts: Facts, rng: random.Random) -> Assignment:
    leads = {one["name"]: one["owner"] for one in facts["components"]}
    lower = find_unclosed_tickets(facts, type="defect", priority=("major", "minor", "trivial"))
    ticket = rng.choice([one for one in lower if one["owner"] != leads[one["component"]]])
    return assign(
        f"The problem of report {ticket['code']} stops a whole site. Set its ticket to the "
        "priority blocker and reassign it to the owner of its component, as listed in the "
        "administration.",
        (search_ticket(ticket, ticket["code"]), _admin("Components"), open_ticket(ticket)),
        edit(ticket, reassign(facts, leads[ticket["component"]]), priority="blocker"),
    )


@task("tracker/edit-comment", level=2, split="test")
def _edit_comment(facts: Facts, rng: random.Random) -> Assignment:
    fixed = find_tickets(facts, status="closed", resolution="fixed", build=bool)
    ticket = rng.choice([one for one in fixed if one["build"] in one["events"][-1]["comment"]])
    release = ticket["build"].rpartition(".")[0]
    build = other_than(rng, [f"{release}.{number}" for number in range(100, 1000)], ticket["build"])
    text = ticket["events"][-1]["comment"].replace(ticket["build"], build)
    number, count = ticket["id"], len(ticket["events"])
    comment = {"ticket": number, "field": "comment", "oldvalue": str(count)}
    return assign(
        f"The last comment of ticket #{number} names the wrong build: it should be {build} "
        f"instead of {ticket['build']}. Edit that comment.",
        (open_ticket(ticket), click(f'#edit-comment-{count} input[type="submit"]')),
        (fill('textarea[name="edited_comment"]', text), click('input[name="edit_comment"]')),
        changed("ticket_change", comment, newvalue=same_text(text)),
        # Each edit keeps the previous text. An agent that corrects a slip edits twice.
        added("ticket_change", ticket=number, field="_comment0", newvalue=anything),
        optional(added("ticket_change", ticket=number, field="_comment1", newvalue=anything)),
    )


@task("tracker/delete-comment", level=2, split="train")
def _delete_comment(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(
        [t for t in find_unclosed_tickets(facts) if t["events"] and not t["events"][-1]["new"]]
    )
    number, count = ticket["id"], len(ticket["events"]) + 1
    when = _micros(datetime.fromisoformat(ticket["events"][-1]["when"])) + 60_000_000
    text = "Cheap toner and labels, call now and save 40 percent!"
    insert = "INSERT INTO ticket_change VALUES (?, ?, ?, 'comment', ?, ?)"
    return assign(
        f"Somebody posted an advertisement as a comment on ticket #{number}. Delete that "
        "comment, and nothing else.",
        (open_ticket(ticket), click(f'#trac-change-{count}-{when} input[value*="Delete"]')),
        click('#content input[value="Delete comment"]'),
        removed("ticket_change", ticket=number, newvalue=text),
        prepare=[(insert, (number, when, ticket["reporter"], str(count), text))],
    )


@task("tracker/delete-ticket", level=1, split="train")
def _delete_ticket(facts: Facts, rng: random.Random) -> Assignment:
    number = next_id(facts["tickets"])
    summary = rng.choice(
        ("Win {n} euros today", "Save {n} euros on pallets", "Your loan of {n} euros is ready")
    ).format(n=rng.randint(11, 99) * 50)
    moment = 1_772_200_000_000_000
    insert = (
        "INSERT INTO ticket (id, type, time, changetime, component, priority, owner, "
        "reporter, status, summary, description, keywords, cc, version, milestone, "
        "resolution, severity) VALUES (?, 'defect', ?, ?, 'Search', 'major', ?, "
        "'anonymous', 'new', ?, 'Visit us today!', '', '', '', '', '', '')"
    )
    return assign(
        f"The ticket “{summary}” is advertising. Delete it.",
        search_ticket({"id": number, "summary": summary}),
        click('.description input[value*="Delete"]'),
        click('#content input[value="Delete ticket"]'),
        removed("ticket", id=number),
        prepare=[(insert, (number, moment, moment, facts["components"][-1]["owner"], summary))],
    )


@task("tracker/delete-attachment", level=2, split="test")
def _delete_attachment(facts: Facts, rng: random.Random) -> Assignment:
    log, ticket = _draw_log(facts, rng)
    text = "Removed the log, it contained personal data."
    return assign(
        f"The log file attached to the ticket {_quote(ticket)} contains personal data. "
        f"Delete it, and add the comment “{text}” to the ticket.",
        (search_ticket(ticket), _to_log(log), click('#delete input[type="submit"]')),
        click('#content input[value="Delete attachment"]'),
        removed("attachment", id=str(ticket["id"]), filename=log["filename"]),
        comment_on(ticket, text),
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


def _draw_defect(rng: random.Random) -> tuple[str, str]:
    """Draw the summary and the component of a new defect."""
    pattern, component = rng.choice(_NEWS)
    return pattern.format(n=rng.randint(11, 989)), component


@task("tracker/create-defect", level=1, split="train")
def _create_defect(facts: Facts, rng: random.Random) -> Assignment:
    summary, component = _draw_defect(rng)
    priority = rng.choice(("critical", "minor", "blocker"))
    owner = find(facts["components"], name=component)["owner"]
    kept = {"type": "defect", "reporter": facts["user"], "owner": owner}
    return assign(
        f"File a new ticket: type defect, summary “{summary}”, component {component}, "
        f"priority {priority}. Leave the other fields as they are.",
        create_ticket(facts, kept=kept, summary=summary, component=component, priority=priority),
    )


@task("tracker/create-assigned", level=2, split="train")
def _create_assigned(facts: Facts, rng: random.Random) -> Assignment:
    customer, version = rng.choice(_CUSTOMERS), rng.choice(WORDS.versions)[0]
    summary, component = _draw_defect(rng)
    milestone, owner = rng.choice(UPCOMING), rng.choice(facts["developers"][1:])
    text, name = f"Called in by {customer} this morning.", name_of(facts, owner)
    fields: dict[str, Any] = {"summary": summary, "description": text, "component": component}
    fields |= {"milestone": milestone, "version": version, "customer": customer}
    kept = {"type": "defect", "priority": "major", "owner": owner, "status": "assigned"}
    action = "#action_create_and_assign"
    chosen = check(action), select(f"{action}_reassign_owner", name)
    return assign(
        f"File a new defect with the summary “{summary}” and the description “{text}” "
        f"Component {component}, version {version}, milestone {milestone}, customer {customer}. "
        f"Assign it to {name} straight away; keep the other fields as they are.",
        create_ticket(facts, *chosen, kept=kept, **fields),
    )


_WISHES = (
    "Show the weight of each parcel in the overview",
    "Send a text message when a delivery is late",
    "Let visitors book a gate themselves",
    "Mark dangerous goods in red",
)


@task("tracker/create-wish", level=2, split="test")
def _create_wish(facts: Facts, rng: random.Random) -> Assignment:
    customer, component = rng.choice(_CUSTOMERS), rng.choice(list(WORDS.components))
    summary, hours = rng.choice(_WISHES), str(rng.choice((5, 9, 15, 30)))
    fields = {"summary": summary, "type": "enhancement", "component": component}
    fields |= {"milestone": "Backlog", "keywords": "wish", "customer": customer}
    fields |= {"estimate": hours, "billable": "1"}
    return assign(
        f"{customer} wants something new and will pay for it. File an enhancement for the "
        f"component {component} in the milestone Backlog with the summary “{summary}”, the "
        f"keyword “wish”, the customer, an estimate of {hours} hours, and marked as billable. "
        "Leave the other fields as they are.",
        create_ticket(facts, kept={"priority": "major"}, **fields),
    )


@task("tracker/split-ticket", level=3, split="train")
def _split_ticket(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts, type="enhancement", milestone=UPCOMING))
    first = next_id(facts["tickets"])
    summaries = [f"Design: {ticket['summary']}", f"Test: {ticket['summary']}"]
    shared = {"type": "task", **{name: ticket[name] for name in ("component", "milestone")}}
    return assign(
        f"Split the wish {_quote(ticket)} into two new tickets of the type task, with the "
        f"summaries “{summaries[0]}” and “{summaries[1]}”, in the same component and milestone as "
        "the wish; leave the other fields as they are. File the design first. Then comment on the "
        "wish with “Split into #A and #B.”, where A and B are the numbers of the two, the lower "
        "one first.",
        search_ticket(ticket),
        create_ticket(facts, summary=summaries[0], **shared),
        create_ticket(facts, after=1, summary=summaries[1], **shared),
        (search_ticket(ticket), comment_on(ticket, f"Split into #{first} and #{first + 1}.")),
    )


# Changing many tickets.


@task("tracker/retarget-component", level=2, split="train")
def _retarget_component(facts: Facts, rng: random.Random) -> Assignment:
    kind, found = _draw_group(facts, rng, ("component", "milestone"), 6)
    target = other_than(rng, UPCOMING, kind["milestone"])
    return assign(
        f"Move to the milestone {target} all tickets of the component {kind['component']} that "
        f"are in the milestone {kind['milestone']} and not closed.",
        (query_tickets(**kind), edit_found(found, set_all("milestone", target))),
    )


@task("tracker/change-priorities", level=2, split="test")
def _change_priorities(facts: Facts, rng: random.Random) -> Assignment:
    kind, found = _draw_group(facts, rng, ("customer", "priority"), 6)
    target = other_than(rng, WORDS.priorities, kind["priority"])
    return assign(
        f"All tickets of the customer {kind['customer']} that have the priority "
        f"{kind['priority']} and are not closed should get the priority {target}.",
        (query_tickets(**kind), edit_found(found, set_all("priority", target))),
    )


@task("tracker/hand-over", level=2, split="train")
def _hand_over(facts: Facts, rng: random.Random) -> Assignment:
    while True:
        kind, found = _draw_group(facts, rng, ("owner", "milestone"), 7)
        if kind["owner"] != facts["user"]:
            break
    taker = reassign(facts, other_than(rng, facts["developers"][1:], kind["owner"]))
    name, new = name_of(facts, kind["owner"]), name_of(facts, taker.columns["owner"])
    return assign(
        f"{name} is ill. Reassign to {new} all tickets of the milestone {kind['milestone']} that "
        f"{name} owns and that are not closed.",
        query_tickets(owner=name, milestone=kind["milestone"]),
        edit_found(found, taker),
    )


@task("tracker/plan-defects", level=3, split="train")
def _plan_defects(facts: Facts, rng: random.Random) -> Assignment:
    found = rng.sample(find_unclosed_tickets(facts, milestone="Release 4.4"), 3)
    found.sort(key=lambda ticket: int(ticket["id"]))
    targets = {"defect": "Release 4.5", "enhancement": "Release 5.0", "task": "Backlog"}
    numbers = join_names([f"#{number}" for number in _numbers(found)])
    return assign(
        f"Release 4.4 is too full. Move the tickets {numbers} "
        "out of it: a defect to Release 4.5, an enhancement to Release 5.0, a task to the Backlog.",
        [(open_ticket(one), edit(one, milestone=targets[one["type"]])) for one in found],
    )


@task("tracker/close-fixed", level=3, split="test")
def _close_fixed(facts: Facts, rng: random.Random) -> Assignment:
    found = rng.sample(find_unclosed_tickets(facts, type="defect"), 3)
    text = f"Fixed in build 4.4.{rng.randint(10, 99)}."
    return assign(
        f"The problems of the reports {join_names([one['code'] for one in found])} are gone. Close "
        f"the ticket of each as fixed, with the comment “{text}”",
        [
            (search_ticket(one, one["code"]), edit(one, resolve("fixed"), comment=text))
            for one in found
        ],
    )


# Administration.


@task("tracker/add-milestone", level=1, split="train")
def _add_milestone(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(("Release 4.6", "Release 4.7", "Pilot Ghent", "Security review"))
    due = draw_day(rng, 4, 12)
    date = fill('#addmilestone input[name="duedate"]', _evening(due))
    return assign(
        f"Add a milestone {name} that is due on {format_date(due)}, at any time of that day.",
        _add("Milestones", "addmilestone", name, date),
        added("milestone", name=name, due=_on(due), completed=0),
    )


@task("tracker/postpone-milestone", level=1, split="train")
def _postpone_milestone(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice([*DATED])
    due = draw_day(rng, 12)
    return assign(
        f"The milestone {name} is delayed. Set its due date to {format_date(due)}, at any "
        "time of that day.",
        (_milestone(name, "editmilestone"), fill("#duedate", _evening(due)), _SAVE),
        changed("milestone", {"name": name}, due=_on(due)),
    )


@task("tracker/complete-milestone", level=2, split="test")
def _complete_milestone(facts: Facts, rng: random.Random) -> Assignment:
    # Trac asks for another milestone only where there is something to move.
    name = rng.choice(find_unclosed_tickets(facts, milestone=[*DATED]))["milestone"]
    target = other_than(rng, UPCOMING, name)
    return assign(
        f"Mark the milestone {name} as completed now, and move its tickets that are not "
        f"closed to the milestone {target}.",
        (_milestone(name, "editmilestone"), check("#completed"), check("#retarget")),
        (select("#target", target), _SAVE),
        changed("milestone", {"name": name}, completed=anything),
        [_retargeted(ticket, target) for ticket in find_unclosed_tickets(facts, milestone=name)],
    )


def _retargeted(ticket: Row, target: str) -> tuple[Expected, ...]:
    """Expect a ticket to move when its milestone ends, and allow the comment that Trac adds."""
    return (
        changed_row("ticket", ticket, milestone=target),
        *(
            optional(_expect_comment(ticket["id"], f"Ticket retargeted after milestone {what}"))
            for what in ("closed", "deleted")
        ),
    )


@task("tracker/delete-milestone", level=2, split="train")
def _delete_milestone(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(find_tickets(facts, milestone=UPCOMING))["milestone"]
    target = other_than(rng, UPCOMING, name)
    return assign(
        f"The milestone {name} is cancelled. Delete it, and move all of its tickets to the "
        f"milestone {target}.",
        (_milestone(name, "deletemilestone"), select("#target", target), click("#delete")),
        removed("milestone", name=name),
        [_retargeted(ticket, target) for ticket in find_tickets(facts, milestone=name)],
    )


@task("tracker/add-version", level=1, split="test")
def _add_version(facts: Facts, rng: random.Random) -> Assignment:
    name = f"4.3.{rng.randint(1, 9)}"
    released = draw_day(rng, 2, days=(2, 27))
    return assign(
        f"Version {name} was released on {format_date(released)}. Add it to the versions.",
        _add("Versions", "addversion", name, fill("#releaseddate", _evening(released))),
        added("version", name=name, time=_on(released)),
    )


_COMPONENTS = (
    ("Visitor desk", "Registration of drivers and visitors"),
    ("Yard", "Parking and gates for lorries"),
    ("Pricing", "Special prices and agreements"),
    ("Monitoring", "Health of servers and scanners"),
)


@task("tracker/add-component", level=2, split="train")
def _add_component(facts: Facts, rng: random.Random) -> Assignment:
    name, about = rng.choice(_COMPONENTS)
    owner = rng.choice(facts["developers"][1:])
    return assign(
        f"Add a component {name} that {name_of(facts, owner)} (user name {owner}) owns, with "
        f"the description “{about}”.",
        _add("Components", "addcomponent", name, select("#addcomponent select", owner)),
        (click("#component_table a", name), fill("#description", about), _SAVE),
        added("component", name=name, owner=owner, description=same_text(about)),
    )


@task("tracker/change-lead", level=1, split="train")
def _change_lead(facts: Facts, rng: random.Random) -> Assignment:
    component = rng.choice(facts["components"])
    owner = other_than(rng, facts["developers"][1:], component["owner"])
    return assign(
        f"From now on {name_of(facts, owner)} (user name {owner}) is the owner of the "
        f"component {component['name']}. Change that in the administration; existing tickets stay "
        "as they are.",
        (_admin("Components"), click("#component_table a", component["name"])),
        (select("#edit select", owner), _SAVE),
        changed("component", {"name": component["name"]}, owner=owner),
    )


@task("tracker/rename-component", level=2, split="test")
def _rename_component(facts: Facts, rng: random.Random) -> Assignment:
    old = rng.choice(list(WORDS.components))
    new = rng.choice(("New {}", "{} and tools", "{} (core)", "{} team")).format(old)
    found = find_tickets(facts, component=old)
    return assign(
        f"Rename the component {old} to “{new}”.",
        (_admin("Components"), click("#component_table a", old)),
        (fill('#edit input[name="name"]', new), _SAVE),
        removed("component", name=old),
        added("component", **find(facts["components"], name=old) | {"name": new}),
        [changed_row("ticket", ticket, component=new) for ticket in found],
    )


_ENUMS = (
    (
        ("Ticket Types", "ticket type"),
        ("question", "incident", "training", "complaint", "visit", "audit", "research"),
    ),
    (
        ("Resolutions", "resolution"),
        ("postponed", "obsolete", "documented", "merged", "sold", "explained", "moved"),
    ),
    (("Priorities", "priority"), ("urgent", "someday", "normal", "high", "low")),
    (("Severities", "severity"), ("crash", "cosmetic", "annoying", "harmless")),
)


@task("tracker/add-type", level=1, split="train")
def _add_type(facts: Facts, rng: random.Random) -> Assignment:
    (panel, what), names = rng.choice(_ENUMS)
    name = rng.choice(names)
    return assign(
        f"Add a {what} “{name}” to the tracker.",
        _add(panel, "addenum", name),
        added("enum", type=what.replace(" ", "_"), name=name),
    )


@task("tracker/default-milestone", level=1, split="test")
def _default_milestone(facts: Facts, rng: random.Random) -> Assignment:
    milestones = [("Milestones", "milestone", "ticket_default", name) for name in UPCOMING]
    components = [("Components", "component", "default", name) for name in WORDS.components]
    panel, name, field, value = rng.choice([*milestones, *components])
    return assign(
        f"New tickets should have the {name} {value} by default. Set this in the administration.",
        (_admin(panel), check(f'input[name="{field}"][value="{value}"]')),
        click(f'#{name}_table input[name="apply"]'),
        added("setting", section="ticket", name=f"default_{name}", value=value),
    )


@task("tracker/add-to-group", level=1, split="train")
def _add_to_group(facts: Facts, rng: random.Random) -> Assignment:
    inside = {*facts["developers"], *facts["support"]}
    person = other_than(rng, [one["username"] for one in facts["people"]], *inside)
    group = rng.choice(("developers", "support"))
    return assign(
        f"{name_of(facts, person)} (user name {person}) joins us. Add this user to the "
        f"permission group {group}.",
        (_admin("Permissions"), add_member(person, group)),
    )


def add_member(person: str, group: str) -> Parts:
    """Put a person into a permission group."""
    return (
        (fill("#sg_subject", person), fill("#sg_group", group)),
        click('#addsubj input[name="add"]'),
        added("permission", username=person, action=group),
    )


@task("tracker/leave-group", level=2, split="test")
def _leave_group(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(facts["support"])
    permission = f"{_encode(person)}:{_encode('support')}"
    return assign(
        f"{name_of(facts, person)} (user name {person}) moves from support to development. "
        "Take this user out of the permission group support and add them to the group developers.",
        removed("permission", username=person, action="support"),
        (_admin("Permissions"), add_member(person, "developers")),
        check(f'#revokeform input[value="{permission}"]'),
        click('#revokeform input[name="remove"]'),
    )


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Reports.


@task("tracker/save-query", level=2, split="test")
def _save_query(facts: Facts, rng: random.Random) -> Assignment:
    component, kind = rng.choice(list(WORDS.components)), rng.choice(WORDS.types)
    title = f"Open {kind}s in {component}"
    return assign(
        f"Make a custom query for all tickets of the component {component} and the type "
        f"{kind} that are not closed, whoever owns them, and save it as a report with the title "
        f"“{title}”.",
        query_tickets(component=component, type=kind),
        click('#trac-report-save input[type="submit"]'),
        (fill("#title", title), click('#edit_report input[value="Save query"]')),
        added(
            "report",
            title=same_text(title),
            query=lambda text: _asks(
                text, {"component": component, "type": kind, "status": "!closed"}
            ),
        ),
    )


def _asks(query: str, wanted: dict[str, str]) -> bool:
    """Return whether a saved query has exactly these conditions."""
    parts = query.replace("\n", "").removeprefix("query:").lstrip("?").split("&")
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
def _rename_report(facts: Facts, rng: random.Random) -> Assignment:
    number = rng.randint(1, len(REPORTS))
    old = REPORTS[number - 1][0]
    new = f"{old} ({rng.choice(('weekly', 'for the team', 'all sites'))})"
    return assign(
        f"Change the title of the report “{old}” to “{new}”.",
        click(f'form[action="/report/{number}"] input[value*="Edit"]'),
        (fill("#title", new), click('#edit_report input[value="Save report"]')),
        changed("report", {"id": number}, title=same_text(new)),
    )


@task("tracker/delete-reports", level=1, split="train")
def _delete_reports(facts: Facts, rng: random.Random) -> Assignment:
    numbers = rng.sample(range(1, len(REPORTS) + 1), 2)
    titles = [f"“{REPORTS[number - 1][0]}”" for number in numbers]
    return assign(
        f"Nobody needs the reports {titles[0]} and {titles[1]}. Delete both.",
        [_delete_report(number) for number in numbers],
    )


def _delete_report(number: int) -> Parts:
    return (
        click("#mainnav a", "View Tickets"),
        click(f'form[action="/report/{number}"] input[value*="Delete"]'),
        click('#content input[value="Delete report"]'),
        removed("report", id=number),
    )


# What cannot be done.


@task("tracker/not-permitted", level=1, split="train", infeasible=True)
def _not_permitted(facts: Facts, rng: random.Random) -> Assignment:
    ticket = rng.choice(find_unclosed_tickets(facts))
    return assign(
        f"Delete ticket #{ticket['id']} completely; closing it is not enough.",
        open_ticket(ticket),
        user=rng.choice(facts["support"]),
    )
