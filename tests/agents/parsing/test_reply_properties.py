"""What holds for every reply, whatever a model or a server writes."""

from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import ModelCall
from webtraj.agents.reply_parser import parse_call, parse_reply, sections_of
from webtraj.environments import actions as a
from webtraj.environments.actions.dialects import DIALECTS, make_dialect

FRAGMENTS = (
    "Thought:", "Memory:", "Action:", "**Action:**", "\n", " ", "<think>", "</think>",
    "<tool_call>", "</tool_call>", "<action>", "</action>", "```", "click('12')", "click(",
    "fill('3', 'x')", "'", '"', "(", ")", "[12]", "Click [12]", "Type [1] [x]", "{", "}",
    '{"name": "computer_use", "arguments": {"action": "go_back"}}', '{"action": "screenshot"}',
    "12", "done", "Action", "#", "\\", "\u2028", "é",
)  # fmt: skip
REPLIES = st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
SECTIONS = ("Thought", "Memory", "Action")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ("choices", "message", "tool_calls", "function", "name", "arguments", "content", "type",
         "input", "thinking", "reasoning")), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@each("name", DIALECTS)
@given(reply=REPLIES)
def test_every_reply_is_an_action_or_says_why_not(name, reply):
    dialect = make_dialect(name)
    read = parse_reply(reply, dialect, sections=SECTIONS)
    assert isinstance(read.action, a.Action)
    assert bool(read.parse_error) == isinstance(read.action, a.InvalidAction)
    # Nothing is read that the dialect itself would not read from some line of the reply.
    if not read.parse_error:
        assert type(read.action) in dialect.verbs
    for part in (read.thought, read.memory, read.said):
        assert all(line.strip() in reply for line in part.splitlines() if read.said != part)


@given(reply=REPLIES, refs=st.lists(st.sampled_from(("1", "12", "e7")), unique=True))
def test_with_marks_only_elements_of_the_page_are_touched(reply, refs):
    read = parse_reply(reply, make_dialect("webtraj"), sections=SECTIONS, marks=refs)
    for field in ("ref", "target_ref"):
        assert getattr(read.action, field, None) in (None, *refs)


@given(reply=REPLIES, response=JSON)
def test_every_response_is_read_without_an_error(reply, response):
    call = ModelCall(text=reply, response=response, finish_reason="length")
    read = parse_call(call, make_dialect("webtraj"), sections=SECTIONS)
    assert bool(read.parse_error) == isinstance(read.action, a.InvalidAction)


@given(
    bodies=st.lists(
        st.text("abc xyz.,!?", min_size=1).map(str.strip).filter(bool), min_size=3, max_size=3
    )
)
def test_sections_are_taken_apart_as_they_were_put_together(bodies):
    text = "\n".join(f"{label}: {body}" for label, body in zip(SECTIONS, bodies, strict=True))
    assert sections_of(text, SECTIONS) == dict(zip(SECTIONS, bodies, strict=True))


@each(
    "reply",
    [
        " " * 200_000 + "x",
        "Thought:\n" * 50_000,
        "*" * 200_000,
        "<think>" * 50_000,
        "```\n" * 50_000,
        "Action: " * 25_000,
        "click('" * 30_000,
    ],
)
def test_long_nonsense_takes_time_in_proportion(reply):
    # What is quadratic would take minutes, and the timeout of all tests would end it.
    read = parse_reply(reply, make_dialect("webtraj"), sections=SECTIONS)
    assert isinstance(read.action, a.InvalidAction)
