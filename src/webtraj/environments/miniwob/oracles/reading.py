"""Oracles of tasks whose answer is to be read off the page."""

from __future__ import annotations

import re

from webtraj.environments.actions import Fill
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched


@oracle("find-word")
async def find_word(page: OracleView) -> Actions:
    """Types the word of the paragraph that the goal counts out."""
    (nth,) = matched(
        r"Find the (\d+)\w\w word in the paragraph, type that into the textbox "
        r'and press "Submit"\.',
        page.goal,
    )
    words = (await page.one("#area p")).text.split()
    yield Fill((await page.one("#answer-input")).ref, _letters(words[int(nth) - 1]))
    yield await submit(page)


@oracle("scroll-text")
async def scroll_text(page: OracleView) -> Actions:
    """Types the last word of the text. The text need not be scrolled to be read as text."""
    words = (await page.one("#text-area")).text.split()
    yield Fill((await page.one("#answer-input")).ref, _letters(words[-1]))
    yield await submit(page)


@oracle("read-table")
async def read_table(page: OracleView) -> Actions:
    """Types the value of one row."""
    (key,) = matched(r"Enter the value of (.+) into the text field and press Submit\.", page.goal)
    table = await _table(page)
    yield Fill((await page.one("#tt")).ref, table[key])
    yield await submit(page)


@oracle("read-table-2")
async def read_table_2(page: OracleView) -> Actions:
    """Types the values of the two rows that the form's labels name."""
    table = await _table(page)
    labels = await page.all("#form label")
    fields = await page.all("#form input")
    for label, field in zip(labels, fields, strict=True):
        yield Fill(field.ref, table[label.text.removesuffix(":")])
    yield await submit(page)


@oracle("text-transform")
async def text_transform(page: OracleView) -> Actions:
    """Types the letters, which are skewed for the eye only."""
    letters = (await page.one("#captcha")).text
    yield Fill((await page.one("#tt")).ref, letters)
    yield await submit(page)


async def _table(page: OracleView) -> dict[str, str]:
    """Returns the two columns of the table."""
    keys = await page.all("#tab td:first-child")
    values = await page.all("#tab td:last-child")
    return {key.text: value.text for key, value in zip(keys, values, strict=True)}


def _letters(word: str) -> str:
    """Returns a word without its punctuation."""
    return re.sub(r"[^A-Za-z]", "", word)
