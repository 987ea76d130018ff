"""What the shop sells, and what people write about it: word lists, and the products made of them.

Imported by the host, so only the standard library is used.
"""

import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

__all__ = ["WORDS", "Product", "draw", "products", "review"]

WORDS = SimpleNamespace(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
"""What `catalogue.toml` holds."""


class Product(NamedTuple):
    """A product of the catalogue."""

    title: str
    department: str
    category: str
    description: str
    pence: int
    colour: str
    material: str
    weight: int
    """Grams."""
    warranty: int
    """Years."""
    picture: str
    """The path of its picture below the uploads."""


def products(rng: random.Random, each: int = 14) -> Iterator[Product]:
    """Yield the products of all categories, `each` of every one, with different titles."""
    for department, leaves in WORDS.departments.items():
        for leaf in leaves:
            pairs = [(noun, series) for noun in leaf["nouns"] for series in WORDS.series]
            for (noun, usual), series in rng.sample(pairs, each):
                material, colour = rng.choice(leaf["materials"]), rng.choice(list(WORDS.colours))
                pounds = max(3, round(usual * rng.uniform(0.6, 1.5)))
                yield Product(
                    title=f"{series} {material} {noun}",
                    department=department,
                    category=leaf["name"],
                    description=f"{leaf['use']}. {' '.join(rng.sample(WORDS.care, 2))}",
                    pence=pounds * 100 - rng.choice((1, 5, 50, 100)),
                    colour=colour,
                    material=material,
                    weight=round(usual * leaf.get("grams", 30) * rng.uniform(0.5, 1.5) / 10) * 10
                    or 10,
                    warranty=rng.choice((1, 2, 2, 3, 5, 10)),
                    picture=f"products/{leaf['shape']}-{colour.lower().replace(' ', '-')}.svg",
                )


def review(rng: random.Random) -> tuple[int, str, str]:
    """Return a customer's score, 1 to 5, with a title and a text."""
    score = rng.choice((1, 2, 3, 3, 4, 4, 4, 5, 5, 5))
    return score, *rng.choice(
        WORDS.blame if score < 3 else WORDS.mixed if score == 3 else WORDS.praise
    )


def draw(path: str) -> tuple[str, bytes] | None:
    """Return the picture at a path below the uploads, such as `products/mug-plum.svg`."""
    name = path.rpartition("/")[2].removesuffix(".svg")
    shape, _, colour = name.partition("-")
    if not path.endswith(".svg") or shape not in WORDS.shapes:
        return None
    fill = {key.lower().replace(" ", "-"): value for key, value in WORDS.colours.items()}.get(
        colour
    )
    picture = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="200" viewBox="0 0 200 200">'
        f'<rect width="200" height="200" fill="#f4f2ec"/><g fill="{fill or "#999"}" '
        f'fill-rule="evenodd"><path d="{WORDS.shapes[shape]}"/></g></svg>'
    )
    return "image/svg+xml", picture.encode()
