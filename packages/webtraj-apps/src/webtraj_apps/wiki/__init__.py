"""The wiki: An Otter Wiki, with what Northfield's people write down for each other."""

from pathlib import Path

from webtraj_apps.app import App
from webtraj_apps.state import filled
from webtraj_apps.wiki import state

APP = App(
    name="wiki",
    title="Wiki",
    package="otterwiki 2.26.1",
    license="MIT",
    folder=Path(__file__).parent,
    database=state.DATABASE,
    ignored=frozenset({"cache", "drafts"}),
    columns={"user": ("last_seen",)},
    fills={"commit": filled("author")},
    read_state=state.read,
)
