"""The help desk: django-helpdesk, with the tickets of Northfield's customers and colleagues."""

from pathlib import Path

from webtraj_apps.app import App
from webtraj_apps.state import filled

APP = App(
    name="helpdesk",
    title="Help desk",
    package="django-helpdesk 2.6.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
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
