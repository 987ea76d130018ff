"""The state of a tracker's world: preferences count, traces of viewed pages do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from webtraj_apps import state as state_lib

__all__ = ["DATABASE", "read"]

DATABASE: Final = "trac.db"
_VIEWED: Final = re.compile(
    r"query_\w+|diff_\w+|timeline\..*|search\..*|chrome\..*|wiki_\w+|ticket_\w+"
)
"""The attributes of a session that viewing a page sets."""


def read(folder: Path) -> state_lib.State:
    """Return the rows of a world. A save replaces a session's rows: user and name are their key."""
    state = state_lib.read_sqlite(folder / DATABASE)
    kept = {
        (row["sid"], row["name"]): row
        for row in state["session_attribute"].values()
        if row["authenticated"] and not _VIEWED.fullmatch(row["name"])
    }
    return {**state, "session_attribute": kept}
