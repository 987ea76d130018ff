"""The till: the order form, what is wrong with it, and payment in a frame of another origin."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Final

from webtraj.environments.fixture_site.html import Markup, element, page
from webtraj.environments.fixture_site.messages import Response, see_other
from webtraj.environments.fixture_site.pages import layout
from webtraj.environments.fixture_site.routing import Visit, routes
from webtraj.environments.fixture_site.world import Order, World, money

__all__ = ["COUNTRIES", "SHIPPING"]

COUNTRIES: Final = ("Norland", "Sudland", "Estmark", "Westmark")
SHIPPING: Final = {"standard": 500, "express": 1500, "pickup": 0}
"""What each kind of shipping costs, in cents."""
_PAYMENTS: Final = ("invoice", "card")
_ORDER_DAY: Final = datetime.date(2030, 1, 1)
"""The first day of delivery. The site's calendar stands still, so that nothing depends on today."""


@routes("GET", "/checkout")
def checkout(visit: Visit) -> Response:
    """Shows the order form."""
    if not visit.world.cart:
        return see_other("/cart")
    account = visit.world.account
    known = {"name": account.full_name, "email": account.email} if account else {}
    return _order_form(visit, known, {})


@routes("POST", "/checkout")
def place_order(visit: Visit) -> Response:
    """Places the order, or says what is wrong with it."""
    world, form = visit.world, visit.request.form
    if not world.cart:
        return see_other("/cart")
    if world.failures_left:
        world.failures_left -= 1
        return visit.show(
            "The till is out of order",
            element("p", "Your order was not placed. Please try again."),
            layout.link("Back to the checkout", "/checkout"),
            status=503,
        )
    wrong = _faults(world, form)
    if wrong:
        return _order_form(visit, form, wrong)
    order = _order(world, form)
    world.orders.append(order)
    world.cart.clear()
    return see_other(
        f"/pay/{order.number}" if order.payment == "card" else f"/thanks/{order.number}"
    )


def _faults(world: World, form: Mapping[str, str]) -> dict[str, str]:
    wrong = {}
    if not form.get("name", "").strip():
        wrong["name"] = "Please tell us your name."
    if not re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", form.get("email", "")):
        wrong["email"] = "Please give an e-mail address."
    if form.get("country") not in COUNTRIES:
        wrong["country"] = "Please choose a country."
    if form.get("shipping") not in SHIPPING:
        wrong["shipping"] = "Please choose a kind of shipping."
    if form.get("payment") not in _PAYMENTS:
        wrong["payment"] = "Please choose a kind of payment."
    if form.get("delivery_date") and not _is_delivery_date(form["delivery_date"]):
        wrong["delivery_date"] = f"Please choose a date from {_ORDER_DAY} on."
    if form.get("coupon") and form["coupon"] not in world.coupons:
        wrong["coupon"] = "We do not know this coupon."
    if form.get("terms") != "yes":
        wrong["terms"] = "Please agree to the terms."
    return wrong


def _is_delivery_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text) >= _ORDER_DAY
    except ValueError:
        return False


def _order(world: World, form: Mapping[str, str]) -> Order:
    goods = world.cart_cents()
    goods -= goods * world.coupons.get(form.get("coupon", ""), 0) // 100
    free = form["shipping"] == "standard" and goods >= world.free_shipping_cents
    return Order(
        number=str(max(int(order.number) for order in world.orders) + 1),
        username=world.user,
        lines=dict(world.cart),
        cents=goods + (0 if free else SHIPPING[form["shipping"]]),
        name=form["name"].strip(),
        email=form["email"],
        country=form["country"],
        shipping=form["shipping"],
        gift_wrap=form.get("gift_wrap") == "yes",
        delivery_date=form.get("delivery_date", ""),
        coupon=form.get("coupon", ""),
        payment=form["payment"],
    )


def _order_form(visit: Visit, form: Mapping[str, str], wrong: Mapping[str, str]) -> Response:
    def text(label: str, name: str, **attributes: str | bool) -> Markup:
        return layout.field(
            label, name, form.get(name, ""), error=wrong.get(name, ""), **attributes
        )

    def choice(legend: str, name: str, options: Mapping[str, str]) -> Markup:
        radios = [
            element(
                "label",
                element("input", type="radio", name=name, value=key, checked=form.get(name) == key),
                label,
            )
            for key, label in options.items()
        ]
        return element("fieldset", element("legend", legend), radios, _fault(wrong, name))

    def tick(label: str, name: str) -> Markup:
        box = element(
            "input", type="checkbox", name=name, value="yes", checked=form.get(name) == "yes"
        )
        return element("p", element("label", box, label), _fault(wrong, name))

    countries = [element("option", "Choose a country", value="")]
    countries += [
        element("option", name, selected=form.get("country") == name) for name in COUNTRIES
    ]
    shipping = {key: f"{key.capitalize()} ({money(cents)})" for key, cents in SHIPPING.items()}
    return visit.show(
        "Checkout",
        element("p", f"Goods: {money(visit.world.cart_cents())}"),
        layout.form(
            "/checkout",
            text("Name", "name"),
            text("E-mail", "email"),
            element("label", "Country", for_="field-country"),
            element("select", countries, id="field-country", name="country"),
            _fault(wrong, "country"),
            choice("Shipping", "shipping", shipping),
            tick("Wrap it as a gift", "gift_wrap"),
            text("Delivery date", "delivery_date", type="date"),
            text("Coupon", "coupon"),
            choice("Payment", "payment", {key: key.capitalize() for key in _PAYMENTS}),
            tick("I agree to the terms", "terms"),
            layout.button("Place order"),
            novalidate=True,
            class_="checkout",
        ),
        status=422 if wrong else 200,
    )


def _fault(wrong: Mapping[str, str], name: str) -> Markup | None:
    if name not in wrong:
        return None
    return element("span", wrong[name], class_="error", role="alert")


@routes("GET", "/thanks/*")
def thanks(visit: Visit) -> Response:
    """Confirms an order."""
    order = visit.world.order(visit.arguments[0])
    return visit.show(
        "Thank you",
        element("p", f"Order {order.number} is placed. Total: {money(order.cents)}"),
    )


@routes("GET", "/pay/*")
def pay(visit: Visit) -> Response:
    """Shows the bank's page in a frame of the other origin."""
    order = visit.world.order(visit.arguments[0])
    source = f"{visit.other_origin}/bank/{order.number}?visit={visit.token}"
    return visit.show(
        "Payment",
        element("p", f"Please pay {money(order.cents)} to the bank."),
        element("iframe", src=source, title="Bank", width="400", height="260"),
        layout.link("I have paid", f"/thanks/{order.number}"),
    )


@routes("GET", "/bank/*")
def bank(visit: Visit) -> Response:
    """Shows the bank's form, without the site's frame around it."""
    order = visit.world.order(visit.arguments[0])
    body = (
        element("h1", "Larch Bank"),
        element(
            "form",
            layout.field("Card number", "card", inputmode="numeric"),
            layout.button(f"Pay {money(order.cents)}"),
            action=f"/bank/{order.number}?visit={visit.token}",
            method="post",
        ),
    )
    return Response(body=page("Larch Bank", None, body).encode())


@routes("POST", "/bank/*")
def take_payment(visit: Visit) -> Response:
    """Takes the money, for any card number of 16 digits."""
    order = visit.world.order(visit.arguments[0])
    order.paid = bool(re.fullmatch(r"\d{16}", visit.request.form.get("card", "").replace(" ", "")))
    text = "Paid. Thank you." if order.paid else "A card number has 16 digits."
    return Response(body=page("Larch Bank", None, element("p", text, role="status")).encode())
