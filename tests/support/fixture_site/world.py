"""The state of one visit to the site: everything that its pages show and its forms change.

Each episode has its own `World`, made from a seed: the same seed gives the same goods, prices and
people on any machine. Tasks are judged by the world, never by the text of a page.
"""

from __future__ import annotations

import dataclasses
import random


def money(cents: int) -> str:
    """Return an amount as the site writes it.

    >>> money(1999)
    '$19.99'
    """
    return f"${cents // 100}.{cents % 100:02d}"


@dataclasses.dataclass(slots=True)
class Product:
    id: int
    name: str
    category: str
    cents: int


@dataclasses.dataclass(slots=True)
class Account:
    username: str
    password: str
    full_name: str
    email: str


@dataclasses.dataclass(slots=True)
class Order:
    number: str
    lines: dict[int, int]
    """Quantity by product id."""
    cents: int
    name: str
    email: str
    country: str
    shipping: str
    payment: str
    paid: bool = False


@dataclasses.dataclass(slots=True)
class Post:
    id: int
    author: str
    text: str
    votes: set[str]
    """Usernames of those who voted it up."""


@dataclasses.dataclass(slots=True)
class Thread:
    id: int
    board: str
    title: str
    posts: list[Post]


@dataclasses.dataclass(slots=True, kw_only=True)
class World:
    """The state of one visit."""

    seed: int
    products: list[Product]
    accounts: dict[str, Account]
    """By username."""
    customer: str
    """Username of the account that belongs to the visitor."""
    threads: list[Thread]
    return_days: int
    support_phone: str
    cards: dict[str, list[str]]
    """Cards of the drag-and-drop board, by column."""

    user: str = ""
    """The username that is logged in; empty if nobody is."""
    currency: str = "USD"
    cart: dict[int, int] = dataclasses.field(default_factory=dict)
    """Quantity by product id."""
    orders: list[Order] = dataclasses.field(default_factory=list)
    answers: list[str] = dataclasses.field(default_factory=list)
    """The agent's answers."""
    uploads: list[tuple[str, bytes]] = dataclasses.field(default_factory=list)
    """Names and contents of the files that were uploaded."""
    subscribers: list[str] = dataclasses.field(default_factory=list)
    note: str = ""
    """The text saved by the editor."""
    stars: int = 0
    """The shop's rating."""

    @property
    def account(self) -> Account | None:
        """The account that is logged in."""
        return self.accounts.get(self.user)

    def product(self, product_id: int) -> Product:
        """Return a product; raises `KeyError`."""
        return {product.id: product for product in self.products}[product_id]

    def thread(self, thread_id: int) -> Thread:
        """Return a thread; raises `KeyError`."""
        return {thread.id: thread for thread in self.threads}[thread_id]

    def order(self, number: str) -> Order:
        """Return an order; raises `KeyError`."""
        return {order.number: order for order in self.orders}[number]

    def cart_cents(self) -> int:
        """Return the price of the goods in the cart."""
        return sum(self.product(key).cents * count for key, count in self.cart.items())


_NOUNS = {
    "Kitchen": ("Kettle", "Teapot", "Skillet", "Whisk", "Colander", "Grater", "Bowl", "Mug"),
    "Garden": ("Trowel", "Hammock", "Bird Bath", "Planter", "Rake", "Lantern", "Bench", "Hose"),
    "Travel": ("Suitcase", "Backpack", "Umbrella", "Neck Pillow", "Flask", "Map", "Tent", "Torch"),
}
CATEGORIES = tuple(_NOUNS)
BOARDS = ("Questions", "Show and tell", "Repairs")
_ADJECTIVES = ("Amber", "Birch", "Copper", "Dapple", "Ember", "Fern", "Granite", "Harbor", "Indigo")
_FIRST = ("Ada", "Boris", "Carmen", "Dmitri", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jun")
_LAST = ("Okafor", "Lindqvist", "Moreau", "Tanaka", "Silva", "Novak", "Haddad", "Quinn")
_TOPICS = ("How do I clean a {}?", "My {} squeaks", "Best use of a {}", "Painted my {} today")
_REPLIES = (
    "Warm water is enough.",
    "Mine does that too.",
    "Lovely colour!",
    "A drop of oil helps.",
)


def make_world(seed: int) -> World:
    """Return the world of a seed, with nobody logged in and an empty cart."""
    rng = random.Random(f"fixture-site {seed}")
    accounts = {account.username: account for account in _accounts(rng)}
    customer = rng.choice(list(accounts))
    products = _products(rng)
    cards = rng.sample([product.name for product in products], 6)
    return World(
        seed=seed,
        products=products,
        accounts=accounts,
        customer=customer,
        threads=list(_threads(rng, products, [name for name in accounts if name != customer])),
        return_days=rng.choice([14, 21, 28, 30, 45, 60]),
        support_phone=f"0800 {rng.randint(100, 999)} {rng.randint(100, 999)}",
        cards={"To do": cards[:4], "Doing": cards[4:5], "Done": cards[5:]},
    )


def _accounts(rng):
    for first in rng.sample(_FIRST, 8):
        last = rng.choice(_LAST)
        username = f"{first}.{last}".lower()
        password = f"{rng.choice(_ADJECTIVES).lower()}-{rng.randint(1000, 9999)}"
        yield Account(username, password, f"{first} {last}", f"{username}@mail.example")


def _products(rng):
    things = [
        (category, f"{adjective} {noun}")
        for category, nouns in _NOUNS.items()
        for adjective, noun in rng.sample([(a, n) for a in _ADJECTIVES for n in nouns], 8)
    ]
    # Prices are all different, so that "the dearest" is one product.
    prices = rng.sample(range(3, 160), len(things))
    return [
        Product(number, name, category, prices[number - 1] * 100 - rng.choice([1, 5, 50]))
        for number, (category, name) in enumerate(things, start=1)
    ]


def _threads(rng, products, usernames):
    for i, product in enumerate(rng.sample(products, 9)):
        posts = [
            Post(4 * i + j, author, text, {name for name in usernames[:j] if name != author})
            for j, (author, text) in enumerate(
                zip(rng.sample(usernames, 3), rng.sample(_REPLIES, 3), strict=True)
            )
        ]
        title = rng.choice(_TOPICS).format(product.name)
        yield Thread(i + 1, BOARDS[i % len(BOARDS)], title, posts)
