"""Oracles of tasks that type, read and count: fields, forms, texts, tables, sums."""

from __future__ import annotations

import datetime
import itertools
import re

from webtraj.environments.actions import Check, Click, DragAt, Fill, Focus, Press, Scroll, TypeInto
from webtraj.environments.miniwob.oracles.base import (
    Actions,
    OracleError,
    OracleView,
    click,
    find_quoted,
    match_goal,
    oracle,
    submit,
    wait_until_painted,
)


@oracle("enter-text")
async def enter_text(page: OracleView) -> Actions:
    """Type the word and submit."""
    (word,) = find_quoted(page.goal)
    yield Fill((await page.one("#tt")).ref, word)
    yield Click((await page.one("#subbtn")).ref)


@oracle("focus-text")
async def focus_text(page: OracleView) -> Actions:
    """Give the field the focus."""
    yield Focus((await page.one("#tt")).ref)


@oracle("login-user")
async def login_user(page: OracleView) -> Actions:
    """Fill in both fields and log in."""
    user, password = find_quoted(page.goal)
    yield Fill((await page.one("#username")).ref, user)
    yield Fill((await page.one("#password")).ref, password)
    yield Click((await page.one("#subbtn")).ref)


@oracle("enter-text-dynamic")
async def enter_text_dynamic(page: OracleView) -> Actions:
    """Type the word and submit."""
    (word,) = match_goal(r'Enter "(.+)" into the text field and press Submit\.', page.goal)
    yield Fill((await page.one("#tt")).ref, word)
    yield await submit(page)


@oracle("enter-text-2")
async def enter_text_2(page: OracleView) -> Actions:
    """Type the word in the letter case that the goal asks for, and submit."""
    word, case = match_goal(
        r'Type "(.+)" in all (upper|lower) case letters in the text input and press Submit\.',
        page.goal,
    )
    yield Fill((await page.one("#tt")).ref, word.upper() if case == "upper" else word.lower())
    yield await submit(page)


@oracle("enter-password")
async def enter_password(page: OracleView) -> Actions:
    """Type the password into both fields and submit."""
    (password,) = match_goal(
        r'Enter the password "(.+)" into both text fields and press submit\.', page.goal
    )
    for field in ("#password", "#verify"):
        yield Fill((await page.one(field)).ref, password)
    yield await submit(page)


@oracle("enter-date")
async def enter_date(page: OracleView) -> Actions:
    """Set the date, which a date field takes in ISO form, and submit."""
    month, day, year = match_goal(
        r"Enter (\d+)/(\d+)/(\d+) as the date and hit submit\.", page.goal
    )
    date = datetime.date(int(year), int(month), int(day))
    yield Fill((await page.one("#tt")).ref, date.isoformat())
    yield await submit(page)


@oracle("enter-time")
async def enter_time(page: OracleView) -> Actions:
    """Set the time, which a time field takes by the 24-hour clock, and submit."""
    hour, minute, half = match_goal(
        r"Enter (\d+):(\d\d) (AM|PM) as the time and press submit\.", page.goal
    )
    hours = int(hour) % 12 + (12 if half == "PM" else 0)
    yield Fill((await page.one("#tt")).ref, f"{hours:02}:{minute}")
    yield await submit(page)


@oracle("focus-text-2")
async def focus_text_2(page: OracleView) -> Actions:
    """Focus the nth field, as the goal says."""
    (nth,) = match_goal(r"Focus into the (\d)\w\w input textbox\.", page.goal)
    yield Focus((await page.all("#area input"))[int(nth) - 1].ref)


@oracle("login-user-popup")
async def login_user_popup(page: OracleView) -> Actions:
    """Log in, and close the popup that may open when a field gets the focus."""
    user, password = match_goal(
        r'Enter the username "(.+)" and the password "(.+)" into the text fields and press login\.',
        page.goal,
    )
    for selector, value in (("#username", user), ("#password", password)):
        field = await page.one(selector)
        yield Click(field.ref)
        for cancel in await page.all("#popup-cancel"):
            yield Click(cancel.ref)
        yield Fill(field.ref, value)
    yield Click((await page.one("#subbtn")).ref)


@oracle("use-autocomplete", "use-autocomplete-nodelay")
async def use_autocomplete(page: OracleView) -> Actions:
    """Type the beginning, open the suggestions with the arrow down key, and take the match.

    The page searches again 300 ms after typing. If that happened after the choice, the suggestions
    would cover the button. Leaving the field cancels the search.
    """
    start, end = match_goal(
        r'Enter an item that starts with "(.+?)"(?: and ends with "(.+)")?\.', page.goal
    )
    field = (await page.one("#tags")).ref
    yield Fill(field, start)
    yield Press(field, "ArrowDown")
    for item in await page.all(".ui-autocomplete li"):
        if item.visible and item.text.startswith(start) and item.text.endswith(end):
            yield Click(item.ref)
            break
    else:
        raise OracleError(f"The page suggests nothing of the form {start}...{end}.")
    yield Press(field, "Tab")
    yield await submit(page)


@oracle("use-colorwheel", "use-colorwheel-2")
async def use_colorwheel(page: OracleView) -> Actions:
    """Type the colour's number into the field of the wheel, and submit.

    The number of a named colour comes from the page's list of names. A colour that is only shown in
    the query is read from the query's markup.
    """
    (name,) = match_goal(
        r"Select (?:the following color|(\w+)) with the color picker and hit Submit\.", page.goal
    )
    if name:
        number = await page.evaluate("name => ui_utils.colorNameToHex(name)", name)
    else:
        style = (await page.one("#query .cc")).attributes["style"]
        (number,) = match_goal(r"background-color: ?(#\w+);?", style)
    field = (await page.one("#col")).ref
    yield Fill(field, number.removeprefix("#"))
    yield await submit(page)


@oracle("terminal")
async def terminal(page: OracleView) -> Actions:
    """List the files, and remove one with the extension that the goal names, or without any."""
    (extension,) = match_goal(
        r"Use the terminal below to delete a file "
        r"(?:ending with the extension (\.[\w.]+)|that has no file extension\.)",
        page.goal,
    )
    prompt = (await page.one("#terminal-target")).ref
    yield TypeInto(prompt, "ls", submit=True)
    files = (await page.all("#terminal .output"))[-1].text.split(" ")
    for file in files:
        if file.endswith(extension) if extension else "." not in file:
            yield TypeInto(prompt, f"rm {file}", submit=True)
            return
    raise OracleError(f"None of {files} ends with {extension!r}.")


_LABELS = "#area :is(p > span, .row > div, th, .label, .ui-label)"
_BUTTONS = "#area :is(button, .final, .ui-submit)"


@oracle("multi-layouts", "multi-orderings")
async def multi_layouts(page: OracleView) -> Actions:
    """Fill in the search form, whose rows are in any order and whose labels vary."""
    genre, director, year = match_goal(
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
    """Choose the nth radio button, fill in the nth field, and submit."""
    radio, number, field = match_goal(
        r'Check the (\d)\w\w radio button and enter the number "(-?\d+)" '
        r"into the (\d)\w\w textbox\.",
        page.goal,
    )
    yield Check((await page.all("#area input[type=radio]"))[int(radio) - 1].ref)
    yield Fill((await page.all("#area input[type=text]"))[int(field) - 1].ref, number)
    yield await submit(page)


@oracle("form-sequence-3")
async def form_sequence_3(page: OracleView) -> Actions:
    """Open the list, which is drawn by a script, choose an option and click the button."""
    option, label = match_goal(
        r'Choose (.+) from the dropdown, then click the button labeled "(.+)"\.', page.goal
    )
    yield await click(page, "#area .selectric")
    yield await click(page, "#area .selectric-items li", option)
    yield await click(page, "#buttons button", label)


@oracle("number-checkboxes")
async def number_checkboxes(page: OracleView) -> Actions:
    """Tick the boxes that draw the digit.

    The example is a picture, so the pattern is read from the page's list of digits, which is the
    same in every episode.
    """
    (digit,) = match_goal(
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
    """Mark every number, and submit."""
    numbers = await page.all("#numbers .display-number")
    odd = await page.all("#numbers .odd")
    even = await page.all("#numbers .even")
    for row, number in enumerate(numbers):
        yield Click((odd if int(number.text) % 2 else even)[row].ref)
    yield await submit(page)


@oracle("order-food")
async def order_food(page: OracleView) -> Actions:
    """Order one of each named dish, or as many as asked of the first dish of a kind."""
    names, count, kind = match_goal(
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
    """Click the plus of the first dish that matches."""
    return await click(page, f".food-item{dish} .add")


@oracle("unicode-test")
async def unicode_test(page: OracleView) -> Actions:
    """Click the button with the label that the goal names."""
    (label,) = match_goal(r'Click on the "(.+)" button\.', page.goal)
    yield await click(page, "#area button", label)


# Fields are filled directly: all episodes of a browser share one clipboard.


@oracle("copy-paste")
async def copy_paste(page: OracleView) -> Actions:
    """Fill in the exact text of the text area, including all spaces, and submit."""
    text = (await page.one("#to-copy")).value
    yield Fill((await page.one("#answer-input")).ref, text)
    yield await submit(page)


@oracle("copy-paste-2")
async def copy_paste_2(page: OracleView) -> Actions:
    """Fill in the text of the text area that the goal numbers, and submit."""
    (number,) = match_goal(
        r"Copy the text from the (\d)(?:st|nd|rd) text area below and paste it into the text "
        r"input, then press Submit\.",
        page.goal,
    )
    areas = await page.all("#area textarea")
    yield Fill((await page.one("#answer-input")).ref, areas[int(number) - 1].value)
    yield await submit(page)


@oracle("find-word")
async def find_word(page: OracleView) -> Actions:
    """Type the paragraph's nth word."""
    (nth,) = match_goal(
        r"Find the (\d+)\w\w word in the paragraph, type that into the textbox "
        r'and press "Submit"\.',
        page.goal,
    )
    words = (await page.one("#area p")).text.split()
    yield Fill((await page.one("#answer-input")).ref, _letters(words[int(nth) - 1]))
    yield await submit(page)


@oracle("scroll-text")
async def scroll_text(page: OracleView) -> Actions:
    """Type the last word of the text, which can be read without scrolling."""
    words = (await page.one("#text-area")).text.split()
    yield Fill((await page.one("#answer-input")).ref, _letters(words[-1]))
    yield await submit(page)


@oracle("read-table")
async def read_table(page: OracleView) -> Actions:
    """Type the value of one row."""
    (key,) = match_goal(
        r"Enter the value of (.+) into the text field and press Submit\.", page.goal
    )
    table = await _table(page)
    yield Fill((await page.one("#tt")).ref, table[key])
    yield await submit(page)


@oracle("read-table-2")
async def read_table_2(page: OracleView) -> Actions:
    """Type the values of the two rows that the form's labels name."""
    table = await _table(page)
    labels = await page.all("#form label")
    fields = await page.all("#form input")
    for label, field in zip(labels, fields, strict=True):
        yield Fill(field.ref, table[label.text.removesuffix(":")])
    yield await submit(page)


@oracle("text-transform")
async def text_transform(page: OracleView) -> Actions:
    """Type the letters, which are skewed only visually."""
    letters = (await page.one("#captcha")).text
    yield Fill((await page.one("#tt")).ref, letters)
    yield await submit(page)


async def _table(page: OracleView) -> dict[str, str]:
    """Return the two columns of the table."""
    keys = await page.all("#tab td:first-child")
    values = await page.all("#tab td:last-child")
    return {key.text: value.text for key, value in zip(keys, values, strict=True)}


def _letters(word: str) -> str:
    """Return a word without its punctuation."""
    return re.sub(r"[^A-Za-z]", "", word)


@oracle("simple-arithmetic")
async def simple_arithmetic(page: OracleView) -> Actions:
    """Type the result."""
    left, sign, right = match_goal(r"(\d) ([-+x]) (\d) =", (await page.one("#math-problem")).text)
    a, b = int(left), int(right)
    result = {"+": a + b, "-": a - b, "x": a * b}[sign]
    yield Fill((await page.one("#math-answer")).ref, str(result))
    yield await submit(page)


@oracle("simple-algebra")
async def simple_algebra(page: OracleView) -> Actions:
    """Solve the equation for x, on either side of the operator."""
    left, sign, right, total = match_goal(
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
    """Count the blocks."""
    blocks = await page.all("#math-problem .addition-block")
    yield Fill((await page.one("#math-answer")).ref, str(len(blocks)))
    yield await submit(page)


@oracle("generate-number")
async def generate_number(page: OracleView) -> Actions:
    """Generate numbers until one matches, and submit."""
    than, bound, parity = match_goal(
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
    """Guess by bisection. The page says whether a guess is too low or too high."""
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
    """Turn every card up, and leave the one with the greatest number up."""
    cards = [card.ref for card in await page.all("#cardholder .card")]
    numbers = []
    for card in cards:
        yield Click(card)
        numbers.append(int((await page.one("#cardholder .card:not(.hidden)")).text))
    greatest = numbers.index(max(numbers))
    if greatest != len(cards) - 1:
        yield Click(cards[greatest])
    yield await submit(page)


_FAR = 10_000
"""Pixels; more than the length of any text here."""

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

_STYLE_BUTTONS = {"bold": ".ql-bold", "italics": ".ql-italic", "underlined": ".ql-underline"}


@oracle("scroll-text-2")
async def scroll_text_2(page: OracleView) -> Actions:
    """Scroll the text to an end, unless it is visible, and submit."""
    (end,) = match_goal(
        r"Scroll the textarea to the (bottom|top) of the text hit submit\.", page.goal
    )
    above, below = await page.evaluate(_HIDDEN_TEXT)
    if below if end == "bottom" else above:
        yield Scroll(0, _FAR if end == "bottom" else -_FAR, (await page.one("#text-area")).ref)
    yield await submit(page)


@oracle("sign-agreement")
async def sign_agreement(page: OracleView) -> Actions:
    """Scroll down, which enables the field and buttons, sign, and agree or not.

    Cancelling needs neither step.
    """
    name, button = match_goal(
        r"Click the cancel button\.|"
        r'Scroll to the bottom of the textarea, enter the name "(\w+)" then press "(\w+)"',
        page.goal,
    )
    if name:
        yield Scroll(0, _FAR, (await page.one("#text-area")).ref)
        await wait_until_painted(page)
        yield Fill((await page.one("#name")).ref, name)
    yield await click(page, "#agree" if button == "Agree" else "#cancel")


@oracle("resize-textarea")
async def resize_textarea(page: OracleView) -> Actions:
    """Drag the lower right corner of the text area, and submit.

    Only two pixels of the handles at its edges are visible.
    """
    side, size = match_goal(
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
    """Select the paragraph by a triple click, and submit."""
    yield Click((await page.one("#randomText")).ref, count=3)
    yield await submit(page)


@oracle("highlight-text-2")
async def highlight_text_2(page: OracleView) -> Actions:
    """Select the nth paragraph by a triple click, and submit."""
    (nth,) = match_goal(
        r"Highlight the text in the (\d)\w\w paragraph and click submit\.", page.goal
    )
    yield Click((await page.all("#randomText p"))[int(nth) - 1].ref, count=3)
    yield await submit(page)


@oracle("text-editor")
async def text_editor(page: OracleView) -> Actions:
    """Select a word, or everything, by keyboard, and give it a style or a colour."""
    word, style, color = match_goal(
        r"Using the text editor, (?:give|make) (?:everything|the text (.+)) "
        r"the (?:style (\w+)|color (\w+))(?: and press Submit)?\.",
        page.goal,
    )
    editor = await page.one("#editor .ql-editor")
    yield Press(editor.ref, _selection_of(word, editor.text) if word else "ControlOrMeta+a")
    if style:
        yield await click(page, _STYLE_BUTTONS[style])
    else:
        yield await click(page, ".ql-color .ql-picker-label")
        yield await click(page, f'.ql-color .ql-picker-item[data-value="{_COLORS[color]}"]')
    yield await submit(page)


def _selection_of(word: str, text: str) -> str:
    """Return the keys that select the first occurrence of a word in a field's text."""
    words = text.split(" ")
    if word not in words:
        raise OracleError(f"The text has no {word!r}: {text!r}.")
    before = sum(len(other) + 1 for other in words[: words.index(word)])
    moves = ["ArrowRight"] * before + ["Shift+ArrowRight"] * len(word)
    return " ".join(["ControlOrMeta+Home", *moves])
