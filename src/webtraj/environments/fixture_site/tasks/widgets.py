"""Tasks with what browsers find hard: frames, shadow roots, editors, dragging, endless pages."""

from __future__ import annotations

import random

from webtraj.environments.fixture_site.tasks.base import Assignment, task
from webtraj.environments.fixture_site.tasks.steps import click, drag, fill, scroll_until
from webtraj.environments.fixture_site.world import World

__all__: list[str] = []


@task("subscribe-in-frame", difficulty=3, start="/extras/frames")
def subscribe_in_frame(world: World, rng: random.Random) -> Assignment:
    """A form in a frame in a frame."""
    email = f"reader{rng.randint(100, 999)}@mail.example"
    inside = ("iframe[title=Nested]", "iframe")
    return Assignment(
        f'Subscribe {email} to the newsletter, with the form in the frame "Nested".',
        done=lambda w: w.subscribers == [email],
        steps=(
            fill("#field-email", email, inside=inside),
            click("button", "Subscribe", inside=inside),
        ),
    )


@task("rate-shop", difficulty=3, start="/extras/shadow")
def rate_shop(world: World, rng: random.Random) -> Assignment:
    """A button in a shadow root in a shadow root."""
    stars = rng.randint(1, 5)
    return Assignment(
        f"Give the shop {stars} of 5 stars.",
        done=lambda w: w.stars == stars,
        steps=(click("button", inside=("star-rating", f"one-star[data-stars='{stars}']")),),
    )


@task("write-note", difficulty=2, start="/extras/editor")
def write_note(world: World, rng: random.Random) -> Assignment:
    """An editable element that is no field."""
    world.note = "Nothing yet."
    text = f"Water the ferns at {rng.randint(1, 12)} o'clock."
    return Assignment(
        f'Replace the note by "{text}" and save it.',
        done=lambda w: w.note == text,
        steps=(fill("#note", text), click("main button", "Save note")),
    )


@task("drag-card", difficulty=3, start="/extras/board")
def drag_card(world: World, rng: random.Random) -> Assignment:
    """HTML5 drag and drop."""
    card = rng.choice(world.cards["To do"])
    column = rng.choice(("Doing", "Done"))
    wanted = {name: [c for c in cards if c != card] for name, cards in world.cards.items()}
    wanted[column].append(card)
    return Assignment(
        f'Drag the card "{card}" from "To do" to "{column}".',
        done=lambda w: w.cards == wanted,
        steps=(drag(".card", card, f'.column[data-name="{column}"] h2'),),
    )


@task("like-in-feed", difficulty=3, start="/extras/feed")
def like_in_feed(world: World, rng: random.Random) -> Assignment:
    """An entry that is not there before one scrolls."""
    index = rng.randrange(15, len(world.feed))
    button = f"button[data-index='{index}']"
    return Assignment(
        f'Like the entry "{world.feed[index]}" of the feed.',
        done=lambda w: w.liked == {index},
        steps=(scroll_until(button), click(button)),
    )
