"""HTML from Python: elements as function calls, every text escaped unless it is `Markup`."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Child", "Markup", "element", "join", "page"]

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | int | Iterable["Child"] | None
"""What an element may hold: text, markup, nothing, or several of these."""

Attribute: TypeAlias = str | int | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Returns an element.

    >>> element("a", "Tea & cake", href="/tea", class_="food", hidden=True, title=None)
    '<a href="/tea" class="food" hidden>Tea &amp; cake</a>'

    Args:
        name: The tag.
        *children: What it holds.
        **attributes: `class_` stands for `class`, `data_id` for `data-id`. True gives an attribute
            without a value; False and None leave it out.
    """
    written = "".join(
        _attribute(key, value) for key, value in attributes.items() if value not in (None, False)
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(*children: Child) -> Markup:
    """Returns children one after the other, escaped as far as they are no markup."""
    return Markup("".join(map(_text, children)))


def page(title: str, head: Child, body: Child) -> str:
    """Returns a whole document."""
    return "<!doctype html>\n" + element(
        "html",
        element("head", element("meta", charset="utf-8"), element("title", title), head),
        element("body", body),
        lang="en",
    )


def _attribute(key: str, value: Attribute) -> str:
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
            return join(*child)
