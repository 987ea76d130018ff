"""Oracles of tasks that scroll, resize, select and format text."""

from __future__ import annotations

from webtraj.environments.actions import Click, DragAt, Fill, Press, Scroll
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click, painted, submit
from webtraj.environments.miniwob.oracles.view import OracleError, OracleView, matched

_FAR = 10_000
"""Pixels; more than any text here is long."""

_HIDDEN_TEXT = """() => {
  const {scrollTop, clientHeight, scrollHeight} = document.querySelector("#text-area");
  return [scrollTop > 0, scrollTop + clientHeight < scrollHeight];
}"""

_RESIZE_BY = 10

_COLORS = {
    "red": "#e60000",
    "orange": "#ff9900",
    "yellow": "#ffff00",
    "green": "#008a00",
    "blue": "#0066cc",
    "purple": "#9933ff",
}
"""The pure colours in the editor's palette."""

_SELECTION_NOTICED = """async () => {
  while (!editor.selection.savedRange.length) await new Promise(requestAnimationFrame);
}"""
"""The editor looks at the selection a tenth of a second after a key, and formats what it saw."""

_BUTTONS = {"bold": ".ql-bold", "italics": ".ql-italic", "underlined": ".ql-underline"}


@oracle("scroll-text-2")
async def scroll_text_2(page: OracleView) -> Actions:
    """Scrolls the text to an end, unless it shows, and submits."""
    (end,) = matched(r"Scroll the textarea to the (bottom|top) of the text hit submit\.", page.goal)
    above, below = await page.evaluate(_HIDDEN_TEXT)
    if below if end == "bottom" else above:
        yield Scroll(0, _FAR if end == "bottom" else -_FAR, (await page.one("#text-area")).ref)
    yield await submit(page)


@oracle("sign-agreement")
async def sign_agreement(page: OracleView) -> Actions:
    """Scrolls the agreement down, which frees the field and the buttons, signs, and agrees or not.

    Cancelling alone needs neither.
    """
    name, button = matched(
        r"Click the cancel button\.|"
        r'Scroll to the bottom of the textarea, enter the name "(\w+)" then press "(\w+)"',
        page.goal,
    )
    if name:
        yield Scroll(0, _FAR, (await page.one("#text-area")).ref)
        await painted(page)
        yield Fill((await page.one("#name")).ref, name)
    yield await click(page, "#agree" if button == "Agree" else "#cancel")


@oracle("resize-textarea")
async def resize_textarea(page: OracleView) -> Actions:
    """Drags the lower right corner of the text area, and submits.

    Of the handles at its edges, only two pixels are to be seen.
    """
    side, size = matched(
        r"Resize the textarea so that the (width|height) is (larger|smaller) "
        r"than its initial size then press Submit\.",
        page.goal,
    )
    change = _RESIZE_BY if size == "larger" else -_RESIZE_BY
    x, y = (await page.one("#area .ui-resizable-se")).center
    yield DragAt(((x, y), (x + change, y) if side == "width" else (x, y + change)))
    yield await click(page, "#submit")


@oracle("highlight-text")
async def highlight_text(page: OracleView) -> Actions:
    """Selects the paragraph by a triple click, and submits."""
    yield Click((await page.one("#randomText")).ref, count=3)
    yield await submit(page)


@oracle("highlight-text-2")
async def highlight_text_2(page: OracleView) -> Actions:
    """Selects the paragraph that the goal counts out by a triple click, and submits."""
    (nth,) = matched(r"Highlight the text in the (\d)\w\w paragraph and click submit\.", page.goal)
    yield Click((await page.all("#randomText p"))[int(nth) - 1].ref, count=3)
    yield await submit(page)


@oracle("text-editor")
async def text_editor(page: OracleView) -> Actions:
    """Selects a word, or everything, by the keyboard, and gives it a style or a colour."""
    word, style, color = matched(
        r"Using the text editor, (?:give|make) (?:everything|the text (.+)) "
        r"the (?:style (\w+)|color (\w+))(?: and press Submit)?\.",
        page.goal,
    )
    editor = await page.one("#editor .ql-editor")
    yield Press(editor.ref, _selection_of(word, editor.text) if word else "ControlOrMeta+a")
    await page.evaluate(_SELECTION_NOTICED)
    if style:
        yield await click(page, _BUTTONS[style])
    else:
        yield await click(page, ".ql-color .ql-picker-label")
        yield await click(page, f'.ql-color .ql-picker-item[data-value="{_COLORS[color]}"]')
    yield await submit(page)


def _selection_of(word: str, text: str) -> str:
    """Returns the keys that select the first place of a word in the text of a field."""
    words = text.split(" ")
    if word not in words:
        raise OracleError(f"The text has no {word!r}: {text!r}.")
    before = sum(len(other) + 1 for other in words[: words.index(word)])
    moves = ["ArrowRight"] * before + ["Shift+ArrowRight"] * len(word)
    return " ".join(["ControlOrMeta+Home", *moves])
