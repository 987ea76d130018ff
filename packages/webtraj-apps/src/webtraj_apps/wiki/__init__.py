"""The wiki: An Otter Wiki, with what Northfield's people write down for each other."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webtraj_apps.app import App, Concerns, Meanwhile
from webtraj_apps.state import filled
from webtraj_apps.wiki import state


def _note_elsewhere(facts: Mapping[str, Any], rng: random.Random, concerns: Concerns) -> Meanwhile:
    """Let somebody write a page of their own."""
    author = rng.choice(
        [
            one
            for one in facts["users"]
            if one["approved"] and not (concerns(one["username"]) or concerns(one["name"]))
        ]
    )
    user, page = author["username"], f"Notebook/{author['name']} {rng.randint(1, 99)}"
    return Meanwhile(
        f"{author['name']} writes the page “{page}”",
        lambda world: world.submit(
            user, f"/{page.replace(' ', '%20')}/edit", content="To be continued.", commit=""
        ),
    )


APP = App(
    name="wiki",
    title="Wiki",
    package="otterwiki 2.26.1",
    license="MIT",
    folder=Path(__file__).parent,
    meanwhile=_note_elsewhere,
    database=state.DATABASE,
    ignored=frozenset({"cache", "drafts"}),
    columns={"user": ("last_seen",)},
    fills={"commit": filled("author")},
    read_state=state.read,
)
