"""The shared budgets of Northfield's people: I hate money, on Flask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App
from webtraj_apps.state import State, filled, read_sqlite

__all__ = ["APP"]


def _read(folder: Path) -> State:
    """Return the rows of a world; bills include their payer, their project and who owes them."""
    state = dict(read_sqlite(folder / APP.database))
    people = {one["id"]: one for one in state["person"].values()}
    owers: dict[int, list[int]] = {}
    for row in state.pop("billowers").values():
        owers.setdefault(row["bill_id"], []).append(row["person_id"])

    def named(bill: Mapping[str, Any]) -> dict[str, Any]:
        payer, ids = people.get(bill["payer_id"], {}), owers.get(bill["id"], [])
        return {
            **bill,
            "payer": payer.get("name"),
            "project": payer.get("project_id"),
            "owers": ", ".join(sorted(people[one]["name"] for one in ids if one in people)),
            "owers_id": tuple(sorted(ids)),
        }

    return {**state, "bill": {key: named(bill) for key, bill in state["bill"].items()}}


APP: Final = App(
    name="budget",
    title="Shared budgets",
    package="ihatemoney 7.2.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
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
