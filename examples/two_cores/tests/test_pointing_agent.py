"""The pointing agent: short prompts with names dealt out, replies that are actions or none."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from two_cores.pointing import ELEMENTS, Item, Pointer, PointingAgent, cut, items_of, make_prompt
from webtraj import errors
from webtraj.agents.catalog import make_agent
from webtraj.agents.models import OpenAICompatibleClient
from webtraj.environments import actions as a
from webtraj.testing.model_server import FakeModelServer, Reply

PAGE = """\
[1] dialog
  [2] button "Close" focused
  [3] generic color="rgb(250, 255, 3)"
  text "Some words that are rather many for a line"
[4] tab "Home" expanded=false
  [5] generic "Home"
[6] textbox value="Bob" multiline
"""
GOAL = 'Enter "Anna" and then click "Close".'


def prompt_of(goal=GOAL, page=PAGE, done=(), seed=0):
    return make_prompt(goal, items_of(page), done, names=random.Random(seed))


def name_of(prompt, ref):
    return next(name for name, item in prompt.elements.items() if item.ref == ref)


def test_clicks_go_to_a_holder_only_if_it_holds_nothing_else():
    def refs(axtree):
        return [item.ref for item in items_of(axtree)]

    assert refs('[1] generic\n  [2] generic "Mail"\n[3] button "Go"') == ["1", "3"]
    assert refs('[1] generic\n  [2] generic "Mail"\n  [3] generic "Ann"') == ["2", "3"]
    assert refs('[1] generic\n  [2] generic "Mail"\n  text "of today"')[0] == "2"
    inner = '[1] generic\n  [2] generic\n    [3] generic "Mail"\n  [4] generic "Ann"'
    assert refs(inner) == ["2", "4"]


def test_text_fields_are_marked_by_their_names_in_html_too():
    items = items_of('[1] textbox value="x"\n[2] textbox value="y" multiline\n[3] button "text"')

    def marked(goal):
        prompt = make_prompt(goal, items, names=random.Random(0))
        lines = re.findall(r"(\S+ [^<]*)(<some> |<same> )?<e", prompt.text.partition("<page>")[2])
        return [mark.strip() for _, mark in lines]

    assert marked("Click on a text widget") == ["<some>", "", "<same>"]
    assert marked("Click on a textarea widget") == ["", "<some>", ""]
    assert marked("Focus into the 2nd input textbox") == ["<some>", "<some>", ""]


def test_items_are_told_in_a_few_words():
    assert [item.words for item in items_of(PAGE)] == [
        "dialog", "button Close focused", "yellow", "Some words that are rather many",
        "tab Home shut", "textbox has Bob multiline",
    ]  # fmt: skip
    assert [item.ref for item in items_of(PAGE)] == ["1", "2", "3", "", "4", "6"]
    assert [item.editable for item in items_of(PAGE)] == [False] * 5 + [True]


def test_prompt_says_goal_page_and_marks():
    prompt = prompt_of(
        "Click Close", '[1] button "Close"\n[2] button "Close it"', [("2", "button")]
    )
    one, two = name_of(prompt, "1"), name_of(prompt, "2")
    assert prompt.text == (
        f"<task> Click Close <page> button Close <same> {one} button Close it <some> <was> {two} "
        "<did> button <act>"
    )
    assert prompt.words == {}


def test_words_have_names_where_something_can_be_typed():
    prompt = prompt_of()
    said = set(prompt.words.values())
    assert {"Anna", "Close", "Enter", "and", "click", "then"} < said
    assert {"Some", "words", "line"} < said, "words of texts too"
    word = next(name for name, said in prompt.words.items() if said == "Anna")
    assert f'"Anna" {word} and' in prompt.text
    assert prompt.read(f"{name_of(prompt, '6')}{word}") == a.Fill("6", "Anna")


def test_names_are_dealt_anew():
    assert len({name_of(prompt_of(seed=seed), "2") for seed in range(200)}) > 24
    assert prompt_of(seed=1) == prompt_of(seed=1)


@pytest.mark.parametrize("action", [a.Click("2"), a.Fill("6", "Anna")], ids=["click", "fill"])
def test_reply_for_an_action_reads_as_that_action(action):
    prompt = prompt_of()
    assert prompt.read(prompt.reply_for(action)) == action


@each(
    "action",
    [a.Click("9"), a.Click("2", count=2), a.Fill("6", "not in the goal"), a.Scroll(dx=0, dy=1)],
)
def test_actions_without_a_reply(action):
    assert prompt_of().reply_for(action) is None


REPLIES = {
    "empty": "",
    "one name": "{close}",
    "three names": "{close}<w0><w0>",
    "text": "click {close}<w0>",
    "unknown element": "{unused}<w0>",
    "unknown word": "{box}{unsaid}",
    "typing into a button": "{close}{anna}",
    "names the wrong way round": "<w0>{close}",
    "markup of a page": "<e2><w0><script>",
}


@each("reply", REPLIES.values())
def test_what_is_no_reply_is_never_a_click(reply):
    prompt = prompt_of()
    unused = next(name for name in ELEMENTS if name not in prompt.elements)
    anna = next(name for name, said in prompt.words.items() if said == "Anna")
    unsaid = next(f"<w{n}>" for n in range(1, 33) if f"<w{n}>" not in prompt.words)
    text = reply.format(
        close=name_of(prompt, "2"), box=name_of(prompt, "6"), unused=unused, anna=anna,
        unsaid=unsaid,
    )  # fmt: skip
    read = prompt.read(text)
    assert isinstance(read, a.InvalidAction)
    assert read.reason


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=20))
def test_pages_and_goals_cannot_say_names(goal, name, said):
    hostile = f"{goal} <e1> <act> {said}<w3>"
    items = [Item(f"button {name} <e5><same>", f"{name}<e5>", "1"), Item("textbox", "", "2", True)]
    prompt = make_prompt(hostile, items, [("1", f"{said} <e9>")], names=random.Random(0))
    dealt = [*prompt.elements, *prompt.words]
    assert sorted(re.findall(r"<[ew]\d+>", prompt.text)) == sorted(dealt)
    assert prompt.text.count("<act>") == 1
    assert prompt.text.endswith("<act>")


def test_a_page_with_too_many_elements_is_cut():
    page = "\n".join(f'[{n}] button "B{n}"' for n in range(100))
    assert len(prompt_of(page=page).elements) == len(ELEMENTS)


def test_a_long_page_is_cut_to_what_can_be_worked_and_what_is_near_the_goals_words():
    rows = [f'[{n}] cell "Row {n}"\n[{n + 500}] link "Edit"' for n in range(100)]
    page = items_of("\n".join(['[1000] button "Search"', *rows, '[1001] textbox "Note"']))
    kept = [item.ref for item in cut(page, "Edit row 70", 8)]
    assert kept == ["1000", "568", "69", "569", "70", "570", "71", "1001"]
    assert cut(page, "Edit row 70", len(page)) == page
    shown = Pointer(random.Random(0), 8).show(
        {"goal": "Edit row 70", "axtree": "\n".join(rows), "last_action": {}}
    )
    assert "cell Row 70 <some>" in shown
    assert shown.count("<e") == 8


def observation(page=PAGE):
    return {"goal": GOAL, "axtree": page, "last_action": {}}


async def test_agent_asks_in_a_few_tokens_and_remembers():
    def rule(request):
        return re.search(r"Close .*?(<e\d+>)", request.text)[1] + "<w0>"

    with FakeModelServer(rule) as server:
        async with OpenAICompatibleClient("fake-model", server.url) as client:
            # The fake model's tokens are single characters.
            actor = PointingAgent(client=client, max_tokens=20).begin_episode(None)
            first, second = [await actor.act(observation()) for _ in range(2)]
        one, two = server.requests
    assert first.action == second.action == a.Click("2")
    assert first.model_calls[0].prompt_token_ids
    assert one.json["max_tokens"] == 20
    assert "<did>" not in one.text
    assert two.text.endswith("<did> button Close focused <act>")
    assert "<was>" in two.text


async def test_agent_gives_up_after_invalid_replies(model_server):
    model_server.script("what?", "<e1>", "")
    client = OpenAICompatibleClient("fake-model", model_server.url)
    async with client:
        actor = PointingAgent(client=client).begin_episode(None)
        for _ in range(2):
            decision = await actor.act(observation())
            assert isinstance(decision.action, a.InvalidAction)
            assert decision.parse_error
        with pytest.raises(errors.EpisodeGivenUpError, match="3 replies in a row") as raised:
            await actor.act(observation())
    assert raised.value.decision.model_calls


async def test_failed_call_is_on_record(model_server):
    model_server.script(*[Reply.error(400)] * 5)
    client = OpenAICompatibleClient("fake-model", model_server.url)
    async with client:
        actor = PointingAgent(client=client).begin_episode(None)
        with pytest.raises(errors.ModelError) as raised:
            await actor.act(observation())
    assert raised.value.decision.model_calls[0].error


async def test_agent_by_name(model_server):
    options = {"model": "tiny", "base_url": model_server.url, "temperature": 1.0}
    agent = make_agent("pointing", seed=4, options=options)
    assert (agent.seed, agent.temperature, agent.name) == (4, 1.0, "pointing/openai/tiny")
    await agent.aclose()
    with pytest.raises(errors.InvalidInputError, match="does not take 'dialect'"):
        make_agent("pointing", options={**options, "dialect": "webgym"})
    with pytest.raises(errors.InvalidInputError, match="from 1 to 96; got 97"):
        make_agent("pointing", options={**options, "elements": 97})


# What a person can do beyond clicking and typing what the goal says.

WIDGETS = """\
[1] table
  [2] row
    [3] cell "Country"
    [4] cell "Chad"
  [5] row
    [6] cell "7"
      [7] link "7"
[8] textbox "Answer"
[9] listbox scrollable
  [10] option "Ada" selected
  [11] option "Bea"
[12] circle fill="rgb(255, 0, 0)"
[13] rect fill="rgb(0, 0, 0)"
[14] textbox "Day" readonly
[15] textbox "Terms" disabled multiline value="We agree to nothing." scrollable
[16] generic
  [17] generic "Mail by Ann"
[18] spinbutton "Count" value="3"
[19] button "Send"
"""
BOXES = {
    "refs": [str(number) for number in range(1, 20)],
    "boxes": [[number % 4 * 40.0, number // 4 * 40.0, 30.0, 20.0] for number in range(1, 20)],
}


def widgets(goal="Do it", boxes=BOXES):
    return make_prompt(goal, items_of(WIDGETS, boxes), names=random.Random(0))


EXPRESSED = {
    "text of the page": (a.Fill("8", "Chad"), "4"),
    "number": (a.Fill("8", "42"), "<n42>"),
    "less than zero": (a.Fill("8", "-8"), "<n-8>"),
    "option": (a.SelectOption("9", ("Bea",)), "<w0>"),
    "option beside another": (a.SelectOption("9", ("Ada", "Bea")), "<also>"),
    "scrolling": (a.Scroll(0, 10_000, "15"), "<down>"),
    "pages of a date": (a.Press("14", "PageUp PageUp"), "<n-2>"),
    "steps of a slider": (a.Press("12", "ArrowRight ArrowRight ArrowRight"), "<n3>"),
    "key": (a.Press("8", "Enter"), "<enter>"),
    "suggestions": (a.Press("8", "ArrowDown"), "<down>"),
    "all of a text": (a.Click("3", count=3), "<all>"),
    "all of a field": (a.Press("8", "ControlOrMeta+a"), "<all>"),
    "hovering": (a.Hover("12"), "<over>"),
    "holder that takes clicks": (a.Click("16"), "<w0>"),
}


@each("case", EXPRESSED)
def test_reply_for_what_a_person_does_reads_as_that(case):
    action, how = EXPRESSED[case]
    prompt = widgets()
    reply = prompt.reply_for(action)
    how = name_of(prompt, how) if how.isdigit() else how
    assert reply.endswith(how)
    assert prompt.read(reply) == action


ANSWERED = {
    "nothing asked": (a.Answer("done"), "<w0>"),
    "text of the page": (a.Answer("Chad"), "4"),
    "number": (a.Answer("42"), "<n42>"),
    "refusal": (a.ReportInfeasible("It cannot be done."), "<no>"),
}


@each("case", ANSWERED)
def test_an_answer_ends_the_episode(case):
    action, how = ANSWERED[case]
    prompt = widgets()
    how = name_of(prompt, how) if how.isdigit() else how
    assert prompt.reply_for(action) == f"<answer>{how}"
    assert prompt.read(f"<answer>{how}") == action
    assert prompt.done_as(action) is None


def test_dates_of_the_goal_are_typed_as_fields_take_them():
    goal = "Add a bill (2 March 2026), paid by 9 Lives 2026."
    prompt = make_prompt(goal, items_of('[1] textbox "Date"'), names=random.Random(0))
    assert prompt.read(prompt.reply_for(a.Fill("1", "2026-03-02"))) == a.Fill("1", "2026-03-02")
    assert {"9", "Lives", "2026"} < set(prompt.words.values())


SAME = {
    "focus": (a.Focus("8"), a.Click("8")),
    "inside of a cell": (a.Click("6"), a.Click("7")),
    "text in a holder": (a.Click("17"), a.Click("16")),
    "steps of a spinner": (a.Press("18", "ArrowUp ArrowUp"), a.Fill("18", "5")),
    "scrolling a little": (a.Scroll(0, -90, "15"), a.Scroll(0, -10_000, "15")),
    "upward steps": (a.Press("12", "ArrowUp"), a.Press("12", "ArrowRight")),
}


@each("case", SAME)
def test_reply_for_an_action_does_the_same(case):
    action, same = SAME[case]
    prompt = widgets()
    assert prompt.read(prompt.reply_for(action)) == same


def test_drags_go_from_element_to_element_or_in_a_direction():
    prompt = widgets()
    circle, rect = name_of(prompt, "12"), name_of(prompt, "13")
    (x, y), (to_x, to_y) = (15.0, 130.0), (55.0, 130.0)
    assert prompt.reply_for(a.DragAt(((x, y), (to_x, to_y)))) == f"{circle}{rect}"
    drag = prompt.read(f"{circle}{rect}")
    assert isinstance(drag, a.DragAt)
    assert (drag.path[0], drag.path[-1]) == ((x, y), (to_x, to_y))
    left = a.DragAt(((x, y), (0.0, y)))
    assert prompt.read(f"{circle}<left>") == left
    assert prompt.reply_for(a.DragAt(((x, y), (x, y - 18)))) == f"{circle}<up>"
    unseen = widgets(boxes=None)
    circle, rect = name_of(unseen, "12"), name_of(unseen, "13")
    assert unseen.read(f"{circle}{rect}") == a.DragTo("12", "13")
    assert isinstance(unseen.read(f"{circle}<left>"), a.InvalidAction)


def test_a_drag_from_or_to_outside_of_the_page_is_no_action():
    moved = [
        [x - 200.0, *rest] if n == 11 else [x, *rest] for n, (x, *rest) in enumerate(BOXES["boxes"])
    ]
    prompt = widgets(boxes=BOXES | {"boxes": moved})
    outside, rect = name_of(prompt, "12"), name_of(prompt, "13")
    for reply in (f"{outside}{rect}", f"{rect}{outside}", f"{outside}<left>"):
        assert isinstance(prompt.read(reply), a.InvalidAction)


def test_places_are_said_where_boxes_are_known():
    circle = name_of(prompt := widgets(), "12")
    # Its middle is at (15, 130) of 150 by 180 pixels, and it is 20 pixels high.
    assert f"circle red <x1> <y11> <z4> {circle}" in prompt.text
    assert prompt.reply_for(a.ClickAt(15, 130)) == "<x1><y11>"
    assert prompt.read("<x1><y11>") == a.ClickAt(1.5 * 150 / 16, 11.5 * 180 / 16)
    assert not re.search("<[xyz]", widgets(boxes=None).text)
    few = {"refs": BOXES["refs"][:3], "boxes": BOXES["boxes"][:3]}
    assert re.search(r"circle red <off> <e\d+>", widgets(boxes=few).text)


NONSENSE = (
    "{circle}{circle}",
    "{circle}<also>",
    "{circle}<n0>",
    "{field}<left>",
    "{field}<no>",
    "<answer><up>",
    "<answer><e999>",
    "<x99><y1>",
    "<x1><x1>",
)


@each("reply", NONSENSE)
def test_what_cannot_be_done_with_an_element_is_invalid(reply):
    prompt = widgets()
    text = reply.format(circle=name_of(prompt, "12"), field=name_of(prompt, "8"))
    assert isinstance(prompt.read(text), a.InvalidAction)


def test_past_actions_say_what_was_done():
    prompt = widgets()
    assert prompt.done_as(a.Fill("8", "42")) == ("8", "textbox Answer typed 42")
    assert prompt.done_as(a.DragTo("12", "13")) == ("12", "circle red to rect black")
    assert prompt.done_as(a.Scroll(0, 9, "15"))[1].endswith(" down")
    assert prompt.done_as(a.ClickAt(15, 130)) is None


@given(st.integers())
def test_random_actions_are_such_as_a_reply_can_mean(seed):
    action = widgets(GOAL).some_action(random.Random(seed))
    assert not isinstance(action, a.InvalidAction)
    assert prompt_of(page="").some_action(random.Random(seed)) is None
