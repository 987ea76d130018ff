"""Tasks of accounts and of the forum."""

from __future__ import annotations

import random

from webtraj.testing.site.tasks.base import (
    Assignment,
    Step,
    answer,
    check,
    click,
    fill,
    log_in,
    open_product,
    select,
    task,
    upload,
    wait_until,
)
from webtraj.testing.site.world import BOARDS, Post, Thread, World, money

__all__ = []

# Tasks with the account, the orders and the help pages.


@task("log-in", difficulty=1, start="/")
def log_in_task(world: World, rng: random.Random) -> Assignment:
    """A form of two fields."""
    account = world.accounts[rng.choice(list(world.accounts))]
    return Assignment(
        f'Log in as "{account.username}" with the password "{account.password}".',
        done=lambda w: w.user == account.username,
        steps=log_in(account.username, account.password),
    )


@task("log-out", difficulty=1, start="/forum")
def log_out(world: World, rng: random.Random) -> Assignment:
    """One button."""
    world.user = world.customer
    return Assignment("Log out.", done=lambda w: not w.user, steps=(click("button", "Log out"),))


@task("change-password", difficulty=3, start="/")
def change_password(world: World, rng: random.Random) -> Assignment:
    """Two forms, one after the other."""
    account = world.accounts[world.customer]
    old, new = account.password, f"larch-{rng.randint(10_000, 99_999)}"
    return Assignment(
        f'Log in as "{account.username}" with the password "{old}" and change the password to '
        f'"{new}".',
        done=lambda w: w.accounts[w.customer].password == new,
        steps=(
            *log_in(account.username, old),
            fill("#field-old", old),
            fill("#field-new", new),
            fill("#field-again", new),
            click("main button", "Change password"),
        ),
    )


@task("move-house", difficulty=2, start="/account")
def move_house(world: World, rng: random.Random) -> Assignment:
    """Fields that hold something already, and a box."""
    world.user = world.customer
    street, city = f"{rng.randint(100, 999)} Quay Street", f"Port {rng.choice('ABCDEFG')}"

    def done(now: World) -> bool:
        account = now.accounts[now.customer]
        return (account.street, account.city, account.newsletter) == (street, city, True)

    return Assignment(
        f"Change the address of your account to {street}, {city}, and order the newsletter there.",
        done=done,
        steps=(
            fill("#field-street", street),
            fill("#field-city", city),
            check("input[name=newsletter]"),
            click("main button", "Save address"),
        ),
    )


@task("download-invoice", difficulty=2, start="/account")
def download_invoice(world: World, rng: random.Random) -> Assignment:
    """A file."""
    world.user = world.customer
    number = rng.choice(world.orders).number
    path = f"/account/orders/{number}"
    return Assignment(
        f"Download the invoice of order {number}.",
        done=lambda w: w.downloads == [f"{path}/invoice.csv"],
        steps=(click(f'a[href="{path}"]'), click("main a", "Download the invoice")),
    )


@task("upload-document", difficulty=3, start="/account")
def upload_document(world: World, rng: random.Random) -> Assignment:
    """A file the other way."""
    world.user = world.customer
    name = f"receipt-{rng.randint(100, 999)}.txt"
    content = f"Paid: {money(rng.randint(1000, 9999))}\n".encode()
    return Assignment(
        f"Upload the file {name} to the documents of your account.",
        done=lambda w: [(u.name, u.content) for u in w.uploads] == [(name, content)],
        steps=(
            click("main a", "Documents"),
            upload("#document", name),
            click("main button", "Upload"),
        ),
        files={name: content},
    )


def _answered(world: World, expected: str) -> bool:
    return [given.strip().lower() for given in world.answers] == [expected.lower()]


@task("answer-return-days", difficulty=2, start="/")
def answer_return_days(world: World, rng: random.Random) -> Assignment:
    """A fact of the help pages."""
    days = str(world.return_days)
    return Assignment(
        "Within how many days can goods be sent back? Answer with the number only.",
        done=lambda w: _answered(w, days),
        steps=(click("footer a", "Help"), click("main a", "Returns"), answer(days)),
    )


@task("answer-discount", difficulty=3, start="/extras/popups")
def answer_discount(world: World, rng: random.Random) -> Assignment:
    """A fact that another tab tells."""
    ((_, percent),) = world.coupons.items()
    return Assignment(
        "How many percent does our partner's coupon take off? Answer with the number only.",
        done=lambda w: _answered(w, str(percent)),
        steps=(
            click("main a", "Our partner's offer"),
            wait_until("body:not(:has(#size-chart))"),
            answer(str(percent)),
        ),
    )


@task("answer-order-total", difficulty=2, start="/account")
def answer_order_total(world: World, rng: random.Random) -> Assignment:
    """A cell of a table."""
    world.user = world.customer
    order = rng.choice(world.orders)
    return Assignment(
        f"What was the total of order {order.number}? Answer as the site writes it, such as $1.50.",
        done=lambda w: _answered(w, money(order.cents)),
        steps=(answer(money(order.cents)),),
    )


@task("answer-worst-review", difficulty=3, start="/products")
def answer_worst_review(world: World, rng: random.Random) -> Assignment:
    """A fact behind a tab, by comparison."""
    product = rng.choice(world.products)
    worst = min(product.reviews, key=lambda review: review.stars).author
    return Assignment(
        f"Who gave {product.name} the fewest stars? Answer with the full name only.",
        done=lambda w: _answered(w, worst),
        steps=(
            *open_product(product.name),
            click("[role=tab]", f"Reviews ({len(product.reviews)})"),
            answer(worst),
        ),
    )


# Tasks in the forum.


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
    """Return the ids of the posts that the customer voted up."""
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
