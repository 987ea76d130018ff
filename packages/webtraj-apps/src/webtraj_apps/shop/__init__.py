"""The shop: django-oscar, with the storefront and the back office of Northfield."""

from pathlib import Path

from webtraj_apps.app import App

APP = App(
    name="shop",
    title="Online shop",
    package="django-oscar 4.2.1",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    ignored=frozenset(
        {
            # What was looked at, and what mails were sent.
            "analytics_productrecord",
            "analytics_userproductview",
            "analytics_userrecord",
            "analytics_usersearch",
            "communication_email",
            "django_session",
        }
    ),
    columns={
        "*": ("date_created", "date_updated"),
        "auth_user": ("last_login",),
        # Its place among its siblings: saving a category moves it.
        "catalogue_category": ("path",),
        "communication_notification": ("date_read",),
    },
)
