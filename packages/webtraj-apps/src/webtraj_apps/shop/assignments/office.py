"""The back office: stock, prices, orders, reviews, offers, customers, the catalogue."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any

from webtraj.environments.actions import Scroll
from webtraj.environments.browser.oracles import Step, act, check, click, fill, select, uncheck
from webtraj_apps.shop import catalogue
from webtraj_apps.shop.assignments.common import (
    assignment,
    free,
    in_office,
    money,
    orders_of,
    pounds,
    product_of,
    to_products,
)
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    added,
    anything,
    changed,
    find,
    in_new,
    optional,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="staff", start="/dashboard/")

_NEXT = {
    "Pending": ("Being processed", "Cancelled"),
    "Being processed": ("Shipped", "Cancelled"),
    "Shipped": ("Complete", "Returned"),
    "Complete": ("Returned",),
}
"""What may become of an order."""
_COLOURS = ("Moss", "Ivory", "Rust", "Slate", "Lavender", "Mustard", "Coral", "Petrol")
_GROUPS = ("Garden Lights", "Gift Sets", "Spare Parts", "Clearance", "New Arrivals", "Workshop")
_SAVE = click("button[name=action]:not([value=continue])", "Save")


def _starts(text: str) -> Callable[[Any], bool]:
    return lambda value: str(value).startswith(text) and len(str(value)) < len(text) + 20


def _reads(text: str) -> Callable[[Any], bool]:
    """Test that HTML has this text."""
    return lambda value: same_text(text)(re.sub(r"<[^>]*>", " ", str(value)))


def _tab(name: str) -> Step:
    return click(".page-content a.nav-link", name)


def _row(path: str, item: str) -> tuple[Step, ...]:
    """Choose from the menu of a table's row, which has a link to a path."""
    row = f"tr:has(a[href^='/dashboard/{path}'])"
    return click(f"{row} .dropdown-toggle"), click(f"{row} .dropdown-item", item)


# Products.


def _in_stock(facts: Facts) -> list[Facts]:
    """Return products whose new stock nobody waits for: those who do get a notification."""
    return [one for one in facts["products"] if one["stock"]]


@task("shop/office-stock", level=1, split="train")
def _office_stock(facts: Facts, rng: random.Random) -> Assignment:
    product, count = rng.choice(_in_stock(facts)), rng.randint(90, 250)
    return assignment(
        f"A delivery has come in: set the stock of the {product['title']} to {count} pieces.",
        to_products(product),
        _tab("Stock and pricing"),
        fill("#id_stockrecords-0-num_in_stock", str(count)),
        _SAVE,
        expect=changed("partner_stockrecord", {"product_id": product["id"]}, num_in_stock=count),
    )


@task("shop/office-price", level=1, split="train")
def _office_price(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    price = round(product["price"]) + rng.randint(2, 30) + 0.49
    return assignment(
        f"Change the price of the {product['title']} to £{price:.2f}.",
        to_products(product),
        _tab("Stock and pricing"),
        fill("#id_stockrecords-0-price", money(price)),
        _SAVE,
        expect=changed("partner_stockrecord", {"product_id": product["id"]}, price=price),
    )


@task("shop/office-hide", level=1, split="train")
def _office_hide(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    return assignment(
        f"Take the {product['title']} off the site: make it non-public, but do not delete it.",
        to_products(product),
        act(Scroll(0, 300)),  # The box is under the bar at the bottom.
        uncheck("#id_is_public"),
        _SAVE,
        expect=changed("catalogue_product", {"id": product["id"]}, is_public=0),
    )


@task("shop/office-attributes", level=1, split="test")
def _office_attributes(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice([one for one in facts["products"] if one["warranty"]])
    colour = rng.choice(_COLOURS)
    years = product["warranty"] + rng.randint(1, 4)
    return assignment(
        f"The {product['title']} now comes in the colour {colour}, with a warranty of {years} "
        "years. Change these two attributes.",
        to_products(product),
        _tab("Attributes"),
        fill("#id_attr_colour", colour),
        fill("#id_attr_warranty", str(years)),
        _SAVE,
        expect=(
            changed(
                "catalogue_productattributevalue",
                {"product_id": product["id"], "value_text": product["colour"]},
                value_text=colour,
            ),
            changed(
                "catalogue_productattributevalue",
                {"product_id": product["id"], "value_integer": product["warranty"]},
                value_integer=years,
            ),
        ),
    )


@task("shop/office-restock", level=3, split="train")
def _office_restock(facts: Facts, rng: random.Random) -> Assignment:
    three = rng.sample(_in_stock(facts), 3)
    counts = rng.sample(range(90, 250), 3)
    wanted = ", ".join(
        f"{product['title']} {count}" for product, count in zip(three, counts, strict=True)
    )
    return assignment(
        f"Enter the new stock after counting: {wanted}.",
        [
            (
                to_products(product),
                _tab("Stock and pricing"),
                fill("#id_stockrecords-0-num_in_stock", str(count)),
                _SAVE,
            )
            for product, count in zip(three, counts, strict=True)
        ],
        expect=[
            changed("partner_stockrecord", {"product_id": product["id"]}, num_in_stock=count)
            for product, count in zip(three, counts, strict=True)
        ],
    )


@task("shop/office-new-product", level=3, split="train")
def _office_new_product(facts: Facts, rng: random.Random) -> Assignment:
    like = rng.choice(facts["products"])
    leaf = find(facts["categories"], name=like["category"])
    title = f"Northfield {rng.choice(_COLOURS)} {like['title'].split()[-1]}"
    upc, sku = f"50{rng.randint(10**7, 10**8 - 1)}", f"NF-{rng.randint(1000, 9999)}"
    count, price = rng.randint(5, 90), rng.randint(10, 200) + 0.95
    return assignment(
        f"Add a new product of the type {like['department']}: title {title}, UPC {upc}, category "
        f"{like['department']} > {like['category']}; partner Northfield, SKU {sku}, {count} in "
        f"stock, price £{price:.2f}.",
        in_office("Catalogue", "Products"),
        select("#id_product_class", like["department"]),
        click("button", "New Product"),
        fill("#id_title", title),
        fill("#id_upc", upc),
        _tab("Categories"),
        select("#id_productcategory_set-0-category", str(leaf["id"])),
        _tab("Stock and pricing"),
        select("#id_stockrecords-0-partner", "Northfield"),
        fill("#id_stockrecords-0-partner_sku", sku),
        fill("#id_stockrecords-0-num_in_stock", str(count)),
        fill("#id_stockrecords-0-price", money(price)),
        _SAVE,
        expect=(
            added(
                "catalogue_product",
                title=title,
                upc=upc,
                # The types have the numbers of their order.
                product_class_id=[*catalogue.WORDS.departments].index(like["department"]) + 1,
                is_public=1,
            ),
            added(
                "catalogue_productcategory",
                product_id=in_new("catalogue_product"),
                category_id=leaf["id"],
            ),
            added(
                "partner_stockrecord",
                product_id=in_new("catalogue_product"),
                partner_id=1,  # The first partner is Northfield.
                partner_sku=sku,
                num_in_stock=count,
                price=price,
            ),
        ),
    )


@task("shop/office-delete-product", level=1, split="test")
def _office_delete_product(facts: Facts, rng: random.Random) -> Assignment:
    used = {line["product"] for order in facts["orders"] for line in order["lines"]}
    used |= {one["product"] for one in facts["reviews"]} | set(facts["picks"])
    product = rng.choice([one for one in free(facts) if one["id"] not in used])
    row = f"tr:has(a[href^='/dashboard/catalogue/products/{product['id']}/'])"
    of = {"product_id": product["id"]}
    return assignment(
        f"Delete the product {product['title']} from the catalogue.",
        in_office("Catalogue", "Products"),
        fill("#id_title", product["title"]),
        click(".page-content form button", "Search"),
        click(f"{row} .dropdown-toggle"),
        click(f"{row} .dropdown-item", "Delete"),
        click(".page-content form button", "Delete"),
        expect=(
            removed("catalogue_product", id=product["id"]),
            [removed("catalogue_productattributevalue", **of) for _ in range(4)],
            removed("catalogue_productcategory", **of),
            removed("catalogue_productimage", **of),
            removed("partner_stockrecord", **of),
        ),
    )


@task("shop/office-rename-category", level=1, split="test")
def _office_rename_category(facts: Facts, rng: random.Random) -> Assignment:
    leaf = rng.choice([one for one in facts["categories"] if one["depth"] == 2])
    department = find(facts["products"], category=leaf["name"])["department"]
    name = f"{rng.choice(('Fine', 'All', 'Small', 'Best', 'Our'))} {leaf['name']}"
    return assignment(
        f"Rename the category {department} > {leaf['name']} to “{name}”. Leave its slug as it is.",
        in_office("Catalogue", "Categories"),
        _row(f"catalogue/categories/{_id_of(facts, department)}/", "Edit children"),
        _row(f"catalogue/categories/{leaf['id']}/", "Edit category"),
        fill("#id_name", name),
        _SAVE,
        expect=changed("catalogue_category", {"id": leaf["id"]}, name=name),
    )


def _id_of(facts: Facts, category: str) -> int:
    return int(find(facts["categories"], name=category)["id"])


@task("shop/office-add-category", level=1, split="train")
def _office_add_category(facts: Facts, rng: random.Random) -> Assignment:
    parent = rng.choice([one for one in facts["categories"] if one["depth"] == 1])
    name = f"{rng.choice(_GROUPS)} {rng.randint(2026, 2030)}"
    return assignment(
        f"Add a category “{name}” below {parent['name']}.",
        in_office("Catalogue", "Categories"),
        _row(f"catalogue/categories/{parent['id']}/", "Add child category"),
        fill("#id_name", name),
        _SAVE,
        expect=(
            added("catalogue_category", name=name, depth=2, is_public=1),
            changed("catalogue_category", {"id": parent["id"]}, numchild=anything),
        ),
    )


@task("shop/office-range-add", level=2, split="train")
def _office_range_add(facts: Facts, rng: random.Random) -> Assignment:
    two = rng.sample([one for one in facts["products"] if one["id"] not in facts["picks"]], 2)
    number = facts["ranges"]["Staff picks"]
    return assignment(
        f"Add the {two[0]['title']} and the {two[1]['title']} to the range “Staff picks”.",
        to_products(two[0]),
        to_products(two[1]),
        in_office("Catalogue", "Ranges"),
        _row(f"ranges/{number}/", "Edit products"),
        fill("#id_query", f"{two[0]['upc']}, {two[1]['upc']}"),
        click("button", "Go!"),
        expect=[added("offer_rangeproduct", range_id=number, product_id=one["id"]) for one in two],
    )


@task("shop/office-range-remove", level=1, split="test")
def _office_range_remove(facts: Facts, rng: random.Random) -> Assignment:
    two = [product_of(facts, one) for one in rng.sample(facts["picks"], 2)]
    number = facts["ranges"]["Staff picks"]
    return assignment(
        f"Remove the {two[0]['title']} and the {two[1]['title']} from the range “Staff picks”.",
        in_office("Catalogue", "Ranges"),
        _row(f"ranges/{number}/", "Edit products"),
        [check(f"input[name=selected_product][value='{one['id']}']") for one in two],
        click("button", "Remove selected products"),
        expect=[
            (
                removed("offer_rangeproduct", range_id=number, product_id=one["id"]),
                added("offer_range_excluded_products", range_id=number, product_id=one["id"]),
            )
            for one in two
        ],
    )


# Orders.


def _find_customer(person: Facts) -> tuple[Step, ...]:
    return (
        *in_office("Customers", "Customers"),
        fill("#id_email", person["email"]),
        click(".page-content form button", "Search"),
    )


def open_order(number: str) -> tuple[Step, ...]:
    """Open an order in the back office."""
    return (
        *in_office("Fulfilment", "Orders"),
        fill("#id_order_number", number),
        click("#search_form input[type=submit]"),
    )


def _moved(order: Facts, status: str) -> tuple[Any, ...]:
    """Return what a new status changes."""
    return (
        changed("order_order", {"id": order["id"]}, status=status),
        added("order_orderstatuschange", order_id=order["id"], new_status=status),
        added("order_ordernote", order_id=order["id"], note_type="System", message=anything),
    )


@task("shop/office-status", level=1, split="train")
def _office_status(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice([one for one in facts["orders"] if one["status"] in _NEXT])
    status = rng.choice(_NEXT[order["status"]])
    return assignment(
        f"Set the status of order {order['number']} to {status}.",
        open_order(order["number"]),
        select("#id_new_status", status),
        click("button", "Change status"),
        expect=_moved(order, status),
    )


@task("shop/office-returns", level=2, split="train")
def _office_returns(facts: Facts, rng: random.Random) -> Assignment:
    complete = {
        one["username"]: [
            order for order in orders_of(facts, one["username"]) if order["status"] == "Complete"
        ]
        for one in facts["people"]
    }
    person = rng.choice([one for one in facts["people"] if 2 <= len(complete[one["username"]]) < 6])
    orders = complete[person["username"]]
    return assignment(
        f"{person['name']} has sent everything back. Set all of this customer's orders with the "
        "status Complete to Returned.",
        _find_customer(person),
        click("tr a.btn", "View"),
        [
            (
                open_order(order["number"]),
                select("#id_new_status", "Returned"),
                click("button", "Change status"),
            )
            for order in orders
        ],
        expect=[_moved(order, "Returned") for order in orders],
    )


@task("shop/office-note", level=1, split="train")
def _office_note(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(facts["orders"])
    text = (
        f"Customer called on {rng.choice(('Monday', 'Tuesday', 'Friday'))}: parcel "
        f"{rng.choice(('missing', 'damaged', 'delayed', 'incomplete'))}, refund of "
        f"£{rng.randint(3, 60)} promised"
    )
    return assignment(
        f"Add this note to order {order['number']}: {text}",
        open_order(order["number"]),
        _tab("Notes"),
        fill("#id_message", text),
        click("input[type=submit]"),
        expect=added("order_ordernote", order_id=order["id"], message=same_text(text)),
    )


@task("shop/office-address", level=2, split="train")
def _office_address(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice([one for one in facts["orders"] if one["status"] != "Complete"])
    street = f"{rng.randint(1, 99)} {rng.choice(('Ferry', 'Tower', 'Canal', 'Forge'))} Street"
    postcode = f"{rng.choice(('NX', 'KT', 'RV'))}{rng.randint(1, 9)} {rng.randint(1, 9)}QD"
    return assignment(
        f"Order {order['number']} must go to another address in {order['town']}: change the first "
        f"line to {street} and the postcode to {postcode}.",
        open_order(order["number"]),
        _tab("Shipping"),
        click("#shipping a.btn"),
        fill("#id_line1", street),
        fill("#id_postcode", postcode),
        click(".page-content form button", "Update address"),
        expect=(
            changed(
                "order_shippingaddress",
                {"id": order["address"]},
                line1=street,
                postcode=postcode,
                search_text=anything,
            ),
            added("order_ordernote", order_id=order["id"], note_type="System", message=anything),
        ),
    )


@task("shop/office-revenue", level=1, split="train")
def _office_revenue(facts: Facts, rng: random.Random) -> Assignment:
    dates = sorted(one["date"] for one in facts["orders"])
    first = rng.randrange(len(dates) - 20)
    start, end = dates[first], dates[first + rng.randint(8, 19)]
    total = sum(one["total"] for one in facts["orders"] if start <= one["date"] <= end)
    return assignment(
        f"By the order statistics, what was the total revenue from {start} to {end}, both days "
        "included? Answer with the amount.",
        in_office("Fulfilment", "Statistics"),
        fill("#id_date_from", start),
        fill("#id_date_to", end),
        click(".page-content form button", "Filter result"),
        answer=pounds(total),
    )


@task("shop/office-last-order", level=1, split="train")
def _office_last_order(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice([one for one in facts["people"] if orders_of(facts, one["username"])])
    order = orders_of(facts, person["username"])[-1]
    return assignment(
        f"What are the number and the order total, shipping included, of the latest order of "
        f"{person['name']}? Answer with both, separated by a semicolon.",
        _find_customer(person),
        click("tr a.btn", "View"),
        click(f"tr:has(a[href*='/{order['number']}/']) a.btn", "View"),
        answer=(order["number"], pounds(order["total"])),
    )


@task("shop/office-who-bought", level=1, split="test")
def _office_who_bought(facts: Facts, rng: random.Random) -> Assignment:
    bought: dict[str, list[Facts]] = {}
    for order in facts["orders"]:
        for line in order["lines"]:
            bought.setdefault(line["title"], []).append(order)
    title = rng.choice([one for one, orders in bought.items() if len(orders) == 1])
    order = bought[title][0]
    return assignment(
        f"Only one customer has ever ordered the {title}. Who, and with which order? Answer with "
        "the full name and the order number, separated by a comma.",
        in_office("Fulfilment", "Orders"),
        click("a", "Advanced Search"),
        fill(".modal #id_product_title", title),
        click(".modal button", "Search"),
        answer=(find(facts["people"], username=order["user"])["name"], order["number"]),
    )


@task("shop/office-impossible-status", level=1, split="train", infeasible=True)
def _office_impossible_status(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(
        [one for one in facts["orders"] if one["status"] in ("Cancelled", "Returned")]
    )
    return assignment(
        f"Set the status of order {order['number']} to {rng.choice(('Shipped', 'Complete'))}.",
        open_order(order["number"]),
    )


# Reviews.


@task("shop/office-review", level=1, split="train")
def _office_review(facts: Facts, rng: random.Random) -> Assignment:
    waiting = [one for one in facts["reviews"] if one["waits"]]
    review, approve = rng.choice(waiting), rng.random() < 0.5
    product = product_of(facts, review["product"])
    status = "Approved" if approve else "Rejected"
    return assignment(
        f"{'Approve' if approve else 'Reject'} the review of the {product['title']} by "
        f"{review['by']}, which waits for moderation.",
        in_office("Content", "Reviews"),
        _row(f"reviews/{review['id']}/", "Edit"),
        select("#id_status", status),
        click(".page-content form button", "Save"),
        expect=(
            changed("reviews_productreview", {"id": review["id"]}, status=1 if approve else 2),
            optional(
                changed("catalogue_product", {"id": product["id"]}, rating=anything),
            ),
        ),
    )


@task("shop/office-moderate", level=2, split="train")
def _office_moderate(facts: Facts, rng: random.Random) -> Assignment:
    waiting = [one for one in facts["reviews"] if one["waits"]]
    approve = rng.random() < 0.5
    scores = [rng.randint(1, 5) for _ in waiting]
    wanted = (4, 5) if approve else (1, 2)
    chosen = [one for one, score in zip(waiting, scores, strict=True) if score in wanted]
    if not chosen:
        scores[0], chosen = wanted[0], waiting[:1]
    return assignment(
        f"{'Approve' if approve else 'Reject'} all reviews that require moderation and have a score"
        f" of {wanted[0]} or {wanted[1]}. Leave the others as they are.",
        in_office("Content", "Reviews"),
        select("#id_status", "Requires moderation"),
        click(".page-content form button", "Search"),
        [check(f"input[name=selected_review][value='{one['id']}']") for one in chosen],
        select("table #id_status, .card-header #id_status", "Approved" if approve else "Rejected"),
        click("button[name=update]"),
        prepare=tuple(
            ("UPDATE reviews_productreview SET score = ? WHERE id = ?", (score, one["id"]))
            for one, score in zip(waiting, scores, strict=True)
        ),
        expect=(
            [
                changed("reviews_productreview", {"id": one["id"]}, status=1 if approve else 2)
                for one in chosen
            ],
            [
                optional(changed("catalogue_product", {"id": one}, rating=anything))
                for one in {review["product"] for review in chosen}
            ],
        ),
    )


# Offers, vouchers, customers, pages.


@task("shop/office-new-voucher", level=2, split="train")
def _office_new_voucher(facts: Facts, rng: random.Random) -> Assignment:
    month = rng.choice(("April", "May", "June", "July"))
    name, code = f"{month} thanks {rng.randint(10, 99)}", f"{month.upper()}{rng.randint(100, 999)}"
    usage, label = rng.choice(
        (
            ("Single use", "Can be used once by one customer"),
            ("Multi-use", "Can be used multiple times by multiple customers"),
            ("Once per customer", "Can only be used once per customer"),
        )
    )
    offer = rng.choice([one for one in facts["offers"] if one["offer_type"] == "Voucher"])
    end = f"2026-{rng.randint(8, 12):02}-{rng.randint(1, 28):02}"
    return assignment(
        f"Make a voucher “{name}” with the code {code}. It ends on {end} at 18:00, {label.lower()},"
        f" and gives the offer “{offer['name']}”. Leave the start as the form has it.",
        in_office("Offers", "Vouchers"),
        click("a.btn", "Create new voucher"),
        fill("#id_name", name),
        fill("#id_code", code),
        fill("#id_end_datetime", f"{end} 18:00:00"),
        select("#id_usage", label),
        select("#id_offers", offer["name"]),
        click(".page-content form button", "Save"),
        expect=(
            added(
                "voucher_voucher",
                name=name,
                code=code,
                usage=usage,
                start_datetime=_starts("2026-03-02"),
                end_datetime=_starts(f"{end} 18:00"),
            ),
            added(
                "voucher_voucher_offers",
                voucher_id=in_new("voucher_voucher"),
                conditionaloffer_id=offer["id"],
            ),
        ),
    )


@task("shop/office-delete-voucher", level=1, split="train")
def _office_delete_voucher(facts: Facts, rng: random.Random) -> Assignment:
    code = rng.randint(10, 99)
    names = [f"Trade fair {code + number}" for number in range(4)]
    chosen = rng.choice(names)
    return assignment(
        f"Delete the voucher “{chosen}”.",
        in_office("Offers", "Vouchers"),
        fill("#id_name", chosen),
        click(".page-content form button", "Search"),
        click("tr td .dropdown-toggle"),
        click("tr td .dropdown-item", "Delete"),
        click(".page-content form button", "Delete"),
        prepare=tuple(
            (
                (
                    "INSERT INTO voucher_voucher (name, code, usage, start_datetime, end_datetime,"
                    " num_basket_additions, num_orders, total_discount, date_created) VALUES"
                    " (?, ?, 'Multi-use', '2026-02-01', '2026-06-01', 0, 0, 0, '2026-02-01')"
                ),
                (name, name.replace(" ", "").upper()),
            )
            for name in names
        ),
        expect=removed("voucher_voucher", name=chosen),
    )


@task("shop/office-extend-voucher", level=1, split="test")
def _office_extend_voucher(facts: Facts, rng: random.Random) -> Assignment:
    voucher = rng.choice(facts["vouchers"])
    end = f"2026-{rng.randint(7, 12):02}-{rng.randint(1, 28):02}"
    return assignment(
        f"Change the voucher “{voucher['name']}”: it now ends on {end} at 12:00.",
        in_office("Offers", "Vouchers"),
        click(f"tr:has(a[href='/dashboard/vouchers/stats/{voucher['id']}/']) .dropdown-toggle"),
        click(
            f".dropdown-item[href='/dashboard/vouchers/update/{voucher['id']}/']",
        ),
        fill("#id_end_datetime", f"{end} 12:00:00"),
        click(".page-content form button", "Save"),
        expect=changed(
            "voucher_voucher",
            {"id": voucher["id"]},
            end_datetime=_starts(f"{end} 12:00"),
        ),
    )


@task("shop/office-new-offer", level=3, split="test")
def _office_new_offer(facts: Facts, rng: random.Random) -> Assignment:
    name = f"{rng.choice(('Spring', 'Summer', 'Weekend', 'Members'))} {rng.choice(_GROUPS)} days"
    range_name = rng.choice(("Bedding", "Candles", "Staff picks"))
    percent, least = rng.randint(5, 40), rng.randint(2, 6)
    number = facts["ranges"][range_name]
    go_on = ".page-content form button"
    return assignment(
        f"Make a site offer “{name}”: {percent} % off the products of the range {range_name}, if "
        f"the basket has at least {least} items of that range. Leave all else as the forms have "
        "it.",
        in_office("Offers", "Offers"),
        click("a.btn", "Create new offer"),
        fill("#id_name", name),
        select("#id_offer_type", "Site"),
        click(go_on, "Continue to step 2"),
        select("#id_range", range_name),
        select("#id_type", "Percentage"),
        fill("#id_value", str(percent)),
        click(go_on, "Continue to step 3"),
        select("#id_range", range_name),
        select("#id_type", "Count"),
        fill("#id_value", str(least)),
        click(go_on, "Continue to step 4"),
        click(go_on, "Save this offer"),
        expect=(
            added(
                "offer_conditionaloffer",
                name=name,
                offer_type="Site",
                benefit_id=in_new("offer_benefit"),
                condition_id=in_new("offer_condition"),
            ),
            added("offer_benefit", type="Percentage", value=percent, range_id=number),
            added("offer_condition", type="Count", value=least, range_id=number),
        ),
    )


@task("shop/office-deactivate", level=1, split="train")
def _office_deactivate(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(facts["people"][2:])
    return assignment(
        f"Make the account of the customer {person['name']} inactive.",
        _find_customer(person),
        check(f"input[name=selected_user][value='{person['id']}']"),
        click("#make_inactive_check"),
        click("input[type=submit]"),
        expect=changed("auth_user", {"id": person["id"]}, is_active=0),
    )


@task("shop/office-views", level=2, split="train")
def _office_views(facts: Facts, rng: random.Random) -> Assignment:
    place = rng.randrange(10, 90)
    product = product_of(facts, facts["bestsellers"][place]["product"])
    return assignment(
        f"According to the product analytics report, how many times was the {product['title']} "
        "viewed? Answer with the number.",
        in_office_reports("Product analytics"),
        [click(".pagination a", "next") for _ in range(place // 20)],
        answer=str(facts["bestsellers"][place]["views"]),
    )


def in_office_reports(name: str) -> tuple[Step, ...]:
    """Make a report."""
    return (
        click(".navbar-primary a", "Reports"),
        select("#id_report_type", name),
        click("#generate_report"),
    )


@task("shop/office-page", level=1, split="test")
def _office_page(facts: Facts, rng: random.Random) -> Assignment:
    title = rng.choice(("Opening hours", "Returns", "About us", "Jobs", "Press", "Our workshop"))
    year = rng.randint(2026, 2030)
    path = f"/{title.lower().replace(' ', '-')}-{year}/"
    text = f"{title}: please call us on 0{rng.randint(10**8, 10**9 - 1)}."
    return assignment(
        f"Make a page “{title} {year}” at the URL {path} with the text “{text}”",
        in_office("Content", "Pages"),
        click("a.btn", "Create new page"),
        fill("#id_title", f"{title} {year}"),
        fill("#id_url", path),
        fill("#id_content", text),
        click(".page-content form button", "Save"),
        allow=added("django_flatpage_sites", flatpage_id=in_new("django_flatpage")),
        expect=added("django_flatpage", url=path, title=f"{title} {year}", content=_reads(text)),
    )
