"""The help desk: django-helpdesk, with the tickets of Northfield's customers and colleagues."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import filled

_COMMENTS: Final = (
    "I have asked the warehouse and wait for an answer.",
    "I will call back in the afternoon.",
    "Passed on to the day shift.",
    "Nothing new yet.",
)


def _comment_elsewhere(
    facts: Mapping[str, Any], rng: random.Random, concerns: Concerns
) -> Meanwhile:
    """Let an agent comment on a ticket."""
    agent = rng.choice([one for one in facts["agents"] if not concerns(one["username"])])
    ticket = rng.choice(
        [
            one
            for one in facts["tickets"]
            if one["status"] in (1, 2)
            and not any(map(concerns, (one["id"], f"#{one['id']}", one["title"])))
        ]
    )
    text, moment = rng.choice(_COMMENTS), f"2026-03-02 09:{rng.randint(0, 59):02}:00"
    comment = (
        "INSERT INTO helpdesk_followup (date, title, comment, public, ticket_id, user_id) "
        "VALUES (?, 'Comment', ?, 1, ?, ?)"
    )
    return Meanwhile.by_sql(
        f"{agent['username']} comments on ticket #{ticket['id']}: {text}",
        (comment, (moment, text, ticket["id"], agent["id"])),
    )


APP = App(
    name="helpdesk",
    title="Help desk",
    package="django-helpdesk 2.6.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    meanwhile=_comment_elsewhere,
    # What changed in a ticket is in the ticket itself; the log only repeats it.
    ignored=frozenset({"django_admin_log", "django_session", "helpdesk_ticketchange"}),
    columns={"auth_user": ("last_login",), "helpdesk_ticket": ("modified",)},
    fills={
        # The title and the status of a follow-up repeat what happens to its ticket.
        "helpdesk_followup": filled("date", "new_status", "title", "user_id", public=1),
        "auth_permission": filled("content_type_id", "name"),
        "helpdesk_ignoreemail": filled("date"),
        "helpdesk_kbitem": filled("last_updated"),
        "helpdesk_queue": filled("permission_name", email_box_interval=5),
        "helpdesk_savedsearch": filled("user_id"),
        "helpdesk_checklisttask": filled("position"),
        "helpdesk_ticket": filled("created", "modified", "secret_key", priority=3, status=1),
    },
)
