"""The state of a world of the wiki as rows: its database, its pages and the commits since it began.

A world's folder holds `wiki.db`, with users and settings, and `pages`, a git repository with one
file for each page. What the repository held when the world began is in packs; commits of the world
are loose objects, so they can be read without git.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

from webtraj_apps.state import State, read_sqlite

__all__ = ["DATABASE", "read"]

DATABASE = "wiki.db"
_HEAD = Path(".git/refs/heads/main")


def read(folder: Path) -> State:
    """Return the rows of a world: those of its database, `page` and `commit`."""
    pages = folder / "pages"
    return {**read_sqlite(folder / DATABASE), "page": _pages(pages), "commit": _commits(pages)}


def _pages(pages: Path) -> dict[Any, dict[str, Any]]:
    found = {}
    for file in sorted(pages.rglob("*")):
        name = file.relative_to(pages).as_posix()
        if file.is_file() and not name.startswith(".git/"):
            text = file.read_bytes().decode(errors="replace")
            found[name] = {"path": name.removesuffix(".md"), "text": text}
    return found


def _commits(pages: Path) -> dict[Any, dict[str, Any]]:
    """Return the commits that are no older than the world, by their place from the first one on."""
    found = []
    head = pages / _HEAD
    name = head.read_text().strip() if head.exists() else ""
    while name:
        file = pages / ".git/objects" / name[:2] / name[2:]
        if not file.exists():
            break
        fields, _, message = zlib.decompress(file.read_bytes()).decode().partition("\n\n")
        author = re.search(r"^author (.*) <", fields, re.MULTILINE)
        parent = re.search(r"^parent (\w+)", fields, re.MULTILINE)
        found.append({"author": author[1] if author else "", "message": message.strip()})
        name = parent[1] if parent else ""
    return dict(enumerate(reversed(found)))
