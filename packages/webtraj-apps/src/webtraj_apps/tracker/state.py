"""The state of a tracker's world: preferences count, and where one last looked does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from webtraj_apps import state as state_lib

__all__ = ["DATABASE", "read"]

DATABASE: Final = "trac.db"
_LOOKED: Final = re.compile(
    r"query_\w+|diff_\w+|timeline\..*|search\..*|chrome\..*|wiki_\w+|ticket_\w+"
)
"""What a page that is looked at leaves in the session."""


def read(folder: Path) -> state_lib.State:
    """Return the rows of a world; those of a session, which is saved anew, by user and name."""
    state = state_lib.read_sqlite(folder / DATABASE)
    kept = {
        (row["sid"], row["name"]): row
        for row in state["session_attribute"].values()
        if row["authenticated"] and not _LOOKED.fullmatch(row["name"])
    }
    return {**state, "session_attribute": kept}
