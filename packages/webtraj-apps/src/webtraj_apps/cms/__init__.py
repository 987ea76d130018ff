"""The intranet of Northfield: Wagtail, a content management system."""

import json
from pathlib import Path

from webtraj_apps.app import App
from webtraj_apps.state import State, read_sqlite

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


def _read(folder: Path) -> State:
    """Return the rows of a world.

    Revisions include their contents as texts; preferences that nobody has set are left out.
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
    return {**state, "wagtailcore_revision": revisions, "wagtailusers_userprofile": profiles}


APP = App(
    name="cms",
    title="Intranet",
    package="wagtail 8.0.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
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
    read_state=_read,
)
