"""The shop: goods, the cart and the till."""

from __future__ import annotations

import re

from fixture_site import layout
from fixture_site.layout import Visit, element, page, routes
from fixture_site.world import CATEGORIES, Order, Product, World, money
from webtraj.environments.local_server import Response, see_other

PAGE_SIZE = 8
"""Products on one page of a list."""
MAX_QUANTITY = 9
COUNTRIES = ("Norland", "Sudland", "Estmark", "Westmark")
SHIPPING = {"standard": 500, "express": 1500, "pickup": 0}
"""What each kind of shipping costs, in cents."""


@routes("GET", "/")
def home(visit: Visit) -> Response:
    departments = [layout.link(name, f"/products?category={name}") for name in CATEGORIES]
    return visit.show("Welcome", layout.listing(departments))


@routes("GET", "/products")
def products(visit: Visit) -> Response:
    """Show the products that match, a page at a time."""
    query = visit.request.query
    words, category = query.get("q", "").lower().split(), query.get("category", "")
    matching = [
        product
        for product in sorted(visit.world.products, key=lambda product: product.name)
        if all(word in product.name.lower() for word in words)
        and category in ("", product.category)
    ]
    last_page = max(1, -(-len(matching) // PAGE_SIZE))
    number = min(max(1, int(query.get("page", "1"))), last_page)

    def to(number: int, text: str) -> str:
        return layout.link(text, "/products?" + layout.query({**query, "page": number}))

    return visit.show(
        "Products",
        element("p", f"{len(matching)} products", role="status"),
        layout.listing(
            map(_teaser, matching[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]), class_="products"
        ),
        element(
            "nav",
            to(number - 1, "Previous page") if number > 1 else None,
            element("span", f"Page {number} of {last_page}"),
            to(number + 1, "Next page") if number < last_page else None,
            aria_label="Pages",
        ),
    )


def _teaser(product: Product) -> list[str]:
    return [
        layout.link(product.name, f"/products/{product.id}"),
        element("span", money(product.cents)),
        layout.form(
            "/cart/add", layout.button("Add to cart", name="product", value=str(product.id))
        ),
    ]


@routes("GET", "/products/*")
def product(visit: Visit) -> Response:
    product = visit.world.product(int(visit.arguments[0]))
    return visit.show(
        product.name,
        element("p", f"{product.category}, {money(product.cents)}"),
        layout.form(
            "/cart/add",
            element("input", type="hidden", name="product", value=product.id),
            layout.field("Quantity", "quantity", "1", type="number", min="1", max="9"),
            layout.button("Add to cart"),
        ),
    )


@routes("GET", "/cart")
def cart(visit: Visit) -> Response:
    world = visit.world
    if not world.cart:
        return visit.show("Cart", element("p", "Your cart is empty."))
    return visit.show(
        "Cart",
        layout.table(
            ("Product", "Price", "Quantity", ""),
            [_cart_row(world.product(key), count) for key, count in world.cart.items()],
        ),
        element("p", f"Total: {money(world.cart_cents())}"),
        layout.link("Go to checkout", "/checkout"),
    )


def _cart_row(product: Product, count: int) -> list[str]:
    quantity = element(
        "input", type="number", name="quantity", value=count, min="0", max=MAX_QUANTITY,
        aria_label=f"Quantity of {product.name}",
    )  # fmt: skip
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
    form, world = visit.request.form, visit.world
    product = world.product(int(form["product"]))
    count = world.cart.get(product.id, 0) + int(form.get("quantity", "1"))
    if not 1 <= count <= MAX_QUANTITY:
        raise ValueError(f"The cart takes 1 to {MAX_QUANTITY} of a product, not {count}.")
    world.cart[product.id] = count
    return see_other("/cart")


@routes("POST", "/cart/set")
def set_quantity(visit: Visit) -> Response:
    product, count = int(visit.request.form["product"]), int(visit.request.form["quantity"])
    if product not in visit.world.cart or not 1 <= count <= MAX_QUANTITY:
        raise ValueError(f"Expected a product of the cart and 1 to {MAX_QUANTITY}, not {count}.")
    visit.world.cart[product] = count
    return see_other("/cart")


@routes("POST", "/cart/remove")
def remove_from_cart(visit: Visit) -> Response:
    visit.world.cart.pop(int(visit.request.form["product"]), None)
    return see_other("/cart")


@routes("POST", "/currency")
def currency(visit: Visit) -> Response:
    visit.world.currency = visit.request.form["currency"]
    return see_other("/")


# The till: the order form, and payment in a frame of another origin.


@routes("GET", "/checkout")
def checkout(visit: Visit) -> Response:
    return _order_form(visit) if visit.world.cart else see_other("/cart")


@routes("POST", "/checkout")
def place_order(visit: Visit) -> Response:
    world, form = visit.world, visit.request.form
    sound = (
        form.get("name", "").strip()
        and "@" in form.get("email", "")
        and form.get("country") in COUNTRIES
        and form.get("shipping") in SHIPPING
        and form.get("payment") in ("invoice", "card")
        and form.get("terms") == "yes"
    )
    if not sound:
        return _order_form(visit, "Please fill in all fields.")
    order = _order(world, form)
    world.orders.append(order)
    world.cart.clear()
    return see_other(
        f"/pay/{order.number}" if order.payment == "card" else f"/thanks/{order.number}"
    )


def _order(world: World, form: dict[str, str]) -> Order:
    return Order(
        number=str(1001 + len(world.orders)),
        lines=dict(world.cart),
        cents=world.cart_cents() + SHIPPING[form["shipping"]],
        name=form["name"].strip(),
        email=form["email"],
        country=form["country"],
        shipping=form["shipping"],
        payment=form["payment"],
    )


def _order_form(visit: Visit, error: str = "") -> Response:
    def choice(name: str, options: tuple[str, ...]) -> str:
        radios = [
            element("label", element("input", type="radio", name=name, value=key), key.capitalize())
            for key in options
        ]
        return element("fieldset", element("legend", name.capitalize()), radios)

    terms = element("input", type="checkbox", name="terms", value="yes")
    countries = [element("option", name) for name in COUNTRIES]
    return visit.show(
        "Checkout",
        element("p", f"Goods: {money(visit.world.cart_cents())}"),
        layout.form(
            "/checkout",
            layout.field("Name", "name"),
            layout.field("E-mail", "email"),
            element("label", "Country", for_="field-country"),
            element("select", countries, id="field-country", name="country"),
            choice("shipping", tuple(SHIPPING)),
            choice("payment", ("invoice", "card")),
            element("p", element("label", terms, "I agree to the terms")),
            element("p", error, class_="error", role="alert") if error else None,
            layout.button("Place order"),
        ),
        status=422 if error else 200,
    )


@routes("GET", "/thanks/*")
def thanks(visit: Visit) -> Response:
    order = visit.world.order(visit.arguments[0])
    return visit.show("Thank you", element("p", f"Order {order.number} is placed."))


@routes("GET", "/pay/*")
def pay(visit: Visit) -> Response:
    """Show the bank's page in a frame of the other origin."""
    order = visit.world.order(visit.arguments[0])
    source = f"{visit.other_origin}/bank/{order.number}?visit={visit.token}"
    return visit.show(
        "Payment",
        element("p", f"Please pay {money(order.cents)} to the bank."),
        element("iframe", src=source, title="Bank", width="400", height="260"),
    )


@routes("GET", "/bank/*")
def bank(visit: Visit) -> Response:
    order = visit.world.order(visit.arguments[0])
    body = (
        element("h1", "Larch Bank"),
        layout.form(
            f"/bank/{order.number}?visit={visit.token}",
            layout.field("Card number", "card", inputmode="numeric"),
            layout.button(f"Pay {money(order.cents)}"),
        ),
    )
    return Response(body=page("Larch Bank", None, body).encode())


@routes("POST", "/bank/*")
def take_payment(visit: Visit) -> Response:
    """Take the money, for any card number of 16 digits."""
    order = visit.world.order(visit.arguments[0])
    order.paid = bool(re.fullmatch(r"\d{16}", visit.request.form.get("card", "")))
    text = "Paid. Thank you." if order.paid else "A card number has 16 digits."
    return Response(body=page("Larch Bank", None, element("p", text, role="status")).encode())
