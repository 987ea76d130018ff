"""The back office: stock, prices, orders, reviews, offers, customers, the catalogue."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from webtraj.environments.actions import Scroll
from webtraj.environments.browser.oracles import Step, act, check, click, fill, select, uncheck
from webtraj_apps.shop import catalogue
from webtraj_apps.shop.assignments.common import (
    choose,
    fill_form,
    free,
    orders_of,
    pounds,
    product_of,
)
from webtraj_apps.tasks import (
    Assignment,
    Expected,
    Facts,
    Parts,
    Row,
    added,
    anything,
    assign,
    changed,
    changed_row,
    draw_day,
    find,
    in_new,
    other_than,
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
"""The statuses that may follow a status of an order."""
_COLOURS = ("Moss", "Ivory", "Rust", "Slate", "Lavender", "Mustard", "Coral", "Petrol")
_GROUPS = ("Garden Lights", "Gift Sets", "Spare Parts", "Clearance", "New Arrivals", "Workshop")
_SAVE = click("button[name=action]:not([value=continue])", "Save")
_BUTTON = ".page-content form button"


def _starts(text: str) -> Callable[[Any], bool]:
    return lambda value: str(value).startswith(text) and len(str(value)) < len(text) + 20


def _reads(text: str) -> Callable[[Any], bool]:
    """Return a test that HTML has this text."""
    return lambda value: same_text(text)(re.sub(r"<[^>]*>", " ", str(value)))


# The way to pages.


def _open_menu(menu: str, item: str) -> tuple[Step, ...]:
    """Open a page by the menu of the back office."""
    return click(".navbar-primary a", menu), click(".navbar-primary .dropdown-item", item)


def _search(menu: str, item: str, **fields: str) -> tuple[Step, ...]:
    """Open a page by the menu, and search there."""
    return *_open_menu(menu, item), *fill_form(**fields), click(_BUTTON, "Search")


def _open_product(product: Facts, tab: str = "") -> tuple[Step, ...]:
    """Search for a product and open it."""
    found = _search("Catalogue", "Products", title=product["title"])
    return *found, click("td a", product["title"]), *((_tab(tab),) if tab else ())


def open_order(order: Facts) -> tuple[Step, ...]:
    """Open an order in the back office."""
    form = fill_form(order_number=order["number"])
    return *_open_menu("Fulfilment", "Orders"), *form, click("#search_form input[type=submit]")


def _find_customer(person: Facts) -> tuple[Step, ...]:
    return _search("Customers", "Customers", email=person["email"])


def _tab(name: str) -> Step:
    return click(".page-content a.nav-link", name)


def _choose(path: str, item: str) -> tuple[Step, ...]:
    """Choose from the menu of the row with a link to this path."""
    return choose(f"href^='/dashboard/{path}'", text=item)


# Products.


def _in_stock(facts: Facts) -> list[Facts]:
    """Return products in stock: new stock of the others would notify those who wait for it."""
    return [one for one in facts["products"] if one["stock"]]


def _fill_stock(**columns: object) -> tuple[Step, ...]:
    """Fill in the form of stock and pricing, and save the product."""
    fields = {f"stockrecords-0-{name}": str(value) for name, value in columns.items()}
    return *fill_form(**fields), _SAVE


def _edit_stock(product: Facts, **columns: object) -> Parts:
    """Change the stock or the price of a product."""
    return (
        (_open_product(product, "Stock and pricing"), _fill_stock(**columns)),
        changed("partner_stockrecord", {"product_id": product["id"]}, **columns),
    )


@task("shop/office-stock", level=1, split="train")
def _office_stock(facts: Facts, rng: random.Random) -> Assignment:
    product, count = rng.choice(_in_stock(facts)), rng.randint(90, 250)
    return assign(
        f"A delivery has come in: set the stock of the {product['title']} to {count} pieces.",
        _edit_stock(product, num_in_stock=count),
    )


@task("shop/office-price", level=1, split="train")
def _office_price(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    price = round(product["price"]) + rng.randint(2, 30) + 0.49
    return assign(
        f"Change the price of the {product['title']} to £{price:.2f}.",
        _edit_stock(product, price=price),
    )


@task("shop/office-hide", level=1, split="train")
def _office_hide(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    return assign(
        f"Take the {product['title']} off the site: make it non-public, but do not delete it.",
        _open_product(product),
        act(Scroll(0, 300)),  # The bar at the bottom covers the box.
        (uncheck("#id_is_public"), _SAVE),
        changed_row("catalogue_product", product, is_public=0),
    )


@task("shop/office-attributes", level=1, split="test")
def _office_attributes(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice([one for one in facts["products"] if one["warranty"]])
    colour = rng.choice(_COLOURS)
    years = product["warranty"] + rng.randint(1, 4)

    def expect_attribute(column: str, old: object, new: object) -> Expected:
        where = {"product_id": product["id"], column: old}
        return changed("catalogue_productattributevalue", where, **{column: new})

    return assign(
        f"The {product['title']} now comes in the colour {colour}, with a warranty of {years} "
        "years. Change these two attributes.",
        _open_product(product, "Attributes"),
        (fill_form(attr_colour=colour, attr_warranty=str(years)), _SAVE),
        expect_attribute("value_text", product["colour"], colour),
        expect_attribute("value_integer", product["warranty"], years),
    )


@task("shop/office-restock", level=3, split="train")
def _office_restock(facts: Facts, rng: random.Random) -> Assignment:
    three = rng.sample(_in_stock(facts), 3)
    counts = list(zip(three, rng.sample(range(90, 250), 3), strict=True))
    wanted = ", ".join(f"{product['title']} {count}" for product, count in counts)
    return assign(
        f"Enter the new stock after counting: {wanted}.",
        [_edit_stock(product, num_in_stock=count) for product, count in counts],
    )


@task("shop/office-new-product", level=3, split="train")
def _office_new_product(facts: Facts, rng: random.Random) -> Assignment:
    like = rng.choice(facts["products"])
    leaf, department = _id_of(facts, like["category"]), like["department"]
    title = f"Northfield {rng.choice(_COLOURS)} {like['title'].split()[-1]}"
    upc, sku = f"50{rng.randint(10**7, 10**8 - 1)}", f"NF-{rng.randint(1000, 9999)}"
    stock = {"num_in_stock": rng.randint(5, 90), "price": rng.randint(10, 200) + 0.95}
    of = {"product_id": in_new("catalogue_product")}
    # Types are numbered in their order, and partner 1 is Northfield.
    kind = [*catalogue.WORDS.departments].index(department) + 1
    return assign(
        f"Add a new product of the type {department}: title {title}, UPC {upc}, category "
        f"{department} > {like['category']}; partner Northfield, SKU {sku}, "
        f"{stock['num_in_stock']} in stock, price £{stock['price']:.2f}.",
        (_open_menu("Catalogue", "Products"), select("#id_product_class", department)),
        (click("button", "New Product"), fill_form(title=title, upc=upc)),
        added("catalogue_product", title=title, upc=upc, product_class_id=kind, is_public=1),
        (_tab("Categories"), select("#id_productcategory_set-0-category", str(leaf))),
        added("catalogue_productcategory", **of, category_id=leaf),
        (_tab("Stock and pricing"), select("#id_stockrecords-0-partner", "Northfield")),
        _fill_stock(partner_sku=sku, **stock),
        added("partner_stockrecord", **of, partner_id=1, partner_sku=sku, **stock),
    )


@task("shop/office-delete-product", level=1, split="test")
def _office_delete_product(facts: Facts, rng: random.Random) -> Assignment:
    used = {line["product"] for order in facts["orders"] for line in order["lines"]}
    used |= {one["product"] for one in facts["reviews"]} | set(facts["picks"])
    product = rng.choice([one for one in free(facts) if one["id"] not in used])
    of = {"product_id": product["id"]}
    attributes = 4 if product["warranty"] else 3
    return assign(
        f"Delete the product {product['title']} from the catalogue.",
        _search("Catalogue", "Products", title=product["title"]),
        (_choose(f"catalogue/products/{product['id']}/", "Delete"), click(_BUTTON, "Delete")),
        removed("catalogue_product", id=product["id"]),
        [removed("catalogue_productattributevalue", **of) for _ in range(attributes)],
        removed("catalogue_productcategory", **of),
        removed("catalogue_productimage", **of),
        removed("partner_stockrecord", **of),
    )


@task("shop/office-rename-category", level=1, split="test")
def _office_rename_category(facts: Facts, rng: random.Random) -> Assignment:
    leaf = rng.choice([one for one in facts["categories"] if one["depth"] == 2])
    department = find(facts["products"], category=leaf["name"])["department"]
    name = f"{rng.choice(('Fine', 'All', 'Small', 'Best', 'Our'))} {leaf['name']}"
    return assign(
        f"Rename the category {department} > {leaf['name']} to “{name}”. Leave its slug as it is.",
        _open_menu("Catalogue", "Categories"),
        _choose(f"catalogue/categories/{_id_of(facts, department)}/", "Edit children"),
        _choose(f"catalogue/categories/{leaf['id']}/", "Edit category"),
        (fill_form(name=name), _SAVE),
        changed_row("catalogue_category", leaf, name=name),
    )


def _id_of(facts: Facts, category: str) -> int:
    return int(find(facts["categories"], name=category)["id"])


@task("shop/office-add-category", level=1, split="train")
def _office_add_category(facts: Facts, rng: random.Random) -> Assignment:
    parent = rng.choice([one for one in facts["categories"] if one["depth"] == 1])
    name = f"{rng.choice(_GROUPS)} {rng.randint(2026, 2030)}"
    return assign(
        f"Add a category “{name}” below {parent['name']}.",
        _open_menu("Catalogue", "Categories"),
        _choose(f"catalogue/categories/{parent['id']}/", "Add child category"),
        (fill_form(name=name), _SAVE),
        added("catalogue_category", name=name, depth=2, is_public=1),
        changed_row("catalogue_category", parent, numchild=anything),
    )


def _open_range(number: int) -> tuple[Step, ...]:
    """Open the products of a range."""
    return *_open_menu("Catalogue", "Ranges"), *_choose(f"ranges/{number}/", "Edit products")


@task("shop/office-range-add", level=2, split="train")
def _office_range_add(facts: Facts, rng: random.Random) -> Assignment:
    two = rng.sample([one for one in facts["products"] if one["id"] not in facts["picks"]], 2)
    number = facts["ranges"]["Staff picks"]
    return assign(
        f"Add the {two[0]['title']} and the {two[1]['title']} to the range “Staff picks”.",
        (map(_open_product, two), _open_range(number)),
        (fill_form(query=f"{two[0]['upc']}, {two[1]['upc']}"), click("button", "Go!")),
        [added("offer_rangeproduct", range_id=number, product_id=one["id"]) for one in two],
    )


@task("shop/office-range-remove", level=1, split="test")
def _office_range_remove(facts: Facts, rng: random.Random) -> Assignment:
    two = [product_of(facts, one) for one in rng.sample(facts["picks"], 2)]
    number = facts["ranges"]["Staff picks"]
    rows = [{"range_id": number, "product_id": one["id"]} for one in two]
    return assign(
        f"Remove the {two[0]['title']} and the {two[1]['title']} from the range “Staff picks”.",
        _open_range(number),
        [check(f"input[name=selected_product][value='{one['id']}']") for one in two],
        click("button", "Remove selected products"),
        [removed("offer_rangeproduct", **row) for row in rows],
        [added("offer_range_excluded_products", **row) for row in rows],
    )


# Orders.


def _set_status(order: Facts, status: str) -> Parts:
    """Change the status of an order; the shop makes a note of it."""
    of = {"order_id": order["id"]}
    return (
        (open_order(order), select("#id_new_status", status)),
        click("button", "Change status"),
        changed_row("order_order", order, status=status),
        added("order_orderstatuschange", **of, new_status=status),
        added("order_ordernote", **of, note_type="System", message=anything),
    )


@task("shop/office-status", level=1, split="train")
def _office_status(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice([one for one in facts["orders"] if one["status"] in _NEXT])
    status = rng.choice(_NEXT[order["status"]])
    return assign(
        f"Set the status of order {order['number']} to {status}.",
        _set_status(order, status),
    )


@task("shop/office-returns", level=2, split="train")
def _office_returns(facts: Facts, rng: random.Random) -> Assignment:
    def complete(person: Facts) -> list[Facts]:
        orders = orders_of(facts, person["username"])
        return [order for order in orders if order["status"] == "Complete"]

    person = rng.choice([one for one in facts["people"] if 2 <= len(complete(one)) < 6])
    return assign(
        f"{person['name']} has sent everything back. Set all of this customer's orders with the "
        "status Complete to Returned.",
        (_find_customer(person), click("tr a.btn", "View")),
        [_set_status(order, "Returned") for order in complete(person)],
    )


@task("shop/office-note", level=1, split="train")
def _office_note(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(facts["orders"])
    day = rng.choice(("Monday", "Tuesday", "Friday"))
    what = rng.choice(("missing", "damaged", "delayed", "incomplete"))
    text = f"Customer called on {day}: parcel {what}, refund of £{rng.randint(3, 60)} promised"
    return assign(
        f"Add this note to order {order['number']}: {text}",
        (open_order(order), _tab("Notes")),
        (fill_form(message=text), click("input[type=submit]")),
        added("order_ordernote", order_id=order["id"], message=same_text(text)),
    )


@task("shop/office-address", level=2, split="train")
def _office_address(facts: Facts, rng: random.Random) -> Assignment:
    order = other_than(rng, facts["orders"], status="Complete")
    street = f"{rng.randint(1, 99)} {rng.choice(('Ferry', 'Tower', 'Canal', 'Forge'))} Street"
    postcode = f"{rng.choice(('NX', 'KT', 'RV'))}{rng.randint(1, 9)} {rng.randint(1, 9)}QD"
    new, address = {"line1": street, "postcode": postcode}, {"id": order["address"]}
    return assign(
        f"Order {order['number']} must go to another address in {order['town']}: change the first "
        f"line to {street} and the postcode to {postcode}.",
        (open_order(order), _tab("Shipping"), click("#shipping a.btn")),
        (fill_form(**new), click(_BUTTON, "Update address")),
        changed("order_shippingaddress", address, **new, search_text=anything),
        added("order_ordernote", order_id=order["id"], note_type="System", message=anything),
    )


@task("shop/office-revenue", level=1, split="train")
def _office_revenue(facts: Facts, rng: random.Random) -> Assignment:
    dates = sorted(one["date"] for one in facts["orders"])
    first = rng.randrange(len(dates) - 20)
    start, end = dates[first], dates[first + rng.randint(8, 19)]
    total = sum(one["total"] for one in facts["orders"] if start <= one["date"] <= end)
    return assign(
        f"By the order statistics, what was the total revenue from {start} to {end}, both days "
        "included? Answer with the amount.",
        _open_menu("Fulfilment", "Statistics"),
        (fill_form(date_from=start, date_to=end), click(_BUTTON, "Filter result")),
        answer=pounds(total),
    )


@task("shop/office-last-order", level=1, split="train")
def _office_last_order(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice([one for one in facts["people"] if orders_of(facts, one["username"])])
    order = orders_of(facts, person["username"])[-1]
    return assign(
        f"What are the number and the order total, shipping included, of the latest order of "
        f"{person['name']}? Answer with both, separated by a semicolon.",
        (_find_customer(person), click("tr a.btn", "View")),
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
    return assign(
        f"Only one customer has ever ordered the {title}. Who, and with which order? Answer with "
        "the full name and the order number, separated by a comma.",
        (_open_menu("Fulfilment", "Orders"), click("a", "Advanced Search")),
        (fill(".modal #id_product_title", title), click(".modal button", "Search")),
        answer=(find(facts["people"], username=order["user"])["name"], order["number"]),
    )


# Reviews.


_VERDICTS = {True: ("Approve", "Approved", 1), False: ("Reject", "Rejected", 2)}
"""By whether a review is approved: the verb of the goal, the status and its number."""


def _expect_verdict(facts: Facts, reviews: Sequence[Row], status: int) -> Parts:
    """Expect a new status of reviews, and new ratings of their products if it approves them."""
    before = [one for one in facts["reviews"] if not one["waits"]]
    after = [*before, *(reviews if status == 1 else [])]
    return (
        [changed_row("reviews_productreview", one, status=status) for one in reviews],
        [
            changed("catalogue_product", {"id": product}, rating=rating)
            for product in sorted({one["product"] for one in reviews})
            if (rating := _rating_of(product, after)) != _rating_of(product, before)
        ],
    )


def _rating_of(product: int, reviews: Iterable[Row]) -> float | None:
    scores = [one["score"] for one in reviews if one["product"] == product]
    return sum(scores) / len(scores) if scores else None


def _waiting(facts: Facts) -> list[Facts]:
    return [one for one in facts["reviews"] if one["waits"]]


@task("shop/office-review", level=1, split="train")
def _office_review(facts: Facts, rng: random.Random) -> Assignment:
    review = rng.choice(_waiting(facts))
    verb, status, number = _VERDICTS[rng.random() < 0.5]
    product = product_of(facts, review["product"])
    return assign(
        f"{verb} the review of the {product['title']} by {review['by']}, which waits for "
        "moderation.",
        (_open_menu("Content", "Reviews"), _choose(f"reviews/{review['id']}/", "Edit")),
        (select("#id_status", status), click(_BUTTON, "Save")),
        _expect_verdict(facts, [review], number),
    )


@task("shop/office-moderate", level=2, split="train")
def _office_moderate(facts: Facts, rng: random.Random) -> Assignment:
    waiting = _waiting(facts)
    verb, status, number = _VERDICTS[rng.random() < 0.5]
    scores = [rng.randint(1, 5) for _ in waiting]
    wanted = (4, 5) if verb == "Approve" else (1, 2)
    if not set(wanted) & set(scores):
        scores[0] = wanted[0]
    scored = [{**one, "score": score} for one, score in zip(waiting, scores, strict=True)]
    chosen = [one for one in scored if one["score"] in wanted]
    change = "UPDATE reviews_productreview SET score = ? WHERE id = ?"
    return assign(
        f"{verb} all reviews that require moderation and have a score of {wanted[0]} or "
        f"{wanted[1]}. Leave the others as they are.",
        (_open_menu("Content", "Reviews"), select("#id_status", "Requires moderation")),
        click(_BUTTON, "Search"),
        [check(f"input[name=selected_review][value='{one['id']}']") for one in chosen],
        select("table #id_status, .card-header #id_status", status),
        click("button[name=update]"),
        _expect_verdict(facts, chosen, number),
        prepare=[(change, (one["score"], one["id"])) for one in scored],
    )


# Offers, vouchers, customers, pages.


_USAGES = (
    ("Single use", "Can be used once by one customer"),
    ("Multi-use", "Can be used multiple times by multiple customers"),
    ("Once per customer", "Can only be used once per customer"),
)


@task("shop/office-new-voucher", level=2, split="train")
def _office_new_voucher(facts: Facts, rng: random.Random) -> Assignment:
    month = rng.choice(("April", "May", "June", "July"))
    name, code = f"{month} thanks {rng.randint(10, 99)}", f"{month.upper()}{rng.randint(100, 999)}"
    usage, label = rng.choice(_USAGES)
    offer = rng.choice([one for one in facts["offers"] if one["offer_type"] == "Voucher"])
    end = draw_day(rng, 8, 12)
    dates = {"start_datetime": _starts("2026-03-02"), "end_datetime": _starts(f"{end} 18:00")}
    number = in_new("voucher_voucher")
    return assign(
        f"Make a voucher “{name}” with the code {code}. It ends on {end} at 18:00, {label.lower()},"
        f" and gives the offer “{offer['name']}”. Leave the start as the form has it.",
        (_open_menu("Offers", "Vouchers"), click("a.btn", "Create new voucher")),
        fill_form(name=name, code=code, end_datetime=f"{end} 18:00:00"),
        (select("#id_usage", label), select("#id_offers", offer["name"]), click(_BUTTON, "Save")),
        added("voucher_voucher", name=name, code=code, usage=usage, **dates),
        added("voucher_voucher_offers", voucher_id=number, conditionaloffer_id=offer["id"]),
    )


@task("shop/office-delete-voucher", level=1, split="train")
def _office_delete_voucher(facts: Facts, rng: random.Random) -> Assignment:
    code = rng.randint(10, 99)
    names = [f"Trade fair {code + number}" for number in range(4)]
    chosen = rng.choice(names)
    add = (
        "INSERT INTO voucher_voucher (name, code, usage, start_datetime, end_datetime,"
        " num_basket_additions, num_orders, total_discount, date_created) VALUES"
        " (?, ?, 'Multi-use', '2026-02-01', '2026-06-01', 0, 0, 0, '2026-02-01')"
    )
    return assign(
        f"Delete the voucher “{chosen}”.",
        (_search("Offers", "Vouchers", name=chosen), click("tr td .dropdown-toggle")),
        (click("tr td .dropdown-item", "Delete"), click(_BUTTON, "Delete")),
        removed("voucher_voucher", name=chosen),
        prepare=[(add, (name, name.replace(" ", "").upper())) for name in names],
    )


@task("shop/office-extend-voucher", level=1, split="test")
def _office_extend_voucher(facts: Facts, rng: random.Random) -> Assignment:
    voucher = rng.choice(facts["vouchers"])
    end, path = draw_day(rng, 7, 12), "/dashboard/vouchers"
    return assign(
        f"Change the voucher “{voucher['name']}”: it now ends on {end} at 12:00.",
        _open_menu("Offers", "Vouchers"),
        click(f"tr:has(a[href='{path}/stats/{voucher['id']}/']) .dropdown-toggle"),
        click(f".dropdown-item[href='{path}/update/{voucher['id']}/']"),
        (fill_form(end_datetime=f"{end} 12:00:00"), click(_BUTTON, "Save")),
        changed_row("voucher_voucher", voucher, end_datetime=_starts(f"{end} 12:00")),
    )


@task("shop/office-new-offer", level=3, split="test")
def _office_new_offer(facts: Facts, rng: random.Random) -> Assignment:
    name = f"{rng.choice(('Spring', 'Summer', 'Weekend', 'Members'))} {rng.choice(_GROUPS)} days"
    range_name = rng.choice(("Bedding", "Candles", "Staff picks"))
    percent, least = rng.randint(5, 40), rng.randint(2, 6)
    number = facts["ranges"][range_name]

    def add_rule(table: str, kind: str, value: int) -> Parts:
        """Add a rule for the range, to which the offer refers."""
        return (
            (select("#id_range", range_name), select("#id_type", kind)),
            fill_form(value=str(value)),
            added(table, type=kind, value=value, range_id=number),
        )

    rules = {"benefit_id": in_new("offer_benefit"), "condition_id": in_new("offer_condition")}
    return assign(
        f"Make a site offer “{name}”: {percent} % off the products of the range {range_name}, if "
        f"the basket has at least {least} items of that range. Leave all else as the forms have "
        "it.",
        (_open_menu("Offers", "Offers"), click("a.btn", "Create new offer")),
        (fill_form(name=name), select("#id_offer_type", "Site")),
        added("offer_conditionaloffer", name=name, offer_type="Site", **rules),
        click(_BUTTON, "Continue to step 2"),
        add_rule("offer_benefit", "Percentage", percent),
        click(_BUTTON, "Continue to step 3"),
        add_rule("offer_condition", "Count", least),
        (click(_BUTTON, "Continue to step 4"), click(_BUTTON, "Save this offer")),
    )


@task("shop/office-deactivate", level=1, split="train")
def _office_deactivate(facts: Facts, rng: random.Random) -> Assignment:
    person = rng.choice(facts["people"][2:])
    return assign(
        f"Make the account of the customer {person['name']} inactive.",
        (_find_customer(person), check(f"input[name=selected_user][value='{person['id']}']")),
        (click("#make_inactive_check"), click("input[type=submit]")),
        changed_row("auth_user", person, is_active=0),
    )


@task("shop/office-views", level=2, split="train")
def _office_views(facts: Facts, rng: random.Random) -> Assignment:
    place = rng.randrange(10, 90)
    product = product_of(facts, facts["bestsellers"][place]["product"])
    return assign(
        f"According to the product analytics report, how many times was the {product['title']} "
        "viewed? Answer with the number.",
        (click(".navbar-primary a", "Reports"), select("#id_report_type", "Product analytics")),
        click("#generate_report"),
        [click(".pagination a", "next") for _ in range(place // 20)],
        answer=str(facts["bestsellers"][place]["views"]),
    )


@task("shop/office-page", level=1, split="test")
def _office_page(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(("Opening hours", "Returns", "About us", "Jobs", "Press", "Our workshop"))
    title = f"{name} {rng.randint(2026, 2030)}"
    path = f"/{title.lower().replace(' ', '-')}/"
    text = f"{name}: please call us on 0{rng.randint(10**8, 10**9 - 1)}."
    return assign(
        f"Make a page “{title}” at the URL {path} with the text “{text}”",
        (_open_menu("Content", "Pages"), click("a.btn", "Create new page")),
        (fill_form(title=title, url=path, content=text), click(_BUTTON, "Save")),
        added("django_flatpage", url=path, title=title, content=_reads(text)),
        allow=added("django_flatpage_sites", flatpage_id=in_new("django_flatpage")),
    )
