"""The shop: goods, reviews, the cart and the till."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Final

from webtraj.environments.local_server import Response, see_other
from webtraj.testing.site.pages import layout
from webtraj.testing.site.pages.layout import Markup, Visit, element, page, routes
from webtraj.testing.site.world import CATEGORIES, Order, Product, Review, World, money

__all__ = ["COUNTRIES", "MAX_QUANTITY", "PAGE_SIZE", "SHIPPING"]

# The shop: products, their pages, wish list and cart.

PAGE_SIZE: Final = 8
"""Products on one page of a list."""
MAX_QUANTITY: Final = 9

_SORTS: Final = {
    "name": ("Name", lambda product: product.name),
    "price": ("Price, low to high", lambda product: product.cents),
    "rating": ("Rating, high to low", lambda product: -product.rating),
}


@routes("GET", "/")
def home(visit: Visit) -> Response:
    """Show the departments."""
    departments = [layout.link(name, f"/products?category={name}") for name in CATEGORIES]
    return visit.show(
        "Welcome",
        element("p", f"Free shipping from {money(visit.world.free_shipping_cents)}."),
        layout.listing(departments, class_="departments"),
    )


@routes("GET", "/products")
def products(visit: Visit) -> Response:
    """Show the products that match, a page at a time."""
    query = visit.request.query
    sort = query.get("sort", "name")
    if sort not in _SORTS:
        raise ValueError(f"sort is one of {', '.join(_SORTS)}; got {sort!r}.")
    matching = sorted((p for p in visit.world.products if _matches(p, query)), key=_SORTS[sort][1])
    last_page = max(1, -(-len(matching) // PAGE_SIZE))
    page = min(max(1, int(query.get("page", "1"))), last_page)
    shown = matching[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return visit.show(
        "Products",
        _filters(query, sort),
        element("p", f"{len(matching)} products", role="status"),
        layout.listing([_teaser(product) for product in shown], class_="products"),
        _paging(query, page, last_page),
    )


def _matches(product: Product, query: Mapping[str, str]) -> bool:
    words = query.get("q", "").lower().split()
    max_price = query.get("max_price", "")
    return (
        all(word in product.name.lower() for word in words)
        and query.get("category", "") in ("", product.category)
        and (not max_price or product.cents <= float(max_price) * 100)
        and (not query.get("min_rating") or product.rating >= float(query["min_rating"]))
    )


def _filters(query: Mapping[str, str], sort: str) -> Markup:

    def options(choices: list[tuple[str, str]], chosen: str) -> list[Markup]:
        return [
            element("option", label, value=value, selected=value == chosen)
            for value, label in choices
        ]

    categories = [("", "All"), *((name, name) for name in CATEGORIES)]
    sorts = [(key, label) for key, (label, _) in _SORTS.items()]
    return element(
        "form",
        layout.field("Name contains", "q", query.get("q", ""), type="search"),
        element("label", "Category", for_="filter-category"),
        element(
            "select",
            options(categories, query.get("category", "")),
            id="filter-category",
            name="category",
        ),
        layout.field(
            "Highest price", "max_price", query.get("max_price", ""), type="number", min="0"
        ),
        element("label", "Sort by", for_="filter-sort"),
        element("select", options(sorts, sort), id="filter-sort", name="sort"),
        layout.button("Apply"),
        action="/products",
        class_="filters",
    )


def _teaser(product: Product) -> list[Markup | str]:
    return [
        layout.link(product.name, f"/products/{product.id}"),
        element("span", money(product.cents), class_="price"),
        element("span", f"{product.rating} of 5 stars", class_="rating"),
        layout.form(
            "/cart/add",
            layout.button("Add to cart", name="product", value=str(product.id)),
        ),
    ]


def _paging(query: Mapping[str, str], page: int, last_page: int) -> Markup:

    def to(number: int, text: str) -> Markup:
        return layout.link(text, "/products?" + layout.query({**query, "page": number}))

    return element(
        "nav",
        to(page - 1, "Previous page") if page > 1 else None,
        element("span", f"Page {page} of {last_page}"),
        to(page + 1, "Next page") if page < last_page else None,
        aria_label="Pages",
        class_="paging",
    )


@routes("GET", "/products/*")
def product(visit: Visit) -> Response:
    """Show a product: description, reviews and shipping in tabs."""
    return _product_page(visit, _product(visit))


def _product(visit: Visit) -> Product:
    return visit.world.product(int(visit.arguments[0]))


def _product_page(visit: Visit, product: Product, error: str = "") -> Response:
    wished = product.id in visit.world.wish_list
    return visit.show(
        product.name,
        element("p", money(product.cents), class_="price"),
        layout.form(
            "/cart/add",
            element("input", type="hidden", name="product", value=product.id),
            layout.field(
                "Quantity", "quantity", "1", type="number", min="1", max=str(MAX_QUANTITY)
            ),
            layout.button("Add to cart"),
        ),
        layout.form(
            f"/products/{product.id}/wish",
            layout.button("Remove from wish list" if wished else "Add to wish list"),
        ),
        _tabs(
            ("Description", [element("p", product.summary), _details(product)]),
            (f"Reviews ({len(product.reviews)})", _reviews(product, error)),
            ("Shipping", element("p", "Standard: 3 days. Express: 1 day.")),
        ),
        status=422 if error else 200,
    )


def _tabs(*tabs: tuple[str, Markup | list[Markup]]) -> Markup:
    buttons, panels = [], []
    for i, (title, content) in enumerate(tabs):
        buttons.append(
            element(
                "button",
                title,
                role="tab",
                type="button",
                aria_selected="true" if i == 0 else "false",
                aria_controls=f"panel-{i}",
            )
        )
        panels.append(element("div", content, id=f"panel-{i}", role="tabpanel", hidden=i > 0))
    return element("div", element("div", buttons, role="tablist"), panels, class_="tabs")


def _details(product: Product) -> Markup:
    rows = [("Article", product.code), ("Department", product.category)]
    return layout.table(("Detail", "Value"), rows)


def _reviews(product: Product, error: str) -> list[Markup]:
    written = [
        [element("strong", review.author), f" {review.stars} stars: ", review.text]
        for review in product.reviews
    ]
    stars = [element("option", f"{n} stars", value=n, selected=n == 3) for n in range(1, 6)]
    return [
        layout.listing(written, class_="reviews"),
        layout.form(
            f"/products/{product.id}/review",
            element("label", "Your stars", for_="review-stars"),
            element("select", stars, id="review-stars", name="stars"),
            element("label", "Your review", for_="review-text"),
            element("textarea", id="review-text", name="text"),
            element("p", error, class_="error", role="alert") if error else Markup(),
            layout.button("Send review"),
        ),
    ]


@routes("POST", "/products/*/review")
def review(visit: Visit) -> Response:
    """Take a review of a customer who is logged in."""
    product = _product(visit)
    account = visit.world.account
    if account is None:
        return see_other("/login")
    text, stars = visit.request.form.get("text", "").strip(), int(visit.request.form["stars"])
    if not text:
        return _product_page(visit, product, "Please write something.")
    if stars not in range(1, 6):
        raise ValueError(f"A review gives 1 to 5 stars, not {stars}.")
    product.reviews.append(Review(account.full_name, stars, text))
    return see_other(f"/products/{product.id}")


@routes("POST", "/products/*/wish")
def wish(visit: Visit) -> Response:
    """Add a product to the wish list, or remove it."""
    product, wishes = _product(visit), visit.world.wish_list
    if product.id in wishes:
        wishes.remove(product.id)
    else:
        wishes.append(product.id)
    return see_other(f"/products/{product.id}")


@routes("GET", "/wish-list")
def wish_list(visit: Visit) -> Response:
    """Show the wish list."""
    products = [visit.world.product(key) for key in visit.world.wish_list]
    items = [layout.link(product.name, f"/products/{product.id}") for product in products]
    return visit.show("Wish list", layout.listing(items) if items else "It is empty.")


@routes("GET", "/cart")
def cart(visit: Visit) -> Response:
    """Show the cart."""
    world = visit.world
    if not world.cart:
        return visit.show("Cart", element("p", "Your cart is empty."))
    rows = [_cart_row(world.product(key), count) for key, count in world.cart.items()]
    return visit.show(
        "Cart",
        layout.table(("Product", "Price", "Quantity", ""), rows),
        element("p", f"Total: {money(world.cart_cents())}"),
        layout.link("Go to checkout", "/checkout"),
    )


def _cart_row(product: Product, count: int) -> list[Markup | str]:
    quantity = element(
        "input",
        type="number",
        name="quantity",
        value=count,
        min="0",
        max=MAX_QUANTITY,
        aria_label=f"Quantity of {product.name}",
    )
    hidden = element("input", type="hidden", name="product", value=product.id)
    remove = layout.button("Remove", name="product", value=str(product.id))
    return [
        layout.link(product.name, f"/products/{product.id}"),
        money(product.cents),
        layout.form("/cart/set", hidden, quantity, layout.button("Update")),
        layout.form("/cart/remove", remove),
    ]


@routes("POST", "/cart/add")
def add_to_cart(visit: Visit) -> Response:
    """Add some of a product to the cart."""
    form, world = visit.request.form, visit.world
    product = world.product(int(form["product"]))
    count = world.cart.get(product.id, 0) + int(form.get("quantity", "1"))
    if not 1 <= count <= MAX_QUANTITY:
        raise ValueError(f"The cart takes 1 to {MAX_QUANTITY} of a product, not {count}.")
    world.cart[product.id] = count
    return see_other("/cart")


@routes("POST", "/cart/set")
def set_quantity(visit: Visit) -> Response:
    """Change a quantity; 0 removes the product."""
    product, count = int(visit.request.form["product"]), int(visit.request.form["quantity"])
    if not 0 <= count <= MAX_QUANTITY:
        raise ValueError(f"The cart takes up to {MAX_QUANTITY} of a product, not {count}.")
    if product in visit.world.cart:
        visit.world.cart[product] = count
        if not count:
            del visit.world.cart[product]
    return see_other("/cart")


@routes("POST", "/cart/remove")
def remove_from_cart(visit: Visit) -> Response:
    """Take a product out of the cart."""
    visit.world.cart.pop(int(visit.request.form["product"]), None)
    return see_other("/cart")


@routes("POST", "/currency")
def currency(visit: Visit) -> Response:
    """Change the currency of the menu."""
    chosen = visit.request.form["currency"]
    if chosen not in layout.CURRENCIES:
        raise ValueError(f"The currency is one of {', '.join(layout.CURRENCIES)}.")
    visit.world.currency = chosen
    return see_other("/")


# The till: the order form, what is wrong with it, and payment in a frame of another origin.

COUNTRIES: Final = ("Norland", "Sudland", "Estmark", "Westmark")
SHIPPING: Final = {"standard": 500, "express": 1500, "pickup": 0}
"""What each kind of shipping costs, in cents."""
_PAYMENTS: Final = ("invoice", "card")
_ORDER_DAY: Final = datetime.date(2030, 1, 1)
"""The first day of delivery. The site's calendar stands still, so that nothing depends on today."""


@routes("GET", "/checkout")
def checkout(visit: Visit) -> Response:
    """Show the order form."""
    if not visit.world.cart:
        return see_other("/cart")
    account = visit.world.account
    known = {"name": account.full_name, "email": account.email} if account else {}
    return _order_form(visit, known, {})


@routes("POST", "/checkout")
def place_order(visit: Visit) -> Response:
    """Place the order, or show what is wrong with it."""
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
    """Confirm an order."""
    order = visit.world.order(visit.arguments[0])
    return visit.show(
        "Thank you",
        element("p", f"Order {order.number} is placed. Total: {money(order.cents)}"),
    )


@routes("GET", "/pay/*")
def pay(visit: Visit) -> Response:
    """Show the bank's page in a frame of the other origin."""
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
    """Show the bank's form, without the site's frame around it."""
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
    """Take the money, for any card number of 16 digits."""
    order = visit.world.order(visit.arguments[0])
    order.paid = bool(re.fullmatch(r"\d{16}", visit.request.form.get("card", "").replace(" ", "")))
    text = "Paid. Thank you." if order.paid else "A card number has 16 digits."
    return Response(body=page("Larch Bank", None, element("p", text, role="status")).encode())
