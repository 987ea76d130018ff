"""What a model is shown: order, limits, and what is said of what was left out."""

import dataclasses
import itertools

import numpy as np
import pytest

from rows import each
from webtraj import errors
from webtraj.agents.contexts import (
    ContextSettings,
    Conversation,
    Cut,
    Page,
    Round,
    build_context,
    page_of,
)
from webtraj.agents.models.base import Image, Text

PAGE = Page(heading="Shop (https://shop.test/)", text='[1] button "Buy"', image=b"now")


def past(number, *, notice="", text="[1] link"):
    page = Page(heading=f"Page {number}", text=text, image=f"then {number}".encode())
    return Round(page, f"Action: click('{number}')", f"On Page {number}: click -> done", notice)


def conversation(rounds=0, **changes):
    made = Conversation(
        system="You act.",
        goal="Buy coffee.",
        page=PAGE,
        rounds=rounds if isinstance(rounds, tuple) else tuple(map(past, range(1, rounds + 1))),
        ask="What next?",
    )
    return dataclasses.replace(made, **changes)


def texts(context):
    return [
        (message.role, "\n".join(part.text for part in message.parts if isinstance(part, Text)))
        for message in context.messages
    ]


def images(context):
    return [
        part.data
        for message in context.messages
        for part in message.parts
        if isinstance(part, Image)
    ]


def test_first_step_is_goal_page_and_question():
    context = build_context(conversation(), ContextSettings())
    assert texts(context) == [
        ("system", "You act."),
        (
            "user",
            'Task: Buy coffee.\n\nPage: Shop (https://shop.test/)\n[1] button "Buy"\n\nWhat next?',
        ),
    ]
    assert images(context) == [b"now"]
    assert context.cuts == ()


def test_rounds_in_full_and_older_ones_in_a_line_each():
    context = build_context(conversation(4), ContextSettings(full_rounds=2))
    assert texts(context) == [
        ("system", "You act."),
        (
            "user",
            (
                "Task: Buy coffee.\n\nEarlier steps:\n1. On Page 1: click -> done\n"
                "2. On Page 2: click -> done\n\nPage: Page 3\n[1] link"
            ),
        ),
        ("assistant", "Action: click('3')"),
        ("user", "Page: Page 4\n[1] link"),
        ("assistant", "Action: click('4')"),
        ("user", 'Page: Shop (https://shop.test/)\n[1] button "Buy"\n\nWhat next?'),
    ]


def common_prefix(one, other):
    same = [a == b for a, b in zip(one, other, strict=False)]
    return same.index(False) if False in same else len(same)


@pytest.mark.parametrize(("slide", "anew"), [(1, 8), (4, 2)])
def test_sliding_by_several_rounds_leaves_the_beginning_alone_for_as_many_steps(slide, anew):
    settings = ContextSettings(full_rounds=2, slide=slide, screenshots=100)
    contexts = [build_context(conversation(n), settings).messages for n in range(2, 11)]
    # The system message is always the same; what matters is the one after it.
    shared = [common_prefix(one, two) for one, two in itertools.pairwise(contexts)]
    assert shared.count(1) == anew


def test_pages_are_cut_each_to_its_budget():
    long = "\n".join(f"[{number}] link" for number in range(100))
    settings = ContextSettings(page_tokens=100, old_page_tokens=30)
    rounds = (past(1, text=long),)
    page = dataclasses.replace(PAGE, text=long)
    context = build_context(conversation(rounds, page=page), settings, count=len)
    (_, first), (_, last) = texts(context)[1], texts(context)[3]
    assert Cut("page", 91) in context.cuts
    assert "[... 91 lines cut]" in last
    assert Cut("round 1", 99) in context.cuts
    assert "[... 99 lines cut]" in first


def test_beyond_the_budget_of_all_text_the_oldest_rounds_become_lines_first():
    rounds = tuple(past(number, text="[1] link\n" * 50) for number in range(1, 5))
    made = conversation(rounds)
    settings = ContextSettings(full_rounds=4, text_tokens=1200, old_page_tokens=1000)
    context = build_context(made, settings, count=len)
    assert [role for role, _ in texts(context)].count("assistant") == 2
    assert "1. On Page 1: click -> done\n2. On Page 2: click -> done" in texts(context)[1][1]
    assert sum(len(text) for role, text in texts(context) if role != "system") <= 1200


def test_beyond_it_even_then_the_page_is_cut():
    page = dataclasses.replace(PAGE, text="\n".join(f"[{n}] link" for n in range(500)))
    settings = ContextSettings(text_tokens=600, page_tokens=100_000)
    context = build_context(conversation(3, page=page), settings, count=len)
    assert len(texts(context)) == 2
    assert len(texts(context)[1][1]) <= 600
    assert texts(context)[1][1].endswith("lines cut]\n\nWhat next?")
    (cut,) = (cut for cut in context.cuts if cut.what == "page")
    assert f"[... {cut.left_out} lines cut]" in texts(context)[1][1]


def test_memory_stands_beside_the_current_page():
    made = conversation(2, memory="Order 7 is open.")
    assert texts(build_context(made, ContextSettings()))[-1][1].endswith(
        "What you chose to remember:\nOrder 7 is open.\n\nWhat next?"
    )
    without = build_context(made, ContextSettings(memory=False))
    assert "Order 7" not in str(without.messages)


@pytest.mark.parametrize("full_rounds", [0, 1, 4])
def test_model_is_told_why_its_last_reply_was_no_action(full_rounds):
    rounds = (past(1), past(2, notice="Your last reply was not carried out. No call."))
    made = conversation(rounds)
    last = texts(build_context(made, ContextSettings(full_rounds=full_rounds)))[-1][1]
    assert "Your last reply was not carried out. No call.\n\nPage: Shop" in last


# Pages.

OBSERVATION = {
    "goal": "Buy coffee.",
    "url": "https://shop.test/",
    "title": "Shop\n  of things",
    "axtree": '[1] button "Buy"\n  [2] textbox "How many?"',
    "screenshot": b"a picture",
    "set_of_marks": {
        "image": b"a marked picture",
        "refs": np.array(["7", "9"]),
        "roles": np.array(["button", "textbox"]),
        "names": np.array(["Buy", ""]),
        "boxes": np.zeros((2, 4)),
    },
    "last_action": {"error": "", "error_kind": ""},
}


@pytest.mark.parametrize(
    ("settings", "page"),
    [
        (
            ContextSettings(),
            Page(
                "Shop of things (https://shop.test/)",
                OBSERVATION["axtree"],
                b"",
                (),
            ),
        ),
        (
            ContextSettings(images=True),
            Page(
                "Shop of things (https://shop.test/)",
                OBSERVATION["axtree"],
                b"a picture",
                (),
            ),
        ),
        (
            ContextSettings(mode="marks"),
            Page(
                "Shop of things (https://shop.test/)",
                '[1] button "Buy"\n[2] textbox',
                b"a marked picture",
                (),
                ("7", "9"),
            ),
        ),
        (
            ContextSettings(mode="marks", images=False),
            Page(
                "Shop of things (https://shop.test/)",
                '[1] button "Buy"\n[2] textbox',
                b"",
                (),
                ("7", "9"),
            ),
        ),
        (
            ContextSettings(mode="coordinates"),
            Page("Shop of things (https://shop.test/)", "", b"a picture"),
        ),
    ],
    ids=["text", "text with images", "marks", "marks without images", "coordinates"],
)
def test_page_in_each_mode(settings, page):
    assert page_of(OBSERVATION, settings) == page
    assert set(settings.channels) <= {*OBSERVATION, "scroll"}


def test_what_has_happened_is_told():
    page = page_of(
        {
            **OBSERVATION,
            "last_action": {"error": "Element 9\nis covered.", "error_kind": "covered"},
            "dialogs": np.array(["alert: Sold out"]),
            "blocked": np.array([f"https://ads.test/{n}: not allowed" for n in range(12)]),
            "downloads": {"names": np.array(["bill.pdf"])},
            "http_status": 404,
            "tabs": np.array(["https://shop.test/", "https://shop.test/help"]),
            "active_tab": 1,
        },
        ContextSettings(),
    )
    assert page.notices[:2] == (
        "The last action was not done: Element 9 is covered.",
        "A dialog was shown and answered: alert: Sold out",
    )
    assert page.notices.count("Kept from the page: [... 2 more]") == 1
    assert page.notices[-4:] == (
        "A file has arrived: bill.pdf",
        "The site answered with the HTTP status 404.",
        "Tab 0: https://shop.test/",
        "Tab 1 (this one): https://shop.test/help",
    )


def test_lines_that_pages_write_are_bounded():
    dialog = "alert: " + "x" * 10_000
    page = page_of({**OBSERVATION, "dialogs": np.array([dialog])}, ContextSettings())
    assert len(page.notices[0]) < 400


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (ContextSettings(), "axtree"),
        (ContextSettings(mode="marks"), "set_of_marks"),
        (ContextSettings(mode="coordinates"), "screenshot"),
        (ContextSettings(images=True), "screenshot"),
    ],
    ids=["text", "marks", "coordinates", "images"],
)
def test_missing_channel_is_named_with_what_to_observe(settings, missing):
    observation = {key: value for key, value in OBSERVATION.items() if key != missing}
    with pytest.raises(errors.AgentError, match=rf"needs the channel '{missing}'.*observe=\["):
        page_of(observation, settings)


# Settings.


@each(
    ("options", "words"),
    [
        ({"mode": "pixels"}, "text, aria, marks, coordinates"),
        ({"mode": "coordinates", "images": False}, "shows only the screenshot"),
        ({"full_rounds": -1}, "full_rounds must be an integer of at least 0; got -1"),
        ({"page_tokens": 1.5}, "page_tokens"),
        ({"text_tokens": 0}, "at least 1"),
        ({"screenshots": True}, "screenshots"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        ContextSettings(**options)


def test_tightening_comes_to_an_end_and_makes_each_context_smaller():
    settings, sizes = ContextSettings(full_rounds=8), []
    rounds = tuple(past(n, text="[1] link\n" * 500) for n in range(12))
    page = dataclasses.replace(PAGE, text="[1] link\n" * 5000)
    made = conversation(rounds, page=page)
    while settings is not None:
        sizes.append(sum(len(text) for _, text in texts(build_context(made, settings))))
        settings = settings.tighten()
    assert len(sizes) > 3
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] < sizes[0] * 0.6
