"""The intranet of Northfield: Wagtail, a content management system."""

import json
from pathlib import Path

from webtraj_apps.app import App
from webtraj_apps.state import State, read_sqlite


def _read(folder: Path) -> State:
    """Return the rows of a world; revisions also with what they contain, as texts."""
    state = read_sqlite(folder / APP.database)
    newest = {page["latest_revision_id"] for page in state["wagtailcore_page"].values()}
    revisions = {
        key: {name: str(value or "") for name, value in json.loads(one["content"]).items()}
        | {**one, "newest": one["id"] in newest}
        for key, one in state["wagtailcore_revision"].items()
    }
    return {**state, "wagtailcore_revision": revisions}


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
            "wagtailusers_userprofile",
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
    },
    read_state=_read,
)
