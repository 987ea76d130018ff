"""The basket, vouchers and the checkout."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from webtraj.environments.browser.oracles import Step, click, fill, select, wait_until
from webtraj_apps.shop.assignments.account import new_address, reorderable
from webtraj_apps.shop.assignments.common import (
    CHECKOUT,
    ORDERED,
    assignment,
    await_saved,
    empty_basket,
    fill_all,
    free,
    lines_of,
    orders_of,
    product_of,
    search,
    take_out,
    task,
    to_account,
    to_basket,
    to_order,
    to_product,
)
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    added,
    anything,
    changed,
    in_new,
    removed,
)

_ADD = click(".add-to-basket button, #add_to_basket_form button", "Add to basket")


def set_quantity(product: Facts, count: int) -> tuple[Step, ...]:
    """Change the quantity of a product in the basket, whose page is open."""
    row = f".basket-items:has(a[href='{product['url']}'])"
    return (
        fill(f"{row} input[type=number]", str(count)),
        click(f"{row} button", "Update"),
        await_saved(),
    )


def add_to_basket(product: Facts, count: int = 1) -> tuple[Step, ...]:
    """Put pieces of a product into the basket; more than one end on its page."""
    more = (to_basket(), *set_quantity(product, count)) if count > 1 else ()
    return (*to_product(product), _ADD, *more)


def check_out(address: Facts, method: str) -> tuple[Step, ...]:
    """Order what is in the basket, whose page is open, to an address of the address book."""
    return (click("a", "Proceed to checkout"), *_choose_address(address), *_finish_order(method))


def _any_voucher(facts: Facts, rng: random.Random) -> dict[str, Any]:
    """Choose a voucher for baskets of any value."""
    return rng.choice([one for one in facts["vouchers"] if one["active"] and not one["least"]])


def _use_voucher(code: str) -> tuple[Step, ...]:
    """Give a voucher's code on the basket's page."""
    return (
        click("a", "I have a voucher code..."),
        wait_until("#voucher_form_container:not([style*='none']) #id_code"),
        fill("#id_code", code),
        click("button", "Add voucher"),
    )


def expect_line(facts: Facts, product: Facts, count: int) -> Expected:
    """Expect a product in the user's basket."""
    return added(
        "basket_line", basket_id=facts["basket"]["id"], product_id=product["id"], quantity=count
    )


@task("shop/add", level=1, split="train")
def _add(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(free(facts))
    return assignment(
        f"Put one {product['title']} in the basket.",
        add_to_basket(product),
        expect=expect_line(facts, product, 1),
    )


@task("shop/add-several", level=2, split="train")
def _add_several(facts: Facts, rng: random.Random) -> Assignment:
    product, count = rng.choice(free(facts)), rng.randint(2, 12)
    return assignment(
        f"Put {count} pieces of the {product['title']} in the basket.",
        add_to_basket(product, count),
        expect=expect_line(facts, product, count),
    )


@task("shop/remove", level=1, split="train")
def _remove(facts: Facts, rng: random.Random) -> Assignment:
    (first, line, _), (second, other, count) = rng.sample(lines_of(facts), 2)
    new = rng.choice([n for n in range(1, 10) if n != count])
    return assignment(
        f"Remove the {first['title']} from my basket, and change the quantity of the "
        f"{second['title']} to {new}.",
        to_basket(),
        take_out(first),
        set_quantity(second, new),
        expect=(
            removed("basket_line", id=line),
            changed("basket_line", {"id": other}, quantity=new),
        ),
    )


@task("shop/later", level=1, split="test")
def _later(facts: Facts, rng: random.Random) -> Assignment:
    (first, line, _), (second, other, count) = rng.sample(lines_of(facts), 2)
    new = rng.choice([n for n in range(1, 10) if n != count])
    return assignment(
        f"In my basket, save the {first['title']} for later, and change the quantity of the "
        f"{second['title']} to {new}.",
        to_basket(),
        take_out(first, "Save for later"),
        set_quantity(second, new),
        allow=(
            added("basket_basket", status="Saved", owner_id=facts["people"][0]["id"]),
            changed("basket_basket", {"id": facts["basket"]["id"]}, date_merged=anything),
        ),
        expect=(
            changed("basket_line", {"id": line}, basket_id=lambda n: n != facts["basket"]["id"]),
            changed("basket_line", {"id": other}, quantity=new),
        ),
    )


@task("shop/swap", level=2, split="test")
def _swap(facts: Facts, rng: random.Random) -> Assignment:
    old, line, _ = rng.choice(lines_of(facts))
    product, count = rng.choice(free(facts)), rng.randint(2, 9)
    return assignment(
        f"I do not want the {old['title']} any more. Replace it in my basket by {count} pieces of "
        f"the {product['title']}.",
        to_basket(),
        take_out(old),
        add_to_basket(product, count),
        expect=(removed("basket_line", id=line), expect_line(facts, product, count)),
    )


@task("shop/list-to-basket", level=3, split="train")
def _list_to_basket(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    skipped = rng.choice(wishes["lines"])
    products = [product_of(facts, line["product"]) for line in wishes["lines"] if line != skipped]
    return assignment(
        f"Put one piece of everything on my wish list “{wishes['name']}” in the basket, except the "
        f"{product_of(facts, skipped['product'])['title']}. Leave the wish list as it is.",
        [
            (
                to_account("Wish Lists"),
                click("td a", wishes["name"]),
                click(f"tr a.btn[href='{product['url']}']"),
                _ADD,
            )
            for product in products
        ],
        expect=[expect_line(facts, product, 1) for product in products],
    )


@task("shop/three-cheapest", level=3, split="train")
def _three_cheapest(facts: Facts, rng: random.Random) -> Assignment:
    taken = {product["id"] for product, _, _ in lines_of(facts)}
    cheapest: dict[str, Facts] = {}
    for name in sorted({one["category"] for one in facts["products"]}):
        found = sorted(
            (one for one in facts["products"] if one["category"] == name),
            key=lambda one: float(one["price"]),
        )
        only = found[0]["price"] < found[1]["price"]
        if only and found[0]["stock"] and found[0]["id"] not in taken:
            cheapest[name] = found[0]
    names = rng.sample(sorted(cheapest), 3)
    urls = {one["name"]: one["url"] for one in facts["categories"]}
    return assignment(
        f"Put the cheapest product of each of these categories in the basket: {names[0]}, "
        f"{names[1]} and {names[2]}. One piece each.",
        [
            (
                click("a.dropdown-toggle", "Browse store"),
                click(".dropdown-item", "All products"),
                click(f".side_categories a[href='{urls[name]}']"),
                select("#id_sort_by", "price-asc"),
                click(f".product_pod h3 a[href='{cheapest[name]['url']}']"),
                _ADD,
            )
            for name in names
        ],
        expect=[expect_line(facts, cheapest[name], 1) for name in names],
    )


@task("shop/voucher", level=2, split="train")
def _voucher(facts: Facts, rng: random.Random) -> Assignment:
    product, line, count = rng.choice(lines_of(facts))
    new = rng.choice([n for n in range(2, 15) if n != count])
    chosen = _any_voucher(facts, rng)
    return assignment(
        f"Change the quantity of the {product['title']} in my basket to {new}, and use the voucher "
        f"code {chosen['code']} for the basket. Do not order yet.",
        to_basket(),
        set_quantity(product, new),
        _use_voucher(chosen["code"]),
        expect=(
            changed("basket_line", {"id": line}, quantity=new),
            added(
                "basket_basket_vouchers",
                basket_id=facts["basket"]["id"],
                voucher_id=chosen["id"],
            ),
        ),
    )


# Checkout.


def _choose_address(address: Facts) -> tuple[Step, ...]:
    """Choose an address of the address book."""
    card = f"form:has(input[name=address_id][value='{address['id']}'])"
    return (click(f"{card} button[type=submit]"),)


def _finish_order(method: str) -> tuple[Step, ...]:
    """Choose the shipping method, and order."""
    return (
        click(f"form:has(input[value='{_CODES[method]}']) button"),
        click("#view_preview"),
        click("#place-order"),
    )


_CODES = dict(zip(CHECKOUT, ("standard", "express", "pickup"), strict=True))


def expect_order(
    facts: Facts, lines: Iterable[tuple[Facts, int]], method: str, address: Facts
) -> tuple[Expected, ...]:
    """Expect what an order adds."""
    fields: dict[str, Any] = {
        name: address[name] for name in ("first_name", "last_name", "line1", "line4", "postcode")
    }
    return (
        added(
            "order_order",
            user_id=facts["people"][0]["id"],
            shipping_method=method,
            shipping_address_id=in_new("order_shippingaddress"),
        ),
        *(
            added(
                "order_line", order_id=in_new("order_order"), product_id=one["id"], quantity=count
            )
            for one, count in lines
        ),
        added("order_shippingaddress", country_id="GB", **fields),
    )


def name_of(address: Facts) -> str:
    """Return what goals call an address."""
    return f"{address['line1']}, {address['line4']}"


@task("shop/checkout", level=2, split="train")
def _checkout(facts: Facts, rng: random.Random) -> Assignment:
    address, method = rng.choice(facts["addresses"]), rng.choice(CHECKOUT)
    product, line, count = rng.choice(lines_of(facts))
    new = rng.choice([n for n in range(1, 12) if n != count])
    bought = [(one, new if one == product else n) for one, _, n in lines_of(facts)]
    return assignment(
        f"Change the quantity of the {product['title']} in my basket to {new}, then order "
        f"everything in it. Ship it to {name_of(address)}; shipping method: {method}.",
        to_basket(),
        set_quantity(product, new),
        check_out(address, method),
        allow=ORDERED,
        expect=(
            changed("basket_line", {"id": line}, quantity=new),
            expect_order(facts, bought, method, address),
        ),
    )


@task("shop/buy", level=3, split="train")
def _buy(facts: Facts, rng: random.Random) -> Assignment:
    address, method = rng.choice(facts["addresses"]), rng.choice(CHECKOUT)
    product, count = rng.choice(free(facts)), rng.randint(2, 9)
    return assignment(
        f"Remove everything from my basket, then order {count} pieces of the {product['title']} "
        f"and nothing else. Ship it to {name_of(address)}; shipping method: {method}.",
        to_basket(),
        empty_basket(facts),
        add_to_basket(product, count),
        check_out(address, method),
        allow=ORDERED,
        expect=(
            [removed("basket_line", id=line) for _, line, _ in lines_of(facts)],
            expect_line(facts, product, count),
            expect_order(facts, [(product, count)], method, address),
        ),
    )


@task("shop/ship-to-new-address", level=3, split="test")
def _ship_to_new_address(facts: Facts, rng: random.Random) -> Assignment:
    fields, method = new_address(facts, rng), rng.choice(CHECKOUT[:2])
    product = rng.choice(free(facts))
    bought = [*((one, n) for one, _, n in lines_of(facts)), (product, 1)]
    return assignment(
        f"Add one {product['title']} to my basket and order everything in it. Ship it to this new "
        f"address: {fields['first_name']} {fields['last_name']}, {fields['line1']}, "
        f"{fields['line4']}, {fields['postcode']}, United Kingdom; shipping method: {method}.",
        add_to_basket(product),
        to_basket(),
        click("a", "Proceed to checkout"),
        fill_all(fields),
        select("#id_country", "United Kingdom"),
        click("#new_shipping_address button[type=submit]"),
        _finish_order(method),
        # The address is kept for the next time.
        allow=(*ORDERED, added("address_useraddress", **{"country_id": "GB"} | fields)),
        expect=(expect_line(facts, product, 1), expect_order(facts, bought, method, fields)),
    )


@task("shop/order-with-voucher", level=3, split="train")
def _order_with_voucher(facts: Facts, rng: random.Random) -> Assignment:
    address, method = rng.choice(facts["addresses"]), rng.choice(CHECKOUT)
    chosen = _any_voucher(facts, rng)
    product = rng.choice([one for one in free(facts) if one["price"] > 30])
    bought = [*((one, n) for one, _, n in lines_of(facts)), (product, 1)]
    return assignment(
        f"Add one {product['title']} to my basket and order everything in it with the voucher code "
        f"{chosen['code']}. Ship it to {name_of(address)}; shipping method: {method}.",
        add_to_basket(product),
        to_basket(),
        _use_voucher(chosen["code"]),
        check_out(address, method),
        allow=(
            *ORDERED,
            added(
                "basket_basket_vouchers",
                basket_id=facts["basket"]["id"],
                voucher_id=chosen["id"],
            ),
        ),
        expect=(
            expect_line(facts, product, 1),
            expect_order(facts, bought, method, address),
            added("voucher_voucherapplication", voucher_id=chosen["id"]),
        ),
    )


@task("shop/order-again", level=3, split="test")
def _order_again(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(reorderable(facts))
    address, method = rng.choice(facts["addresses"]), rng.choice(CHECKOUT)
    bought = [(product_of(facts, line["product"]), line["quantity"]) for line in order["lines"]]
    return assignment(
        f"Remove everything from my basket. Then order everything from my order {order['number']} "
        f"once more, in the same quantities. Ship it to {name_of(address)}; shipping method: "
        f"{method}.",
        to_basket(),
        empty_basket(facts),
        to_order(order["number"]),
        click("button", "Re-order all items"),
        check_out(address, method),
        allow=ORDERED,
        expect=(
            [removed("basket_line", id=line) for _, line, _ in lines_of(facts)],
            [expect_line(facts, product, count) for product, count in bought],
            expect_order(facts, bought, method, address),
        ),
    )


# What cannot be done.


@task("shop/unknown-product", level=1, split="train", infeasible=True)
def _unknown_product(facts: Facts, rng: random.Random) -> Assignment:
    titles = [str(one["title"]) for one in facts["products"]]
    while True:
        like, other = rng.sample(titles, 2)
        series, (_, _, rest) = other.split()[0], like.partition(" ")
        if not any(
            one.startswith(series) and one.split()[-1] == rest.split()[-1] for one in titles
        ):
            break
    return assignment(
        f"Put one {series} {rest} in the basket.",
        search(f"{series} {rest}"),
    )


@task("shop/too-many", level=1, split="train", infeasible=True)
def _too_many(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice([one for one in facts["products"] if 0 < one["stock"] < 10])
    count = product["stock"] + rng.randint(5, 40)
    return assignment(
        f"Put {count} pieces of the {product['title']} in the basket.",
        to_product(product),
        # Who tries may leave fewer.
        allow=(
            added("basket_line", product_id=product["id"]),
            changed("basket_line", {"product_id": product["id"]}, quantity=anything),
        ),
    )


@task("shop/dead-voucher", level=1, split="train", infeasible=True)
def _dead_voucher(facts: Facts, rng: random.Random) -> Assignment:
    codes = [one["code"] for one in facts["vouchers"] if not one["active"]]
    letters = "".join(rng.sample("BCDFGHKLMNP", 5))
    code = rng.choice([*codes, f"{letters}{rng.randint(5, 50)}"])
    return assignment(
        f"Use the voucher code {code} for my basket.",
        to_basket(),
        _use_voucher(code),
    )


@task("shop/change-old-order", level=1, split="train", infeasible=True)
def _change_old_order(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts, facts["user"]))
    line = rng.choice(order["lines"])
    return assignment(
        f"In my order {order['number']}, change the quantity of the {line['title']} to "
        f"{line['quantity'] + rng.randint(1, 5)}.",
        to_order(order["number"]),
    )
