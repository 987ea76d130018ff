"""Pages from Python: elements as function calls, the site's frame, and which handler answers what.

Every text is escaped unless it is `Markup`.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import urlencode

from fixture_site.world import World
from webtraj.environments.local_server import Request, Response

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | int | Iterable["Child"] | None
"""What an element may hold: text, markup, nothing, or several of these."""


def element(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """Return an element; True gives an attribute without a value, False and None leave it out.

    >>> element("a", "Tea & cake", href="/tea", class_="food", hidden=True, title=None)
    '<a href="/tea" class="food" hidden>Tea &amp; cake</a>'
    """
    written = "".join(
        _attribute(key, value) for key, value in attributes.items() if value not in (None, False)
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{_text(children)}</{name}>")


def page(title: str, head: Child, body: Child) -> str:
    """Return a whole document."""
    return "<!doctype html>\n" + element(
        "html",
        element("head", element("meta", charset="utf-8"), element("title", title), head),
        element("body", body),
        lang="en",
    )


def _attribute(key: str, value: str | int | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'


def _text(child: Child) -> str:
    match child:
        case None:
            return ""
        case Markup():
            return child
        case str() | int():
            return html.escape(str(child))
        case _:
            return "".join(map(_text, child))


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """One request, in the world that it is made in."""

    request: Request
    world: World
    token: str
    """The name of the visit's session."""
    other_origin: str
    """The origin of the site's second server."""
    arguments: tuple[str, ...] = ()
    """What the path holds in place of each `*` of the route."""

    def show(self, title: str, *content: Child, status: int = 200) -> Response:
        """Return a page in the site's frame."""
        return Response(status=status, body=_document(self.world, title, content).encode())


Handler: TypeAlias = Callable[[Visit], Response]


class Routes:
    """Handlers by method and path, registered by decorator."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []

    def __call__(self, method: str, path: str) -> Callable[[Handler], Handler]:
        """Register a handler; `*` in the path stands for any one segment."""
        pattern = re.compile(re.escape(path).replace(r"\*", "([^/]+)"))

        def register(handler: Handler) -> Handler:
            self._routes.append((method, pattern, handler))
            return handler

        return register

    def find(self, method: str, path: str) -> tuple[Handler, tuple[str, ...]]:
        """Return the handler of a path and its arguments; raises `LookupError`."""
        method = "GET" if method == "HEAD" else method
        for route_method, pattern, handler in self._routes:
            if route_method == method and (match := pattern.fullmatch(path)):
                return handler, match.groups()
        raise LookupError(path)


routes = Routes()
"""The site's routes; `shop`, `forum` and `widgets` fill them."""


def _document(world: World, title: str, content: Child) -> str:
    head = (
        element("link", rel="stylesheet", href="/static/site.css"),
        element("link", rel="icon", href="data:,"),
        element("script", src="/static/site.js"),
    )
    search = element(
        "form",
        element("input", type="search", name="q", aria_label="Search products"),
        element("button", "Search"),
        action="/products",
        role="search",
    )
    body = (
        element("header", link("Larch & Lantern", "/"), search, _menu(world)),
        element("main", element("h1", title), content),
        element("footer", link("Help", "/help"), " ", link("Extras", "/extras")),
    )
    return page(f"{title} - Larch & Lantern", head, body)


def _menu(world: World) -> Markup:
    if world.account:
        who = [link(world.account.full_name, "/account"), form("/logout", button("Log out"))]
    else:
        who = [link("Log in", "/login")]
    currencies = [
        element("li", form("/currency", button(code, name="currency", value=code)))
        for code in ("USD", "EUR", "GBP", "JPY")
    ]
    return element(
        "nav",
        link("Products", "/products"),
        link("Forum", "/forum"),
        link(f"Cart ({sum(world.cart.values())})", "/cart"),
        element(
            "div",
            element("span", f"Currency: {world.currency}", tabindex="0", aria_haspopup="true"),
            element("ul", currencies),
            class_="hover-menu",
        ),
        who,
    )


def link(text: Child, href: str) -> Markup:
    return element("a", text, href=href)


def button(text: str, **attributes: str) -> Markup:
    """Return a button that sends its form."""
    return element("button", text, **attributes)


def form(action: str, *content: Child, **attributes: str) -> Markup:
    """Return a form that is sent by POST."""
    return element("form", content, action=action, method="post", **attributes)


def field(label: str, name: str, value: str = "", *, error: str = "", **attributes: str) -> Markup:
    """Return a labelled input, with what was wrong about its value."""
    return element(
        "p",
        element("label", label, for_=f"field-{name}"),
        element("input", id=f"field-{name}", name=name, value=value, **attributes),
        element("span", error, class_="error", role="alert") if error else None,
    )


def listing(items: Iterable[Child], **attributes: str) -> Markup:
    return element("ul", [element("li", item) for item in items], **attributes)


def table(head: Iterable[str], rows: Iterable[Iterable[Child]]) -> Markup:
    return element(
        "table",
        element("thead", element("tr", [element("th", cell) for cell in head])),
        element("tbody", [element("tr", [element("td", cell) for cell in row]) for row in rows]),
    )


def script(name: str) -> Markup:
    """Return the element that runs a script of the folder `static`."""
    return element("script", src=f"/static/{name}", defer=True)


def query(values: Mapping[str, object]) -> str:
    """Return a query string, empty values left out."""
    return urlencode({key: value for key, value in values.items() if value not in ("", None)})
