"""Tasks of the fixture site, and how to write one.

A task is a function from a seeded world to an assignment. It chooses the goal with `rng`, and may
change the world before the visit begins. `done` looks only at the world: a task is judged by what
happened on the server. `steps` are the oracle, which knows the world and need not read.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

from fixture_site import TASKS
from fixture_site.shop import COUNTRIES
from fixture_site.world import Order, World, money
from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import (
    Step,
    act,
    answer,
    check,
    click,
    click_inside,
    drag,
    fill,
    hover,
    select,
    upload,
    wait_for_end,
)


def _never(_: World) -> bool:
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of one episode."""

    goal: str
    done: Callable[[World], bool]
    """Whether the goal is reached. False at first."""
    steps: tuple[Step, ...]
    """The oracle's steps."""
    spoiled: Callable[[World], bool] = _never
    """Whether an irreversible mistake was made, so that the episode failed."""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    """Files that the agent can upload, by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class SiteTask:
    """A task of the fixture site."""

    name: str
    start: str
    """The path where it begins."""
    assign: Callable[[World, random.Random], Assignment]

    def begin(self, world: World) -> Assignment:
        """Prepare a world for an episode of this task, and return its assignment."""
        return self.assign(world, random.Random(f"{self.name} {world.seed}"))


_TASKS: dict[str, SiteTask] = {}


def find_task(name: str) -> SiteTask:
    """Return a task; raises `KeyError`."""
    return _TASKS[name]


def _task(name, start="/"):
    def register(assign):
        made = _TASKS[name] = SiteTask(name, start, assign)
        return made

    return register


def _open_product(name):
    return (
        fill("header input[name=q]", name),
        click("header button", "Search"),
        click(".products a", name),
    )


# The shop.


@_task("add-to-cart", "/products")
def add_to_cart(world, rng):
    """One product, by name."""
    product = rng.choice(world.products)
    return Assignment(
        f"Put one {product.name} into the cart.",
        done=lambda w: w.cart == {product.id: 1},
        steps=(*_open_product(product.name), click("main button", "Add to cart")),
    )


@_task("set-quantity", "/cart")
def set_quantity(world, rng):
    """The right row of a table."""
    chosen = rng.sample(world.products, 3)
    world.cart = {product.id: 1 for product in chosen}
    product, count = rng.choice(chosen), rng.randint(2, 9)
    wanted = {**world.cart, product.id: count}
    row = f'input[aria-label="Quantity of {product.name}"]'
    return Assignment(
        f"Change the quantity of {product.name} in the cart to {count}.",
        done=lambda w: w.cart == wanted,
        steps=(fill(row, str(count)), click("button", inside=(f"form:has({row})",))),
    )


@_task("cancel-item")
def cancel_item(world, rng):
    """The dearest of several."""
    chosen = rng.sample(world.products, 4)
    world.cart = {product.id: rng.randint(1, 3) for product in chosen}
    dearest = max(chosen, key=lambda product: product.cents)
    wanted = {key: count for key, count in world.cart.items() if key != dearest.id}
    return Assignment(
        "Remove the product with the highest price from the cart, and nothing else.",
        done=lambda w: w.cart == wanted,
        steps=(
            click('header a[href="/cart"]'),
            click(f'form[action="/cart/remove"] button[value="{dearest.id}"]'),
        ),
    )


@_task("choose-currency")
def choose_currency(world, rng):
    """A menu that opens under the mouse."""
    currency = rng.choice(("EUR", "GBP", "JPY"))
    return Assignment(
        f"Switch the shop's currency to {currency}.",
        done=lambda w: w.currency == currency,
        steps=(hover(".hover-menu span"), click(".hover-menu button", currency)),
    )


@_task("pay-by-card", "/cart")
def pay_by_card(world, rng):
    """A long form, then one of another origin in a frame."""
    lines = {product.id: rng.randint(1, 2) for product in rng.sample(world.products, 2)}
    world.cart = dict(lines)
    account, country = world.accounts[world.customer], rng.choice(COUNTRIES)
    card = "".join(rng.choices("0123456789", k=16))

    def wanted(order: Order) -> bool:
        return (order.name, order.email, order.country, order.shipping, order.payment) == (
            account.full_name, account.email, country, "pickup", "card"
        ) and order.lines == lines  # fmt: skip

    return Assignment(
        f"Order what is in the cart for {account.full_name} ({account.email}) to {country}, to be "
        f"picked up (shipping: pickup), and pay by card with the number {card}.",
        done=lambda w: [wanted(order) and order.paid for order in w.orders] == [True],
        spoiled=lambda w: not all(map(wanted, w.orders)),
        steps=(
            click("main a", "Go to checkout"),
            fill("#field-name", account.full_name),
            fill("#field-email", account.email),
            select("#field-country", country),
            click("input[name=shipping][value=pickup]"),
            click("input[name=payment][value=card]"),
            check("input[name=terms]"),
            click("main button", "Place order"),
            # No ref reaches into the frame, but mouse and keyboard do.
            click_inside("iframe", 10, 10),
            act(a.PressKey("Tab")),
            act(a.TypeText(card)),
            act(a.PressKey("Enter")),
            wait_for_end(),
        ),
    )


# Accounts, help and forum.


@_task("log-in")
def log_in(world, rng):
    """A form of two fields."""
    account = world.accounts[rng.choice(list(world.accounts))]
    return Assignment(
        f'Log in as "{account.username}" with the password "{account.password}".',
        done=lambda w: w.user == account.username,
        steps=(
            click("header a", "Log in"),
            fill("#field-username", account.username),
            fill("#field-password", account.password),
            click("main button", "Log in"),
        ),
    )


@_task("upload-document", "/account")
def upload_document(world, rng):
    """A file."""
    world.user = world.customer
    name = f"receipt-{rng.randint(100, 999)}.txt"
    content = f"Paid: {money(rng.randint(1000, 9999))}\n".encode()
    return Assignment(
        f"Upload the file {name} to the documents of your account.",
        done=lambda w: w.uploads == [(name, content)],
        steps=(
            click("main a", "Documents"),
            upload("#document", name),
            click("main button", "Upload"),
        ),
        files={name: content},
    )


@_task("answer-return-days")
def answer_return_days(world, rng):
    """A fact of the help pages."""
    days = str(world.return_days)
    return Assignment(
        "Within how many days can goods be sent back? Answer with the number only.",
        done=lambda w: [given.strip() for given in w.answers] == [days],
        steps=(click("footer a", "Help"), click("main a", "Returns"), answer(days)),
    )


@_task("vote-up", "/forum")
def vote_up(world, rng):
    """One of several like buttons."""
    world.user = world.customer
    thread = rng.choice(world.threads)
    post = rng.choice(thread.posts)

    def votes(now: World) -> set[int]:
        posts = (post for thread in now.threads for post in thread.posts)
        return {post.id for post in posts if now.customer in post.votes}

    return Assignment(
        f'Vote up the post of {post.author} in the thread "{thread.title}" of the board '
        f"{thread.board}.",
        done=lambda w: votes(w) == {post.id},
        steps=(
            click(f'main a[href="/forum/{thread.id}"]'),
            click("button", "Vote up", inside=(f"#post-{post.id}",)),
        ),
    )


# What browsers find hard: frames, shadow roots, editors, dragging.


@_task("subscribe-in-frame", "/extras/frames")
def subscribe_in_frame(world, rng):
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


@_task("rate-shop", "/extras/shadow")
def rate_shop(world, rng):
    """A button in a shadow root in a shadow root."""
    stars = rng.randint(1, 5)
    return Assignment(
        f"Give the shop {stars} of 5 stars.",
        done=lambda w: w.stars == stars,
        steps=(click("button", inside=("star-rating", f"one-star[data-stars='{stars}']")),),
    )


@_task("write-note", "/extras/editor")
def write_note(world, rng):
    """An editable element that is no field."""
    world.note = "Nothing yet."
    text = f"Water the ferns at {rng.randint(1, 12)} o'clock."
    return Assignment(
        f'Replace the note by "{text}" and save it.',
        done=lambda w: w.note == text,
        steps=(fill("#note", text), click("main button", "Save note")),
    )


@_task("drag-card", "/extras/board")
def drag_card(world, rng):
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


assert set(_TASKS) == set(TASKS)
