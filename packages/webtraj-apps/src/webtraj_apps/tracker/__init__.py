"""The issue tracker: Trac, with the tickets of Northfield's developers and support."""

import re
from pathlib import Path

from webtraj_apps.app import App
from webtraj_apps.state import State, read_sqlite

_VIEWED = re.compile(r"query_\w+|diff_\w+|timeline\..*|search\..*|chrome\..*|wiki_\w+|ticket_\w+")
"""The attributes of a session that viewing a page sets."""


def _read(folder: Path) -> State:
    """Return the rows of a world. A save replaces a session's rows: user and name are their key.

    Preferences count, traces of viewed pages do not.
    """
    state = read_sqlite(folder / APP.database)
    kept = {
        (row["sid"], row["name"]): row
        for row in state["session_attribute"].values()
        if row["authenticated"] and not _VIEWED.fullmatch(row["name"])
    }
    return {**state, "session_attribute": kept}


APP = App(
    name="tracker",
    title="Issue tracker",
    package="trac 1.6",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    database="trac.db",
    ignored=frozenset({"auth_cookie", "cache", "session"}),
    columns={"ticket": ("changetime",)},
    read_state=_read,
)
