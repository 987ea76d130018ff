"""Webmail: Roundcube, with a mail server of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from webtraj_apps.app import App
from webtraj_apps.mail.state import read_state
from webtraj_apps.state import filled

__all__ = ["APP"]

APP: Final = App(
    name="mail",
    title="Webmail",
    package="Roundcube 1.6",
    license="GPL-3.0-or-later",
    folder=Path(__file__).parent,
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
