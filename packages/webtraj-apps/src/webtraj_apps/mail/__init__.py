"""Webmail: Roundcube, with a mail server of our own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.mail.state import read_state
from webtraj_apps.state import filled

__all__ = ["APP"]

_NEWS: Final = (
    ("Umbrella", "there is a blue umbrella at the front desk. Is it yours?"),
    ("Cake", "there is cake in the kitchen, help yourself."),
    ("Window", "could whoever is last today please close the window?"),
    ("Found a glove", "I have found a glove at the bicycle stand. Is it yours?"),
)


def _arrive(facts: Mapping[str, Any], rng: random.Random, concerns: Concerns) -> Meanwhile:
    """Let a mail arrive in the inbox."""
    from webtraj_apps.mail import tasks  # Not needed before an episode.

    people = [one for one in facts["people"][1:] if not concerns(one["name"])]
    sender, (subject, text) = rng.choice(people), rng.choice(_NEWS)
    moment = datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(seconds=rng.randrange(3600))
    mail = {**sender, "subject": subject, "moment": moment}
    delivery = tasks.deliver(facts, mail, text=text)
    return Meanwhile.by_sql(f"{sender['name']} sends the mail “{subject}”", *delivery)


APP: Final = App(
    name="mail",
    title="Webmail",
    package="Roundcube 1.6",
    license="GPL-3.0-or-later",
    folder=Path(__file__).parent,
    meanwhile=_arrive,
    database="mail.sqlite",
    fills={
        "folder": filled(subscribed=True),
        "mail": filled("body", "cc", "from", "in_reply_to", "to"),
        "sent": filled("body", "cc", "from", "in_reply_to", "sender", "to"),
    },
    read_state=read_state,
    debian=("roundcube-core", "roundcube-sqlite3", "php-cli", "php-sqlite3", "libfaketime"),
)
"""The application."""
