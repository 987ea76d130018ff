"""The state of one visit to the site: all that its pages show and its forms change.

Each episode has a `World` of its own. Tasks are judged by it, never by the text of a page.
"""

from __future__ import annotations

import dataclasses

__all__ = ["Account", "Order", "Post", "Product", "Review", "Thread", "Upload", "World", "money"]


def money(cents: int) -> str:
    """Returns an amount as the site writes it.

    >>> money(1999)
    '$19.99'
    """
    return f"${cents // 100}.{cents % 100:02d}"


@dataclasses.dataclass(slots=True)
class Review:
    """What a customer says of a product."""

    author: str
    stars: int
    """1 to 5."""
    text: str


@dataclasses.dataclass(slots=True)
class Product:
    """Something to buy."""

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
    """ISO 8601; empty for as soon as can be."""
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
    """All of one visit."""

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
    """Who is logged in; empty for nobody."""
    currency: str = "USD"
    cart: dict[int, int] = dataclasses.field(default_factory=dict)
    """Quantity by product id."""
    wish_list: list[int] = dataclasses.field(default_factory=list)
    answers: list[str] = dataclasses.field(default_factory=list)
    """What the agent has answered."""
    downloads: list[str] = dataclasses.field(default_factory=list)
    """Paths of the files that were downloaded."""
    uploads: list[Upload] = dataclasses.field(default_factory=list)
    subscribers: list[str] = dataclasses.field(default_factory=list)
    """Addresses that the newsletter was ordered for."""
    liked: set[int] = dataclasses.field(default_factory=set)
    """Indices of the liked entries of the feed."""
    note: str = ""
    """What the rich-text editor saved."""
    stars: int = 0
    """What the shop was rated with."""
    dialogs: dict[str, object] = dataclasses.field(default_factory=dict)
    """What the page's dialogs returned, by kind."""
    failures_left: int = 0
    """How many more times the till breaks down."""

    @property
    def account(self) -> Account | None:
        """The account that is logged in."""
        return self.accounts.get(self.user)

    def product(self, product_id: int) -> Product:
        """Returns a product.

        Raises:
            LookupError: There is none of that id.
        """
        for product in self.products:
            if product.id == product_id:
                return product
        raise LookupError(f"There is no product {product_id}.")

    def thread(self, thread_id: int) -> Thread:
        """Returns a thread.

        Raises:
            LookupError: There is none of that id.
        """
        for thread in self.threads:
            if thread.id == thread_id:
                return thread
        raise LookupError(f"There is no thread {thread_id}.")

    def order(self, number: str) -> Order:
        """Returns an order.

        Raises:
            LookupError: There is none of that number.
        """
        for order in self.orders:
            if order.number == number:
                return order
        raise LookupError(f"There is no order {number}.")

    def cart_cents(self) -> int:
        """Returns what the goods in the cart cost."""
        return sum(self.product(key).cents * count for key, count in self.cart.items())
