"""Tasks in the forum."""

from __future__ import annotations

import random

from webtraj.environments.fixture_site.seeding import BOARDS
from webtraj.environments.fixture_site.tasks.base import Assignment, task
from webtraj.environments.fixture_site.tasks.steps import Step, click, fill, select
from webtraj.environments.fixture_site.world import Post, Thread, World

__all__: list[str] = []


def _open(thread: Thread) -> Step:
    return click(f'main a[href="/forum/{thread.id}"]')


def _own_post(world: World, rng: random.Random) -> tuple[Thread, Post]:
    own = [
        (thread, post)
        for thread in world.threads
        for post in thread.posts
        if post.author == world.customer
    ]
    return rng.choice(own)


def _post(world: World, post_id: int) -> Post | None:
    posts = (post for thread in world.threads for post in thread.posts)
    return next((post for post in posts if post.id == post_id), None)


def _votes(world: World) -> set[int]:
    """Returns the ids of the posts that the customer voted up."""
    posts = (post for thread in world.threads for post in thread.posts)
    return {post.id for post in posts if world.customer in post.votes}


@task("reply", difficulty=2, start="/forum")
def reply(world: World, rng: random.Random) -> Assignment:
    """A text area."""
    world.user = world.customer
    thread = rng.choice(world.threads)
    text = rng.choice(("Thank you for this.", "I had the same last year.", "Try it again."))
    before = len(thread.posts)

    def done(now: World) -> bool:
        new = now.thread(thread.id).posts[before:]
        return [(post.author, post.text) for post in new] == [(world.customer, text)]

    return Assignment(
        f'Reply "{text}" in the thread "{thread.title}" of the board {thread.board}.',
        done=done,
        steps=(_open(thread), fill("#reply", text), click("main button", "Reply")),
    )


@task("start-thread", difficulty=2, start="/forum")
def start_thread(world: World, rng: random.Random) -> Assignment:
    """A link to a form."""
    world.user = world.customer
    board, number = rng.choice(BOARDS), rng.randint(10, 99)
    title, text = f"Meeting no. {number}", f"Who comes on day {number}?"
    before = len(world.threads)

    def done(now: World) -> bool:
        new = now.threads[before:]
        return [(t.board, t.title, t.posts[0].text) for t in new] == [(board, title, text)]

    return Assignment(
        f'Start a thread on the board "{board}" with the title "{title}" and the text "{text}"',
        done=done,
        spoiled=lambda w: len(w.threads) > before and not done(w),
        steps=(
            click("main a", "Start a thread"),
            select("#board", board),
            fill("#field-title", title),
            fill("#text", text),
            click("main button", "Start the thread"),
        ),
    )


@task("vote-up", difficulty=2, start="/forum")
def vote_up(world: World, rng: random.Random) -> Assignment:
    """One of several like buttons."""
    world.user = world.customer
    thread = rng.choice(world.threads)
    post = rng.choice([post for post in thread.posts if post.author != world.customer])
    return Assignment(
        f'Vote up the post of {post.author} in the thread "{thread.title}" of the board '
        f"{thread.board}.",
        done=lambda w: _votes(w) == {post.id},
        steps=(_open(thread), click("button", "Vote up", inside=(f"#post-{post.id}",))),
    )


@task("vote-most-popular", difficulty=3, start="/forum")
def vote_most_popular(world: World, rng: random.Random) -> Assignment:
    """A comparison."""
    world.user = world.customer
    thread = rng.choice(
        [t for t in world.threads if all(post.author != world.customer for post in t.posts)]
    )
    best = max(thread.posts, key=lambda post: len(post.votes))
    return Assignment(
        f'Vote up the post with the most votes in the thread "{thread.title}" of the board '
        f"{thread.board}.",
        done=lambda w: _votes(w) == {best.id},
        steps=(_open(thread), click("button", "Vote up", inside=(f"#post-{best.id}",))),
    )


@task("edit-post", difficulty=3, start="/forum")
def edit_post(world: World, rng: random.Random) -> Assignment:
    """One's own post among others'."""
    world.user = world.customer
    thread, post = _own_post(world, rng)
    text = f"I was wrong {rng.randint(2, 9)} times."

    def done(now: World) -> bool:
        edited = _post(now, post.id)
        return edited is not None and edited.text == text

    return Assignment(
        f'Change your post in the thread "{thread.title}" of the board {thread.board} to "{text}"',
        done=done,
        spoiled=lambda w: _post(w, post.id) is None,
        steps=(
            _open(thread),
            click("a", "Edit", inside=(f"#post-{post.id}",)),
            fill("#text", text),
            click("main button", "Save"),
        ),
    )


@task("delete-post", difficulty=2, start="/forum")
def delete_post(world: World, rng: random.Random) -> Assignment:
    """A dialog that asks whether one is sure."""
    world.user = world.customer
    thread, post = _own_post(world, rng)
    return Assignment(
        f'Delete your post in the thread "{thread.title}" of the board {thread.board}.',
        done=lambda w: _post(w, post.id) is None,
        steps=(_open(thread), click("button", "Delete", inside=(f"#post-{post.id}",))),
    )
