"""Draw pages of the built worlds by a seed, and write their texts for a reader.

Run: python packages/webtraj-apps/scripts/draw_pages.py --seed 1 --out pages.txt

The applications must be installed. Each is drawn as often as the others, and the held-out content
twice as often as each other content.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import html.parser
import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from webtraj_apps import company
from webtraj_apps.app import CONTENTS, App, find_app
from webtraj_apps.local_worlds import open_app


def addresses(app: str, facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the addresses of an application's pages with texts, by kind."""

    def each(key: str, pattern: str) -> list[str]:
        return [pattern.format_map(row) for row in facts[key]]

    if app == "budget":
        mine = [row["id"] for row in facts["projects"] if row["joined"]]
        return {
            "bills": [f"/{name}/" for name in mine],
            "history": [f"/{name}/history" for name in mine],
        }
    if app == "cms":
        return {"page": [row["url"] for row in facts["pages"] if row["live"]]}
    if app == "forum":
        topics = [row for row in facts["topics"] if not row["removed"]]
        mine = [row for row in facts["private"] if facts["user"] in row["members"]]
        return {
            kind: [f"/{path}/{row['id']}/{row['slug']}/" for row in rows]
            for kind, path, rows in (
                ("topic", "topic", topics),
                ("private topic", "topic/private", mine),
            )
        }
    if app == "helpdesk":
        return {
            "ticket": each("tickets", "/tickets/{id}/"),
            "article": each("answers", "/kb/{slug}/"),
        }
    if app == "mail":
        mails = collections.defaultdict(list)
        for row in facts["mails"]:
            mails[row["folder"]].append(row)
        return {
            "mail": [
                f"/?_task=mail&_action=show&_uid={uid}&_mbox={quote(folder)}"
                for folder, rows in mails.items()
                for uid in range(1, len(rows) + 1)
            ]
        }
    if app == "shop":
        reviewed = {row["product"] for row in facts["reviews"]}
        reviews = [row["url"] for row in facts["products"] if row["id"] in reviewed]
        return {
            "product": each("products", "{url}"),
            "product with reviews": reviews,
            "category": each("categories", "{url}"),
        }
    if app == "tracker":
        return {"ticket": each("tickets", "/ticket/{id}")}
    return {"page": [f"/{quote(name)}" for name in facts["pages"]]}


USUAL = {
    "article": 0.2, "history": 0.3, "private topic": 0.2, "category": 0.2,
    "product with reviews": 2.0,
}  # fmt: skip
"""How often a kind of page is drawn, where another is drawn once."""
APPS = ("budget", "cms", "forum", "helpdesk", "mail", "shop", "tracker", "wiki")


class Text(html.parser.HTMLParser):
    """The visible text of a page, a line for each block."""

    BLOCKS = frozenset(
        ["p", "div", "li", "tr", "br", "dt", "dd", "td", "th", "ul", "ol", "pre", "table", "h1"]
    ) | {"h2", "h3", "h4", "h5", "h6", "article", "section"}
    HIDDEN = frozenset(
        ["script", "style", "nav", "select", "button", "textarea", "title", "template", "footer"]
    )

    def __init__(self, source: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0
        self.feed(source)
        lines = (" ".join(line.split()) for line in "".join(self.parts).split("\n"))
        text = "\n".join(line for line in lines if line)
        self.text = re.sub(r"\n\|(\n\|)+", "\n|", text)

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        """Begin a line, or what is not shown."""
        del attrs
        self.hidden += tag in self.HIDDEN
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """End a line, or what is not shown."""
        self.hidden -= tag in self.HIDDEN
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        """Add text."""
        if not self.hidden:
            self.parts.append(data.replace("\n", " "))


async def read(app: App, content: int, seed: int, count: int) -> list[str]:
    """Return the texts of some pages of an application's content."""
    rng = random.Random(f"{seed} {app.name} {content}")
    facts = app.facts(content)
    kinds = addresses(app.name, facts)
    weights = [USUAL.get(kind, 1.0) for kind in kinds]
    drawn: dict[str, str] = {}
    while len(drawn) < count:
        (kind,) = rng.choices(list(kinds), weights)
        drawn[rng.choice(kinds[kind])] = kind
    texts = []
    async with (
        open_app(app, seed=content) as origin,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{origin.rpartition(':')[2]}",
            cookies=facts["cookies"][facts["user"]],
            follow_redirects=True,
            headers={"Accept": "text/html", "Host": app.host},
            timeout=60.0,
            trust_env=False,
        ) as client,
    ):
        for path, kind in drawn.items():
            answer = await client.get(path)
            answer.raise_for_status()
            head = f"{app.name}, content {content}, {kind}, {path}"
            texts.append(f"{head}\n{Text(answer.text).text}")
    return texts


async def draw(seed: int, count: int) -> list[str]:
    """Return the texts of pages, in a random order."""
    rng = random.Random(seed)
    contents = [*range(CONTENTS), company.HELD_OUT]
    places = [(app, content) for app in APPS for content in contents]
    rng.shuffle(places)
    times = collections.Counter(places[number % len(places)] for number in range(count))
    texts = []
    for (app, content), number in sorted(times.items()):
        texts += await read(find_app(app), content, seed, number)
    rng.shuffle(texts)
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    texts = asyncio.run(draw(args.seed, args.count))
    pages = (f"##### {number}: {text}\n" for number, text in enumerate(texts, 1))
    args.out.write_text("\n".join(pages), "utf-8")


if __name__ == "__main__":
    main()
