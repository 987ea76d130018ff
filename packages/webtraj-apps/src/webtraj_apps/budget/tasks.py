"""Tasks in the shared budgets: bills, participants, settlements, statistics and settings.

Functions named like `add_bill` return the steps of an oracle together with the changes that they
make.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, TypeAlias

from webtraj.environments.browser.oracles import Step, check, click, fill, select, uncheck
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Parts,
    added,
    anything,
    assign,
    changed_row,
    draw_day,
    email_of,
    find,
    find_best,
    format_date,
    hash_of,
    join_names,
    other_than,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="user")

Project: TypeAlias = dict[str, Any]
Member: TypeAlias = dict[str, Any]
Bill: TypeAlias = dict[str, Any]

_TODAY = "2026-03-02"
_NEW = 1000
"""The first id for rows that `prepare` adds."""


# Facts.


def find_known_projects(facts: Facts) -> list[Project]:
    """Return the projects that the user's browser knows."""
    return [project for project in facts["projects"] if project["joined"]]


def _member(project: Project, name: str) -> Member:
    return find(project["members"], name=name)


def active_members(project: Project) -> list[Member]:
    """Return the participants who are not deactivated."""
    return [one for one in project["members"] if one["activated"]]


def _names(project: Project) -> list[str]:
    """Return the names of the active participants."""
    return [one["name"] for one in active_members(project)]


def titles_of(project: Project) -> list[str]:
    """Return the descriptions of a project's bills."""
    return [bill["what"] for bill in project["bills"]]


def _settlements(project: Project) -> list[dict[str, Any]]:
    """Return the settlements of the plan, without the remainders of rounding."""
    return [one for one in project["settlements"] if one["amount"] >= 0.05]


# Draws.


def draw_amount(rng: random.Random) -> float:
    """Draw the amount of a bill."""
    return rng.randint(305, 18990) / 100


PURCHASES = (
    "Firewood", "Bus tickets", "Ice cream", "Wine", "Batteries", "Printer paper", "Sandwiches",
    "Taxi", "Flowers for the host", "Board game", "Sunscreen", "Breakfast rolls",
)  # fmt: skip


def _draw_some(names: list[str], rng: random.Random) -> list[str]:
    """Draw two or more of the names, but not all, in their order."""
    return sorted(rng.sample(names, rng.randint(2, len(names) - 1)), key=names.index)


def draw_bill(facts: Facts, rng: random.Random, *, everyone: bool) -> tuple[Project, Bill]:
    """Draw a project, and a new bill for all of its active participants or for some."""
    project = rng.choice(find_known_projects(facts))
    names = _names(project)
    what = other_than(rng, PURCHASES, *titles_of(project))
    some = _draw_some(names, rng)
    amount, payer = draw_amount(rng), rng.choice(names)
    return project, _bill(what, amount, payer, names if everyone else some)


def _bill(what: str, amount: float, payer: str, owers: list[str]) -> Bill:
    return {"what": what, "amount": amount, "payer": payer, "owers": owers}


def bill_for_everyone(facts: Facts, project: Project, what: str, amount: float) -> Bill:
    """Return a bill that the user paid for everyone."""
    return _bill(what, amount, facts["name"], _names(project))


def _choose_bill(
    facts: Facts, rng: random.Random, test: Callable[[Project, Bill], bool] = lambda *_: True
) -> tuple[Project, Bill]:
    """Draw an expense of active participants that has a unique title and passes a test."""

    def fits(project: Project, bill: Bill) -> bool:
        active = {bill["payer"], *bill["owers"]}.issubset(_names(project))
        single = titles_of(project).count(bill["what"]) == 1
        return active and single and not bill["reimbursement"] and test(project, bill)

    project, bills = rng.choice(
        [
            (project, bills)
            for project in find_known_projects(facts)
            if (bills := [bill for bill in project["bills"] if fits(project, bill)])
        ]
    )
    return project, rng.choice(bills)


def _draw_member(
    facts: Facts, rng: random.Random, test: Callable[[Member], Any] = lambda _: True
) -> tuple[Project, Member]:
    """Draw a project, and an active participant of it who passes a test."""
    project = rng.choice(find_known_projects(facts))
    return project, rng.choice([one for one in active_members(project) if test(one)])


def _draw_newcomer(facts: Facts, project: Project, rng: random.Random) -> str:
    return str(other_than(rng, facts["people"], *(one["name"] for one in project["members"])))


def _draw_settlement(facts: Facts, rng: random.Random) -> tuple[Project, dict[str, Any]]:
    projects = find_known_projects(facts)
    return rng.choice([(project, one) for project in projects for one in _settlements(project)])


def _draw_idea(rng: random.Random) -> tuple[str, str, str]:
    """Draw the name, code and mail address of a new project."""
    what = rng.choice(("Canoe tour", "Office plants", "Farewell gift", "Choir", "Allotment"))
    name = f"{what} {rng.choice(('2026', 'spring', 'summer', 'team A', 'team B'))}"
    code = f"{rng.choice(('pebble', 'saffron', 'velvet', 'maple'))}{rng.randint(100, 999)}"
    return name, code, email_of(rng.choice(("money", "budget", "fund")))


# Expectations.


def _near(amount: float, tolerance: float = 0.006) -> Callable[[Any], bool]:
    return lambda value: abs(float(value) - amount) < tolerance


def _paid(bill: Bill, *, day: str = _TODAY, kind: str = "EXPENSE", **payer: Any) -> Expected:
    """Expect a new bill for those who owe it, and for nobody else."""
    return added(
        "bill",
        what=same_text(bill["what"]),
        amount=_near(bill["amount"]),
        **payer,
        date=day,
        bill_type=kind,
        owers=", ".join(sorted(bill["owers"])),
        external_link=lambda link: not link,
    )


def _identifier(name: str) -> str:
    """Return the identifier that a new project gets."""
    return name.lower().replace(" ", "-")


# Steps.


def open_project(project: Project) -> tuple[Step, ...]:
    """Open a project from the home page, or from another project."""
    link = click(f".dropdown-menu a[href='/{project['id']}/']")
    return click("#navbarProjectsLinks"), link


def open_tab(name: str) -> Step:
    """Open a tab of the open project, such as `Statistics`."""
    return click("#navbarToggler .nav-link", name)


def _settings(project: Project) -> tuple[Step, ...]:
    link = click(f".dropdown-menu a[href='/{project['id']}/edit']")
    return (*open_project(project), click("#navbarProjectsLinks"), link)


def _tick_owers(project: Project, before: Sequence[str], after: Sequence[str]) -> list[Step]:
    """Tick and untick participants so that `after`, not `before`, owe the bill."""
    return [
        (check if one["name"] in after else uncheck)(f"#payed_for-{one['id']}")
        for one in active_members(project)
        if (one["name"] in after) != (one["name"] in before)
    ]


_ADD = click("#new-bill > a")
_SUBMIT = click("#submit[value=Submit]")


def _fill_bill(bill: Bill) -> list[Step]:
    amount = fill("#amount", f"{bill['amount']:.2f}")
    return [fill("#what", bill["what"]), select("#payer", bill["payer"]), amount]


def _open_bill(project: Project, bill: Bill) -> tuple[Step, ...]:
    link = click(f"a.edit[href='/{project['id']}/edit/{bill['id']}']")
    return (*open_project(project), link)


def _filter(project: Project, field: Step) -> tuple[Step, ...]:
    """Filter the list of bills."""
    start = (*open_project(project), click("#toggle-filters"))
    return (*start, field, click("#filterCollapse button"))


def _of_member(member: Member, action: str) -> Step:
    return click(f"#bal-member-{member['id']} form.{action} button")


def _log_in(project: Project) -> tuple[Step, ...]:
    return (
        fill("#authentication-form #id", project["id"]),
        fill("#authentication-form #password", project["code"]),
        click("#authentication-form button"),
    )


# Steps with the changes that they make.


def add_bill(
    project: Project, bill: Bill, /, *more: Step, day: str = "", kind: str = "EXPENSE", **payer: Any
) -> Parts:
    """Enter a bill in the project that is open.

    Args:
        project: The project.
        bill: The bill.
        *more: Steps before it is sent.
        day: Its day; today if empty.
        kind: Its type. `more` must choose any other than the default.
        **payer: The columns that identify who paid; by default the id of `bill["payer"]`.
    """
    who = payer or {"payer_id": _member(project, bill["payer"])["id"]}
    return (
        (_ADD, fill("#date", day) if day else (), _fill_bill(bill)),
        (_tick_owers(project, _names(project), bill["owers"]), more, _SUBMIT),
        _paid(bill, day=day or _TODAY, kind=kind, **who),
    )


def _edit_bill(project: Project, bill: Bill, *fields: Step, **new: Any) -> Parts:
    return _open_bill(project, bill), fields, _SUBMIT, changed_row("bill", bill, **new)


def _share_bill(project: Project, bill: Bill, names: Sequence[str]) -> Parts:
    """Correct for whom a bill was paid."""
    wanted = {_member(project, name)["id"] for name in names}
    fields = _tick_owers(project, bill["owers"], names)
    return _edit_bill(project, bill, *fields, owers_id=lambda value: set(value) == wanted)


def _delete(project: Project, bill: Bill, *twins: Bill) -> Parts:
    """Delete a bill of the open project. Any of its twins may be deleted instead."""
    # The second click confirms it.
    button = click(f"form[action='/{project['id']}/delete/{bill['id']}'] button")
    ids = {one["id"] for one in (bill, *twins)}
    return button, button, removed("bill", what=bill["what"], id=lambda value: value in ids)


def _add_member(project: str, name: str, weight: float = 1.0) -> Parts:
    """Add a participant to the open project. Later steps set a `weight` other than 1."""
    return (
        fill("#add-member-form input[name=name]", name),
        click("#add-member-form button"),
        added("person", project_id=project, name=name, weight=weight, activated=1),
    )


def _edit_member(project: Project, member: Member, field: str, value: str | float) -> Parts:
    text = value if isinstance(value, str) else f"{value:g}"
    return (
        (open_project(project), _of_member(member, "edit")),
        (fill(f"#{field}", text), click("main form button")),
        changed_row("person", member, **{field: value}),
    )


def _register(project: Project, settlement: dict[str, Any]) -> Parts:
    """Register a settlement of the open plan."""
    payer = _member(project, settlement["payer"])["id"]
    receiver = _member(project, settlement["receiver"])["id"]
    sender = f"input[name=sender_id][value='{payer}']"
    return (
        click(f"tr[receiver='{receiver}']:has({sender}) button"),
        added(
            "bill",
            payer_id=payer,
            amount=_near(settlement["amount"], 0.025),  # Rounding of others may shift it.
            bill_type="REIMBURSEMENT",
            owers=settlement["receiver"],
            date=anything,
            what=anything,
        ),
    )


def _edit_project(project: Project, field: Step, **new: Any) -> Parts:
    code = fill("#edit-project #current_password", project["code"])
    steps = _settings(project), field, code, click("#edit-project button")
    return steps, changed_row("project", project, **new)


def _create_project(name: str, code: str, email: str) -> Parts:
    return (
        (fill("#creation-form #name", name), fill("#creation-form #password", code)),
        (fill("#creation-form #contact_email", email), click("#creation-form button")),
        added(
            "project",
            id=_identifier(name),
            name=same_text(name),
            password=hash_of(code),
            contact_email=email,
            default_currency="XXX",
        ),
    )


# Bills.


@task("budget/add-bill", level=1, split="train")
def _add_bill(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = draw_bill(facts, rng, everyone=True)
    return assign(
        f'In the project "{project["name"]}", add a bill of today (2 March 2026): '
        f'{bill["payer"]} paid {bill["amount"]:.2f} for "{bill["what"]}", for everyone.',
        (open_project(project), add_bill(project, bill)),
    )


@task("budget/add-bill-for-some", level=2, split="train")
def _add_bill_for_some(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = draw_bill(facts, rng, everyone=False)
    day = draw_day(rng, 1, 2)
    return assign(
        f'Add a bill to the project "{project["name"]}": on {format_date(day)}, '
        f'{bill["payer"]} paid {bill["amount"]:.2f} for "{bill["what"]}", '
        f"for {join_names(bill['owers'])} only.",
        (open_project(project), add_bill(project, bill, day=day)),
    )


@task("budget/add-reimbursement", level=2, split="test")
def _add_reimbursement(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    payer, receiver = rng.sample(_names(project), 2)
    bill = _bill(f"Cash for {receiver}", float(rng.randint(11, 180)), payer, [receiver])
    kind = click("#bill-form details summary"), select("#bill_type", "Reimbursement")
    return assign(
        f"{payer} gave {receiver} {bill['amount']:.0f} in cash today (2 March 2026). Enter "
        f'this in the project "{project["name"]}" as a bill of the type Reimbursement with the '
        f'description "{bill["what"]}".',
        (open_project(project), add_bill(project, bill, *kind, kind="REIMBURSEMENT")),
    )


@task("budget/add-three-bills", level=3, split="train")
def _add_three_bills(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    names = _names(project)
    things = rng.sample([one for one in PURCHASES if one not in titles_of(project)], 3)
    bills = [_bill(what, draw_amount(rng), rng.choice(names), names) for what in things]
    day = draw_day(rng, 1, 2)
    told = "; ".join(f'{one["payer"]}: {one["amount"]:.2f} for "{one["what"]}"' for one in bills)
    return assign(
        f'Add three bills of {format_date(day)} to the project "{project["name"]}", each for '
        f"everyone. Payers, amounts and descriptions: {told}.",
        (open_project(project), [add_bill(project, bill, day=day) for bill in bills]),
    )


@task("budget/change-amount", level=1, split="train")
def _change_amount(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    amount = draw_amount(rng)
    new = {"amount": _near(amount), "converted_amount": _near(amount)}
    return assign(
        f'The bill "{bill["what"]}" in the project "{project["name"]}" has a wrong amount. '
        f"Change it to {amount:.2f}.",
        _edit_bill(project, bill, fill("#amount", f"{amount:.2f}"), **new),
    )


@task("budget/change-payer", level=1, split="train")
def _change_payer(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    payer = other_than(rng, active_members(project), name=bill["payer"])
    return assign(
        f'{payer["name"]}, not {bill["payer"]}, paid the bill "{bill["what"]}" in the project '
        f'"{project["name"]}". Correct it.',
        _edit_bill(project, bill, select("#payer", payer["name"]), payer_id=payer["id"]),
    )


@task("budget/change-date-and-title", level=2, split="train")
def _change_date_and_title(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    day = draw_day(rng, 1, 2)
    what = f"{bill['what']} ({rng.choice(('with receipt', 'no receipt', 'by card', 'in cash'))})"
    fields = fill("#date", day), fill("#what", what)
    return assign(
        f'In the project "{project["name"]}", change the date of the bill "{bill["what"]}" to '
        f'{format_date(day)} and its description to "{what}".',
        _edit_bill(project, bill, *fields, date=day, what=same_text(what)),
    )


@task("budget/leave-out", level=2, split="test")
def _leave_out(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng, lambda _, one: len(one["owers"]) > 2)
    name = rng.choice(bill["owers"])
    return assign(
        f'{name} had no part in the bill "{bill["what"]}" of the project "{project["name"]}". '
        "Correct for whom it was paid; change nothing else.",
        _share_bill(project, bill, [one for one in bill["owers"] if one != name]),
    )


@task("budget/add-to-bill", level=2, split="train")
def _add_to_bill(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng, lambda p, one: len(one["owers"]) < len(_names(p)))
    return assign(
        f'The bill "{bill["what"]}" in the project "{project["name"]}" was for all active '
        "participants. Correct for whom it was paid; change nothing else.",
        _share_bill(project, bill, _names(project)),
    )


@task("budget/delete-bill", level=1, split="train")
def _delete_bill(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    return assign(
        f'Delete the bill "{bill["what"]}" from the project "{project["name"]}".',
        (open_project(project), _delete(project, bill)),
    )


_COPY_BILL = (
    """
    INSERT INTO bill (id, payer_id, amount, date, what, creation_date, external_link,
        converted_amount, original_currency, bill_type)
    SELECT ?, payer_id, amount, date, what, creation_date, external_link,
        converted_amount, original_currency, bill_type FROM bill WHERE id = ?
    """,
    "INSERT INTO billowers SELECT ?, person_id FROM billowers WHERE bill_id = ?",
)


@task("budget/delete-duplicate", level=2, split="test")
def _delete_duplicate(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    twin = {**bill, "id": _NEW + bill["id"]}
    return assign(
        f'One bill of the project "{project["name"]}" was entered twice, with the same '
        "description, date and amount. Delete one of the two.",
        (open_project(project), _delete(project, rng.choice((bill, twin)), bill, twin)),
        prepare=tuple((statement, (twin["id"], bill["id"])) for statement in _COPY_BILL),
    )


@task("budget/split-bill", level=3, split="train")
def _split_bill(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    names, day = _names(project), bill["date"]
    first = round(bill["amount"] * rng.choice((0.25, 0.4, 0.6)), 2)
    one, other = rng.sample(names, 2)
    parts = [
        _bill(f"{bill['what']}, part 1", first, one, names),
        _bill(f"{bill['what']}, part 2", bill["amount"] - first, other, names),
    ]
    told = [f'"{part["what"]}", {part["amount"]:.2f}, paid by {part["payer"]}' for part in parts]
    return assign(
        f'Two people paid the bill "{bill["what"]}" in the project "{project["name"]}". '
        f"Delete it, and add two new bills of the same date ({format_date(day)}) "
        f"instead, both for everyone: {join_names(told)}.",
        (open_project(project), _delete(project, bill)),
        [add_bill(project, part, day=day) for part in parts],
    )


# Participants.


@task("budget/add-participant", level=1, split="train")
def _add_participant(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    name = _draw_newcomer(facts, project, rng)
    return assign(
        f'Add {name} as a participant to the project "{project["name"]}".',
        (open_project(project), _add_member(project["id"], name)),
    )


@task("budget/change-weight", level=2, split="train")
def _change_weight(facts: Facts, rng: random.Random) -> Assignment:
    project, member = _draw_member(facts, rng)
    weight = other_than(rng, (0.5, 1.5, 2.5, 3.0, 4.0), member["weight"])
    return assign(
        f'In the project "{project["name"]}", set the weight of {member["name"]} to {weight:g}.',
        _edit_member(project, member, "weight", weight),
    )


@task("budget/rename-participant", level=1, split="test")
def _rename_participant(facts: Facts, rng: random.Random) -> Assignment:
    project, member = _draw_member(facts, rng)
    name = f"{member['name']} {rng.choice('ABCDFGHKLMNPRSTVW')}."
    return assign(
        f'In the project "{project["name"]}", rename the participant {member["name"]} to '
        f'"{name}" (with the full stop).',
        _edit_member(project, member, "name", name),
    )


@task("budget/deactivate-participant", level=1, split="train")
def _deactivate_participant(facts: Facts, rng: random.Random) -> Assignment:
    own = facts["name"]
    project, member = _draw_member(facts, rng, lambda one: one["bills"] and one["name"] != own)
    button = _of_member(member, "delete")
    return assign(
        f'Deactivate the participant {member["name"]} of the project "{project["name"]}".',
        (open_project(project), button, button, changed_row("person", member, activated=0)),
    )


_NEW_PERSON = """
    INSERT INTO person (id, project_id, name, weight, activated) VALUES (?, ?, ?, 1, 1)
"""


@task("budget/remove-participant", level=2, split="test")
def _remove_participant(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    name, button = _draw_newcomer(facts, project, rng), _of_member({"id": _NEW}, "delete")
    return assign(
        f'One participant of the project "{project["name"]}" has neither paid nor shared any '
        "bill. Remove this participant; deactivating somebody without bills does it.",
        (open_project(project), open_tab("Statistics"), open_tab("Bills"), button, button),
        removed("person", id=_NEW),
        prepare=((_NEW_PERSON, (_NEW, project["id"], name)),),
    )


@task("budget/reactivate-participant", level=1, split="train")
def _reactivate_participant(facts: Facts, rng: random.Random) -> Assignment:
    # The page hides inactive participants whose balance is zero.
    projects = find_known_projects(facts)
    fit = [(p, one) for p in projects for one in p["members"] if abs(one["balance"]) > 1]
    project, member = rng.choice(fit)
    return assign(
        f'Reactivate the participant {member["name"]} of the project "{project["name"]}".',
        (open_project(project), _of_member(member, "reactivate")),
        changed_row("person", member, activated=1),
        prepare=(("UPDATE person SET activated = 0 WHERE id = ?", (member["id"],)),),
    )


@task("budget/join-late", level=3, split="test")
def _join_late(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = draw_bill(facts, rng, everyone=False)
    name, weight = _draw_newcomer(facts, project, rng), rng.choice((0.5, 2.0, 3.0))
    bill["payer"] = name
    # The newcomer's id is unknown: their row and box are the ones that no other member has.
    rows = ", ".join(f"#bal-member-{one['id']}" for one in project["members"])
    boxes = ", ".join(f"#payed_for-{one['id']}" for one in project["members"])
    untick = uncheck(f"#bill-form input[name=payed_for]:not({boxes})")
    return assign(
        f'Add {name} to the project "{project["name"]}" with the weight {weight:g}. Then add a '
        f'bill of today (2 March 2026): {name} paid {bill["amount"]:.2f} for "{bill["what"]}", '
        f"for {join_names(bill['owers'])} only.",
        (open_project(project), _add_member(project["id"], name, weight)),
        click(f"tr[id^=bal-member-]:not({rows}) form.edit button"),
        (fill("#weight", f"{weight:g}"), click("main form button")),
        add_bill(project, bill, untick, payer_id=anything, payer=name, project=project["id"]),
    )


# Settlements.


@task("budget/register-settlement", level=2, split="train")
def _register_settlement(facts: Facts, rng: random.Random) -> Assignment:
    project, settlement = _draw_settlement(facts, rng)
    return assign(
        f"{settlement['payer']} has paid {settlement['receiver']} what the settlement plan of "
        f'the project "{project["name"]}" proposes. Register this settlement.',
        (open_project(project), open_tab("Settle"), _register(project, settlement)),
    )


@task("budget/settle-all", level=3, split="train")
def _settle_all(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice([p for p in find_known_projects(facts) if 2 < len(_settlements(p)) < 8])
    return assign(
        f'Everybody in the project "{project["name"]}" has paid what the settlement plan '
        "proposes. Register every settlement of the plan. Ignore settlements below 0.05, which "
        "rounding may leave.",
        (open_project(project), open_tab("Settle")),
        [_register(project, one) for one in _settlements(project)],
        # Remainders of rounding.
        allow=added("bill", amount=_near(0, 0.05), bill_type="REIMBURSEMENT"),
    )


# Questions.


@task("budget/balance", level=1, split="train")
def _balance(facts: Facts, rng: random.Random) -> Assignment:
    project, member = _draw_member(facts, rng, lambda one: one["bills"])
    return assign(
        f'What is the balance of {member["name"]} in the project "{project["name"]}"? Answer '
        "with the amount, with a minus sign if it is negative.",
        open_project(project),
        answer=f"{member['balance']:.2f}",
    )


@task("budget/lowest-balance", level=1, split="train")
def _lowest_balance(facts: Facts, rng: random.Random) -> Assignment:

    def best_of(project: Project, choose: Callable[..., Any]) -> Any:
        return find_best(project["members"], lambda one: one["balance"], choose)

    fit = [p for p in find_known_projects(facts) if best_of(p, min) and best_of(p, max)]
    project = rng.choice(fit)
    word, choose = ("lowest", min) if rng.random() < 0.5 else ("highest", max)
    return assign(
        f'Which participant of the project "{project["name"]}" has the {word} balance? '
        "Answer with the name.",
        open_project(project),
        answer=best_of(project, choose)["name"],
    )


@task("budget/who-paid", level=1, split="train")
def _who_paid(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng)
    return assign(
        f'Who paid the bill "{bill["what"]}" in the project "{project["name"]}"? '
        "Answer with the name.",
        open_project(project),
        answer=bill["payer"],
    )


@task("budget/share", level=2, split="test")
def _share(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = _choose_bill(facts, rng, lambda p, b: 1 < len(b["owers"]) < len(_names(p)))
    return assign(
        f'For whom was the bill "{bill["what"]}" in the project "{project["name"]}" paid? '
        "Answer with all the names, separated by commas.",
        _open_bill(project, bill),
        answer=tuple(bill["owers"]),
    )


@task("budget/settlement-amount", level=1, split="test")
def _settlement_amount(facts: Facts, rng: random.Random) -> Assignment:
    project, settlement = _draw_settlement(facts, rng)
    return assign(
        f"How much should {settlement['payer']} pay to {settlement['receiver']} according to "
        f'the settlement plan of the project "{project["name"]}"? Answer with the amount.',
        (open_project(project), open_tab("Settle")),
        answer=f"{settlement['amount']:.2f}",
    )


@task("budget/total-paid", level=1, split="test")
def _total_paid(facts: Facts, rng: random.Random) -> Assignment:
    project, member = _draw_member(facts, rng, lambda one: one["paid"])
    return assign(
        f'How much has {member["name"]} paid for bills in the project "{project["name"]}" in '
        'total, according to the column "Paid" of the statistics? Answer with the amount.',
        (open_project(project), open_tab("Statistics")),
        answer=f"{member['paid']:.2f}",
    )


@task("budget/month", level=1, split="test")
def _month(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    spent = [bill for bill in project["bills"] if not bill["reimbursement"]]
    chosen = rng.choice(sorted({bill["date"][:7] for bill in spent}))
    total = sum(bill["amount"] for bill in spent if bill["date"].startswith(chosen))
    return assign(
        f"What were the expenses of {date.fromisoformat(f'{chosen}-01'):%B %Y} in the project "
        f'"{project["name"]}", according to the statistics? Answer with the amount.',
        (open_project(project), open_tab("Statistics")),
        answer=f"{total:.2f}",
    )


@task("budget/count-bills", level=2, split="train")
def _count_bills(facts: Facts, rng: random.Random) -> Assignment:
    project, member = _draw_member(facts, rng, lambda one: one["paid"])
    count = sum(bill["payer"] == member["name"] for bill in project["bills"])
    return assign(
        f'How many bills of the project "{project["name"]}" were paid by {member["name"]}? '
        "Count every row of the list of bills, transfers included. Answer with the number.",
        _filter(project, select("#filterCollapse #payer", member["name"])),
        answer=str(count),
    )


@task("budget/most-expensive", level=2, split="train")
def _most_expensive(facts: Facts, rng: random.Random) -> Assignment:

    def highest(project: Project, name: str) -> Any:
        own = [bill for bill in project["bills"] if bill["payer"] == name]
        return find_best(own, lambda bill: bill["amount"])

    found = [(p, highest(p, name)) for p in find_known_projects(facts) for name in _names(p)]
    # The list of bills also has transfers, which pay for nothing.
    fit = [(project, bill) for project, bill in found if bill and not bill["reimbursement"]]
    project, bill = rng.choice(fit)
    return assign(
        f'What did {bill["payer"]} pay most for in the project "{project["name"]}"? Answer '
        "with the description of the bill with the highest amount.",
        _filter(project, select("#filterCollapse #payer", bill["payer"])),
        answer=bill["what"],
    )


_KEYWORDS = (
    "Groceries", "Dinner", "Tickets", "Parking", "Electricity", "Internet", "Milk", "Biscuits",
    "Train", "Drinks", "Buffet",
)  # fmt: skip


@task("budget/sum-of-kind", level=3, split="test")
def _sum_of_kind(facts: Facts, rng: random.Random) -> Assignment:
    fit = [
        (project, word, bills)
        for project in find_known_projects(facts)
        for word in _KEYWORDS
        if 2 < len(bills := [b for b in project["bills"] if word.lower() in b["what"].lower()]) < 9
    ]
    project, word, bills = rng.choice(fit)
    return assign(
        f'What is the sum of all bills of the project "{project["name"]}" whose description '
        f'contains the word "{word}"? Count every such row of the list of bills. Answer with '
        "the amount.",
        _filter(project, fill("#filterCollapse #search", word)),
        answer=f"{sum(bill['amount'] for bill in bills):.2f}",
    )


@task("budget/own-total", level=3, split="train")
def _own_total(facts: Facts, rng: random.Random) -> Assignment:
    projects = rng.sample(find_known_projects(facts), rng.choice((3, 4)))
    total = sum(float(_member(project, facts["name"])["balance"]) for project in projects)
    names = ", ".join(f'"{project["name"]}"' for project in projects)
    return assign(
        f"You are {facts['name']}. What is the sum of your balances in these projects? "
        f"{names}. Answer with the amount, with a minus sign if it is negative.",
        [open_project(project) for project in projects],
        answer=f"{total:.2f}",
    )


@task("budget/log-in", level=2, split="train")
def _log_in_again(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice([one for one in facts["projects"] if not one["joined"]])
    member = rng.choice([one for one in active_members(project) if one["bills"]])
    return assign(
        f'Log in to the project with the identifier "{project["id"]}" and the private code '
        f'"{project["code"]}". What is the balance of {member["name"]} there? Answer with the '
        "amount, with a minus sign if it is negative.",
        _log_in(project),
        answer=f"{member['balance']:.2f}",
    )


@task("budget/log-in-and-add", level=3, split="test")
def _log_in_and_add(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice([one for one in facts["projects"] if not one["joined"]])
    names = _names(project)
    some = _draw_some(names, rng)
    bill = _bill(rng.choice(PURCHASES), draw_amount(rng), rng.choice(names), some)
    return assign(
        f'Log in to the project with the identifier "{project["id"]}" and the private code '
        f'"{project["code"]}". Add a bill of today (2 March 2026): {bill["payer"]} paid '
        f'{bill["amount"]:.2f} for "{bill["what"]}", for {join_names(some)} only.',
        (_log_in(project), add_bill(project, bill)),
    )


# Projects.


@task("budget/rename-project", level=2, split="train")
def _rename_project(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    name = f"{project['name']} {rng.choice(('2025', '2026', 'old', 'new', 'shared'))}"
    return assign(
        f'Rename the project "{project["name"]}" to "{name}". Its private code is '
        f'"{project["code"]}".',
        _edit_project(project, fill("#edit-project #name", name), name=same_text(name)),
    )


@task("budget/change-email", level=2, split="test")
def _change_email(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    name = other_than(rng, [one["name"] for one in project["members"]], facts["name"])
    email = email_of(name.lower())
    field = fill("#edit-project #contact_email", email)
    return assign(
        f'Change the email address in the settings of the project "{project["name"]}" to '
        f'{email}. The private code of the project is "{project["code"]}".',
        _edit_project(project, field, contact_email=email),
    )


@task("budget/create-project", level=2, split="train")
def _create_one_project(facts: Facts, rng: random.Random) -> Assignment:
    name, code, email = _draw_idea(rng)
    return assign(
        f'Create a project with the name "{name}", the private code "{code}" and the email '
        f"address {email}.",
        _create_project(name, code, email),
    )


@task("budget/start-project", level=3, split="train")
def _start_project(facts: Facts, rng: random.Random) -> Assignment:
    name, code, email = _draw_idea(rng)
    people = rng.sample(facts["people"], 3)
    bill = _bill(rng.choice(PURCHASES), draw_amount(rng), rng.choice(people), people)
    project, payer = _identifier(name), bill["payer"]
    return assign(
        f'Create a project with the name "{name}", the private code "{code}" and the email '
        f"address {email}. Add the participants {join_names(people)}, and then a bill of today "
        f'(2 March 2026): {payer} paid {bill["amount"]:.2f} for "{bill["what"]}", for everyone.',
        _create_project(name, code, email),
        [_add_member(project, one) for one in people],
        (_ADD, _fill_bill(bill), _SUBMIT),
        _paid(bill, payer_id=anything, payer=payer, project=project),
    )


@task("budget/delete-project", level=2, split="train")
def _delete_project(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    button = click("#delete-project button")
    return assign(
        f'Delete the project "{project["name"]}" for good. Its private code is '
        f'"{project["code"]}".',
        (_settings(project), fill("#delete-project #password", project["code"]), button, button),
        removed("project", id=project["id"]),
        [changed_row("person", one, project_id=None) for one in project["members"]],
    )


# What cannot be done.


@task("budget/change-currency", level=2, split="train", infeasible=True)
def _change_currency(facts: Facts, rng: random.Random) -> Assignment:
    project = rng.choice(find_known_projects(facts))
    currency = rng.choice(("EUR", "USD", "GBP", "CHF"))
    return assign(
        f'Set the default currency of the project "{project["name"]}" to {currency}, and keep '
        f'all its bills. Its private code is "{project["code"]}".',
        _settings(project),
    )


@task("budget/unknown-payer", level=1, split="train", infeasible=True)
def _unknown_payer(facts: Facts, rng: random.Random) -> Assignment:
    project, bill = draw_bill(facts, rng, everyone=True)
    name = _draw_newcomer(facts, project, rng)
    return assign(
        f'Add a bill of today to the project "{project["name"]}": {name} paid {bill["amount"]:.2f} '
        f'for "{bill["what"]}", for everyone. Do not add or change participants.',
        (open_project(project), _ADD),
    )
