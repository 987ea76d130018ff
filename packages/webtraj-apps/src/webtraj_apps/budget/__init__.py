"""The shared budgets of Northfield's people: I hate money, on Flask."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import State, filled, read_sqlite

__all__ = ["APP"]


def _read(folder: Path) -> State:
    """Return the rows of a world; bills include their payer, their project and who owes them."""
    state = dict(read_sqlite(folder / APP.database))
    people = {one["id"]: one for one in state["person"].values()}
    owers: dict[int, list[int]] = {}
    for row in state.pop("billowers").values():
        owers.setdefault(row["bill_id"], []).append(row["person_id"])

    def add_names(bill: Mapping[str, Any]) -> dict[str, Any]:
        payer, ids = people.get(bill["payer_id"], {}), owers.get(bill["id"], [])
        return {
            **bill,
            "payer": payer.get("name"),
            "project": payer.get("project_id"),
            "owers": ", ".join(sorted(people[one]["name"] for one in ids if one in people)),
            "owers_id": tuple(sorted(ids)),
        }

    return {**state, "bill": {key: add_names(bill) for key, bill in state["bill"].items()}}


_THINGS: Final = ("Parking", "Matches", "Napkins", "Newspaper", "Light bulbs", "Bin bags")


def _bill_elsewhere(facts: Mapping[str, Any], rng: random.Random, concerns: Concerns) -> Meanwhile:
    """Let somebody enter what they have paid, in another project."""
    payers = [
        (project, member, user)
        for project in facts["projects"]
        if project["joined"] and not (concerns(project["name"]) or concerns(project["id"]))
        for member in project["members"]
        if member["activated"]
        and (user := member["name"].lower()) in facts["cookies"]
        and not concerns(user)
    ]
    project, member, user = rng.choice(payers)
    what, amount = rng.choice(_THINGS), f"{rng.randint(150, 2400) / 100:.2f}"
    bill = {"what": what, "amount": amount, "payer": str(member["id"])}
    return Meanwhile(
        f"{member['name']} enters the bill “{what}” of {amount} in “{project['name']}”",
        lambda world: world.submit(user, f"/{project['id']}/add", **bill),
    )


APP: Final = App(
    name="budget",
    title="Shared budgets",
    package="ihatemoney 7.2.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    meanwhile=_bill_elsewhere,
    # The history, which tells once more what the other tables hold.
    ignored=frozenset(
        {
            "bill_version",
            "billowers_version",
            "person_version",
            "project_version",
            "transaction",
        }
    ),
    # They follow from the tables of people and of projects.
    columns={"bill": ("payer", "project", "owers")},
    fills={
        "bill": filled(
            "creation_date",
            "converted_amount",
            "payer",
            "project",
            "owers_id",
            original_currency="XXX",
        ),
        "project": filled(logging_preference="ENABLED"),
    },
    read_state=_read,
)
