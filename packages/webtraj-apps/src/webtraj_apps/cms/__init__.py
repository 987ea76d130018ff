"""The intranet of Northfield: Wagtail, a content management system."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import State, filled, read_sqlite

_UNSET = {
    "avatar": "",
    "contrast": "system",
    "current_time_zone": "",
    "density": "default",
    "keyboard_shortcuts": 1,
    "preferred_language": "",
    "theme": "system",
    "approved_notifications": 1,
    "rejected_notifications": 1,
    "submitted_notifications": 1,
    "updated_comments_notifications": 1,
}
"""The preferences of a user who has set none. Viewing one's account stores them."""


_PATH_STEP = 4
"""How much longer the path of a page is than that of its parent."""


def _read(folder: Path) -> State:
    """Return the rows of a world.

    Pages include the path of their parent, revisions their contents as texts. Preferences that
    nobody has set are left out.
    """
    state = read_sqlite(folder / APP.database)
    newest = {page["latest_revision_id"] for page in state["wagtailcore_page"].values()}
    revisions = {
        key: {name: str(value or "") for name, value in json.loads(one["content"]).items()}
        | {**one, "newest": one["id"] in newest}
        for key, one in state["wagtailcore_revision"].items()
    }
    profiles = {
        key: one
        for key, one in state["wagtailusers_userprofile"].items()
        if any(one[name] != value for name, value in _UNSET.items())
    }
    pages = {
        key: {**one, "parent": one["path"][:-_PATH_STEP]}
        for key, one in state["wagtailcore_page"].items()
    }
    return {
        **state,
        "wagtailcore_page": pages,
        "wagtailcore_revision": revisions,
        "wagtailusers_userprofile": profiles,
    }


def _reword_elsewhere(
    facts: Mapping[str, Any], rng: random.Random, concerns: Concerns
) -> Meanwhile:
    """Let somebody add a sentence to a term of the glossary."""
    known = [one for one in facts["glossary"] if not (concerns(one["id"]) or concerns(one["word"]))]
    term = rng.choice(known or facts["glossary"])
    meaning = f"{term['meaning']} {rng.choice(('See the wiki.', 'Ask sales.', 'An old word.'))}"
    statement = "UPDATE northfield_term SET meaning = ? WHERE id = ?"
    return Meanwhile.by_sql(
        f"the glossary explains “{term['word']}” anew: {meaning}",
        (statement, (meaning, term["id"])),
    )


APP = App(
    name="cms",
    title="Intranet",
    package="wagtail 8.0.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    meanwhile=_reword_elsewhere,
    # Who did what, what refers to what, and the index of the search: all follow from the pages.
    ignored=frozenset(
        {
            "django_session",
            "wagtailadmin_editingsession",
            "wagtailcore_modellogentry",
            "wagtailcore_pagelogentry",
            "wagtailcore_pagesubscription",
            "wagtailcore_referenceindex",
            "wagtailsearch_indexentry",
        }
    ),
    columns={
        "auth_user": ("last_login",),
        "wagtailcore_page": (
            "draft_title",
            "first_published_at",
            "last_published_at",
            "latest_revision_created_at",
            "latest_revision_id",
            "live_revision_id",
        ),
        "wagtailcore_revision": ("newest",),
        # Help that a user has dismissed.
        "wagtailusers_userprofile": ("dismissibles",),
    },
    fills={
        "*": filled("page_ptr_id"),
        "wagtailcore_page": filled(
            "content_type_id",
            "depth",
            "draft_title",
            "first_published_at",
            "last_published_at",
            "latest_revision_created_at",
            "latest_revision_id",
            "live_revision_id",
            "locale_id",
            "owner_id",
            "path",
            "slug",
            "translation_key",
            "url_path",
        ),
        # What a version contains of its page's fields is named.
        "wagtailcore_revision": filled(
            "base_content_type_id",
            "content",
            "content_type",
            "content_type_id",
            "created_at",
            "depth",
            "draft_title",
            "first_published_at",
            "has_unpublished_changes",
            "last_published_at",
            "latest_revision",
            "latest_revision_created_at",
            "live",
            "live_revision",
            "locale",
            "object_id",
            "object_str",
            "owner",
            "path",
            "pk",
            "translation_key",
            "url_path",
            "user_id",
        ),
        "auth_user": filled("date_joined", is_active=1),
        "wagtailcore_taskstate": filled(
            "content_type_id", "revision_id", "started_at", "task_id", "workflow_state_id"
        ),
        "wagtailcore_workflowstate": filled(
            "base_content_type_id",
            "content_type_id",
            "created_at",
            "current_task_state_id",
            "requested_by_id",
            "workflow_id",
        ),
        "wagtailredirects_redirect": filled("created_at"),
    },
    read_state=_read,
)
