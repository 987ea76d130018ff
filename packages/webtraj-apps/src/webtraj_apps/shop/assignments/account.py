"""The user's account: orders of the past, addresses, wish lists, alerts, messages, profile."""

from __future__ import annotations

import random

from webtraj.environments.browser.oracles import Step, click, fill, select
from webtraj_apps.shop.assignments.common import (
    assignment,
    fill_all,
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
    added,
    anything,
    changed,
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

# Orders.


@task("shop/order-total", level=1, split="train")
def _order_total(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts, facts["user"]))
    kind = rng.choice(("in total", "for the goods, without shipping"))
    goods = sum(line["price"] * line["quantity"] for line in order["lines"])
    return assignment(
        f"How much was my order {order['number']} {kind}? Answer with the amount.",
        to_order(order["number"]),
        answer=pounds(order["total"] if kind == "in total" else goods),
    )


@task("shop/spent", level=1, split="train")
def _spent(facts: Facts, rng: random.Random) -> Assignment:
    mine = orders_of(facts, facts["user"])
    first = rng.randrange(len(mine) - 2)
    chosen = mine[first : rng.randint(first + 2, min(first + 5, len(mine)))]
    start, end = chosen[0]["date"], chosen[-1]["date"]
    total = sum(one["total"] for one in mine if start <= one["date"] <= end)
    return assignment(
        f"What is the total of all my orders from {start} to {end}, both days included, whatever "
        "their status? Answer with the amount.",
        to_account("Order History"),
        fill_all({"date_from": start, "date_to": end}),
        click(".page button", "Filter results"),
        answer=pounds(total),
    )


@task("shop/find-order", level=2, split="train")
def _find_order(facts: Facts, rng: random.Random) -> Assignment:
    mine = orders_of(facts, facts["user"])[::-1]
    bought = [line["product"] for order in mine for line in order["lines"]]
    place = rng.randrange(1, 8)
    lines = [line for line in mine[place]["lines"] if bought.count(line["product"]) == 1]
    while not lines:
        place -= 1
        lines = [line for line in mine[place]["lines"] if bought.count(line["product"]) == 1]
    line = rng.choice(lines)
    looking: list[Step] = []
    for order in mine[: place + 1]:
        looking += [click("table a", order["number"]), click(".page a.nav-link", "Order History")]
    return assignment(
        f"In which of my orders did I buy the {line['title']}, and how many pieces? "
        "Answer with the order number and the number of pieces, separated by a comma.",
        to_account("Order History"),
        looking[:-1],
        answer=(mine[place]["number"], str(line["quantity"])),
    )


@task("shop/biggest-order", level=1, split="test")
def _biggest_order(facts: Facts, rng: random.Random) -> Assignment:
    mine = orders_of(facts, facts["user"])
    dates = sorted(one["date"] for one in mine)
    periods = [
        sorted(
            (one for one in mine if start <= one["date"] <= end),
            key=lambda one: -float(one["total"]),
        )
        for place, start in enumerate(dates)
        for end in dates[place + 2 :]
    ]
    clear = [one for one in periods if one[0]["total"] != one[1]["total"]]
    # Who does not look at the period finds another order, if there is such a period.
    dearest = max(float(one["total"]) for one in mine)
    chosen = rng.choice([one for one in clear if float(one[0]["total"]) < dearest] or clear)
    start, end = min(one["date"] for one in chosen), max(one["date"] for one in chosen)
    return assignment(
        f"Which of my orders from {start} to {end}, both days included, had the highest total? "
        "Answer with the order number and the shipping method, separated by a comma.",
        to_account("Order History"),
        fill_all({"date_from": start, "date_to": end}),
        click(".page button", "Filter results"),
        click("table a", chosen[0]["number"]),
        answer=(chosen[0]["number"], chosen[0]["shipping"]),
    )


@task("shop/reorder", level=1, split="train")
def _reorder(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(reorderable(facts))
    return assignment(
        f"Put everything from my order {order['number']} in the basket again, "
        "in the same quantities.",
        to_order(order["number"]),
        click("button", "Re-order all items"),
        expect=[
            added(
                "basket_line",
                basket_id=facts["basket"]["id"],
                product_id=line["product"],
                quantity=line["quantity"],
            )
            for line in order["lines"]
        ],
    )


def reorderable(facts: Facts) -> list[Facts]:
    """Return the user's orders of which everything is in stock and nothing in the basket."""
    taken = {product["id"] for product, _, _ in lines_of(facts)}
    return [
        order
        for order in orders_of(facts, facts["user"])
        if all(
            line["product"] not in taken
            and product_of(facts, line["product"])["stock"] >= line["quantity"]
            for line in order["lines"]
        )
    ]


# Addresses.


def _format_address(address: Facts) -> str:
    return f"{address['line1']}, {address['line4']}"


def _menu(address: Facts, path: str) -> tuple[Step, ...]:
    """Choose from the menu of an address."""
    row = f"tr:has(a[href$='/addresses/{address['id']}/'])"
    return click(f"{row} .dropdown-toggle"), click(f"{row} .dropdown-item[href*='{path}']")


@task("shop/add-address", level=2, split="train")
def _add_address(facts: Facts, rng: random.Random) -> Assignment:
    fields = new_address(facts, rng)
    return assignment(
        f"Add this address to my address book: {fields['first_name']} {fields['last_name']}, "
        f"{fields['line1']}, {fields['line4']}, {fields['postcode']}, United Kingdom.",
        to_account("Address Book"),
        click("a.btn", "Add a new address"),
        fill_all(fields),
        select("#id_country", "United Kingdom"),
        click(".page form button", "Save"),
        expect=added(
            "address_useraddress",
            **fields,
            country_id="GB",
            is_default_for_shipping=0,
            is_default_for_billing=0,
        ),
    )


def new_address(facts: Facts, rng: random.Random) -> dict[str, str]:
    """Return the fields of an address that the user does not have."""
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


@task("shop/edit-address", level=1, split="test")
def _edit_address(facts: Facts, rng: random.Random) -> Assignment:
    address = rng.choice(facts["addresses"])
    new = new_address(facts, rng)
    changes = {"line1": new["line1"], "postcode": new["postcode"]}
    return assignment(
        f"Change my address in {address['line4']}: the street is now {new['line1']}, and the "
        f"postcode {new['postcode']}. Leave the rest as it is.",
        to_account("Address Book"),
        click(f"a.btn[href$='/addresses/{address['id']}/']"),
        fill_all(changes),
        click(".page form button", "Save"),
        expect=changed(
            "address_useraddress",
            {"id": address["id"]},
            **changes,
            search_text=anything,
            hash=anything,
        ),
    )


@task("shop/delete-address", level=1, split="train")
def _delete_address(facts: Facts, rng: random.Random) -> Assignment:
    address = rng.choice(facts["addresses"])
    return assignment(
        f"Delete the address {_format_address(address)} from my address book.",
        to_account("Address Book"),
        _menu(address, "/delete/"),
        click(".page form button", "Delete"),
        expect=removed("address_useraddress", id=address["id"]),
    )


@task("shop/default-address", level=1, split="train")
def _default_address(facts: Facts, rng: random.Random) -> Assignment:
    old, address = facts["addresses"][0], rng.choice(facts["addresses"][1:])
    use = rng.choice(("shipping", "billing"))
    column = f"is_default_for_{use}"
    return assignment(
        f"Make {_format_address(address)} my default {use} address.",
        to_account("Address Book"),
        _menu(address, f"/default_for_{use}/"),
        expect=(
            changed("address_useraddress", {"id": address["id"]}, **{column: 1}),
            changed("address_useraddress", {"id": old["id"]}, **{column: 0}),
        ),
    )


# Wish lists.


def _to_list(wishes: Facts) -> tuple[Step, ...]:
    return *to_account("Wish Lists"), click("td a", wishes["name"])


def _wish(facts: Facts, rng: random.Random) -> tuple[Facts, Facts, Facts]:
    """Return a wish list, a line of it, and its product."""
    wishes = rng.choice(facts["wishlists"])
    line = rng.choice(wishes["lines"])
    return wishes, line, product_of(facts, line["product"])


@task("shop/wish", level=1, split="train")
def _add_wish(facts: Facts, rng: random.Random) -> Assignment:
    product, wishes = rng.choice(free(facts)), rng.choice(facts["wishlists"])
    return assignment(
        f"Add the {product['title']} to my wish list “{wishes['name']}”.",
        to_product(product),
        click(".product_main a.dropdown-toggle"),
        click(f".dropdown-item[href*='/{wishes['key']}/']"),
        expect=added(
            "wishlists_line", wishlist_id=wishes["id"], product_id=product["id"], quantity=1
        ),
    )


@task("shop/unwish", level=1, split="train")
def _unwish(facts: Facts, rng: random.Random) -> Assignment:
    wishes, line, product = _wish(facts, rng)
    row = f"tr:has(a[href='{product['url']}'])"
    return assignment(
        f"Remove the {product['title']} from my wish list “{wishes['name']}”.",
        _to_list(wishes),
        click(f"{row} .dropdown-toggle"),
        click(f"{row} .dropdown-item[href$='/delete/']"),
        click(".page form button"),
        expect=removed("wishlists_line", id=line["id"]),
    )


@task("shop/move-wish", level=1, split="test")
def _move_wish(facts: Facts, rng: random.Random) -> Assignment:
    wishes, line, product = _wish(facts, rng)
    other = next(one for one in facts["wishlists"] if one["id"] != wishes["id"])
    row = f"tr:has(a[href='{product['url']}'])"
    return assignment(
        f"Move the {product['title']} from my wish list “{wishes['name']}” to the list "
        f"“{other['name']}”.",
        _to_list(wishes),
        click(f"{row} .dropdown-toggle"),
        click(f"{row} .dropdown-item[href*='/move-to/']"),
        expect=changed("wishlists_line", {"id": line["id"]}, wishlist_id=other["id"]),
    )


@task("shop/wish-quantities", level=1, split="train")
def _wish_quantities(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    lines = rng.sample(wishes["lines"], 2)
    counts = [rng.randint(2, 12) for _ in lines]
    first, second = (product_of(facts, line["product"]) for line in lines)
    return assignment(
        f"On my wish list “{wishes['name']}”, change the quantity of the {first['title']} to "
        f"{counts[0]} and of the {second['title']} to {counts[1]}.",
        _to_list(wishes),
        [
            fill(f"tr:has(a[href='{product['url']}']) input[type=number]", str(count))
            for product, count in zip((first, second), counts, strict=True)
        ],
        click(".page form button", "Update quantities"),
        expect=[
            changed("wishlists_line", {"id": line["id"]}, quantity=count)
            for line, count in zip(lines, counts, strict=True)
        ],
    )


@task("shop/new-list", level=1, split="train")
def _new_list(facts: Facts, rng: random.Random) -> Assignment:
    name, visibility = rng.choice(_LISTS), rng.choice(("Private", "Public"))
    name = f"{name} {rng.randint(2026, 2031)}"
    return assignment(
        f"Make a new, {visibility.lower()} wish list with the name “{name}”.",
        to_account("Wish Lists"),
        click("a.btn", "Create a new wish list"),
        fill("#id_name", name),
        select("#id_visibility", visibility),
        click(".page form button", "Save"),
        expect=added("wishlists_wishlist", name=name, visibility=visibility),
    )


@task("shop/rename-list", level=1, split="train")
def _rename_list(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    name = f"{rng.choice(_LISTS)} {rng.randint(2026, 2031)}"
    row = f"tr:has(a[href$='/{wishes['key']}/'])"
    return assignment(
        f"Rename my wish list “{wishes['name']}” to “{name}”.",
        to_account("Wish Lists"),
        click(f"{row} .dropdown-toggle"),
        click(f"{row} .dropdown-item[href$='/update/']"),
        fill("#id_name", name),
        click(".page form button", "Save"),
        expect=changed("wishlists_wishlist", {"id": wishes["id"]}, name=name),
    )


@task("shop/delete-list", level=1, split="test")
def _delete_list(facts: Facts, rng: random.Random) -> Assignment:
    year = rng.randint(2026, 2031)
    names = [f"{name} {year}" for name in _LISTS]
    chosen = rng.randrange(len(names))
    row = f"tr:has(a[href$='/{year}l{chosen}/'])"
    return assignment(
        f"Delete my wish list “{names[chosen]}”.",
        to_account("Wish Lists"),
        click(f"{row} .dropdown-toggle"),
        click(f"{row} .dropdown-item[href$='/delete/']"),
        click(".page form button", "Delete"),
        prepare=tuple(
            (
                (
                    "INSERT INTO wishlists_wishlist (name, key, visibility, owner_id, date_created)"
                    " VALUES (?, ?, 'Private', ?, '2026-01-12 10:00:00')"
                ),
                (name, f"{year}l{number}", facts["people"][0]["id"]),
            )
            for number, name in enumerate(names)
        ),
        expect=removed("wishlists_wishlist", name=names[chosen]),
    )


@task("shop/list-value", level=3, split="train")
def _list_value(facts: Facts, rng: random.Random) -> Assignment:
    wishes = rng.choice(facts["wishlists"])
    counts = [rng.randint(1, 4) for _ in wishes["lines"]]
    products = [product_of(facts, line["product"]) for line in wishes["lines"]]
    return assignment(
        f"What would everything on my wish list “{wishes['name']}” cost in the quantities given "
        "there, before offers and delivery? Answer with the amount.",
        _to_list(wishes),
        [(click(f"tr a.btn[href='{product['url']}']"), _to_list(wishes)) for product in products],
        prepare=tuple(
            ("UPDATE wishlists_line SET quantity = ? WHERE id = ?", (count, line["id"]))
            for line, count in zip(wishes["lines"], counts, strict=True)
        ),
        answer=pounds(
            sum(one["price"] * count for one, count in zip(products, counts, strict=True))
        ),
    )


# Alerts and notifications.


@task("shop/alert", level=1, split="train")
def _alert(facts: Facts, rng: random.Random) -> Assignment:
    waiting = {one["product"] for one in facts["alerts"] if one["user"] == facts["user"]}
    product = rng.choice(
        [one for one in facts["products"] if not one["stock"] and one["id"] not in waiting]
    )
    return assignment(
        f"The {product['title']} is sold out. Have the shop notify me when it is back in stock.",
        to_product(product),
        click("#alert_form button"),
        expect=added("customer_productalert", product_id=product["id"], status="Active"),
    )


@task("shop/cancel-alert", level=1, split="train")
def _cancel_alert(facts: Facts, rng: random.Random) -> Assignment:
    mine = [one for one in facts["alerts"] if one["user"] == facts["user"]]
    chosen = rng.choice(mine)
    # There are few; another product makes them many.
    product = rng.choice(
        [one for one in facts["products"] if one["id"] not in {one["product"] for one in mine}]
    )
    return assignment(
        f"I no longer want to be notified about the {product['title']}. Cancel that alert.",
        to_account("Product Alerts"),
        click(f"tr:has(a[href='{product['url']}']) a.btn"),
        prepare=(
            (
                "UPDATE customer_productalert SET product_id = ? WHERE id = ?",
                (product["id"], chosen["id"]),
            ),
        ),
        expect=changed(
            "customer_productalert",
            {"id": chosen["id"]},
            status="Cancelled",
            date_cancelled=anything,
        ),
    )


@task("shop/archive", level=1, split="test")
def _archive(facts: Facts, rng: random.Random) -> Assignment:
    two = rng.sample(facts["notifications"], 2)
    verb = rng.choice(("Archive", "Delete"))
    return assignment(
        f"{verb} the notifications “{two[0]['subject']}” and “{two[1]['subject']}” in my account.",
        to_account("Notifications"),
        [click(f"input[name=selected_notification][value='{one['id']}']") for one in two],
        click("button[name=action]", verb),
        expect=[
            changed("communication_notification", {"id": one["id"]}, location="Archive")
            if verb == "Archive"
            else removed("communication_notification", id=one["id"])
            for one in two
        ],
    )


# Profile.


@task("shop/name", level=1, split="train")
def _name_(facts: Facts, rng: random.Random) -> Assignment:
    last = rng.choice(_SURNAMES) + rng.choice(("", "-Smith", "-Jones", "-Reid", "-Lowe"))
    user = facts["people"][0]["id"]
    return assignment(
        f"I have married: change my last name to {last}.",
        to_account("Profile"),
        click("a.btn", "Edit profile"),
        fill("#id_last_name", last),
        click(".page form button", "Save"),
        expect=changed("auth_user", {"id": user}, last_name=last),
    )


@task("shop/email", level=1, split="test")
def _email(facts: Facts, rng: random.Random) -> Assignment:
    user = facts["people"][0]
    address = f"{user['username']}.{rng.choice(_SURNAMES).lower()}{rng.randint(1, 99)}@post.test"
    return assignment(
        f"Change the email address of my account to {address}.",
        to_account("Profile"),
        click("a.btn", "Edit profile"),
        fill("#id_email", address),
        click(".page form button", "Save"),
        expect=changed("auth_user", {"id": user["id"]}, email=address),
    )


@task("shop/password", level=1, split="train")
def _password(facts: Facts, rng: random.Random) -> Assignment:
    new = f"{rng.choice(_SURNAMES).lower()}-{rng.choice(_LISTS).split()[0].lower()}-"
    new += str(rng.randint(100, 999))
    return assignment(
        f"Change the password of my account from {facts['password']} to {new}.",
        to_account("Profile"),
        click("a.btn", "Change password"),
        fill("#id_old_password", facts["password"]),
        fill("#id_new_password1", new),
        fill("#id_new_password2", new),
        click(".page form button", "Save"),
        expect=changed("auth_user", {"id": facts["people"][0]["id"]}, password=hash_of(new)),
    )


@task("shop/order-mail", level=1, split="train")
def _order_mail(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts, facts["user"]))
    return assignment(
        f"Look into the emails that the shop sent me: what amount does the confirmation of order "
        f"{order['number']} name? Answer with the amount.",
        to_account("Email History"),
        click("table a", f"Confirmation of order {order['number']}"),
        answer=pounds(order["total"]),
    )
