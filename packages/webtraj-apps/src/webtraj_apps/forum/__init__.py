"""Northfield's forum: Spirit, on Django."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import filled

__all__ = ["APP"]

_REPLIES: Final = (
    "Good to know, thank you.",
    "I will ask around in our team.",
    "Same here, by the way.",
    "Let us talk about this over coffee.",
    "Thanks for writing this down.",
)


def _reply_elsewhere(facts: Mapping[str, Any], rng: random.Random, concerns: Concerns) -> Meanwhile:
    """Let a member reply in a topic."""
    users = [name for name in facts["cookies"] if not concerns(name)] or [facts["admin"]]
    user, text = rng.choice(users), rng.choice(_REPLIES)
    topic = rng.choice(
        [
            one
            for one in facts["topics"]
            if not (one["closed"] or one["removed"])
            and not (concerns(one["id"]) or concerns(one["title"]))
        ]
    )
    return Meanwhile(
        f"{user} replies in the topic “{topic['title']}”: {text}",
        lambda world: world.submit(user, f"/topic/{topic['id']}/{topic['slug']}/", comment=text),
    )


APP: Final = App(
    name="forum",
    title="Discussion forum",
    package="django-spirit 0.14.3",
    license="MIT",
    folder=Path(__file__).parent,
    meanwhile=_reply_elsewhere,
    ignored=frozenset(
        {
            "django_session",
            "spirit_comment_bookmark_commentbookmark",
            # What comments said before.
            "spirit_comment_history_commenthistory",
            "spirit_topic_unread_topicunread",
        }
    ),
    columns={
        # A page that is looked at leaves these traces.
        "auth_user": ("last_login",),
        # Subscriptions count, their latest notifications do not.
        "spirit_topic_notification_topicnotification": ("action", "comment_id", "date", "is_read"),
        "spirit_topic_topic": ("view_count",),
        "spirit_user_userprofile": ("last_ip", "last_post_hash", "last_post_on", "last_seen"),
    },
    fills={
        "spirit_category_category": filled("reindex_at", "slug", "sort"),
        # What a moderator does appears as a comment, whose text is this.
        "spirit_comment_comment": filled("comment_html", "date", comment="action"),
        "spirit_comment_flag_commentflag": filled("date"),
        "spirit_comment_flag_flag": filled("date"),
        "spirit_comment_like_commentlike": filled("date"),
        "spirit_comment_poll_commentpoll": filled(
            "comment_id", "created_at", choice_max=1, choice_min=1, name="1"
        ),
        "spirit_comment_poll_commentpollvote": filled("created_at"),
        "spirit_topic_notification_topicnotification": filled(
            "action", "comment_id", "date", "is_read"
        ),
        "spirit_topic_private_topicprivate": filled("date"),
        "spirit_topic_topic": filled(
            "date", "last_active", "reindex_at", "slug", comment_count=1, view_count=1
        ),
    },
)
