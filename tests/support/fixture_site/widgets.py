"""What browsers find hard: frames, shadow roots, an editor, dragging; and the static files.

Each page keeps what was done on it in the world, so that a test need not trust the page's text.
"""

from __future__ import annotations

from pathlib import Path

from fixture_site import layout
from fixture_site.layout import Visit, element, page, routes
from webtraj.environments.local_server import Response, json_answer

STATIC = Path(__file__).with_name("static")
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_EXTRAS = {"frames": "Frames", "shadow": "Shadow roots", "editor": "Editor", "board": "Board"}


@routes("GET", "/extras")
def extras(visit: Visit) -> Response:
    links = [layout.link(name, f"/extras/{path}") for path, name in _EXTRAS.items()]
    return visit.show("Extras", layout.listing(links))


@routes("GET", "/extras/frames")
def frames(visit: Visit) -> Response:
    """Show frames: one, one in another, one of another origin, one without scripts."""
    form = "/extras/frames/newsletter"

    def frame(title: str, **attributes: str) -> str:
        return element("iframe", title=title, width="420", height="150", **attributes)

    return visit.show(
        "Frames",
        frame("Newsletter", src=form),
        frame("Nested", src="/extras/frames/nested"),
        frame("Other origin", src=f"{visit.other_origin}{form}?visit={visit.token}"),
        frame("No scripts", src=form, sandbox="allow-forms"),
        frame("Written here", srcdoc="<button>Nothing</button>"),
    )


@routes("GET", "/extras/frames/nested")
def nested(visit: Visit) -> Response:
    body = element("iframe", src="/extras/frames/newsletter", title="Innermost")
    return Response(body=page("Nested", None, body).encode())


@routes("GET", "/extras/frames/newsletter")
def newsletter(visit: Visit) -> Response:
    body = layout.form(
        f"/extras/frames/newsletter?visit={visit.token}",
        layout.field("E-mail", "email"),
        layout.button("Subscribe"),
    )
    return Response(body=page("Newsletter", None, body).encode())


@routes("POST", "/extras/frames/newsletter")
def subscribe(visit: Visit) -> Response:
    email = visit.request.form.get("email", "")
    visit.world.subscribers.append(email)
    body = element("p", f"Subscribed: {email}", role="status")
    return Response(body=page("Newsletter", None, body).encode())


@routes("GET", "/extras/shadow")
def shadow(visit: Visit) -> Response:
    """Show components with open shadow roots, one in another."""
    return visit.show("Shadow roots", element("star-rating"), layout.script("shadow.js"))


@routes("POST", "/api/stars")
def rate(visit: Visit) -> Response:
    visit.world.stars = int(visit.request.json["stars"])
    return json_answer({})


@routes("GET", "/extras/editor")
def editor(visit: Visit) -> Response:
    note = element(
        "div", visit.world.note, id="note", contenteditable="true", role="textbox",
        aria_multiline="true", aria_label="Note",
    )  # fmt: skip
    save = element("button", "Save note", id="save", type="button")
    return visit.show("Editor", note, element("p", save), layout.script("editor.js"))


@routes("POST", "/api/note")
def save_note(visit: Visit) -> Response:
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
    for there in visit.world.cards.values():
        if card in there:
            there.remove(card)
    visit.world.cards[column].append(card)
    return json_answer({})


@routes("GET", "/static/*")
def static_file(visit: Visit) -> Response:
    (name,) = visit.arguments
    files = {file.name: file for file in STATIC.iterdir()}
    content_type = f"{_TYPES[files[name].suffix]}; charset=utf-8"
    return Response(body=files[name].read_bytes(), content_type=content_type)
