"""The state of one visit to the site: everything that its pages show and its forms change.

Each episode has its own `World`, made from a seed: the same seed gives the same goods, names,
prices and people on any machine. Tasks are judged by the world, never by the text of a page.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

__all__ = [
    "Account",
    "BOARDS",
    "CATEGORIES",
    "Order",
    "Post",
    "Product",
    "Review",
    "Thread",
    "Upload",
    "World",
    "make_world",
    "money",
]


_Key = TypeVar("_Key", int, str)
_Found = TypeVar("_Found")


def money(cents: int) -> str:
    """Return an amount as the site writes it.

    >>> money(1999)
    '$19.99'
    """
    return f"${cents // 100}.{cents % 100:02d}"


@dataclasses.dataclass(slots=True)
class Review:
    """A customer's review of a product."""

    author: str
    stars: int
    """1 to 5."""
    text: str


@dataclasses.dataclass(slots=True)
class Product:
    """A product of the shop."""

    id: int
    name: str
    category: str
    cents: int
    code: str
    """The article number, shown on the product's own page only."""
    summary: str
    colors: tuple[str, ...]
    reviews: list[Review]

    @property
    def rating(self) -> float:
        """The mean of the stars, to one decimal; 0 without reviews."""
        if not self.reviews:
            return 0.0
        return round(sum(review.stars for review in self.reviews) / len(self.reviews), 1)


@dataclasses.dataclass(slots=True)
class Account:
    """A customer."""

    username: str
    password: str
    full_name: str
    email: str
    street: str
    city: str
    newsletter: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class Order:
    """An order, as it was placed."""

    number: str
    username: str
    lines: dict[int, int]
    """Quantity by product id."""
    cents: int
    """The total, discount and shipping included."""
    name: str = ""
    email: str = ""
    country: str = ""
    shipping: str = "standard"
    gift_wrap: bool = False
    delivery_date: str = ""
    """ISO 8601; empty for as soon as possible."""
    coupon: str = ""
    payment: str = "invoice"
    paid: bool = False


@dataclasses.dataclass(slots=True)
class Post:
    """A contribution to a thread of the forum."""

    id: int
    author: str
    text: str
    votes: set[str]
    """Usernames of those who voted it up."""


@dataclasses.dataclass(slots=True)
class Thread:
    """A thread of the forum; its first post opens it."""

    id: int
    board: str
    title: str
    posts: list[Post]


@dataclasses.dataclass(frozen=True, slots=True)
class Upload:
    """A file that was uploaded."""

    name: str
    content: bytes


@dataclasses.dataclass(slots=True, kw_only=True)
class World:
    """The state of one visit."""

    seed: int
    products: list[Product]
    accounts: dict[str, Account]
    """By username."""
    customer: str
    """Username of the account that belongs to the visitor."""
    orders: list[Order]
    threads: list[Thread]
    coupons: dict[str, int]
    """Discount in percent by code."""
    return_days: int
    free_shipping_cents: int
    """Orders of this much are shipped free."""
    support_phone: str
    feed: list[str]
    """Titles of the endless page."""
    cards: dict[str, list[str]]
    """Cards of the drag-and-drop board, by column."""

    user: str = ""
    """The username that is logged in; empty if nobody is."""
    currency: str = "USD"
    cart: dict[int, int] = dataclasses.field(default_factory=dict)
    """Quantity by product id."""
    wish_list: list[int] = dataclasses.field(default_factory=list)
    answers: list[str] = dataclasses.field(default_factory=list)
    """The agent's answer."""
    downloads: list[str] = dataclasses.field(default_factory=list)
    """Paths of the files that were downloaded."""
    uploads: list[Upload] = dataclasses.field(default_factory=list)
    subscribers: list[str] = dataclasses.field(default_factory=list)
    """Addresses subscribed to the newsletter."""
    liked: set[int] = dataclasses.field(default_factory=set)
    """Indices of the liked entries of the feed."""
    note: str = ""
    """The text saved by the rich-text editor."""
    stars: int = 0
    """The shop's rating."""
    dialogs: dict[str, object] = dataclasses.field(default_factory=dict)
    """The results of the page's dialogs, by kind."""
    failures_left: int = 0
    """The remaining number of checkout failures."""

    @property
    def account(self) -> Account | None:
        """The account that is logged in."""
        return self.accounts.get(self.user)

    def product(self, product_id: int) -> Product:
        """Return a product.

        Raises:
            LookupError: No product or thread has this id.
        """
        return _found("product", product_id, {product.id: product for product in self.products})

    def thread(self, thread_id: int) -> Thread:
        """Return a thread.

        Raises:
            LookupError: No product or thread has this id.
        """
        return _found("thread", thread_id, {thread.id: thread for thread in self.threads})

    def order(self, number: str) -> Order:
        """Return an order.

        Raises:
            LookupError: No order has this number.
        """
        return _found("order", number, {order.number: order for order in self.orders})

    def cart_cents(self) -> int:
        """Return the price of the goods in the cart, in cents."""
        return sum(self.product(key).cents * count for key, count in self.cart.items())


def _found(kind: str, key: _Key, known: Mapping[_Key, _Found]) -> _Found:
    if key not in known:
        raise LookupError(f"There is no {kind} {key}.")
    return known[key]


# Worlds from seeds.

_NOUNS: Final = {
    "Kitchen": ("Kettle", "Teapot", "Skillet", "Whisk", "Colander", "Grater", "Bowl", "Mug"),
    "Garden": ("Trowel", "Hammock", "Bird Bath", "Planter", "Rake", "Lantern", "Bench", "Hose"),
    "Office": ("Notebook", "Desk Lamp", "Stapler", "Pen Set", "Folder", "Clock", "Chair", "Tray"),
    "Travel": ("Suitcase", "Backpack", "Umbrella", "Neck Pillow", "Flask", "Map", "Tent", "Torch"),
    "Games": ("Chess Set", "Puzzle", "Card Deck", "Dice Tower", "Kite", "Yo-Yo", "Domino", "Ball"),
}
CATEGORIES: Final = tuple(_NOUNS)
"""What the shop sells."""
BOARDS: Final = ("Questions", "Show and tell", "Repairs")
"""The boards of the forum."""

_ADJECTIVES = ("Amber", "Birch", "Copper", "Dapple", "Ember", "Fern", "Granite", "Harbor", "Indigo")
_COLORS = ("red", "green", "blue", "white", "black", "yellow")
_FIRST = ("Ada", "Boris", "Carmen", "Dmitri", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jun")
_LAST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Silva", "Novak", "Haddad", "Quinn")
_STREETS = ("Mill Lane", "Station Road", "Orchard Street", "Canal Walk", "Hill Rise")
_CITIES = ("Northwick", "Easton", "Southmere", "Westbury", "Midvale")
_PRAISE = ("Just what I wanted.", "Solid work.", "Would buy again.", "My whole family loves it.")
_DOUBT = ("It is all right.", "Does the job.", "Smaller than it looks.", "Good, but not great.")
_BLAME = ("Broke within a week.", "Not as pictured.", "Came late and scratched.", "Never again.")
_TOPICS = (
    "How do I clean a {}?",
    "My {} squeaks",
    "Best use of a {}",
    "Found an old {} in the attic",
    "Is the {} worth its price?",
    "Painted my {} today",
)
_REPLIES = (
    "Warm water is enough.",
    "Mine does that too.",
    "Have you asked the support?",
    "Lovely colour!",
    "I would leave it as it is.",
    "A drop of oil helps.",
    "Please post a picture.",
)
_FEED = ("walk", "dinner", "sunrise", "workshop", "picnic", "concert", "market", "garden", "hike")

_NUM_PER_CATEGORY = 10
_NUM_FEED = 60


def make_world(seed: int) -> World:
    """Return the world of a seed, with nobody logged in and an empty cart."""
    rng = random.Random(f"fixture-site {seed}")
    accounts = {account.username: account for account in _accounts(rng)}
    customer = rng.choice(list(accounts))
    products = list(_products(rng, [account.full_name for account in accounts.values()]))
    cards = rng.sample([product.name for product in products], 6)
    return World(
        seed=seed,
        products=products,
        accounts=accounts,
        customer=customer,
        orders=list(_orders(rng, products, customer)),
        threads=list(_threads(rng, products, list(accounts), customer)),
        coupons={f"{rng.choice(_ADJECTIVES).upper()}{rng.randint(10, 99)}": rng.choice([10, 20])},
        return_days=rng.choice([14, 21, 28, 30, 45, 60]),
        free_shipping_cents=rng.randrange(50, 120, 5) * 100,
        support_phone=f"0800 {rng.randint(100, 999)} {rng.randint(100, 999)}",
        feed=[f"{rng.choice(_FIRST)}'s {rng.choice(_FEED)}, no. {i}" for i in range(_NUM_FEED)],
        cards={"To do": cards[:4], "Doing": cards[4:5], "Done": cards[5:]},
    )


def _accounts(rng: random.Random) -> Iterator[Account]:
    for first in rng.sample(_FIRST, 8):
        last = rng.choice(_LAST)
        username = f"{first}.{last}".lower()
        yield Account(
            username=username,
            password=f"{rng.choice(_ADJECTIVES).lower()}-{rng.randint(1000, 9999)}",
            full_name=f"{first} {last}",
            email=f"{username}@mail.example",
            street=f"{rng.randint(1, 90)} {rng.choice(_STREETS)}",
            city=rng.choice(_CITIES),
        )


def _products(rng: random.Random, names: list[str]) -> Iterator[Product]:
    things = [
        (category, f"{adjective} {noun}")
        for category, nouns in _NOUNS.items()
        for adjective, noun in rng.sample(
            [(adjective, noun) for adjective in _ADJECTIVES for noun in nouns], _NUM_PER_CATEGORY
        )
    ]
    rng.shuffle(things)
    # Prices are all different, so that "the cheapest" is one product.
    prices = rng.sample(range(3, 160), len(things))
    codes = rng.sample(range(10_000, 99_999), len(things))
    for i, (category, name) in enumerate(things):
        colors = tuple(rng.sample(_COLORS, 3))
        yield Product(
            id=i + 1,
            name=name,
            category=category,
            cents=prices[i] * 100 - rng.choice([1, 5, 50]),
            code=f"{category[0]}-{codes[i]}",
            summary=f"A {name.lower()} in {', '.join(colors[:-1])} or {colors[-1]}.",
            colors=colors,
            reviews=list(_reviews(rng, names)),
        )


def _reviews(rng: random.Random, names: list[str]) -> Iterator[Review]:
    # No two reviews of a product have the same stars: "the worst review" is one review.
    for author, stars in zip(rng.sample(names, 4), rng.sample(range(1, 6), 4), strict=True):
        texts = _PRAISE if stars > 3 else _DOUBT if stars == 3 else _BLAME
        yield Review(author, stars, rng.choice(texts))


def _orders(rng: random.Random, products: list[Product], customer: str) -> Iterator[Order]:
    for number in rng.sample(range(1000, 9999), 4):
        lines = {product.id: rng.randint(1, 3) for product in rng.sample(products, 2)}
        cents = sum(products[key - 1].cents * count for key, count in lines.items()) + 500
        yield Order(
            number=str(number), username=customer, lines=lines, cents=cents, country="Norland"
        )


def _threads(
    rng: random.Random, products: list[Product], usernames: list[str], customer: str
) -> Iterator[Thread]:
    post_id = 1
    for i, product in enumerate(rng.sample(products, 9)):
        title = rng.choice(_TOPICS).format(product.name)
        authors = rng.sample([name for name in usernames if name != customer], 4)
        if i % 3 == 0:
            authors[rng.randint(1, 3)] = customer
        # Different numbers of votes: "the post with the most votes" is one post.
        votes = rng.sample(range(6), 4)
        texts = ["Who can tell me more?", *rng.sample(_REPLIES, 3)]
        posts = []
        for author, count, text in zip(authors, votes, texts, strict=True):
            others = [name for name in usernames if name not in (author, customer)]
            posts.append(Post(post_id, author, text, set(rng.sample(others, count))))
            post_id += 1
        yield Thread(i + 1, BOARDS[i % len(BOARDS)], title, posts)
