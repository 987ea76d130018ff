"""The issue tracker: Trac, with the tickets of Northfield's developers and support."""

from pathlib import Path

from webtraj_apps.app import App

APP = App(
    name="tracker",
    title="Issue tracker",
    package="trac 1.6",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    database="trac.db",
    ignored=frozenset({"auth_cookie", "cache", "session", "session_attribute"}),
    columns={"ticket": ("changetime",)},
)
