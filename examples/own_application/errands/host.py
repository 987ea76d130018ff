"""A list of errands: the smallest application that webtraj can serve. Only the standard library."""

import html
import sqlite3
from pathlib import Path
from urllib.parse import parse_qs

from people import people

_ERRANDS = (
    "Buy stamps",
    "Call the dentist",
    "Return the drill",
    "Order coffee",
    "Water the plants",
)
_state = Path()


def build(state: Path, seed: int) -> dict:
    """Fill a world's database."""
    owner = people(seed)[0]
    with sqlite3.connect(state / "db.sqlite3") as database:
        database.execute("CREATE TABLE errand (id INTEGER PRIMARY KEY, text TEXT, done INTEGER)")
        texts = [f"{text} ({number})" for number in range(1, 4) for text in _ERRANDS]
        database.executemany("INSERT INTO errand (text, done) VALUES (?, 0)", [(t,) for t in texts])
        rows = database.execute("SELECT id, text FROM errand").fetchall()
    return {
        "user": owner.username,
        "errands": [{"id": number, "text": text} for number, text in rows],
        "cookies": {owner.username: {"user": owner.username}},
    }


def open_application(root: Path):
    """Return the WSGI application."""
    return application


def enter(state: Path) -> None:
    """Serve this world from now on."""
    global _state
    _state = state


def application(environ, start_response):
    """Answer one request."""
    with sqlite3.connect(_state / "db.sqlite3") as database:
        if environ["REQUEST_METHOD"] == "POST":
            length = int(environ["CONTENT_LENGTH"] or 0)
            form = parse_qs(environ["wsgi.input"].read(length).decode())
            if "add" in form:
                text = form.get("text", [""])[0].strip()
                database.execute("INSERT INTO errand (text, done) VALUES (?, 0)", (text,))
            if "done" in form:
                database.execute("UPDATE errand SET done = 1 WHERE id = ?", form["done"])
            database.commit()
            start_response("303 See Other", [("Location", "/")])
            return []
        rows = database.execute("SELECT id, text FROM errand WHERE done = 0 ORDER BY id").fetchall()
    items = "".join(
        f"<li>{html.escape(text)} <button name=done value={number}>Done</button></li>"
        for number, text in rows
    )
    page = (
        "<!doctype html><html lang=en><title>Errands</title><h1>Errands</h1>"
        f"<form method=post><ul>{items}</ul></form>"
        "<form method=post><input name=text aria-label='New errand'>"
        "<button name=add value=1>Add</button></form></html>"
    )
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
    return [page.encode()]
