"""Oracles of tasks that are done by choosing: boxes, radio buttons, lists."""

from __future__ import annotations

from collections.abc import Container

from webtraj.environments.actions import Click, SelectOption
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched


@oracle("click-checkboxes-large", "click-checkboxes-transfer")
async def click_checkboxes_large(page: OracleView) -> Actions:
    """Ticks the boxes that the goal lists, maybe none, and submits."""
    (listed,) = matched(r"Select (.+) and click Submit\.", page.goal)
    for box in await _boxes(page, set(listed.split(", "))):
        yield box
    yield await submit(page)


@oracle("click-checkboxes-soft")
async def click_checkboxes_soft(page: OracleView) -> Actions:
    """Ticks the boxes whose words are synonyms of those that the goal lists, and submits.

    What a synonym is, it reads from the page's list of all synonyms it uses: that stands in for
    knowing English, and is the same in every episode.
    """
    (listed,) = matched(r"Select words similar to (.+) and click Submit\.", page.goal)
    groups = await page.evaluate("() => SYNONYMS")
    similar = {
        word for group in groups if not set(group).isdisjoint(listed.split(", ")) for word in group
    }
    for box in await _boxes(page, similar):
        yield box
    yield await submit(page)


@oracle("click-option")
async def click_option(page: OracleView) -> Actions:
    """Chooses the radio button that the goal names, and submits."""
    (label,) = matched(r"Select (.+) and click Submit\.", page.goal)
    (button,) = (await _boxes(page, {label}))[:1]
    yield button
    yield await submit(page)


@oracle("choose-list")
async def choose_list(page: OracleView) -> Actions:
    """Chooses an option of the list, and submits."""
    (option,) = matched(r"Select (.+) from the list and click Submit\.", page.goal)
    yield SelectOption((await page.one("#options")).ref, (option,))
    yield await submit(page)


@oracle("click-scroll-list")
async def click_scroll_list(page: OracleView) -> Actions:
    """Chooses one or two options of the list, and submits."""
    (options,) = matched(r"Select (.+) from the scroll list and click Submit\.", page.goal)
    yield SelectOption((await page.one("#options")).ref, tuple(options.split(", ")))
    yield await submit(page)


_WIDGETS = {
    "radio": "#area input[type=radio]",
    "checkbox": "#area input[type=checkbox]",
    "text": "#area input:not([type=radio], [type=checkbox])",
    "textarea": "#area textarea",
    "button": "#area button",
}


@oracle("click-widget")
async def click_widget(page: OracleView) -> Actions:
    """Clicks a widget of the kind that the goal names."""
    (kind,) = matched(r'Click on a "(\w+)" widget\.', page.goal)
    yield Click((await page.one(_WIDGETS[kind])).ref)


async def _boxes(page: OracleView, labels: Container[str]) -> list[Click]:
    """Returns a click for every box or radio button with one of the labels."""
    texts = await page.all("#area label")
    boxes = await page.all("#area label input")
    return [Click(box.ref) for text, box in zip(texts, boxes, strict=True) if text.text in labels]
