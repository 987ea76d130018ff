"""The shared budgets of Northfield's people: I hate money, on Flask."""

from __future__ import annotations

from typing import Final

from webtraj.environments.apps.app import App, folder_of

__all__ = ["APP"]

APP: Final = App(
    name="budget",
    title="Shared budgets",
    package="ihatemoney 7.2.1",
    license="BSD-3-Clause",
    folder=folder_of(__name__),
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
)
