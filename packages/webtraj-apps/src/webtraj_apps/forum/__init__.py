"""Northfield's forum: Spirit, on Django."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from webtraj_apps.app import App
from webtraj_apps.state import filled

__all__ = ["APP"]

APP: Final = App(
    name="forum",
    title="Discussion forum",
    package="django-spirit 0.14.3",
    license="MIT",
    folder=Path(__file__).parent,
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
