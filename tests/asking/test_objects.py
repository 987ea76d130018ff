"""What of a reply is one JSON object, and that nothing else is."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj.agents.models.structured_output import object_of, read_object
from webtraj.trajectory import ModelCall

GOOD = '{"achieved": true, "goal": "Open the shop."}'
VALUE = {"achieved": True, "goal": "Open the shop."}

READ = {
    "plain": GOOD,
    "white space around": f"\n  {GOOD}\r\n\t",
    "in a fence": f"```json\n{GOOD}\n```",
    "in a fence of no language": f"```\n{GOOD}\n```",
    "in a fence with white space": f"\n```json \n\n {GOOD}\n\n  ```\n",
    "over several lines": json.dumps(VALUE, indent=2),
}

BROKEN = {
    "empty": ("", "empty"),
    "white space": (" \n\t", "empty"),
    "prose": ("I think so.", "not one JSON object"),
    "prose around": (f"Here: {GOOD}", "not one JSON object"),
    "thinking before": (f"<think>Well.</think>{GOOD}", "not one JSON object"),
    "two objects": (GOOD * 2, "not one JSON object"),
    "two fences": (f"```\n{GOOD}\n```\n```\n{GOOD}\n```", "not one JSON object"),
    "fence of another language": (f"```python\n{GOOD}\n```", "not one JSON object"),
    "cut": (GOOD[:-1], "not one JSON object"),
    "a list": (f"[{GOOD}]", "not one JSON object"),
    "a string": (json.dumps(GOOD), "not one JSON object"),
    "null": ("null", "not one JSON object"),
    "NaN": ('{"a": NaN}', "not one JSON object"),
    "infinity": ('{"a": -Infinity}', "not one JSON object"),
    "beyond all floats": ('{"a": [1e999]}', "not one JSON object"),
    "beyond all digits": (f'{{"a": {"9" * 5000}}}', "not one JSON object"),
    "nested deeply": ("[" * 20_000, "not one JSON object"),
    "twice": ('{"a": 1, "a": 2}', "member twice"),
    "twice, the same": ('{"a": 1, "a": 1}', "member twice"),
    "twice, once escaped": ('{"a": 1, "\\u0061": 2}', "member twice"),
    "twice, further in": ('{"b": [{"a": 1, "a": 2}]}', "member twice"),
    "half of a character": ('{"a": "\\ud800"}', "half of a character"),
    "half of a character as it is": ('{"a": "\ud800"}', "half of a character"),
    "half of a character in a name": ('{"\\udfff": 1}', "half of a character"),
    "byte order mark": (f"\ufeff{GOOD}", "not one JSON object"),
    "no-break space": (f"\u00a0{GOOD}", "not one JSON object"),
    "too long": (json.dumps({"a": "x" * 100_000}), "longer than"),
}


@each("text", READ.values())
def test_object_is_read(text) -> None:
    assert read_object(text).value == VALUE
    assert read_object(text).broken == ""


@each(("text", "said"), BROKEN.values())
def test_all_else_is_broken_and_says_why(text, said) -> None:
    reading = read_object(text)
    assert reading.value is None
    assert said in reading.broken


@given(st.text(st.characters()))
def test_no_text_is_read_that_is_not_one_object(text) -> None:
    reading = read_object(text)
    assert (reading.value is None) == bool(reading.broken)
    if reading.value is not None:
        assert text.strip(" \t\r\n").startswith(("{", "```"))


@each(
    ("reason", "complete"),
    [
        ("stop", True),
        ("end_turn", True),
        ("eos_token", True),
        ("stop_sequence", True),
        ("length", False),
        ("max_tokens", False),
        ("content_filter", False),
        ("tool_calls", False),
        ("", False),
    ],
)
def test_only_a_reply_that_the_model_has_ended_counts(reason, complete) -> None:
    reading = object_of(ModelCall(text=GOOD, finish_reason=reason))
    assert (reading.value == VALUE) is complete
    assert bool(reading.broken) is not complete
