"""The help desk: django-helpdesk, with the tickets of Northfield's customers and colleagues."""

from pathlib import Path

from webtraj_apps.app import App

APP = App(
    name="helpdesk",
    title="Help desk",
    package="django-helpdesk 2.6.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    # What changed in a ticket is in the ticket itself; the log only repeats it.
    ignored=frozenset({"django_admin_log", "django_session", "helpdesk_ticketchange"}),
    columns={"auth_user": ("last_login",), "helpdesk_ticket": ("modified",)},
)
