"""Common parts of the shop's templates: steps to its pages, and queries of its facts."""

from __future__ import annotations

import functools
import random
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from webtraj.environments.actions import Action, Wait
from webtraj.environments.browser.oracles import OracleView, Step, click, fill, select
from webtraj_apps.tasks import Expected, Facts, added, anything, changed, find, in_new, template

ORDERED: Final = (
    changed("basket_basket", {"status": "Open"}, status="Submitted", date_submitted=anything),
    added("order_lineprice", order_id=in_new("order_order")),
    added("order_orderdiscount", order_id=in_new("order_order")),
    added("order_orderlinediscount"),
)
"""What placing an order changes besides the order itself."""

CHECKOUT: Final = ("Standard delivery", "Express delivery", "Collect from our shop")
"""The shipping methods, in the order of the checkout's page."""

task = functools.partial(template, user="user")


def absent(facts: Facts, rng: random.Random) -> str:
    """Draw the title of a missing product, with the first word of one that the shop has."""
    titles = [one["title"] for one in facts["products"]]
    thing = rng.choice([one for one in _ABSENT if one not in " ".join(titles)])
    return f"{rng.choice(titles).split()[0]} {thing}"


_ABSENT: Final = (
    "Accordion", "Aquarium", "Barometer", "Canoe", "Easel", "Gramophone", "Globe", "Hammock",
    "Snowboard", "Telescope", "Trampoline", "Wheelbarrow",
)  # fmt: skip


# The way to pages.


def to_product(product: Facts) -> tuple[Step, ...]:
    """Search for a product and open its page."""
    return (*search(product["title"]), to_listed(product))


def to_listed(product: Facts) -> Step:
    """Open a product from the list that is shown."""
    return click(f".product_pod h3 a[href='{product['url']}']")


def search(title: str) -> tuple[Step, ...]:
    """Search for a product."""
    return fill("#id_q", title), click("nav form[action='/search/'] button")


BROWSE: Final = (
    click("a.dropdown-toggle", "Browse store"),
    click(".dropdown-item", "All products"),
)
"""Open the list of all products."""


def open_category(facts: Facts, name: str, order: str) -> tuple[Step, ...]:
    """Open a category by its department, and sort it: `price-asc`, `price-desc` or `rating`."""
    leaf = find(facts["categories"], name=name)
    return (*BROWSE, click(f".side_categories a[href='{leaf['url']}']"), sort_by(order))


def open_in_category(facts: Facts, product: Facts, order: str) -> tuple[Step, ...]:
    """Open a product from its category. See `open_category`."""
    return *open_category(facts, product["category"], order), to_listed(product)


def sort_by(order: str) -> Step:
    """Sort the list that is shown."""
    return select("#id_sort_by", order)


def to_basket() -> Step:
    """Open the basket's page."""
    return click(".basket-mini button", "View basket")


def to_account(section: str) -> tuple[Step, ...]:
    """Open a section of the account."""
    account = click("nav.accounts a[href^='/accounts/']:not(#logout_link)")
    return account, click(".page a.nav-link", section)


def to_order(order: Facts) -> tuple[Step, ...]:
    """Open an order of the account."""
    return (*to_account("Order History"), click("table a", order["number"]))


def await_saved() -> Step:
    """Wait until the script of the basket's page has sent a change to the shop."""

    async def step(page: OracleView) -> AsyncIterator[Action]:
        while not await page.evaluate("() => !window.jQuery || jQuery.active === 0"):
            yield Wait(0.5)

    return step


def choose(link: str, item: str = "", text: str | None = None) -> tuple[Step, ...]:
    """Choose from the menu of a table's row.

    Args:
        link: A condition on `href` that only a link in this row meets.
        item: An attribute selector of the menu's item; any item if empty.
        text: The text of the item; any if None.
    """
    row = f"tr:has(a[{link}])"
    return click(f"{row} .dropdown-toggle"), click(f"{row} .dropdown-item{item}", text)


def fill_form(**fields: str) -> tuple[Step, ...]:
    """Fill in fields, by the names of the form."""
    return tuple(fill(f"#id_{name}", value) for name, value in fields.items())


# Facts.


def pounds(amount: float) -> str:
    """Return an amount as an answer."""
    return f"£{amount:.2f}"


def product_of(facts: Facts, number: int) -> Facts:
    """Return the product with an id."""
    return find(facts["products"], id=number)


def in_category(facts: Facts, category: str) -> list[Facts]:
    """Return the products of a category."""
    return [one for one in facts["products"] if one["category"] == category]


def price_of(product: Facts) -> float:
    """Return the price of a product, to sort by."""
    return float(product["price"])


def draw_category(facts: Facts, rng: random.Random) -> tuple[str, list[Facts]]:
    """Draw a category with a different price for each product; return these cheapest first."""
    while True:
        name = rng.choice(facts["products"])["category"]
        found = sorted(in_category(facts, name), key=price_of)
        if len(set(map(price_of, found))) == len(found):
            return name, found


class Line(NamedTuple):
    """A line of the user's basket."""

    product: Facts
    id: int
    quantity: int


def lines_of(facts: Facts) -> list[Line]:
    """Return the lines of the user's basket."""
    return [
        Line(product_of(facts, line["product"]), line["id"], line["quantity"])
        for line in facts["basket"]["lines"]
    ]


def expect_line(facts: Facts, product: int, count: int = 1) -> Expected:
    """Expect a product, by its id, in the user's basket."""
    basket = facts["basket"]["id"]
    return added("basket_line", basket_id=basket, product_id=product, quantity=count)


def free(facts: Facts) -> list[Facts]:
    """Return products with enough stock that are not in the user's basket or wish lists."""
    lists = (facts["basket"], *facts["wishlists"])
    taken = {line["product"] for one in lists for line in one["lines"]}
    return [one for one in facts["products"] if one["stock"] > 20 and one["id"] not in taken]


def orders_of(facts: Facts, user: str = "") -> list[Facts]:
    """Return the orders of a customer, by default the user's, the oldest first."""
    return [one for one in facts["orders"] if one["user"] == (user or facts["user"])]
