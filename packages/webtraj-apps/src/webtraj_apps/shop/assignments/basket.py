"""The basket, vouchers and the checkout."""

from __future__ import annotations

import random
from collections.abc import Iterable

from webtraj.environments.browser.oracles import Step, click, fill, wait_until
from webtraj_apps.shop.assignments.account import (
    describe,
    fill_address,
    name_of,
    new_address,
    order_again,
    reorderable,
    to_list,
)
from webtraj_apps.shop.assignments.common import (
    CHECKOUT,
    ORDERED,
    Line,
    await_saved,
    expect_line,
    fill_form,
    free,
    in_category,
    lines_of,
    open_in_category,
    orders_of,
    price_of,
    product_of,
    task,
    to_basket,
    to_order,
    to_product,
)
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Parts,
    added,
    anything,
    assign,
    changed,
    changed_row,
    find_best,
    in_new,
    other_than,
    removed,
)

_CHECK_OUT = click("a", "Proceed to checkout")


# Steps with the changes that they make.


def add_to_basket(facts: Facts, product: Facts, count: int = 1) -> Parts:
    """Put pieces of a product into the basket; for several, end on the basket's page."""
    more = (to_basket(), _fill_quantity(product, count)) if count > 1 else ()
    return to_product(product), _add_shown(facts, product, count), more


def _add_shown(facts: Facts, product: Facts, count: int = 1) -> Parts:
    """Put the open product into the basket, and expect `count` pieces there in the end."""
    add = click(".add-to-basket button, #add_to_basket_form button", "Add to basket")
    return add, expect_line(facts, product["id"], count)


def set_quantity(line: Line, count: int) -> Parts:
    """Change the quantity of a product in the basket, whose page is open."""
    new = changed("basket_line", {"id": line.id}, quantity=count)
    return _fill_quantity(line.product, count), new


def _fill_quantity(product: Facts, count: int) -> tuple[Step, ...]:
    row = f".basket-items:has(a[href='{product['url']}'])"
    number = fill(f"{row} input[type=number]", str(count))
    return number, click(f"{row} button", "Update"), await_saved()


def take_out(line: Line) -> Parts:
    """Remove a product from the basket, whose page is open."""
    return _click_line(line, "Remove"), removed("basket_line", id=line.id)


def _click_line(line: Line, text: str) -> tuple[Step, ...]:
    return click(f".basket-items:has(a[href='{line.product['url']}']) a", text), await_saved()


def empty_basket(facts: Facts) -> Parts:
    """Open the basket and remove everything from it."""
    return to_basket(), [take_out(line) for line in lines_of(facts)]


def check_out(
    facts: Facts, bought: Iterable[tuple[Facts, int]], address: Facts, method: str
) -> Parts:
    """Order what is in the basket, whose page is open, to an address of the address book."""
    card = f"form:has(input[name=address_id][value='{address['id']}'])"
    choose = click(f"{card} button[type=submit]")
    return _CHECK_OUT, choose, _finish_order(facts, bought, address, method)


_CODES = dict(zip(CHECKOUT, ("standard", "express", "pickup"), strict=True))


def _finish_order(
    facts: Facts, bought: Iterable[tuple[Facts, int]], address: Facts, method: str
) -> Parts:
    """Choose the shipping method, and order."""
    place = {name: address[name] for name in _PLACE}
    return (
        click(f"form:has(input[value='{_CODES[method]}']) button"),
        (click("#view_preview"), click("#place-order")),
        added(
            "order_order",
            user_id=facts["people"][0]["id"],
            shipping_method=method,
            shipping_address_id=in_new("order_shippingaddress"),
        ),
        [
            added(
                "order_line", order_id=in_new("order_order"), product_id=one["id"], quantity=count
            )
            for one, count in bought
        ],
        added("order_shippingaddress", country_id="GB", **place),
    )


_PLACE = ("first_name", "last_name", "line1", "line4", "postcode")


def bought_with(facts: Facts, product: Facts, count: int = 1) -> list[tuple[Facts, int]]:
    """Return the products and quantities in the basket after a product is added."""
    lines = [(line.product, line.quantity) for line in lines_of(facts)]
    return [*lines, (product, count)]


def _draw_voucher(facts: Facts, rng: random.Random) -> tuple[str, int, Expected]:
    """Draw a voucher without a minimum; return its code, its id, and the row that its use adds."""
    voucher = rng.choice([one for one in facts["vouchers"] if one["active"] and not one["least"]])
    row = {"basket_id": facts["basket"]["id"], "voucher_id": voucher["id"]}
    return voucher["code"], voucher["id"], added("basket_basket_vouchers", **row)


def _use_voucher(code: str) -> tuple[Step, ...]:
    """Enter a voucher's code on the basket's page."""
    return (
        click("a", "I have a voucher code..."),
        wait_until("#voucher_form_container:not([style*='none']) #id_code"),
        *fill_form(code=code),
        click("button", "Add voucher"),
    )


# The basket.


@task("shop/add", level=1, split="train")
def _add(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(free(facts))
    return assign(f"Put one {product['title']} in the basket.", add_to_basket(facts, product))


@task("shop/add-several", level=2, split="train")
def _add_several(facts: Facts, rng: random.Random) -> Assignment:
    product, count = rng.choice(free(facts)), rng.randint(2, 12)
    return assign(
        f"Put {count} pieces of the {product['title']} in the basket.",
        add_to_basket(facts, product, count),
    )


@task("shop/remove", level=1, split="train")
def _remove(facts: Facts, rng: random.Random) -> Assignment:
    first, second = rng.sample(lines_of(facts), 2)
    new = other_than(rng, range(1, 10), second.quantity)
    return assign(
        f"Remove the {first.product['title']} from my basket, and change the quantity of the "
        f"{second.product['title']} to {new}.",
        (to_basket(), take_out(first), set_quantity(second, new)),
    )


@task("shop/later", level=1, split="test")
def _later(facts: Facts, rng: random.Random) -> Assignment:
    first, second = rng.sample(lines_of(facts), 2)
    new = other_than(rng, range(1, 10), second.quantity)
    return assign(
        f"In my basket, save the {first.product['title']} for later, and change the quantity of "
        f"the {second.product['title']} to {new}.",
        (to_basket(), _click_line(first, "Save for later")),
        changed("basket_line", {"id": first.id}, basket_id=lambda n: n != facts["basket"]["id"]),
        set_quantity(second, new),
        allow=(
            added("basket_basket", status="Saved", owner_id=facts["people"][0]["id"]),
            changed_row("basket_basket", facts["basket"], date_merged=anything),
        ),
    )


@task("shop/swap", level=2, split="test")
def _swap(facts: Facts, rng: random.Random) -> Assignment:
    old = rng.choice(lines_of(facts))
    product, count = rng.choice(free(facts)), rng.randint(2, 9)
    return assign(
        f"I do not want the {old.product['title']} any more. Replace it in my basket by {count} "
        f"pieces of the {product['title']}.",
        (to_basket(), take_out(old), add_to_basket(facts, product, count)),
    )


@task("shop/list-to-basket", level=3, split="train")
def _list_to_basket(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    skipped = rng.choice(wishes["lines"])
    products = [product_of(facts, line["product"]) for line in wishes["lines"] if line != skipped]
    return assign(
        f"Put one piece of everything on my wish list “{wishes['name']}” in the basket, except the "
        f"{product_of(facts, skipped['product'])['title']}. Leave the wish list as it is.",
        [
            (to_list(wishes), click(f"tr a.btn[href='{one['url']}']"), _add_shown(facts, one))
            for one in products
        ],
    )


@task("shop/three-cheapest", level=3, split="train")
def _three_cheapest(facts: Facts, rng: random.Random) -> Assignment:
    taken = {line.product["id"] for line in lines_of(facts)}
    categories = sorted({one["category"] for one in facts["products"]})
    cheapest = [find_best(in_category(facts, name), price_of, min) for name in categories]
    fits = [one for one in cheapest if one and one["stock"] and one["id"] not in taken]
    chosen = rng.sample(fits, 3)
    names = [one["category"] for one in chosen]
    return assign(
        f"Put the cheapest product of each of these categories in the basket: {names[0]}, "
        f"{names[1]} and {names[2]}. One piece each.",
        [(open_in_category(facts, one, "price-asc"), _add_shown(facts, one)) for one in chosen],
    )


@task("shop/voucher", level=2, split="train")
def _voucher(facts: Facts, rng: random.Random) -> Assignment:
    line = rng.choice(lines_of(facts))
    new = other_than(rng, range(2, 15), line.quantity)
    code, _, used = _draw_voucher(facts, rng)
    return assign(
        f"Change the quantity of the {line.product['title']} in my basket to {new}, and use the "
        f"voucher code {code} for the basket. Do not order yet.",
        (to_basket(), set_quantity(line, new), _use_voucher(code), used),
    )


# Checkout.


def draw_shipping(facts: Facts, rng: random.Random) -> tuple[Facts, str, str]:
    """Draw an address and a shipping method; return them, and a sentence for the goal."""
    address, method = rng.choice(facts["addresses"]), rng.choice(CHECKOUT)
    return address, method, f"Ship it to {name_of(address)}; shipping method: {method}."


@task("shop/checkout", level=2, split="train", allow=ORDERED)
def _checkout(facts: Facts, rng: random.Random) -> Assignment:
    address, method, ship = draw_shipping(facts, rng)
    line = rng.choice(lines_of(facts))
    new = other_than(rng, range(1, 12), line.quantity)
    bought = [(one.product, new if one == line else one.quantity) for one in lines_of(facts)]
    return assign(
        f"Change the quantity of the {line.product['title']} in my basket to {new}, then order "
        f"everything in it. {ship}",
        (to_basket(), set_quantity(line, new), check_out(facts, bought, address, method)),
    )


@task("shop/buy", level=3, split="train", allow=ORDERED)
def _buy(facts: Facts, rng: random.Random) -> Assignment:
    address, method, ship = draw_shipping(facts, rng)
    product, count = rng.choice(free(facts)), rng.randint(2, 9)
    return assign(
        f"Remove everything from my basket, then order {count} pieces of the {product['title']} "
        f"and nothing else. {ship}",
        (empty_basket(facts), add_to_basket(facts, product, count)),
        check_out(facts, [(product, count)], address, method),
    )


@task("shop/ship-to-new-address", level=3, split="test")
def _ship_to_new_address(facts: Facts, rng: random.Random) -> Assignment:
    fields, method = new_address(facts, rng), rng.choice(CHECKOUT[:2])
    product = rng.choice(free(facts))
    return assign(
        f"Add one {product['title']} to my basket and order everything in it. Ship it to this new "
        f"address: {describe(fields)}; shipping method: {method}.",
        (add_to_basket(facts, product), to_basket(), _CHECK_OUT, fill_address(fields)),
        click("#new_shipping_address button[type=submit]"),
        _finish_order(facts, bought_with(facts, product), fields, method),
        # The shop may keep the address in the address book.
        allow=(*ORDERED, added("address_useraddress", country_id="GB", **fields)),
    )


@task("shop/order-with-voucher", level=3, split="train")
def _order_with_voucher(facts: Facts, rng: random.Random) -> Assignment:
    address, method, ship = draw_shipping(facts, rng)
    code, voucher, used = _draw_voucher(facts, rng)
    product = rng.choice([one for one in free(facts) if one["price"] > 30])
    return assign(
        f"Add one {product['title']} to my basket and order everything in it with the voucher code "
        f"{code}. {ship}",
        (add_to_basket(facts, product), to_basket(), _use_voucher(code)),
        check_out(facts, bought_with(facts, product), address, method),
        added("voucher_voucherapplication", voucher_id=voucher),
        allow=(*ORDERED, used),
    )


@task("shop/order-again", level=3, split="test", allow=ORDERED)
def _order_again(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(reorderable(facts))
    address, method, ship = draw_shipping(facts, rng)
    bought = [(product_of(facts, line["product"]), line["quantity"]) for line in order["lines"]]
    return assign(
        f"Remove everything from my basket. Then order everything from my order {order['number']} "
        f"once more, in the same quantities. {ship}",
        (empty_basket(facts), order_again(facts, order)),
        check_out(facts, bought, address, method),
    )


# What cannot be done.


@task("shop/too-many", level=1, split="train", infeasible=True)
def _too_many(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice([one for one in facts["products"] if 0 < one["stock"] < 10])
    count = product["stock"] + rng.randint(5, 40)
    return assign(
        f"Put {count} pieces of the {product['title']} in the basket.",
        to_product(product),
        # An agent that tries may leave fewer pieces in the basket.
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
    return assign(f"Use the voucher code {code} for my basket.", to_basket(), _use_voucher(code))


@task("shop/change-old-order", level=1, split="train", infeasible=True)
def _change_old_order(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts))
    line = rng.choice(order["lines"])
    return assign(
        f"In my order {order['number']}, change the quantity of the {line['title']} to "
        f"{line['quantity'] + rng.randint(1, 5)}.",
        to_order(order),
    )
