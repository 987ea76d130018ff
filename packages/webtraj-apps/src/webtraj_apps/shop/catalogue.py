"""What the shop sells: word lists, and the products made of them.

Imported by the host, so only the standard library is used.
"""

import itertools
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

__all__ = ["WORDS", "Product", "draw", "products"]

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
    """Years; 0 if there is none."""
    picture: str
    """The path of its picture below the uploads."""


def products(
    rng: random.Random, known: Sequence[Mapping[str, Any]], each: int = 14
) -> Iterator[Product]:
    """Yield the products of all categories, `each` of every one, with different titles.

    Args:
        rng: The random source.
        known: Products that every world sells: `title`, `category` and `price` in pounds.
        each: How many of each category.
    """
    dear = {series: rng.uniform(0.75, 1.35) for series in WORDS.series}
    for department, leaves in WORDS.departments.items():
        for leaf in leaves:
            things = {thing["name"]: thing for thing in leaf["things"]}
            made: dict[tuple[str, str], tuple[str, int]] = {}
            of: dict[str, str] = {}  # What each series of the category is made of.
            for row in (one for one in known if one["category"] == leaf["name"]):
                series, rest = row["title"].split(" ", 1)
                name = max((one for one in things if rest.endswith(one)), key=len)
                of[series] = rest.removesuffix(f" {name}")
                made[name, series] = of[series], round(100 * row["price"])
            # A series has several things of a category, in one material where that is possible.
            materials = itertools.cycle(rng.sample(leaf["materials"], len(leaf["materials"])))
            for series in rng.sample(WORDS.series, len(WORDS.series)):
                if len(of) * len(things) < each + 4:
                    of.setdefault(series, next(materials))
            pairs = [(name, series) for name in things for series in of]
            pairs = [one for one in pairs if one not in made]
            counts = Counter((name, of[series]) for name, series in made)
            rarely: list[tuple[str, str, str]] = []
            often: list[tuple[str, str, str]] = []
            for name, series in rng.sample(pairs, len(pairs)):
                fitting = things[name].get("materials", leaf["materials"])
                least = min(rng.sample(fitting, len(fitting)), key=lambda m: counts[name, m])
                material = of[series] if of[series] in fitting else least
                counts[name, material] += 1
                # At most two things of a kind in one material, where the title tells it.
                many = counts[name, material] > 2 and "plain" not in things[name]
                (often if many else rarely).append((name, series, material))
            for name, series, material in [*rarely, *often][: each - len(made)]:
                thing = things[name]
                pounds = max(3, round(thing["price"] * dear[series] * rng.uniform(0.95, 1.06)))
                made[name, series] = material, pounds * 100 - rng.choice((1, 5, 50, 100))
            orders = {name: itertools.cycle(rng.sample(range(5), 5)) for name in things}
            for (name, series), (material, pence) in made.items():
                thing, (about, *colours) = things[name], WORDS.materials[material]
                colour = rng.choice(colours)
                usual = thing.get("grams", thing["price"] * leaf.get("grams", 30))
                usual *= WORDS.density.get(material, 1)
                said, series_said = thing["text"], WORDS.about[series]
                first = re.split(r"(?<=\.) ", said)[0]
                # Things of a kind are described in different ways.
                description = (
                    said,
                    f"{about} {said}",
                    f"{series_said} {said}",
                    f"{first} {about}",
                    f"{first} {series_said}",
                )[next(orders[name])]
                yield Product(
                    title=f"{series} {name}" if "plain" in thing else f"{series} {material} {name}",
                    department=department,
                    category=leaf["name"],
                    description=description,
                    pence=pence,
                    colour=colour,
                    material=material,
                    weight=round(usual * rng.uniform(0.85, 1.15) / 10) * 10 or 10,
                    warranty=rng.choice(
                        thing.get("warranty", leaf.get("warranty", WORDS.warranty[department]))
                    ),
                    picture=f"products/{leaf['shape']}-{colour.lower().replace(' ', '-')}.svg",
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
