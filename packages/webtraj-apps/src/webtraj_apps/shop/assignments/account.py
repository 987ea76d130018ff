"""The user's account: orders of the past, addresses, wish lists, alerts, messages, profile."""

from __future__ import annotations

import random

from webtraj.environments.browser.oracles import Step, click, fill, select
from webtraj_apps.shop.assignments.common import (
    choose,
    expect_line,
    fill_form,
    free,
    lines_of,
    orders_of,
    pounds,
    product_of,
    task,
    to_account,
    to_order,
    to_product,
)
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    Parts,
    added,
    anything,
    assign,
    changed_row,
    find_best,
    hash_of,
    removed,
)

_STREETS = ("Willow Court", "Foundry Lane", "Abbey Gate", "Lock Street", "Hill View", "Elm Grove")
_TOWNS = (
    ("Marbury", "MB2 5"),
    ("Coldwater", "CW9 1"),
    ("Tannerby", "TB4 7"),
    ("Oakhaven", "OH6 3"),
)
_LISTS = ("Garden plans", "Gifts for Mum", "Kitchen refit", "Wedding list", "Holiday house")
_SURNAMES = ("Ashdown", "Blackwood", "Carrow", "Dunning", "Everett", "Fairfax", "Gresham", "Holt")
_SAVE = click(".page form button", "Save")
_DELETE = click(".page form button", "Delete")

# Orders.


@task("shop/order-total", level=1, split="train")
def _order_total(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts))
    kind = rng.choice(("in total", "for the goods, without shipping"))
    goods = sum(line["price"] * line["quantity"] for line in order["lines"])
    return assign(
        f"How much was my order {order['number']} {kind}? Answer with the amount.",
        to_order(order),
        answer=pounds(order["total"] if kind == "in total" else goods),
    )


def _to_period(start: str, end: str) -> tuple[Step, ...]:
    """Show the orders of a period."""
    dates = fill_form(date_from=start, date_to=end)
    return (*to_account("Order History"), *dates, click(".page button", "Filter results"))


@task("shop/spent", level=1, split="train")
def _spent(facts: Facts, rng: random.Random) -> Assignment:
    mine = orders_of(facts)
    first = rng.randrange(len(mine) - 2)
    chosen = mine[first : rng.randint(first + 2, min(first + 5, len(mine)))]
    start, end = chosen[0]["date"], chosen[-1]["date"]
    return assign(
        f"What is the total of all my orders from {start} to {end}, both days included, whatever "
        "their status? Answer with the amount.",
        _to_period(start, end),
        answer=pounds(sum(one["total"] for one in mine if start <= one["date"] <= end)),
    )


@task("shop/find-order", level=2, split="train")
def _find_order(facts: Facts, rng: random.Random) -> Assignment:
    mine = orders_of(facts)[::-1]
    bought = [line["product"] for order in mine for line in order["lines"]]

    def bought_once(order: Facts) -> list[Facts]:
        return [line for line in order["lines"] if bought.count(line["product"]) == 1]

    place = rng.randrange(1, 8)
    while not bought_once(mine[place]):
        place -= 1
    line = rng.choice(bought_once(mine[place]))
    back = click(".page a.nav-link", "Order History")
    return assign(
        f"In which of my orders did I buy the {line['title']}, and how many pieces? "
        "Answer with the order number and the number of pieces, separated by a comma.",
        to_account("Order History"),
        [(click("table a", order["number"]), back) for order in mine[:place]],
        click("table a", mine[place]["number"]),
        answer=(mine[place]["number"], str(line["quantity"])),
    )


@task("shop/biggest-order", level=1, split="test")
def _biggest_order(facts: Facts, rng: random.Random) -> Assignment:
    def biggest(start: str, end: str) -> Facts | None:
        among = [one for one in mine if start <= one["date"] <= end]
        best: Facts | None = find_best(among, lambda one: float(one["total"]))
        return best

    mine = orders_of(facts)
    dates = sorted(one["date"] for one in mine)
    periods = [(start, end) for at, start in enumerate(dates) for end in dates[at + 2 :]]
    found = [(*period, best) for period in periods if (best := biggest(*period))]
    # Prefer periods without the dearest order: ignoring the period then gives a wrong answer.
    dearest = max(one["total"] for one in mine)
    start, end, best = rng.choice([one for one in found if one[2]["total"] < dearest] or found)
    return assign(
        f"Which of my orders from {start} to {end}, both days included, had the highest total? "
        "Answer with the order number and the shipping method, separated by a comma.",
        (_to_period(start, end), click("table a", best["number"])),
        answer=(best["number"], best["shipping"]),
    )


@task("shop/reorder", level=1, split="train")
def _reorder(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(reorderable(facts))
    return assign(
        f"Put everything from my order {order['number']} in the basket again, "
        "in the same quantities.",
        order_again(facts, order),
    )


def reorderable(facts: Facts) -> list[Facts]:
    """Return the user's orders whose products are all in stock, and none in the basket."""
    taken = {line.product["id"] for line in lines_of(facts)}

    def is_there(line: Facts) -> bool:
        stock = product_of(facts, line["product"])["stock"]
        return line["product"] not in taken and bool(stock >= line["quantity"])

    return [order for order in orders_of(facts) if all(map(is_there, order["lines"]))]


def order_again(facts: Facts, order: Facts) -> Parts:
    """Put everything from an order into the basket."""
    return (
        to_order(order),
        click("button", "Re-order all items"),
        [expect_line(facts, line["product"], line["quantity"]) for line in order["lines"]],
    )


# Addresses.


def name_of(address: Facts) -> str:
    """Return the short form of an address, for goals."""
    return f"{address['line1']}, {address['line4']}"


def describe(fields: Facts) -> str:
    """Return a new address in full, for goals."""
    names = f"{fields['first_name']} {fields['last_name']}"
    return f"{names}, {name_of(fields)}, {fields['postcode']}, United Kingdom"


def new_address(facts: Facts, rng: random.Random) -> dict[str, str]:
    """Draw the fields of an address that the user does not have."""
    person = rng.choice(facts["people"][2:])
    town, code = rng.choice(_TOWNS)
    first, _, last = str(person["name"]).partition(" ")
    return {
        "first_name": first,
        "last_name": last,
        "line1": f"{rng.randint(1, 99)} {rng.choice(_STREETS)}",
        "line4": town,
        "postcode": f"{code}{rng.choice('ABDEF')}{rng.choice('GHJLN')}",
    }


def fill_address(fields: dict[str, str]) -> tuple[Step, ...]:
    """Fill in the form of a new address."""
    return (*fill_form(**fields), select("#id_country", "United Kingdom"))


@task("shop/add-address", level=2, split="train")
def _add_address(facts: Facts, rng: random.Random) -> Assignment:
    fields = new_address(facts, rng)
    plain = {"country_id": "GB", "is_default_for_shipping": 0, "is_default_for_billing": 0}
    return assign(
        f"Add this address to my address book: {describe(fields)}.",
        (to_account("Address Book"), click("a.btn", "Add a new address")),
        (fill_address(fields), _SAVE),
        added("address_useraddress", **fields, **plain),
    )


@task("shop/edit-address", level=1, split="test")
def _edit_address(facts: Facts, rng: random.Random) -> Assignment:
    address = rng.choice(facts["addresses"])
    new = new_address(facts, rng)
    changes = {"line1": new["line1"], "postcode": new["postcode"]}
    derived = {"search_text": anything, "hash": anything}
    return assign(
        f"Change my address in {address['line4']}: the street is now {new['line1']}, and the "
        f"postcode {new['postcode']}. Leave the rest as it is.",
        (to_account("Address Book"), click(f"a.btn[href$='/addresses/{address['id']}/']")),
        (fill_form(**changes), _SAVE),
        changed_row("address_useraddress", address, **changes, **derived),
    )


def _choose_address(address: Facts, path: str) -> tuple[Step, ...]:
    """Choose from the menu of an address."""
    menu = choose(f"href$='/addresses/{address['id']}/'", f"[href*='{path}']")
    return *to_account("Address Book"), *menu


@task("shop/delete-address", level=1, split="train")
def _delete_address(facts: Facts, rng: random.Random) -> Assignment:
    address = rng.choice(facts["addresses"])
    return assign(
        f"Delete the address {name_of(address)} from my address book.",
        (_choose_address(address, "/delete/"), _DELETE),
        removed("address_useraddress", id=address["id"]),
    )


@task("shop/default-address", level=1, split="train")
def _default_address(facts: Facts, rng: random.Random) -> Assignment:
    old, address = facts["addresses"][0], rng.choice(facts["addresses"][1:])
    use = rng.choice(("shipping", "billing"))
    column = f"is_default_for_{use}"
    return assign(
        f"Make {name_of(address)} my default {use} address.",
        _choose_address(address, f"/default_for_{use}/"),
        changed_row("address_useraddress", address, **{column: 1}),
        changed_row("address_useraddress", old, **{column: 0}),
    )


# Wish lists.


def to_list(wishes: Facts) -> tuple[Step, ...]:
    """Open a wish list."""
    return *to_account("Wish Lists"), click("td a", wishes["name"])


def _draw_wish(facts: Facts, rng: random.Random) -> tuple[Facts, Facts, Facts]:
    """Draw a line of a wish list; return the list, the line and its product."""
    wishes = rng.choice(facts["wishlists"])
    line = rng.choice(wishes["lines"])
    return wishes, line, product_of(facts, line["product"])


@task("shop/wish", level=1, split="train")
def _add_wish(facts: Facts, rng: random.Random) -> Assignment:
    product, wishes = rng.choice(free(facts)), rng.choice(facts["wishlists"])
    return assign(
        f"Add the {product['title']} to my wish list “{wishes['name']}”.",
        (to_product(product), click(".product_main a.dropdown-toggle")),
        click(f".dropdown-item[href*='/{wishes['key']}/']"),
        added("wishlists_line", wishlist_id=wishes["id"], product_id=product["id"], quantity=1),
    )


@task("shop/unwish", level=1, split="train")
def _unwish(facts: Facts, rng: random.Random) -> Assignment:
    wishes, line, product = _draw_wish(facts, rng)
    return assign(
        f"Remove the {product['title']} from my wish list “{wishes['name']}”.",
        (to_list(wishes), choose(f"href='{product['url']}'", "[href$='/delete/']")),
        click(".page form button"),
        removed("wishlists_line", id=line["id"]),
    )


@task("shop/move-wish", level=1, split="test")
def _move_wish(facts: Facts, rng: random.Random) -> Assignment:
    wishes, line, product = _draw_wish(facts, rng)
    other = next(one for one in facts["wishlists"] if one["id"] != wishes["id"])
    return assign(
        f"Move the {product['title']} from my wish list “{wishes['name']}” to the list "
        f"“{other['name']}”.",
        (to_list(wishes), choose(f"href='{product['url']}'", "[href*='/move-to/']")),
        changed_row("wishlists_line", line, wishlist_id=other["id"]),
    )


@task("shop/wish-quantities", level=1, split="train")
def _wish_quantities(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    lines = rng.sample(wishes["lines"], 2)
    counts = [rng.randint(2, 12) for _ in lines]
    first, second = (product_of(facts, line["product"]) for line in lines)
    return assign(
        f"On my wish list “{wishes['name']}”, change the quantity of the {first['title']} to "
        f"{counts[0]} and of the {second['title']} to {counts[1]}.",
        to_list(wishes),
        [
            (
                fill(f"tr:has(a[href='{product['url']}']) input[type=number]", str(count)),
                changed_row("wishlists_line", line, quantity=count),
            )
            for product, line, count in zip((first, second), lines, counts, strict=True)
        ],
        click(".page form button", "Update quantities"),
    )


@task("shop/new-list", level=1, split="train")
def _new_list(facts: Facts, rng: random.Random) -> Assignment:
    name, visibility = rng.choice(_LISTS), rng.choice(("Private", "Public"))
    name = f"{name} {rng.randint(2026, 2031)}"
    return assign(
        f"Make a new, {visibility.lower()} wish list with the name “{name}”.",
        (to_account("Wish Lists"), click("a.btn", "Create a new wish list")),
        (fill_form(name=name), select("#id_visibility", visibility), _SAVE),
        added("wishlists_wishlist", name=name, visibility=visibility),
    )


def _choose_list(key: str, action: str) -> tuple[Step, ...]:
    """Choose from the menu of a wish list."""
    return *to_account("Wish Lists"), *choose(f"href$='/{key}/'", f"[href$='/{action}/']")


@task("shop/rename-list", level=1, split="train")
def _rename_list(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    name = f"{rng.choice(_LISTS)} {rng.randint(2026, 2031)}"
    return assign(
        f"Rename my wish list “{wishes['name']}” to “{name}”.",
        (_choose_list(wishes["key"], "update"), fill_form(name=name), _SAVE),
        changed_row("wishlists_wishlist", wishes, name=name),
    )


@task("shop/delete-list", level=1, split="test")
def _delete_list(facts: Facts, rng: random.Random) -> Assignment:
    year, user = rng.randint(2026, 2031), facts["people"][0]["id"]
    names = [f"{name} {year}" for name in _LISTS]
    chosen = rng.randrange(len(names))
    add = (
        "INSERT INTO wishlists_wishlist (name, key, visibility, owner_id, date_created)"
        " VALUES (?, ?, 'Private', ?, '2026-01-12 10:00:00')"
    )
    return assign(
        f"Delete my wish list “{names[chosen]}”.",
        (_choose_list(f"{year}l{chosen}", "delete"), _DELETE),
        removed("wishlists_wishlist", name=names[chosen]),
        prepare=[(add, (name, f"{year}l{at}", user)) for at, name in enumerate(names)],
    )


@task("shop/list-value", level=3, split="train")
def _list_value(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    lines = [(line, rng.randint(1, 4)) for line in wishes["lines"]]
    products = [product_of(facts, line["product"]) for line, _ in lines]
    total = sum(one["price"] * n for one, (_, n) in zip(products, lines, strict=True))
    change = "UPDATE wishlists_line SET quantity = ? WHERE id = ?"
    return assign(
        f"What would everything on my wish list “{wishes['name']}” cost in the quantities given "
        "there, before offers and delivery? Answer with the amount.",
        to_list(wishes),
        [(click(f"tr a.btn[href='{product['url']}']"), to_list(wishes)) for product in products],
        prepare=[(change, (count, line["id"])) for line, count in lines],
        answer=pounds(total),
    )


# Alerts and notifications.


def _alerts(facts: Facts) -> tuple[list[Facts], list[Facts]]:
    """Return the user's alerts, and the products without one."""
    mine = [one for one in facts["alerts"] if one["user"] == facts["user"]]
    waiting = {one["product"] for one in mine}
    return mine, [one for one in facts["products"] if one["id"] not in waiting]


@task("shop/alert", level=1, split="train")
def _alert(facts: Facts, rng: random.Random) -> Assignment:
    _, others = _alerts(facts)
    product = rng.choice([one for one in others if not one["stock"]])
    return assign(
        f"The {product['title']} is sold out. Have the shop notify me when it is back in stock.",
        (to_product(product), click("#alert_form button")),
        added("customer_productalert", product_id=product["id"], status="Active"),
    )


@task("shop/cancel-alert", level=1, split="train")
def _cancel_alert(facts: Facts, rng: random.Random) -> Assignment:
    mine, others = _alerts(facts)
    # There are few alerts, so one of them gets another product.
    alert, product = rng.choice(mine), rng.choice(others)
    change = "UPDATE customer_productalert SET product_id = ? WHERE id = ?"
    return assign(
        f"I no longer want to be notified about the {product['title']}. Cancel that alert.",
        (to_account("Product Alerts"), click(f"tr:has(a[href='{product['url']}']) a.btn")),
        changed_row("customer_productalert", alert, status="Cancelled", date_cancelled=anything),
        prepare=[(change, (product["id"], alert["id"]))],
    )


@task("shop/archive", level=1, split="test")
def _archive(facts: Facts, rng: random.Random) -> Assignment:
    two = rng.sample(facts["notifications"], 2)
    verb = rng.choice(("Archive", "Delete"))
    return assign(
        f"{verb} the notifications “{two[0]['subject']}” and “{two[1]['subject']}” in my account.",
        to_account("Notifications"),
        [click(f"input[name=selected_notification][value='{one['id']}']") for one in two],
        click("button[name=action]", verb),
        [
            changed_row("communication_notification", one, location="Archive")
            if verb == "Archive"
            else removed("communication_notification", id=one["id"])
            for one in two
        ],
    )


# Profile.


def _edit_profile(facts: Facts, **fields: str) -> Parts:
    return (
        (to_account("Profile"), click("a.btn", "Edit profile"), fill_form(**fields), _SAVE),
        changed_row("auth_user", facts["people"][0], **fields),
    )


@task("shop/name", level=1, split="train")
def _name(facts: Facts, rng: random.Random) -> Assignment:
    last = rng.choice(_SURNAMES) + rng.choice(("", "-Smith", "-Jones", "-Reid", "-Lowe"))
    return assign(
        f"I have married: change my last name to {last}.",
        _edit_profile(facts, last_name=last),
    )


@task("shop/email", level=1, split="test")
def _email(facts: Facts, rng: random.Random) -> Assignment:
    name = facts["people"][0]["username"]
    address = f"{name}.{rng.choice(_SURNAMES).lower()}{rng.randint(1, 99)}@post.test"
    return assign(
        f"Change the email address of my account to {address}.",
        _edit_profile(facts, email=address),
    )


@task("shop/password", level=1, split="train")
def _password(facts: Facts, rng: random.Random) -> Assignment:
    new = f"{rng.choice(_SURNAMES).lower()}-{rng.choice(_LISTS).split()[0].lower()}-"
    new += str(rng.randint(100, 999))
    old = facts["password"]
    return assign(
        f"Change the password of my account from {old} to {new}.",
        (to_account("Profile"), click("a.btn", "Change password")),
        (fill_form(old_password=old, new_password1=new, new_password2=new), _SAVE),
        changed_row("auth_user", facts["people"][0], password=hash_of(new)),
    )


@task("shop/order-mail", level=1, split="train")
def _order_mail(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts))
    return assign(
        f"Look into the emails that the shop sent me: what amount does the confirmation of order "
        f"{order['number']} name? Answer with the amount.",
        to_account("Email History"),
        click("table a", f"Confirmation of order {order['number']}"),
        answer=pounds(order["total"]),
    )
