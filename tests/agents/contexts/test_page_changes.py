"""Pages given by their changes: exact, shorter, and whole again after a navigation."""

import dataclasses
import re

from hypothesis import given
from hypothesis import strategies as st

from webtraj.agents.contexts import (
    ContextSettings,
    Conversation,
    Page,
    Round,
    build_context,
    estimate_tokens,
)
from webtraj.agents.models.base import Text

NOT_SHOWN = re.compile(r"\.\.\. (\d+) (unchanged|more removed) lines?")
CHANGES = ContextSettings(changes=True, text_tokens=None)


def conversation(*pages):
    rounds = [Round(page, "Action: click('1')", "click -> done") for page in pages[:-1]]
    return Conversation(system="", goal="Shop.", page=pages[-1], rounds=tuple(rounds), ask="Next?")


def shown(context):
    """Return what each message of the user says of its page."""
    texts = [
        "\n".join(part.text for part in message.parts if isinstance(part, Text))
        for message in context.messages
        if message.role == "user"
    ]
    return [re.split(r"(?:^|\n)Page: .*\n", text)[-1].removesuffix("\n\nNext?") for text in texts]


def read(before, text):
    """Return the page that a reader knows after a message, who knew the one before."""
    if text == "The page is the same as above.":
        return before
    if not text.startswith("What changed since the page above"):
        return text
    old, new, place = before.split("\n"), [], 0
    for line in text.split("\n")[1:]:
        if found := NOT_SHOWN.fullmatch(line):
            count = int(found[1])
            new += old[place : place + count] if found[2] == "unchanged" else []
            place += count
        else:
            new += [line[2:]] if line[:2] != "- " else []
            place += line[:2] != "+ "
    return "\n".join(new)


LINES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 30), st.sampled_from(["Tea", "Milk", "Eggs"])),
    max_size=40,
)


def page(lines, heading="Shop (https://shop.test/)"):
    text = "\n".join(f'{"  " * depth}[{ref}] button "{name}"' for depth, ref, name in lines)
    return Page(heading=heading, text=text)


@given(pages=st.lists(LINES, min_size=2, max_size=5), tokens=st.integers(20, 400))
def test_a_reader_of_the_changes_knows_every_page(pages, tokens):
    settings = dataclasses.replace(CHANGES, page_tokens=tokens, full_rounds=9)
    made = [page(lines) for lines in pages]
    whole = dataclasses.replace(settings, changes=False, old_page_tokens=tokens)
    known = ""
    told = shown(build_context(conversation(*made), settings))
    for text, expected in zip(told, shown(build_context(conversation(*made), whole)), strict=True):
        known = read(known, text)
        assert known == expected
        assert len(text) <= len(expected)


ROWS = [(0, number, "Tea") for number in range(1, 31)]


def test_only_what_changed_is_sent_again():
    first, second = page(ROWS), page([*ROWS[:-1], (0, 30, "Milk")])
    context = build_context(conversation(first, second, second), CHANGES)
    assert shown(context) == [
        first.text,
        (
            "What changed since the page above (+ new, ~ changed, - removed):\n"
            '... 29 unchanged lines\n~ [30] button "Milk"'
        ),
        "The page is the same as above.",
    ]
    assert context.page.text == second.text  # Actions may name every element.


def test_another_page_is_sent_whole():
    there = page(ROWS, heading="Cart (https://shop.test/cart)")
    assert shown(build_context(conversation(page(ROWS), there), CHANGES)) == [
        page(ROWS).text, there.text,
    ]  # fmt: skip


def test_when_earlier_rounds_do_not_fit_the_page_is_sent_whole():
    settings = dataclasses.replace(CHANGES, text_tokens=estimate_tokens(page(ROWS).text) + 30)
    context = build_context(conversation(page(ROWS), page(ROWS)), settings)
    assert shown(context) == [page(ROWS).text]
