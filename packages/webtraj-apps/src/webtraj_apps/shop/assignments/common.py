"""Common parts of the shop's templates: finding a page, and products that are not in use."""

from __future__ import annotations

import functools
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from webtraj.environments.actions import Action, Wait
from webtraj.environments.browser.oracles import OracleView, Step, click, fill
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    Steps,
    added,
    anything,
    changed,
    find,
    in_new,
    template,
)

__all__ = [
    "CHECKOUT",
    "ORDERED",
    "absent",
    "assignment",
    "await_saved",
    "empty_basket",
    "fill_all",
    "free",
    "in_office",
    "lines_of",
    "money",
    "orders_of",
    "product_of",
    "search",
    "take_out",
    "task",
    "to_account",
    "to_basket",
    "to_order",
    "to_product",
    "to_products",
]

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


def assignment(goal: str, *steps: Steps, **more: Any) -> Assignment:
    """Return an assignment, its oracle behind the goal."""
    return Assignment(goal=goal, steps=steps, **more)


def absent(facts: Facts, rng: random.Random) -> str:
    """Return the title of a product that the shop does not have, in a series that it has."""
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
    return (*search(product["title"]), click(f".product_pod h3 a[href='{product['url']}']"))


def search(title: str) -> tuple[Step, ...]:
    """Search for a product."""
    return fill("#id_q", title), click("nav form[action='/search/'] button")


def to_basket() -> Step:
    """Open the basket's page."""
    return click(".basket-mini button", "View basket")


def to_account(section: str = "") -> tuple[Step, ...]:
    """Open a section of the account."""
    account = click("nav.accounts a[href^='/accounts/']:not(#logout_link)")
    return (account, click(".page a.nav-link", section)) if section else (account,)


def to_order(number: str) -> tuple[Step, ...]:
    """Open an order of the account."""
    return (*to_account("Order History"), click("table a", number))


def in_office(menu: str, item: str) -> tuple[Step, ...]:
    """Open a page of the back office by its menu."""
    return click(".navbar-primary a", menu), click(".navbar-primary .dropdown-item", item)


def to_products(product: Facts) -> tuple[Step, ...]:
    """Search for a product in the back office and open it."""
    return (
        *in_office("Catalogue", "Products"),
        fill("#id_title", product["title"]),
        click(".page-content form button", "Search"),
        click("td a", product["title"]),
    )


def await_saved() -> Step:
    """Wait until the script of the basket's page has sent a change to the shop."""

    async def step(page: OracleView) -> AsyncIterator[Action]:
        while not await page.evaluate("() => !window.jQuery || jQuery.active === 0"):
            yield Wait(0.5)

    return step


def take_out(product: Facts, how: str = "Remove") -> tuple[Step, ...]:
    """Remove a product from the basket, whose page is open, or save it for later."""
    return click(f".basket-items:has(a[href='{product['url']}']) a", how), await_saved()


def empty_basket(facts: Facts) -> tuple[Step, ...]:
    """Remove everything from the basket, whose page is open."""
    return tuple(step for product, _, _ in lines_of(facts) for step in take_out(product))


def fill_all(fields: Mapping[str, str]) -> tuple[Step, ...]:
    """Fill in fields, by the names of the form."""
    return tuple(fill(f"#id_{name}", value) for name, value in fields.items())


# Facts.


def money(amount: float) -> str:
    """Return an amount as a form takes it."""
    return f"{amount:.2f}"


def pounds(amount: float) -> str:
    """Return an amount as an answer."""
    return f"£{money(amount)}"


def product_of(facts: Facts, number: int) -> Facts:
    """Return the product with an id."""
    return find(facts["products"], id=number)


def lines_of(facts: Facts) -> list[tuple[Facts, int, int]]:
    """Return product, line and quantity of the user's basket."""
    return [
        (product_of(facts, line["product"]), line["id"], line["quantity"])
        for line in facts["basket"]["lines"]
    ]


def free(facts: Facts) -> list[Facts]:
    """Return products with enough stock that are not in the user's basket or wish lists."""
    lines = list(facts["basket"]["lines"])
    for wishes in facts["wishlists"]:
        lines += wishes["lines"]
    taken = {line["product"] for line in lines}
    return [one for one in facts["products"] if one["stock"] > 20 and one["id"] not in taken]


def orders_of(facts: Facts, user: str) -> list[Facts]:
    """Return a customer's orders, the oldest first."""
    return [one for one in facts["orders"] if one["user"] == user]
