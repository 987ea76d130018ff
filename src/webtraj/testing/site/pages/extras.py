"""What browsers find hard: widgets, frames, dialogs, slow and broken answers; and static files."""

from __future__ import annotations

import functools
from http import HTTPStatus
from importlib import resources
from typing import Final

from webtraj.environments.local_server import Response, found, json_answer
from webtraj.testing.site.pages import layout
from webtraj.testing.site.pages.layout import Markup, Visit, element, page, routes

__all__ = ["FEED_PAGE"]

# What browsers find hard: dialogs, popups, frames, shadow roots, editors, dragging, endless pages.
#
# Each page keeps what was done on it in the world, so that a test need not trust the page's text.

FEED_PAGE: Final = 10
"""How many entries of the feed come at a time."""

_EXTRAS: Final = {
    "dialogs": "Dialogs",
    "popups": "Popups and tabs",
    "frames": "Frames",
    "shadow": "Shadow roots",
    "editor": "Editor",
    "board": "Board",
    "feed": "Feed",
}


@routes("GET", "/extras")
def extras(visit: Visit) -> Response:
    """List the pages of this module."""
    links = [layout.link(name, f"/extras/{path}") for path, name in _EXTRAS.items()]
    return visit.show("Extras", layout.listing([*links, layout.link("Trouble", "/trouble")]))


def _buttons(*names: str) -> list[Markup]:
    return [element("button", name.capitalize(), id=name, type="button") for name in names]


@routes("GET", "/extras/dialogs")
def dialogs(visit: Visit) -> Response:
    """Show a button for each kind of dialog."""
    return visit.show(
        "Dialogs",
        element("p", _buttons("alert", "confirm", "prompt")),
        element(
            "label",
            element("input", type="checkbox", id="hold"),
            "Ask before I leave",
        ),
        element("p", id="result", role="status"),
        layout.link("Leave", "/extras"),
        layout.script("dialogs.js"),
    )


@routes("POST", "/api/dialogs")
def dialog_result(visit: Visit) -> Response:
    """Keep what a dialog returned."""
    told = visit.request.json
    visit.world.dialogs[str(told["kind"])] = told["result"]
    return json_answer({})


@routes("GET", "/extras/popups")
def popups(visit: Visit) -> Response:
    """Show what opens elsewhere."""
    other = f"{visit.other_origin}/extras/partner?visit={visit.token}"
    return visit.show(
        "Popups and tabs",
        layout.listing(
            [
                layout.link("Our partner's offer", "/extras/partner", target="_blank"),
                layout.link("The same from another origin", other, target="_blank"),
                element("button", "Size chart", id="size-chart", type="button"),
                element("button", "Three at once", id="three", type="button"),
            ]
        ),
        layout.script("popups.js"),
    )


@routes("GET", "/extras/partner")
def partner(visit: Visit) -> Response:
    """Show the coupon."""
    ((code, percent),) = visit.world.coupons.items()
    return visit.show("Partner's offer", element("p", f"The coupon {code} takes {percent} % off."))


@routes("GET", "/extras/size-chart")
def size_chart(visit: Visit) -> Response:
    """Show a small window's content."""
    rows = [("S", "36"), ("M", "40"), ("L", "44")]
    body = (layout.table(("Size", "Chest"), rows), layout.script("closing.js"))
    return Response(body=page("Size chart", None, (*body, *_buttons("close"))).encode())


@routes("GET", "/extras/frames")
def frames(visit: Visit) -> Response:
    """Show frames: one, one in another, one of another origin, one without scripts."""
    inner = f"/extras/frames/newsletter?visit={visit.token}"

    def frame(title: str, **attributes: str) -> Markup:
        return element("iframe", title=title, width="420", height="150", **attributes)

    return visit.show(
        "Frames",
        frame("Newsletter", src="/extras/frames/newsletter"),
        frame("Nested", src="/extras/frames/nested"),
        frame("Other origin", src=f"{visit.other_origin}{inner}"),
        frame("No scripts", src="/extras/frames/newsletter", sandbox="allow-forms"),
        frame("Written here", srcdoc="<button>Nothing</button>"),
    )


@routes("GET", "/extras/frames/nested")
def nested(visit: Visit) -> Response:
    """Show a frame in a frame."""
    body = element("iframe", src="/extras/frames/newsletter", title="Innermost")
    return Response(body=page("Nested", None, body).encode())


@routes("GET", "/extras/frames/newsletter")
def newsletter(visit: Visit) -> Response:
    """Show a small form, for frames."""
    body = element(
        "form",
        layout.field("E-mail", "email"),
        layout.button("Subscribe"),
        action=f"/extras/frames/newsletter?visit={visit.token}",
        method="post",
    )
    return Response(body=page("Newsletter", None, body).encode())


@routes("POST", "/extras/frames/newsletter")
def subscribe(visit: Visit) -> Response:
    """Take an address."""
    email = visit.request.form.get("email", "")
    visit.world.subscribers.append(email)
    body = element("p", f"Subscribed: {email}", role="status")
    return Response(body=page("Newsletter", None, body).encode())


@routes("GET", "/extras/shadow")
def shadow(visit: Visit) -> Response:
    """Show components with open shadow roots, one in another, and one with a closed root."""
    return visit.show(
        "Shadow roots",
        element("star-rating", value=visit.world.stars),
        element("secret-box"),
        layout.script("shadow.js"),
    )


@routes("POST", "/api/stars")
def rate(visit: Visit) -> Response:
    """Keep the rating of the shop."""
    stars = int(visit.request.json["stars"])
    if stars not in range(1, 6):
        raise ValueError(f"A rating is 1 to 5 stars, not {stars}.")
    visit.world.stars = stars
    return json_answer({})


@routes("GET", "/extras/editor")
def editor(visit: Visit) -> Response:
    """Show a rich-text editor."""
    return visit.show(
        "Editor",
        element("p", element("button", "Bold", id="bold", type="button")),
        element(
            "div",
            visit.world.note,
            id="note",
            contenteditable="true",
            role="textbox",
            aria_multiline="true",
            aria_label="Note",
        ),
        element("p", element("button", "Save note", id="save", type="button")),
        layout.script("editor.js"),
    )


@routes("POST", "/api/note")
def save_note(visit: Visit) -> Response:
    """Keep a note."""
    visit.world.note = str(visit.request.json["text"])
    return json_answer({})


@routes("GET", "/extras/board")
def board(visit: Visit) -> Response:
    """Show cards in columns, to be dragged."""
    columns = [
        element(
            "section",
            element("h2", name),
            [element("div", card, class_="card", draggable="true") for card in cards],
            class_="column",
            data_name=name,
            aria_label=name,
        )
        for name, cards in visit.world.cards.items()
    ]
    return visit.show("Board", element("div", columns, id="board"), layout.script("board.js"))


@routes("POST", "/api/cards")
def move_card(visit: Visit) -> Response:
    """Move a card to the end of a column."""
    card, column = visit.request.json["card"], visit.request.json["column"]
    cards = visit.world.cards
    if column not in cards or not any(card in there for there in cards.values()):
        raise LookupError(f"There is no card {card!r} or no column {column!r}.")
    for there in cards.values():
        if card in there:
            there.remove(card)
    cards[column].append(card)
    return json_answer({})


@routes("GET", "/extras/feed")
def feed(visit: Visit) -> Response:
    """Show the first entries; the rest comes as one scrolls."""
    entries = [_entry(visit, i) for i in range(FEED_PAGE)]
    return visit.show(
        "Feed",
        element("div", entries, id="feed", data_total=len(visit.world.feed)),
        layout.script("feed.js"),
    )


@routes("GET", "/extras/feed/from/*")
def more_feed(visit: Visit) -> Response:
    """Give further entries, as HTML."""
    first = int(visit.arguments[0])
    entries = range(first, min(first + FEED_PAGE, len(visit.world.feed)))
    return Response(body="".join(_entry(visit, i) for i in entries).encode())


def _entry(visit: Visit, index: int) -> Markup:
    return element(
        "article",
        element("h2", visit.world.feed[index]),
        element(
            "button",
            "Liked" if index in visit.world.liked else "Like",
            type="button",
            data_index=index,
            aria_label=f"Like {visit.world.feed[index]}",
        ),
    )


@routes("POST", "/api/likes")
def like(visit: Visit) -> Response:
    """Like an entry of the feed, or undo that."""
    index = int(visit.request.json["index"])
    if index not in range(len(visit.world.feed)):
        raise LookupError(f"The feed has no entry {index}.")
    visit.world.liked ^= {index}
    return json_answer({})


# Everything that goes wrong on the web: slow, broken and endless answers, pages that misbehave.
#
# Each path does one thing, at once and on purpose; the page `/trouble` lists them.

_MAX_MS: Final = 60_000

_SQUARE: Final = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">'
    b'<rect width="9" height="9"/></svg>'
)

_PATHS: Final = {
    "/slow?ms=500": "An answer after half a second",
    "/slow-parts?ms=500": "A page whose script and image are slow",
    "/status/404": "Not found",
    "/status/500": "An internal error",
    "/status/503": "Out of service",
    "/status/204": "No content",
    "/cut": "A connection that breaks",
    "/never": "No answer, ever",
    "/redirects/3": "Three redirects",
    "/loop": "A redirect to itself",
    "/away": "A redirect to another origin",
    "/refresh": "A page that moves on by itself",
    "/run/busy": "A script that never ends",
    "/run/memory": "A script that fills the memory",
    "/run/console": "A script that fills the console",
    "/run/restless": "A page that never stands still",
    "/run/crash": "A script that fails",
    "/run/alerts": "A script that alerts for ever",
    "/run/popups": "A script that opens windows",
    "/large": "A page of 20,000 elements",
}


@routes("GET", "/trouble")
def trouble(visit: Visit) -> Response:
    """List what can go wrong."""
    return visit.show(
        "Trouble", layout.listing([layout.link(text, path) for path, text in _PATHS.items()])
    )


@routes("GET", "/slow")
def slow(visit: Visit) -> Response:
    """Answer after `ms` milliseconds."""
    seconds = _seconds(visit)
    page = visit.show("Slow", element("p", f"This took {seconds:g} s."))
    return Response(body=page.body, delay=seconds)


@routes("GET", "/slow-parts")
def slow_parts(visit: Visit) -> Response:
    """Show a page at once whose parts come after `ms` milliseconds."""
    ms = round(_seconds(visit) * 1000)
    return visit.show(
        "Slow parts",
        element("p", "Not yet.", id="late", role="status"),
        element("script", src=f"/slow-parts/script.js?ms={ms}", defer=True),
        element("img", src=f"/slow-parts/image.svg?ms={ms}", alt="A square"),
    )


@routes("GET", "/slow-parts/script.js")
def slow_script(visit: Visit) -> Response:
    """Give a script late."""
    body = b'document.getElementById("late").textContent = "Here it is.";'
    return Response(body=body, content_type="text/javascript", delay=_seconds(visit))


@routes("GET", "/slow-parts/image.svg")
def slow_image(visit: Visit) -> Response:
    """Give an image late."""
    return Response(body=_SQUARE, content_type="image/svg+xml", delay=_seconds(visit))


def _seconds(visit: Visit) -> float:
    ms = int(visit.request.query.get("ms", "500"))
    if not 0 <= ms <= _MAX_MS:
        raise ValueError(f"ms is 0 to {_MAX_MS}; got {ms}.")
    return ms / 1000


@routes("GET", "/status/*")
def status(visit: Visit) -> Response:
    """Answer with a status."""
    code = HTTPStatus(int(visit.arguments[0]))
    if code < 200:
        raise ValueError(f"{code:d} is no final status.")
    if code in (HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT, HTTPStatus.NOT_MODIFIED):
        return Response(status=code)
    return visit.show(f"{code:d} {code.phrase}", status=code)


@routes("GET", "/cut")
def cut(visit: Visit) -> Response:
    """Break the connection in the middle of a page."""
    return Response(body=visit.show("Cut", element("p", "word " * 2000)).body, fault="cut")


@routes("GET", "/never")
def never(visit: Visit) -> Response:
    """Never answer."""
    return Response(fault="hang")


@routes("GET", "/redirects/*")
def redirects(visit: Visit) -> Response:
    """Redirect as many times as the path says."""
    left = int(visit.arguments[0])
    return found(f"/redirects/{left - 1}" if left > 1 else "/trouble")


@routes("GET", "/loop")
def loop(visit: Visit) -> Response:
    """Redirect to itself."""
    return found("/loop")


@routes("GET", "/away")
def away(visit: Visit) -> Response:
    """Redirect to the other origin."""
    return found(f"{visit.other_origin}/trouble?visit={visit.token}")


@routes("GET", "/refresh")
def refresh(visit: Visit) -> Response:
    """Move on by itself."""
    page = visit.show("One moment", element("p", "You will be taken further."))
    return Response(body=page.body, headers=(("refresh", "0; url=/trouble"),))


@routes("GET", "/run/*")
def run(visit: Visit) -> Response:
    """Show a page with a button that starts one kind of trouble; `?now=1` starts it at once."""
    (kind,) = visit.arguments
    if f"/run/{kind}" not in _PATHS:
        raise LookupError(visit.request.path)
    return visit.show(
        _PATHS[f"/run/{kind}"],
        element(
            "button",
            "Start",
            id="start",
            type="button",
            data_trouble=kind,
            data_now=visit.request.query.get("now") == "1",
        ),
        element("p", id="count", role="status"),
        layout.script("trouble.js"),
    )


@routes("GET", "/large")
def large(visit: Visit) -> Response:
    """Show a page of 20,000 elements."""
    return visit.show(
        "Large", [element("div", element("a", i, href=f"#{i}")) for i in range(10_000)]
    )


# The site's own styles and scripts.

_TYPES = {"css": "text/css", "js": "text/javascript"}


@routes("GET", "/static/*")
def static_file(visit: Visit) -> Response:
    """Give a file of the folder `static`."""
    (name,) = visit.arguments
    body = _files().get(name)
    if body is None:
        raise LookupError(visit.request.path)
    content_type = _TYPES[name.rpartition(".")[2]]
    return Response(body=body, content_type=f"{content_type}; charset=utf-8")


@functools.cache
def _files() -> dict[str, bytes]:
    folder = resources.files("webtraj.testing.site") / "static"
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in _TYPES
    }
