"""Oracles of tasks with forms: labels to be matched, and several kinds of controls."""

from __future__ import annotations

import itertools

from webtraj.environments.actions import Check, Click, Fill
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click, submit
from webtraj.environments.miniwob.oracles.view import OracleError, OracleView, matched

_LABELS = "#area :is(p > span, .row > div, th, .label, .ui-label)"
_BUTTONS = "#area :is(button, .final, .ui-submit)"


@oracle("multi-layouts", "multi-orderings")
async def multi_layouts(page: OracleView) -> Actions:
    """Fills in the search form, whose rows have any order and whose labels many wordings."""
    genre, director, year = matched(
        r"Search for (.+) movies directed by (.+) from year (\d+)\.", page.goal
    )
    answers = {"Genre": genre, "Director": director, "Year": year, "Date": year}
    labels = await page.all(_LABELS)
    fields = await page.all("#area input")
    for label, field in zip(labels, fields, strict=True):
        yield Fill(field.ref, _answer(answers, label.text))
    yield await click(page, _BUTTONS)


def _answer(answers: dict[str, str], label: str) -> str:
    for word, answer in answers.items():
        if word in label:
            return answer
    raise OracleError(f"The label {label!r} has none of the words {', '.join(answers)}.")


@oracle("form-sequence-2")
async def form_sequence_2(page: OracleView) -> Actions:
    """Chooses a radio button and fills in a field, both counted out by the goal, and submits."""
    radio, number, field = matched(
        r'Check the (\d)\w\w radio button and enter the number "(-?\d+)" '
        r"into the (\d)\w\w textbox\.",
        page.goal,
    )
    yield Check((await page.all("#area input[type=radio]"))[int(radio) - 1].ref)
    yield Fill((await page.all("#area input[type=text]"))[int(field) - 1].ref, number)
    yield await submit(page)


@oracle("form-sequence-3")
async def form_sequence_3(page: OracleView) -> Actions:
    """Opens the list, which is drawn by a script, chooses an option and clicks the button."""
    option, label = matched(
        r'Choose (.+) from the dropdown, then click the button labeled "(.+)"\.', page.goal
    )
    yield await click(page, "#area .selectric")
    yield await click(page, "#area .selectric-items li", option)
    yield await click(page, "#buttons button", label)


@oracle("number-checkboxes")
async def number_checkboxes(page: OracleView) -> Actions:
    """Ticks the boxes that draw the digit.

    The example is a picture. What it shows is read from the page's list of all digits' patterns,
    which is the same in every episode.
    """
    (digit,) = matched(
        r'Draw the number "(\d)" in the checkboxes using the example on the right '
        r"and press Submit when finished\.",
        page.goal,
    )
    rows = await page.evaluate("digit => PATTERNS[digit]", int(digit))
    boxes = await page.all("#checkboxes input")
    for box, dark in zip(boxes, itertools.chain(*rows), strict=True):
        if dark:
            yield Check(box.ref)
    yield await submit(page)


@oracle("odd-or-even")
async def odd_or_even(page: OracleView) -> Actions:
    """Marks every number, and submits."""
    numbers = await page.all("#numbers .display-number")
    odd = await page.all("#numbers .odd")
    even = await page.all("#numbers .even")
    for row, number in enumerate(numbers):
        yield Click((odd if int(number.text) % 2 else even)[row].ref)
    yield await submit(page)


@oracle("order-food")
async def order_food(page: OracleView) -> Actions:
    """Orders one of each named dish, or as many as asked of the first dish of a kind."""
    names, count, kind = matched(
        r"Order (?:one of each item: (.+)|(\d) items that are (.+))", page.goal
    )
    if names:
        for name in names.split(", "):
            yield await _add(page, f'[data-item$="{name}"]')
    else:
        for _ in range(int(count)):
            yield await _add(page, f':has(img[alt="{kind}"])')
    yield await click(page, "#submit-order button")


async def _add(page: OracleView, dish: str) -> Click:
    """Clicks the plus of the first dish of that selector."""
    return await click(page, f".food-item{dish} .add")


@oracle("unicode-test")
async def unicode_test(page: OracleView) -> Actions:
    """Clicks the button with the label that the goal names."""
    (label,) = matched(r'Click on the "(.+)" button\.', page.goal)
    yield await click(page, "#area button", label)
