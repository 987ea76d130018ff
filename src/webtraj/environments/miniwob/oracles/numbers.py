"""Oracles of tasks with numbers: sums, guesses, comparisons."""

from __future__ import annotations

from webtraj.environments.actions import Click, Fill
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click, submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched


@oracle("simple-arithmetic")
async def simple_arithmetic(page: OracleView) -> Actions:
    """Types the result."""
    left, sign, right = matched(r"(\d) ([-+x]) (\d) =", (await page.one("#math-problem")).text)
    a, b = int(left), int(right)
    result = {"+": a + b, "-": a - b, "x": a * b}[sign]
    yield Fill((await page.one("#math-answer")).ref, str(result))
    yield await submit(page)


@oracle("simple-algebra")
async def simple_algebra(page: OracleView) -> Actions:
    """Solves the equation for x, which stands on either side of the sign."""
    left, sign, right, total = matched(
        r"(x|\d) ([-+]) (x|\d) = (\d+)", (await page.one("#math-problem")).text
    )
    if sign == "+":
        x = int(total) - int(right if left == "x" else left)
    else:
        x = int(total) + int(right) if left == "x" else int(left) - int(total)
    yield Fill((await page.one("#math-answer")).ref, str(x))
    yield await submit(page)


@oracle("visual-addition")
async def visual_addition(page: OracleView) -> Actions:
    """Counts the blocks."""
    blocks = await page.all("#math-problem .addition-block")
    yield Fill((await page.one("#math-answer")).ref, str(len(blocks)))
    yield await submit(page)


@oracle("generate-number")
async def generate_number(page: OracleView) -> Actions:
    """Has numbers drawn until one is as asked, and submits."""
    than, bound, parity = matched(
        r"Generate (?:a number (less|greater) than (\d+)|an (odd|even) number), "
        r"then press submit\.",
        page.goal,
    )
    while True:
        yield await click(page, "#generate")
        number = int((await page.one("#display-number")).text)
        if than == "less":
            found = number < int(bound)
        elif than == "greater":
            found = number > int(bound)
        else:
            found = number % 2 == (parity == "odd")
        if found:
            break
    yield await submit(page)


@oracle("guess-number")
async def guess_number(page: OracleView) -> Actions:
    """Halves the range with every guess. The page says whether a guess is too low or too high."""
    low, high = 0, 9
    while True:
        guess = (low + high) // 2
        yield Fill((await page.one("#tt")).ref, str(guess))
        yield await submit(page)
        if (await page.one("#higher")).visible:
            low = guess + 1
        elif (await page.one("#lower")).visible:
            high = guess - 1
        else:
            return


@oracle("find-greatest")
async def find_greatest(page: OracleView) -> Actions:
    """Turns every card up, and leaves the one with the greatest number up."""
    cards = [card.ref for card in await page.all("#cardholder .card")]
    numbers = []
    for card in cards:
        yield Click(card)
        numbers.append(int((await page.one("#cardholder .card:not(.hidden)")).text))
    greatest = numbers.index(max(numbers))
    if greatest != len(cards) - 1:
        yield Click(cards[greatest])
    yield await submit(page)
