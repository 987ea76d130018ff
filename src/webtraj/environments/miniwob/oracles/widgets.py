"""Oracles of tasks with controls: buttons, boxes, lists, menus, tabs, colours, sliders, dates."""

from __future__ import annotations

import calendar
import json
from collections.abc import Container

from webtraj.environments.actions import Check, Click, Press, SelectOption
from webtraj.environments.miniwob.oracles.base import (
    Actions,
    Element,
    OracleError,
    OracleView,
    click,
    find_quoted,
    match_goal,
    oracle,
    still,
    submit,
)


@oracle("click-test")
async def click_test(page: OracleView) -> Actions:
    """Click the only button."""
    yield Click((await page.one("#subbtn")).ref)


@oracle("click-test-2")
async def click_test_2(page: OracleView) -> Actions:
    """Click the button with the right label."""
    yield Click((await page.one("#area button", "ONE")).ref)


@oracle("click-button")
async def click_button(page: OracleView) -> Actions:
    """Click the button that the goal names."""
    (label,) = find_quoted(page.goal)
    yield Click((await page.one("#area button", label)).ref)


@oracle("click-link")
async def click_link(page: OracleView) -> Actions:
    """Click the link that the goal names."""
    (text,) = find_quoted(page.goal)
    yield Click((await page.one("#area .alink", text)).ref)


@oracle("click-dialog")
async def click_dialog(page: OracleView) -> Actions:
    """Close the dialog by its x."""
    yield Click((await page.one(".ui-dialog-titlebar-close")).ref)


@oracle("click-checkboxes")
async def click_checkboxes(page: OracleView) -> Actions:
    """Tick the boxes that the goal lists, and submit."""
    wanted = page.goal.removeprefix("Select ").removesuffix(" and click Submit.").split(", ")
    labels = await page.all("#boxes label")
    boxes = await page.all("#boxes input")
    for label, box in zip(labels, boxes, strict=True):
        if label.text in wanted:
            yield Click(box.ref)
    yield Click((await page.one("#subbtn")).ref)


@oracle("click-button-sequence")
async def click_button_sequence(page: OracleView) -> Actions:
    """Click ONE, then TWO."""
    for label in ("ONE", "TWO"):
        yield Click((await page.one("#area button", label)).ref)


@oracle("click-test-transfer")
async def click_test_transfer(page: OracleView) -> Actions:
    """Click the button that the goal names."""
    (label,) = match_goal(r"Click button (ONE|TWO)\.", page.goal)
    yield Click((await page.one("#area button", label)).ref)


@oracle("click-checkboxes-large", "click-checkboxes-transfer")
async def click_checkboxes_large(page: OracleView) -> Actions:
    """Tick the boxes that the goal lists, if any, and submit."""
    (listed,) = match_goal(r"Select (.+) and click Submit\.", page.goal)
    for box in await _boxes(page, set(listed.split(", "))):
        yield box
    yield await submit(page)


@oracle("click-checkboxes-soft")
async def click_checkboxes_soft(page: OracleView) -> Actions:
    """Tick the boxes whose words are synonyms of those that the goal lists, and submit.

    It reads synonyms from the page's own list, which replaces knowledge of English and is the same
    in every episode.
    """
    (listed,) = match_goal(r"Select words similar to (.+) and click Submit\.", page.goal)
    groups = await page.evaluate("() => SYNONYMS")
    similar = {
        word for group in groups if not set(group).isdisjoint(listed.split(", ")) for word in group
    }
    for box in await _boxes(page, similar):
        yield box
    yield await submit(page)


@oracle("click-option")
async def click_option(page: OracleView) -> Actions:
    """Choose the radio button that the goal names, and submit."""
    (label,) = match_goal(r"Select (.+) and click Submit\.", page.goal)
    (button,) = (await _boxes(page, {label}))[:1]
    yield button
    yield await submit(page)


@oracle("choose-list")
async def choose_list(page: OracleView) -> Actions:
    """Choose an option of the list, and submit."""
    (option,) = match_goal(r"Select (.+) from the list and click Submit\.", page.goal)
    yield SelectOption((await page.one("#options")).ref, (option,))
    yield await submit(page)


@oracle("click-scroll-list")
async def click_scroll_list(page: OracleView) -> Actions:
    """Choose one or two options of the list, one after the other, and submit."""
    (listed,) = match_goal(r"Select (.+) from the scroll list and click Submit\.", page.goal)
    options = tuple(listed.split(", "))
    field = (await page.one("#options")).ref
    for number in range(1, len(options) + 1):
        yield SelectOption(field, options[:number])
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
    """Click a widget of the kind that the goal names."""
    (kind,) = match_goal(r'Click on a "(\w+)" widget\.', page.goal)
    yield Click((await page.one(_WIDGETS[kind])).ref)


async def _boxes(page: OracleView, labels: Container[str]) -> list[Click]:
    """Return a click for every box or radio button with one of the labels."""
    texts = await page.all("#area label")
    boxes = await page.all("#area label input")
    return [Click(box.ref) for text, box in zip(texts, boxes, strict=True) if text.text in labels]


# Hidden content is found by expanding, since an agent cannot read the source.


@oracle("click-collapsible", "click-collapsible-nodelay")
async def click_collapsible(page: OracleView) -> Actions:
    """Expand the section, and submit."""
    yield await click(page, "#area h3")
    await still(page)
    yield await submit(page)


@oracle("click-collapsible-2", "click-collapsible-2-nodelay")
async def click_collapsible_2(page: OracleView) -> Actions:
    """Expand one section after another until the link appears, and click it."""
    (text,) = match_goal(
        r'Expand the sections below, to find and click on the link "(.+)"\.', page.goal
    )
    for header in await page.all("#area h3"):
        yield Click(header.ref)
        await still(page)
        link = await _find_shown_link(page, text)
        if link is not None:
            yield link
            return
    raise OracleError(f"No section has the link {text!r}.")


@oracle("click-tab")
async def click_tab(page: OracleView) -> Actions:
    """Click the tab that the goal names."""
    (name,) = match_goal(r"Click on (Tab #\d)\.", page.goal)
    yield await click(page, "#area ul a", name)


@oracle("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def click_tab_2(page: OracleView) -> Actions:
    """Open one tab after another until the link appears, and click it.

    In `click-tab-2-medium` opening the second tab is enough if the first has no such link.
    """
    (text,) = match_goal(
        r'Switch between the tabs to find and click on the link "(.+)"\.', page.goal
    )
    link = await _find_shown_link(page, text)
    for tab in (await page.all("#area ul a"))[1:]:
        if link is None:
            yield Click(tab.ref)
            link = await _find_shown_link(page, text)
    if link is None:
        raise OracleError(f"No tab has the link {text!r}.")
    yield link


@oracle("click-dialog-2")
async def click_dialog_2(page: OracleView) -> Actions:
    """Click the button of the dialog that the goal names; its x has no text."""
    (label,) = match_goal(r'Click the button in the dialog box labeled "(\w+)"\.', page.goal)
    if label == "x":
        yield await click(page, ".ui-dialog-titlebar-close")
    else:
        yield await click(page, ".ui-dialog-buttonset button", label)


async def _find_shown_link(page: OracleView, text: str) -> Click | None:
    """Return a click on the visible link with this text, if any."""
    for link in await page.all("#area .alink"):
        if link.visible and link.text == text:
            return Click(link.ref)
    return None


@oracle("click-menu")
async def click_menu(page: OracleView) -> Actions:
    """Navigate the menu by keyboard.

    A click on an item with a submenu counts as choosing it, and hovering opens a submenu only after
    a delay.
    """
    (path,) = match_goal(r"Select (.+)", page.goal)
    menu = (await page.one("#menu")).ref
    names = path.split(">")
    items = "#menu > li > div"
    for depth, name in enumerate(names):
        texts = [item.text for item in await page.all(items)]
        last = depth == len(names) - 1
        yield Press(menu, _to(texts, name, "Enter" if last else "ArrowRight"))
        row = texts.index(name) + 1
        items = f"{items.removesuffix(' > div')}:nth-child({row}) > ul > li > div"


_MENU_DELAY = """() => new Promise(resolve => {
  setTimeout(resolve, jQuery("#menu").menu("instance").delay);
})"""
"""Waits as long as the menu does before it closes its submenus after a click elsewhere.

A submenu opened meanwhile would close too.
"""


@oracle("click-menu-2")
async def click_menu_2(page: OracleView) -> Actions:
    """Open the menu, and its submenu by keyboard if needed, and click the item.

    Half of the goals show the item's icon instead of its name, so the icon is read from the query's
    markup.
    """
    yield await click(page, "#open-menu")
    (label,) = match_goal(
        r'Click the "Menu" button, and then find and click on the item '
        r'(?:labeled "(.+)"|with the icon)\.',
        page.goal,
    )
    if label:
        item = await page.one("#menu div", label)
    else:
        item = await _item_like(page, (await page.one("#query .ui-icon")).attributes["class"])
    tops = [top.text for top in await page.all("#menu > li > div")]
    if item.text not in tops:
        await page.evaluate(_MENU_DELAY)
        keys = _to(tops, "Playback", "ArrowRight")
        yield Press((await page.one("#menu")).ref, f"Escape {keys}")
    yield Click(item.ref)


async def _item_like(page: OracleView, icon_class: str) -> Element:
    """Return the menu item with an icon."""
    icons = "#menu div:has(> .ui-icon:not(.ui-menu-icon))"
    classes = [icon.attributes["class"] for icon in await page.all(f"{icons} > .ui-icon")]
    return (await page.all(icons))[_index(classes, icon_class)]


def _to(items: list[str], item: str, key: str) -> str:
    """Return the keys that move to a menu item and press a key there."""
    return " ".join(["Home", *["ArrowDown"] * _index(items, item), key])


def _index(values: list[str], value: str) -> int:
    if value not in values:
        raise OracleError(f"No {value!r} in the menu; it has {values}.")
    return values.index(value)


@oracle("click-color")
async def click_color(page: OracleView) -> Actions:
    """Click the box of the colour that the goal names."""
    (color,) = match_goal(r"Click on the (\w+) colored box\.", page.goal)
    boxes = await page.all("#area .color")
    for box in boxes:
        if _background(box) == color:
            yield Click(box.ref)
            return
    raise OracleError(f"No box is {color}; they are {[_background(box) for box in boxes]}.")


@oracle("click-shades")
async def click_shades(page: OracleView) -> Actions:
    """Click every box whose colour is mostly red, green or blue, and submit."""
    (color,) = match_goal(
        r"Select all the shades of (red|green|blue) and press Submit\.", page.goal
    )
    for box in await page.all("#area span"):
        channels = [
            int(channel) for channel in match_goal(r"rgb\((\d+), (\d+), (\d+)\)", _background(box))
        ]
        if ("red", "green", "blue")[channels.index(max(channels))] == color:
            yield Click(box.ref)
    yield await submit(page)


def _background(box: Element) -> str:
    """Return the background colour in an element's style."""
    return match_goal(r"background-color: (.+);", box.attributes["style"])[0]


_STEPS = 50
"""The most arrow keys for a slider of 100 steps, from its nearer end."""


@oracle("use-slider")
async def use_slider(page: OracleView) -> Actions:
    """Move the slider to the value, and submit."""
    (value,) = match_goal(r"Select (-?\d+) with the slider and hit Submit\.", page.goal)
    async for action in _set_slider(page, "#slider", "#val", int(value)):
        yield action
    yield await submit(page)


@oracle("use-slider-2")
async def use_slider_2(page: OracleView) -> Actions:
    """Move the three sliders to their values, and submit."""
    (values,) = match_goal(r"Set the sliders to the combination (\[.+\]) and submit\.", page.goal)
    for number, value in enumerate(json.loads(values), start=1):
        async for action in _set_slider(page, f"#slider-{number}", f"#val-{number}", value):
            yield action
    yield await submit(page)


@oracle("form-sequence")
async def form_sequence(page: OracleView) -> Actions:
    """Move the slider, tick the nth box, and submit."""
    value, box = match_goal(
        r"Select (-?\d+) with the slider, click the (\d)\w\w checkbox, then hit Submit\.",
        page.goal,
    )
    async for action in _set_slider(page, "#slider", "#val", int(value)):
        yield action
    yield Check((await page.all("#area input[type=checkbox]"))[int(box) - 1].ref)
    yield await submit(page)


@oracle("use-spinner")
async def use_spinner(page: OracleView) -> Actions:
    """Step the spinner to the value, and submit."""
    (value,) = match_goal(r"Select (-?\d+) with the spinner and hit Submit\.", page.goal)
    spinner = await page.one("#spinner")
    steps = int(value) - int(spinner.value)
    if steps:
        yield Press(spinner.ref, _arrows(steps))
    yield await submit(page)


async def _set_slider(page: OracleView, slider: str, output: str, value: int) -> Actions:
    """Move a slider by arrow keys, from the nearer end if that is shorter.

    The page shows the slider's value but not its range, which is found by going to the end.
    """
    handle = (await page.one(f"{slider} .ui-slider-handle")).ref
    steps = value - int((await page.one(output)).text)
    if abs(steps) > _STEPS:
        yield Press(handle, "End" if steps > 0 else "Home")
        steps = value - int((await page.one(output)).text)
    if steps:
        yield Press(handle, _arrows(steps))


def _arrows(steps: int) -> str:
    """Return the keys for a number of steps up or down."""
    return " ".join(["ArrowUp" if steps > 0 else "ArrowDown"] * abs(steps))


_MONTHS = list(calendar.month_name)


@oracle("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def choose_date(page: OracleView) -> Actions:
    """Pick the date, and submit."""
    month, day, year = match_goal(
        r"Select (\d\d)/(\d\d)/(\d{4}) as the date and hit submit\.", page.goal
    )
    async for action in pick_date(page, int(year), int(month), int(day)):
        yield action
    yield await submit(page)


async def pick_date(page: OracleView, year: int, month: int, day: int) -> Actions:
    """Open the date picker, go to the month by keyboard, and click the day.

    A year spans eleven pages, so its arrows would take eleven clicks.
    """
    field = await page.one("#datepicker")
    yield Click(field.ref)
    await still(page)
    shown_month, shown_year = match_goal(
        r"([A-Z][a-z]+) (\d{4})", (await page.one(".ui-datepicker-title")).text
    )
    ahead = (int(year) - int(shown_year)) * 12 + month - _MONTHS.index(shown_month)
    if ahead:
        key = "PageDown" if ahead > 0 else "PageUp"
        yield Press(field.ref, " ".join([key] * abs(ahead)))
    yield await click(page, ".ui-datepicker-calendar a", str(day))
    await still(page)
