"""Finding products and answering questions about them; reviews."""

from __future__ import annotations

import random
from operator import itemgetter

from webtraj.environments.actions import GoBack
from webtraj.environments.browser.oracles import Step, act, click, select
from webtraj_apps.shop.assignments.common import (
    BROWSE,
    draw_category,
    fill_form,
    free,
    in_category,
    open_category,
    open_in_category,
    orders_of,
    pounds,
    price_of,
    product_of,
    search,
    sort_by,
    task,
    to_listed,
    to_order,
    to_product,
)
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    added,
    assign,
    changed_row,
    draw_distinct,
    find_best,
    join_names,
    same_text,
)


@task("shop/price", level=1, split="train")
def _price(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    return assign(
        f"What does the {product['title']} cost? Answer with the amount.",
        to_product(product),
        answer=pounds(product["price"]),
    )


@task("shop/weight", level=1, split="test")
def _weight(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(facts["products"])
    return assign(
        f"How many grams does the {product['title']} weigh? Answer with the number only.",
        to_product(product),
        answer=f"{product['weight']} g",
    )


@task("shop/stock", level=1, split="train")
def _stock(facts: Facts, rng: random.Random) -> Assignment:
    product = rng.choice(free(facts))
    return assign(
        f"How many pieces of the {product['title']} are available, and what is its UPC? "
        "Answer with both numbers, separated by a comma.",
        to_product(product),
        answer=(str(product["stock"]), product["upc"]),
    )


@task("shop/heaviest", level=2, split="train")
def _heaviest(facts: Facts, rng: random.Random) -> Assignment:
    three = draw_distinct(rng, facts["products"], 3, itemgetter("weight"))
    names = join_names([f"the {one['title']}" for one in three], "or")
    return assign(
        f"Which weighs most: {names}? Answer with the product's name.",
        map(to_product, three),
        answer=max(three, key=lambda one: int(one["weight"]))["title"],
    )


@task("shop/sum-of-prices", level=2, split="test")
def _sum_of_prices(facts: Facts, rng: random.Random) -> Assignment:
    three = rng.sample(facts["products"], 3)
    names = join_names([f"the {one['title']}" for one in three])
    return assign(
        f"What do {names} cost together, one of each, before any offers and delivery? "
        "Answer with the amount only.",
        map(to_product, three),
        answer=pounds(sum(map(price_of, three))),
    )


@task("shop/cheapest", level=1, split="train")
def _cheapest(facts: Facts, rng: random.Random) -> Assignment:
    name, found = draw_category(facts, rng)
    dearest = rng.random() < 0.5
    wanted = found[-1] if dearest else found[0]
    return assign(
        f"Which product in the category {name} is the {'most expensive' if dearest else 'cheapest'}"
        "? Answer with its full name.",
        open_in_category(facts, wanted, "price-desc" if dearest else "price-asc"),
        answer=wanted["title"],
    )


@task("shop/two-cheapest", level=1, split="train")
def _two_cheapest(facts: Facts, rng: random.Random) -> Assignment:
    name, found = draw_category(facts, rng)
    return assign(
        f"What do the two cheapest products in the category {name} cost together, one of each, "
        "before any offers? Answer with the amount.",
        open_category(facts, name, "price-asc"),
        [(to_listed(one), act(GoBack())) for one in found[:2]],
        answer=pounds(sum(map(price_of, found[:2]))),
    )


@task("shop/dearest-below", level=1, split="test")
def _dearest_below(facts: Facts, rng: random.Random) -> Assignment:
    while True:
        kind = rng.choice(facts["products"])["department"]
        low, high, name = rng.choice(((20, 50, "£20 to £50"), (50, 100, "£50 to £100")))
        of_kind = [one for one in facts["products"] if one["department"] == kind]
        found = [one for one in of_kind if low <= one["price"] < high]
        top = rng.random() < 0.5
        best = find_best(found, price_of, max if top else min)
        if len(found) > 3 and best:
            break
    return assign(
        f"Among all products of the type {kind} that cost from £{low} to under £{high}, which is "
        f"the {'most expensive' if top else 'cheapest'}? Answer with its full name.",
        (BROWSE, click("aside dd a", kind), click("aside dd a", name)),
        (sort_by("price-desc" if top else "price-asc"), to_listed(best)),
        answer=best["title"],
    )


@task("shop/best-rated", level=1, split="train")
def _best_rated(facts: Facts, rng: random.Random) -> Assignment:
    while True:
        name = rng.choice(facts["products"])["category"]
        # The difference must show in whole stars.
        if best := find_best(in_category(facts, name), lambda one: int(one.get("rating", 0))):
            break
    return assign(
        f"Which product in the category {name} has the best customer rating, and what does it "
        "cost? Answer with its full name and the price, separated by a semicolon.",
        open_in_category(facts, best, "rating"),
        answer=(best["title"], pounds(best["price"])),
    )


@task("shop/count-material", level=1, split="test")
def _count_material(facts: Facts, rng: random.Random) -> Assignment:
    departments = sorted({one["department"] for one in facts["products"]})
    while True:
        material = rng.choice(facts["products"])["material"]
        kinds = [kind for kind in departments if _count_matching(facts, kind, material)]
        if len(kinds) > 1:
            break
    first, second = rng.sample(kinds, 2)
    return assign(
        f"Search the shop for “{material}”. How many of the products found are of the type {first}"
        f", and how many of the type {second}? Answer with the two numbers, separated by a comma.",
        (search(material), click("aside dd a", first)),
        answer=tuple(str(_count_matching(facts, kind, material)) for kind in (first, second)),
        ordered=True,
    )


def _count_matching(facts: Facts, department: str, text: str) -> int:
    """Count the products of a department that a search for a text finds."""
    return sum(
        one["department"] == department
        and all(word in one["text"] for word in text.lower().split())
        for one in facts["products"]
    )


@task("shop/reviewer", level=1, split="train")
def _reviewer(facts: Facts, rng: random.Random) -> Assignment:
    review = rng.choice(_unique_reviews(facts))
    product = product_of(facts, review["product"])
    return assign(
        f"Who wrote the review “{review['title']}” of the {product['title']}? "
        "Answer with the first and last name.",
        _to_reviews(product),
        answer=review["by"],
    )


def _unique_reviews(facts: Facts) -> list[Facts]:
    """Return published reviews whose title no other review of the product has."""
    shown = [one for one in facts["reviews"] if not one["waits"]]
    titles = [(one["product"], one["title"]) for one in shown]
    return [one for one in shown if titles.count((one["product"], one["title"])) == 1]


def _to_reviews(product: Facts) -> tuple[Step, ...]:
    return *to_product(product), click(".product_main a[href$='/reviews/']")


@task("shop/vote-review", level=1, split="test")
def _vote_review(facts: Facts, rng: random.Random) -> Assignment:
    review = rng.choice(_unique_reviews(facts))
    product = product_of(facts, review["product"])
    helpful = rng.random() < 0.5
    vote = 1 if helpful else -1
    return assign(
        f"Mark the review “{review['title']}” of the {product['title']} as "
        f"{'helpful' if helpful else 'not helpful'}.",
        _to_reviews(product),
        click(f"form[action*='/reviews/{review['id']}/'] button", "Yes" if helpful else "No"),
        added("reviews_vote", review_id=review["id"], delta=vote),
        changed_row("reviews_productreview", review, total_votes=1, delta_votes=vote),
    )


_OPINIONS = (
    ("Just what I wanted", "It arrived early and fits perfectly."),
    ("Rather heavy", "Good quality, but heavier than I thought."),
    ("The colour is off", "On the website it looked brighter."),
    ("Recommended", "My whole family likes it."),
    ("It squeaks", "After two weeks it began to squeak."),
    ("Fine so far", "No complaints after a month of daily use."),
)


@task("shop/review", level=1, split="train")
def _review(facts: Facts, rng: random.Random) -> Assignment:
    order = rng.choice(orders_of(facts))
    line = rng.choice(order["lines"])
    title, body = rng.choice(_OPINIONS)
    score = rng.randint(1, 5)
    return assign(
        f"Review the {line['title']} from my order {order['number']}: score {score}, "
        f"title “{title}”, text “{body}”",
        to_order(order),
        click(f"tr:has(a[href$='_{line['product']}/']) a.btn", "Write a review"),
        (fill_form(title=title), select("#id_score", str(score)), fill_form(body=body)),
        click("#addreview button", "Save review"),
        added(
            "reviews_productreview",
            product_id=line["product"],
            score=score,
            title=same_text(title),
            body=same_text(body),
        ),
    )


@task("shop/three-for-two", level=1, split="train")
def _three_for_two(facts: Facts, rng: random.Random) -> Assignment:
    candle = rng.choice(in_category(facts, "Candles"))
    return assign(
        "There is an offer “Three candles for two”: the cheapest of three is free. What do three "
        f"pieces of the {candle['title']} cost with it, without delivery? Answer with the amount.",
        to_product(candle),
        answer=pounds(2 * candle["price"]),
    )
