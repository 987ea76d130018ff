"""What the shop sells, and what people write about it: word lists, and the products made of them.

Imported by the host, so only the standard library is used.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["COLOURS", "DEPARTMENTS", "Leaf", "Product", "draw", "products", "review"]

COLOURS = {
    "Ash Grey": "#9aa0a3",
    "Cream": "#cdb98a",
    "Forest Green": "#3f6b4a",
    "Midnight Blue": "#2b3c63",
    "Ochre": "#c9952f",
    "Terracotta": "#b9603f",
    "Charcoal": "#43464b",
    "Plum": "#6b3a5b",
    "Sky Blue": "#7fb0cf",
    "Rose": "#cf8a93",
}
_SERIES = [
    "Alder",
    "Brindle",
    "Calder",
    "Dunmore",
    "Eskdale",
    "Fenwick",
    "Garrick",
    "Hollin",
    "Inverley",
    "Jura",
    "Kestrel",
    "Larkfield",
    "Marlow",
    "Netherby",
    "Orrin",
    "Pennard",
    "Quarry",
    "Rosedale",
    "Selkirk",
    "Thornbury",
    "Ulva",
    "Varley",
    "Wharfe",
    "Yarrow",
]


class Leaf(NamedTuple):
    """A category without subcategories, and what its products are made of."""

    name: str
    shape: str
    """The picture of its products, a key of `_SHAPES`."""
    nouns: tuple[tuple[str, int], ...]
    """Things, each with its usual price."""
    materials: tuple[str, ...]
    use: str
    """What the description says that it is for."""
    grams: int = 30
    """Its weight for each pound of its usual price."""


DEPARTMENTS: dict[str, tuple[Leaf, ...]] = {
    "Furniture": (
        Leaf(
            "Chairs",
            "chair",
            (("Armchair", 240), ("Dining Chair", 95), ("Rocking Chair", 180), ("Bar Stool", 75)),
            ("Oak", "Beech", "Walnut", "Rattan"),
            "Made for long evenings, with a seat that keeps its shape",
        ),
        Leaf(
            "Tables",
            "table",
            (("Side Table", 85), ("Coffee Table", 160), ("Desk", 260), ("Console Table", 140)),
            ("Oak", "Ash", "Walnut", "Steel"),
            "A steady table that two people assemble in a quarter of an hour",
        ),
        Leaf(
            "Storage",
            "shelf",
            (("Bookcase", 190), ("Shoe Rack", 60), ("Sideboard", 320), ("Wall Shelf", 42)),
            ("Pine", "Oak", "Bamboo", "Steel"),
            "Room for everything that has no place yet",
        ),
    ),
    "Lighting": (
        Leaf(
            "Table Lamps",
            "lamp",
            (("Desk Lamp", 58), ("Bedside Lamp", 44), ("Reading Lamp", 66)),
            ("Brass", "Ceramic", "Linen", "Glass"),
            "A warm light that does not dazzle, with a dimmer in the cord",
        ),
        Leaf(
            "Ceiling Lights",
            "pendant",
            (("Pendant Light", 89), ("Ceiling Lamp", 74), ("Chandelier", 230)),
            ("Brass", "Paper", "Glass", "Steel"),
            "Lights a whole room evenly; the cord is two metres long",
        ),
        Leaf(
            "Candles",
            "candle",
            (("Scented Candle", 18), ("Pillar Candle", 12), ("Lantern", 36)),
            ("Beeswax", "Soy", "Glass"),
            "Burns for about forty hours and drips little",
        ),
    ),
    "Kitchen": (
        Leaf(
            "Cookware",
            "pot",
            (("Saucepan", 48), ("Frying Pan", 42), ("Casserole", 96), ("Roasting Tin", 34)),
            ("Copper", "Enamel", "Steel", "Iron"),
            "Suits every hob, and goes into the oven up to 240 degrees",
        ),
        Leaf(
            "Tableware",
            "mug",
            (("Mug", 12), ("Dinner Plate", 16), ("Serving Bowl", 28), ("Milk Jug", 19)),
            ("Stoneware", "Porcelain", "Enamel", "Glass"),
            "For every day: safe in the dishwasher and in the microwave",
        ),
        Leaf(
            "Coffee and Tea",
            "kettle",
            (("Kettle", 54), ("Teapot", 38), ("Coffee Press", 32), ("Hand Grinder", 46)),
            ("Steel", "Cast Iron", "Glass", "Copper"),
            "Makes four cups, and pours without a drop beside them",
        ),
        Leaf(
            "Knives and Boards",
            "knife",
            (
                ("Chef's Knife", 64),
                ("Bread Knife", 39),
                ("Cutting Board", 27),
                ("Paring Knife", 21),
            ),
            ("Steel", "Olive Wood", "Beech", "Bamboo"),
            "Well balanced, and easy to keep sharp and clean",
        ),
    ),
    "Textiles": (
        Leaf(
            "Bedding",
            "cloth",
            (("Duvet Cover", 78), ("Fitted Sheet", 36), ("Pillowcase", 17), ("Quilt", 128)),
            ("Linen", "Cotton", "Flannel"),
            "Softer with every wash, and dry within a day",
        ),
        Leaf(
            "Towels",
            "cloth",
            (("Bath Towel", 24), ("Hand Towel", 13), ("Beach Towel", 31), ("Bath Mat", 22)),
            ("Cotton", "Bamboo", "Linen"),
            "Thick, thirsty, and still soft after a hundred washes",
        ),
        Leaf(
            "Cushions and Throws",
            "cushion",
            (("Cushion", 29), ("Throw", 62), ("Floor Cushion", 54), ("Blanket", 84)),
            ("Wool", "Velvet", "Cotton", "Mohair"),
            "The quickest way to make a room look new",
        ),
    ),
    "Study": (
        Leaf(
            "Notebooks",
            "book",
            (("Notebook", 9), ("Sketchbook", 14), ("Diary", 16), ("Address Book", 12)),
            ("Leather", "Linen", "Kraft"),
            "Heavy paper that ink does not bleed through, and a ribbon",
            25,
        ),
        Leaf(
            "Writing",
            "pen",
            (("Fountain Pen", 46), ("Pencil Set", 15), ("Rollerball", 22), ("Ink Well", 26)),
            ("Brass", "Cedar", "Resin"),
            "Sits well in the hand, and comes in a gift box",
            3,
        ),
        Leaf(
            "Desk Tidies",
            "tray",
            (("Letter Tray", 24), ("Pen Pot", 14), ("Cable Box", 19), ("Magazine File", 17)),
            ("Cork", "Felt", "Bamboo", "Steel"),
            "Brings order to a desk without a drawer",
        ),
    ),
    "Outdoor": (
        Leaf(
            "Garden Tools",
            "spade",
            (("Hand Trowel", 16), ("Secateurs", 28), ("Watering Can", 34), ("Garden Fork", 39)),
            ("Steel", "Copper", "Ash", "Zinc"),
            "A tool to hand on, with a handle that does not splinter",
        ),
        Leaf(
            "Planters",
            "plant",
            (("Planter", 32), ("Window Box", 27), ("Hanging Basket", 21), ("Plant Stand", 44)),
            ("Terracotta", "Zinc", "Willow", "Cedar"),
            "Frost-proof, with holes for the rain to run off",
        ),
        Leaf(
            "Picnic",
            "basket",
            (("Picnic Basket", 72), ("Cool Bag", 29), ("Picnic Rug", 41), ("Flask", 26)),
            ("Willow", "Canvas", "Wool", "Steel"),
            "Packed in a minute, and light enough to carry up a hill",
        ),
    ),
    "Travel": (
        Leaf(
            "Bags",
            "bag",
            (("Backpack", 88), ("Tote Bag", 34), ("Weekend Bag", 132), ("Messenger Bag", 96)),
            ("Canvas", "Leather", "Felt"),
            "Fits under a seat, and has a pocket for what must not get lost",
            12,
        ),
        Leaf(
            "Travel Accessories",
            "case",
            (("Wash Bag", 27), ("Luggage Tag", 11), ("Travel Wallet", 36), ("Packing Cube", 18)),
            ("Leather", "Canvas", "Nylon"),
            "Keeps small things together on long journeys",
            8,
        ),
        Leaf(
            "Clocks and Radios",
            "clock",
            (("Alarm Clock", 33), ("Wall Clock", 58), ("Radio", 84), ("Kitchen Timer", 15)),
            ("Brass", "Walnut", "Resin"),
            "Easy to read from across the room, and silent at night",
            14,
        ),
    ),
}


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


_CARE = (
    "Wipe it with a dry cloth.",
    "It comes ready to use.",
    "Packed without plastic.",
    "Made in small batches by a family workshop.",
    "Spare parts are kept for ten years.",
    "A favourite of our own staff.",
    "It makes a good present.",
    "Designed in our own studio.",
)


def products(rng: random.Random, each: int = 14) -> Iterator[Product]:
    """Yield the products of all categories, `each` of every one, with different titles."""
    for department, leaves in DEPARTMENTS.items():
        for leaf in leaves:
            pairs = [(noun, series) for noun in leaf.nouns for series in _SERIES]
            for (noun, usual), series in rng.sample(pairs, each):
                material, colour = rng.choice(leaf.materials), rng.choice(list(COLOURS))
                pounds = max(3, round(usual * rng.uniform(0.6, 1.5)))
                yield Product(
                    title=f"{series} {material} {noun}",
                    department=department,
                    category=leaf.name,
                    description=f"{leaf.use}. {' '.join(rng.sample(_CARE, 2))}",
                    pence=pounds * 100 - rng.choice((1, 5, 50, 100)),
                    colour=colour,
                    material=material,
                    weight=round(usual * leaf.grams * rng.uniform(0.5, 1.5) / 10) * 10 or 10,
                    warranty=rng.choice((1, 2, 2, 3, 5, 10)),
                    picture=f"products/{leaf.shape}-{colour.lower().replace(' ', '-')}.svg",
                )


_PRAISE = (
    ("Exactly as described", "It looks just like the picture and arrived well packed."),
    ("Very pleased", "We use it every day and it still looks new."),
    ("A lovely present", "I bought it for my sister and she was delighted."),
    ("Worth every penny", "Not cheap, but you can feel the quality."),
    ("Would buy again", "Already ordered a second one for the cottage."),
    ("Sturdy and handsome", "Heavier than I expected, and that is a good thing."),
)
_MIXED = (
    ("Good, not great", "It does what it should, but the finish could be better."),
    ("Smaller than I thought", "Check the measurements first. Otherwise fine."),
    ("Slow delivery", "Nice enough, but it took almost three weeks to arrive."),
    ("Decent for the price", "Nothing special, nothing wrong with it either."),
)
_BLAME = (
    ("Disappointed", "The colour is nothing like the one on the website."),
    ("Broke after a month", "It came apart in my hands. I have asked for a refund."),
    ("Not for us", "Looks cheap, feels cheap. It went straight back."),
    ("Arrived damaged", "One corner was dented, and the box was wet."),
)


def review(rng: random.Random) -> tuple[int, str, str]:
    """Return a customer's score, 1 to 5, with a title and a text."""
    score = rng.choice((1, 2, 3, 3, 4, 4, 4, 5, 5, 5))
    return score, *rng.choice(_BLAME if score < 3 else _MIXED if score == 3 else _PRAISE)


_SHAPES = {
    "chair": '<path d="M70 40h16v70h44v14h-4v46h-12v-46H86v46H70z"/>',
    "table": '<path d="M30 80h140v14h-12v70h-12V94H54v70H42V94H30z"/>',
    "shelf": '<path d="M50 30h100v140h-10v-10H60v10H50zm10 10v30h80V40zm0 40v30h80V80z'
    'm0 40v30h80v-30z"/>',
    "lamp": '<path d="M75 40h50l20 55H55zm20 55h10v55h25v12H70v-12h25z"/>',
    "pendant": '<path d="M97 20h6v50c35 4 50 30 52 60H45c2-30 17-56 52-60zM88 136'
    'h24a12 12 0 0 1-24 0z"/>',
    "candle": '<path d="M75 80h50v90H75zm25-55c14 18 14 30 0 42-14-12-14-24 0-42z"/>',
    "pot": '<path d="M55 80h90v12h22v14h-22v26q0 18-18 18H73q-18 0-18-18v-26H33V92h22z'
    'm37-22h16v14H92z"/>',
    "mug": '<path d="M55 60h75v15h12q22 0 22 24t-22 24h-12v30H55zm75 29v20h10q9 0 9-10t-9-10z"/>',
    "kettle": '<path d="M70 85q30-40 60 0l12 65H58zm-8 10L36 70l8-8 26 22z'
    'M70 50q30-26 60 0l-8 10q-22-18-44 0z"/>',
    "knife": '<path d="M30 90h100q34 4 40 26H90v-6H30z"/>',
    "cloth": '<path d="M45 45h110v26H45zm0 32h110v26H45zm0 32h110v46H45z"/>',
    "cushion": '<path d="M45 45q55 18 110 0-18 55 0 110-55-18-110 0 18-55 0-110z"/>',
    "book": '<path d="M60 35h85v130H60q-12 0-12-12V47q0-12 12-12zm2 8v114h6V43zm22 20v10h44V63z"/>',
    "pen": '<path d="M140 30l30 30-92 92-42 12 12-42zM62 124l-8 26 26-8z"/>',
    "tray": '<path d="M35 70h20v60h90V70h20v80H35zm35 0h60v12H70zm0 22h60v12H70z"/>',
    "spade": '<path d="M85 25h30v12h-9v63h24v30q0 26-30 45-30-19-30-45v-30h24V37h-9z"/>',
    "plant": '<path d="M65 110h70l-10 60H75z'
    'm30-4Q50 96 52 48q42 10 46 44 6-44 50-56 4 54-42 70z"/>',
    "basket": '<path d="M40 85h20q5-50 40-50t40 50h20l-14 75H54zm32 0h56q-4-38-28-38T72 85z"/>',
    "bag": '<path d="M50 75h25q0-40 25-40t25 40h25v90H50zm37 0h26q0-28-13-28T87 75z"/>',
    "case": '<path d="M40 65h35V50h50v15h35v90H40zm47 0h26v-5H87zM40 98h120v6H40z"/>',
    "clock": '<path d="M100 35a65 65 0 1 0 .1 0zm0 14a51 51 0 1 1-.1 0zm-5 16h10'
    'v33l22 13-5 9-27-16z"/>',
}


def draw(path: str) -> tuple[str, bytes] | None:
    """Return the picture at a path below the uploads, such as `products/mug-plum.svg`."""
    name = path.rpartition("/")[2].removesuffix(".svg")
    shape, _, colour = name.partition("-")
    if not path.endswith(".svg") or shape not in _SHAPES:
        return None
    fill = {key.lower().replace(" ", "-"): value for key, value in COLOURS.items()}.get(colour)
    picture = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="200" viewBox="0 0 200 200">'
        f'<rect width="200" height="200" fill="#f4f2ec"/><g fill="{fill or "#999"}" '
        f'fill-rule="evenodd">{_SHAPES[shape]}</g></svg>'
    )
    return "image/svg+xml", picture.encode()
