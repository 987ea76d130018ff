"""What all pages have in common, and the pieces that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from webtraj.environments.fixture_site.html import Child, Markup, element, page
from webtraj.environments.fixture_site.world import World

__all__ = ["button", "document", "field", "form", "link", "listing", "script", "table"]

CURRENCIES = ("USD", "EUR", "GBP", "JPY")


def document(world: World, title: str, content: Child) -> str:
    """Returns a page of the site."""
    head = (
        element("link", rel="stylesheet", href="/static/site.css"),
        element("link", rel="icon", href="data:,"),
        element("script", src="/static/site.js"),
    )
    body = (
        element("header", link("Larch & Lantern", "/", class_="brand"), _search(), _menu(world)),
        element("main", element("h1", title), content),
        element("footer", link("Help", "/help"), " ", link("Extras", "/extras")),
    )
    return page(f"{title} - Larch & Lantern", head, body)


def _search() -> Markup:
    return element(
        "form",
        element("input", type="search", name="q", aria_label="Search products"),
        element("button", "Search"),
        action="/products",
        role="search",
    )


def _menu(world: World) -> Markup:
    if world.account:
        who = [link(world.account.full_name, "/account"), form("/logout", button("Log out"))]
    else:
        who = [link("Log in", "/login")]
    currencies = [
        element("li", form("/currency", button(code, name="currency", value=code)))
        for code in CURRENCIES
    ]
    return element(
        "nav",
        link("Products", "/products"),
        link("Forum", "/forum"),
        link("Wish list", "/wish-list"),
        link(f"Cart ({sum(world.cart.values())})", "/cart"),
        element(
            "div",
            element("span", f"Currency: {world.currency}", tabindex="0", aria_haspopup="true"),
            element("ul", currencies),
            class_="hover-menu",
        ),
        who,
    )


def link(text: Child, href: str, **attributes: str | None) -> Markup:
    """Returns a link."""
    return element("a", text, href=href, **attributes)


def button(text: str, **attributes: str | bool | None) -> Markup:
    """Returns a button that sends its form."""
    return element("button", text, **attributes)


def form(action: str, *content: Child, **attributes: str | bool) -> Markup:
    """Returns a form that is sent by POST."""
    return element("form", content, action=action, method="post", **attributes)


def field(
    label: str, name: str, value: str = "", *, error: str = "", **attributes: str | bool
) -> Markup:
    """Returns a labelled input, with what was wrong about its value."""
    attributes.setdefault("type", "text")
    return element(
        "p",
        element("label", label, for_=f"field-{name}"),
        element("input", id=f"field-{name}", name=name, value=value, **attributes),
        element("span", error, class_="error", role="alert") if error else None,
    )


def listing(items: Iterable[Child], **attributes: str) -> Markup:
    """Returns a list of items."""
    return element("ul", [element("li", item) for item in items], **attributes)


def table(head: Iterable[str], rows: Iterable[Iterable[Child]]) -> Markup:
    """Returns a table."""
    return element(
        "table",
        element("thead", element("tr", [element("th", cell) for cell in head])),
        element("tbody", [element("tr", [element("td", cell) for cell in row]) for row in rows]),
    )


def script(name: str) -> Markup:
    """Returns the element that runs a script of the folder `static`."""
    return element("script", src=f"/static/{name}", defer=True)


def query(values: Mapping[str, object]) -> str:
    """Returns a query string, empty values left out."""
    from urllib.parse import urlencode

    return urlencode({key: value for key, value in values.items() if value not in ("", None)})
