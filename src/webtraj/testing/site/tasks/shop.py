"""Tasks of the shop, and of widgets."""

from __future__ import annotations

import random

from webtraj.environments import actions as a
from webtraj.testing.site.pages.shop import COUNTRIES
from webtraj.testing.site.tasks.base import (
    Assignment,
    Step,
    act,
    check,
    click,
    click_inside,
    drag,
    fill,
    hover,
    open_product,
    scroll_until,
    select,
    task,
    wait_for_end,
    wait_until,
)
from webtraj.testing.site.world import CATEGORIES, Order, World, money

__all__ = []

# Tasks in the shop: finding, choosing, ordering.


@task("add-to-cart", difficulty=1, start="/products")
def add_to_cart(world: World, rng: random.Random) -> Assignment:
    """One product, by name."""
    product = rng.choice(world.products)
    return Assignment(
        f"Put one {product.name} into the cart.",
        done=lambda w: w.cart == {product.id: 1},
        steps=(*open_product(product.name), click("main button", "Add to cart")),
    )


@task("set-quantity", difficulty=2, start="/cart")
def set_quantity(world: World, rng: random.Random) -> Assignment:
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


@task("cancel-item", difficulty=2, start="/")
def cancel_item(world: World, rng: random.Random) -> Assignment:
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


@task("wish-cheapest", difficulty=3, start="/")
def wish_cheapest(world: World, rng: random.Random) -> Assignment:
    """A filter and an order."""
    category = rng.choice(CATEGORIES)
    there = [product for product in world.products if product.category == category]
    cheapest = min(there, key=lambda product: product.cents)
    return Assignment(
        f"Put the cheapest product of the department {category} on the wish list.",
        done=lambda w: w.wish_list == [cheapest.id],
        steps=(
            click("main a", category),
            select("#filter-sort", "price"),
            click("main button", "Apply"),
            click(".products a", cheapest.name),
            click("main button", "Add to wish list"),
        ),
    )


@task("wish-affordable", difficulty=4, start="/products")
def wish_affordable(world: World, rng: random.Random) -> Assignment:
    """All of a set, which may go over several pages of results."""
    category = rng.choice(CATEGORIES)
    there = sorted(
        (product for product in world.products if product.category == category),
        key=lambda product: product.cents,
    )
    wanted = there[: rng.randint(2, 4)]
    limit = -(-wanted[-1].cents // 100)
    wanted = [product for product in there if product.cents <= limit * 100]
    ids = {product.id for product in wanted}
    steps: list[Step] = []
    for product in wanted:
        steps += [*open_product(product.name), click("main button", "Add to wish list")]
    return Assignment(
        f"Put every product of the department {category} that costs at most {money(limit * 100)} "
        "on the wish list.",
        done=lambda w: set(w.wish_list) == ids,
        steps=tuple(steps),
    )


@task("review-product", difficulty=3, start="/")
def review_product(world: World, rng: random.Random) -> Assignment:
    """A form behind a tab."""
    world.user = world.customer
    author = world.accounts[world.customer].full_name
    product, stars = rng.choice(world.products), rng.randint(1, 5)
    text = rng.choice(("Better than I thought.", "I sent it back.", "A fine present."))

    def done(now: World) -> bool:
        written = now.product(product.id).reviews[4:]
        return [(r.author, r.stars, r.text) for r in written] == [(author, stars, text)]

    return Assignment(
        f'Review the product {product.name}: give it {stars} stars and write "{text}"',
        done=done,
        spoiled=lambda w: len(w.product(product.id).reviews) > 4 and not done(w),
        steps=(
            *open_product(product.name),
            click("[role=tab]", f"Reviews ({len(product.reviews)})"),
            select("#review-stars", str(stars)),
            fill("#review-text", text),
            click("main button", "Send review"),
        ),
    )


@task("choose-currency", difficulty=2, start="/")
def choose_currency(world: World, rng: random.Random) -> Assignment:
    """A menu that opens under the mouse."""
    currency = rng.choice(("EUR", "GBP", "JPY"))
    return Assignment(
        f"Switch the shop's currency to {currency}.",
        done=lambda w: w.currency == currency,
        steps=(hover(".hover-menu span"), click(".hover-menu button", currency)),
    )


def _fill_cart(world: World, rng: random.Random) -> dict[int, int]:
    world.cart = {product.id: rng.randint(1, 2) for product in rng.sample(world.products, 2)}
    return dict(world.cart)


def _order_steps(order: dict[str, str]) -> tuple[Step, ...]:
    steps: list[Step] = [
        fill("#field-name", order["name"]),
        fill("#field-email", order["email"]),
        select("#field-country", order["country"]),
        click(f"input[name=shipping][value={order['shipping']}]"),
        click(f"input[name=payment][value={order['payment']}]"),
        check("input[name=terms]"),
    ]
    if order.get("gift_wrap"):
        steps.append(check("input[name=gift_wrap]"))
    optional = [name for name in ("delivery_date", "coupon") if order.get(name)]
    steps += [fill(f"#field-{name}", order[name]) for name in optional]
    return (*steps, click("main button", "Place order"))


def _wanted_order(world: World, rng: random.Random, **more: str) -> dict[str, str]:
    account = world.accounts[world.customer]
    return {
        "name": account.full_name,
        "email": account.email,
        "country": rng.choice(COUNTRIES),
        "shipping": "standard",
        "payment": "invoice",
        **more,
    }


def _new_orders(world: World, first: int) -> list[Order]:
    return world.orders[first:]


def _is(order: Order, wanted: dict[str, str], lines: dict[int, int]) -> bool:
    return (
        order.lines == lines
        and order.gift_wrap == bool(wanted.get("gift_wrap"))
        and all(
            getattr(order, name) == wanted.get(name, "")
            for name in ("name", "email", "country", "shipping", "payment", "coupon")
        )
        and order.delivery_date == wanted.get("delivery_date", "")
    )


def _order_task(
    world: World, goal: str, wanted: dict[str, str], lines: dict[int, int], steps: tuple[Step, ...]
) -> Assignment:
    before = len(world.orders)

    def done(now: World) -> bool:
        placed = _new_orders(now, before)
        return len(placed) == 1 and _is(placed[0], wanted, lines)

    return Assignment(
        goal,
        done=done,
        spoiled=lambda w: len(w.orders) > before and not done(w),
        steps=steps,
    )


def _who(wanted: dict[str, str]) -> str:
    return f"for {wanted['name']} ({wanted['email']}) to {wanted['country']}"


@task("checkout-plain", difficulty=3, start="/cart")
def checkout_plain(world: World, rng: random.Random) -> Assignment:
    """A form with radio buttons, a select and a box that must be ticked."""
    lines, wanted = _fill_cart(world, rng), _wanted_order(world, rng)
    return _order_task(
        world,
        f"Order what is in the cart {_who(wanted)}, with standard shipping, paid by invoice.",
        wanted,
        lines,
        (click("main a", "Go to checkout"), *_order_steps(wanted)),
    )


@task("checkout-express-gift", difficulty=4, start="/products")
def checkout_express_gift(world: World, rng: random.Random) -> Assignment:
    """From the search to the order, with a date."""
    product = rng.choice(world.products)
    date = f"2030-{rng.randint(2, 12):02d}-{rng.randint(1, 28):02d}"
    wanted = _wanted_order(world, rng, shipping="express", gift_wrap="yes", delivery_date=date)
    return _order_task(
        world,
        f"Order one {product.name} {_who(wanted)} by express, wrapped as a gift, to be delivered "
        f"on {date}, paid by invoice.",
        wanted,
        {product.id: 1},
        (
            *open_product(product.name),
            click("main button", "Add to cart"),
            click("main a", "Go to checkout"),
            *_order_steps(wanted),
        ),
    )


@task("apply-partner-coupon", difficulty=5, start="/extras/popups")
def apply_partner_coupon(world: World, rng: random.Random) -> Assignment:
    """A code that another tab tells."""
    ((coupon, _),) = world.coupons.items()
    lines, wanted = _fill_cart(world, rng), _wanted_order(world, rng, coupon=coupon)
    return _order_task(
        world,
        "Find the coupon in our partner's offer, which opens in a new tab. Then order what is in "
        f"the cart with it, {_who(wanted)}, with standard shipping, paid by invoice.",
        wanted,
        lines,
        (
            click("main a", "Our partner's offer"),
            wait_until("body:not(:has(#size-chart))"),
            click('header a[href="/cart"]'),
            click("main a", "Go to checkout"),
            *_order_steps(wanted),
        ),
    )


@task("checkout-until-it-works", difficulty=4, start="/cart")
def checkout_until_it_works(world: World, rng: random.Random) -> Assignment:
    """A till that breaks down at first; the order is wanted once."""
    lines, wanted = _fill_cart(world, rng), _wanted_order(world, rng, shipping="pickup")
    world.failures_left = rng.randint(1, 2)
    again: list[Step] = []
    for _ in range(world.failures_left):
        again += [click("main a", "Back to the checkout"), *_order_steps(wanted)]
    return _order_task(
        world,
        f"Order what is in the cart {_who(wanted)}, to be picked up (shipping: pickup), paid by "
        "invoice. If the till is out of order, try again.",
        wanted,
        lines,
        (click("main a", "Go to checkout"), *_order_steps(wanted), *again),
    )


@task("pay-by-card", difficulty=5, start="/cart")
def pay_by_card(world: World, rng: random.Random) -> Assignment:
    """A form of another origin, in a frame."""
    lines = _fill_cart(world, rng)
    wanted = _wanted_order(world, rng, payment="card", shipping="pickup")
    before, card = len(world.orders), "".join(rng.choices("0123456789", k=16))

    def done(now: World) -> bool:
        placed = _new_orders(now, before)
        return len(placed) == 1 and placed[0].paid and _is(placed[0], wanted, lines)

    return Assignment(
        f"Order what is in the cart {_who(wanted)}, to be picked up (shipping: pickup), and pay by "
        f"card with the number {card}.",
        done=done,
        spoiled=lambda w: any(not _is(o, wanted, lines) for o in _new_orders(w, before)),
        # No ref reaches into the frame, but mouse and keyboard do.
        steps=(
            click("main a", "Go to checkout"),
            *_order_steps(wanted),
            click_inside("iframe", 10, 10),
            act(a.PressKey("Tab")),
            act(a.TypeText(card)),
            act(a.PressKey("Enter")),
            wait_for_end(),
        ),
    )


# Tasks with what browsers find hard: frames, shadow roots, editors, dragging, endless pages.


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
