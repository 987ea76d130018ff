"""The issue tracker: Trac, with the tickets of Northfield's developers and support."""

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import State, filled, read_sqlite

_VIEWED = re.compile(r"query_\w+|diff_\w+|timeline\..*|search\..*|chrome\..*|wiki_\w+|ticket_\w+")
"""The attributes of a session that viewing a page sets."""


def _read(folder: Path) -> State:
    """Return the rows of a world. A save replaces a session's rows: user and name are their key.

    Preferences count, traces of viewed pages do not. Of a ticket's history, only its comments do:
    the other rows repeat what has changed in the ticket itself.
    """
    state = read_sqlite(folder / APP.database)
    kept = {
        (row["sid"], row["name"]): row
        for row in state["session_attribute"].values()
        if row["authenticated"] and not _VIEWED.fullmatch(row["name"])
    }
    comments = {
        key: row
        for key, row in state["ticket_change"].items()
        if row["field"].startswith("_comment") or (row["field"] == "comment" and row["newvalue"])
    }
    return {**state, "session_attribute": kept, "ticket_change": comments}


_COMMENTS: Final = (
    "I will look at this in the afternoon.",
    "Talked about this in the stand-up, nothing new.",
    "Still on my list.",
    "Thanks, that helps.",
)


def _comment_elsewhere(
    facts: Mapping[str, Any], rng: random.Random, concerns: Concerns
) -> Meanwhile:
    """Let a developer comment on a ticket."""
    user = rng.choice([name for name in facts["developers"] if not concerns(name)])
    ticket = rng.choice(
        [
            one
            for one in facts["tickets"]
            if one["status"] != "closed"
            and not any(map(concerns, (one["id"], f"#{one['id']}", one["summary"])))
        ]
    )
    number, text = ticket["id"], rng.choice(_COMMENTS)
    return Meanwhile(
        f"{user} comments on the ticket #{number}: {text}",
        lambda world: world.submit(
            user, f"/ticket/{number}", comment=text, submit="Submit changes"
        ),
    )


APP = App(
    name="tracker",
    title="Issue tracker",
    package="trac 1.6",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    meanwhile=_comment_elsewhere,
    database="trac.db",
    ignored=frozenset({"auth_cookie", "cache", "session"}),
    columns={"ticket": ("changetime",)},
    fills={
        "enum": filled("value"),
        "ticket": filled("changetime", "owner", "reporter", "time", priority="major"),
        # The old value of a comment is its number.
        "ticket_change": filled("author", "oldvalue", "time"),
    },
    read_state=_read,
)
