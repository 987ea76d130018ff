"""Proposals without a model: what was done, and what came of it."""

import pytest

from webtraj.exploring.drafts import problem_of
from webtraj.exploring.hindsight import HindsightProposer
from webtraj.exploring.seen import read_seen


async def test_each_thing_that_was_done_gives_its_task(seen):
    drafts = (await HindsightProposer().propose(seen, 20)).drafts
    told = {(draft.kind, draft.goal) for draft in drafts}
    assert told == {
        ("navigation", 'On the page "Welcome", open "Products".'),
        ("navigation", 'On the page "Found", open "Green Lamp".'),
        (
            "navigation",
            'On the page "Products", enter "lamp" for "Search products", and press "Search".',
        ),
        ("information", 'What does the page "Products" say of "Delivery"?'),
        ("information", 'What does the page "Green Lamp" say of "Price"?'),
        ("information", 'What does the page "Green Lamp" say of "Article"?'),
        ("modification", 'On the page "Green Lamp", press "Add to cart".'),
    }
    assert not any(problem_of(draft, seen) for draft in drafts)


async def test_facts_say_what_the_page_says_since(seen):
    drafts = (await HindsightProposer().propose(seen, 20)).drafts
    (bought,) = (draft for draft in drafts if draft.kind == "modification")
    assert [(fact.description, fact.evidence) for fact in bought.facts] == [
        ('The page "Cart" is open.', (5,)),
        ('The page says "Cart (1)".', (5,)),
    ]
    assert bought.start_url == "http://shop.example/products/7"


async def test_kinds_take_turns_and_a_limit_is_kept(seen):
    drafts = (await HindsightProposer().propose(seen, 3)).drafts
    assert [draft.kind for draft in drafts] == ["navigation", "information", "navigation"]


async def test_nothing_is_told_of_pages_that_were_changed_before(walk):
    from webtraj.environments.actions import Click

    cart = '[1] link "Help"\n[2] paragraph "Total: $15.50"\n[3] link "Go to checkout"'
    steps = (
        (None, "", "", "/", "Welcome", '[1] button "Add to cart"\n[2] link "Help"'),
        (Click("1"), "button", "Add to cart", "/cart", "Cart", cart),
        (Click("3"), "link", "Go to checkout", "/checkout", "Checkout", '[1] link "Help"'),
        (Click("1"), "link", "Help", "/help", "Help", '[1] paragraph "Phone: 555"'),
    )
    drafts = (await HindsightProposer().propose(read_seen(walk(steps)), 20)).drafts
    assert [(draft.goal, draft.start_url) for draft in drafts] == [
        ('On the page "Welcome", open "Help".', "http://shop.example/"),
        ('On the page "Welcome", press "Add to cart".', "http://shop.example/"),
    ]


@pytest.mark.parametrize(
    ("came", "facts"),
    [
        ('\n[2] paragraph "Tea is in your cart"', ['The page says "Tea is in your cart".']),
        ("", None),
    ],
    ids=("a new text", "the focus alone"),
)
async def test_a_button_that_stays_is_no_news(walk, came, facts):
    from webtraj.environments.actions import Click

    steps = (
        (None, "", "", "/", "Home", '[1] button "Add tea"'),
        (Click("1"), "button", "Add tea", "/", "Home", f'[1] button "Add tea" focused{came}'),
    )
    drafts = (await HindsightProposer().propose(read_seen(walk(steps)), 20)).drafts
    told = [[fact.description for fact in draft.facts] for draft in drafts]
    assert told == ([] if facts is None else [facts])


@pytest.mark.parametrize(
    "steps", [(), ((None, "", "", "about:blank", "", ""),)], ids=("nothing", "blank")
)
async def test_who_saw_nothing_proposes_nothing(walk, steps):
    assert (await HindsightProposer().propose(read_seen(walk(steps)), 5)).drafts == ()
