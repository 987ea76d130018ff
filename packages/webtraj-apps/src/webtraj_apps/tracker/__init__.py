"""The issue tracker: Trac, with the tickets of Northfield's developers and support."""

from pathlib import Path

from webtraj_apps.app import App
from webtraj_apps.tracker import state

APP = App(
    name="tracker",
    title="Issue tracker",
    package="trac 1.6",
    license="BSD-3-Clause",
    folder=Path(__file__).parent,
    database=state.DATABASE,
    ignored=frozenset({"auth_cookie", "cache", "session"}),
    columns={"ticket": ("changetime",)},
    read_state=state.read,
)
