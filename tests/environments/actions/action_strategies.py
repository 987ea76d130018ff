"""Hypothesis strategies for actions, made from the rules of their fields."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from webtraj.environments import actions as actions_lib
from webtraj.environments.actions import base as base_lib
from webtraj.environments.actions import keys as keys_lib

VIEWPORT = (1280, 720)

_TRICKY_TEXTS = st.sampled_from(
    [
        "",
        'it\'s "quoted"',
        "back\\slash \\n \\d",
        "two\nlines\r\n",
        "</think>",
        "<think>",
        "<tool_call>{}</tool_call>",
        "<action>click('1')</action>",
        "```\nclick('1')\n```",
        "click('99')",
        "a] [b",
        "# no comment",
        "\x00\x1b\u2028\u202e",
        "日本語 😀",
        "{'a': 1}",
        "'''",
        '"""',
        "</s>",
        " padded ",
        "x, y",
    ]
)


def values(rule: base_lib.Rule) -> st.SearchStrategy[Any]:
    """Returns a strategy for the values that a rule takes."""
    match rule:
        case base_lib.TextRule(pattern="", min_length=least):
            return st.one_of(st.text(min_size=least, max_size=60), _TRICKY_TEXTS).filter(
                lambda text: len(text) >= least
            )
        case base_lib.TextRule(what=what) if "ref" in what:
            return st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
        case base_lib.TextRule():
            return st.text(
                st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20
            )
        case base_lib.NumberRule(low=low, high=high, whole=True):
            return st.integers(int(low), int(high))
        case base_lib.NumberRule(low=low) if low < 0:
            return st.one_of(
                st.integers(-20, 20).map(lambda clicks: clicks * 100),
                st.sampled_from([-VIEWPORT[1], 0, VIEWPORT[1]]),
                st.floats(-1000, 1000),
            )
        case base_lib.NumberRule(high=base_lib.MAX_SECONDS):
            return st.one_of(st.sampled_from([1.0, 2.0, 5]), st.floats(0, base_lib.MAX_SECONDS))
        case base_lib.NumberRule():
            return st.one_of(st.integers(0, VIEWPORT[1] - 1), st.floats(0, VIEWPORT[1] - 1))
        case base_lib.ChoiceRule(choices=choices):
            return st.sampled_from(choices)
        case base_lib.FlagRule():
            return st.booleans()
        case base_lib.KeysRule(single=True):
            return st.sampled_from(sorted(keys_lib.KEYS))
        case base_lib.KeysRule(max_chords=most):
            return _keys(min(most, 3))
        case base_lib.UrlRule(optional=optional):
            urls = ["https://example.com/a?b=c#d", "http://localhost:8000/", "about:blank"]
            return st.sampled_from([*urls, ""] if optional else urls)
        case base_lib.ManyRule(item=item, min_items=least, max_items=most, unique=unique):
            return st.lists(values(item), min_size=least, max_size=min(most, 4), unique=unique).map(
                tuple
            )
        case base_lib.RegionRule():
            sizes = st.tuples(*[st.integers(1, 300)] * 2)
            corners = st.tuples(*[st.integers(0, 300)] * 2)
            regions = st.tuples(corners, sizes).map(
                lambda r: (*r[0], r[0][0] + r[1][0], r[0][1] + r[1][1])
            )
            return st.just(()) | regions
        case base_lib.OptionalRule(rule=inner):
            return st.none() | values(inner)
    raise AssertionError(f"no strategy for {rule!r}")


def _keys(most: int) -> st.SearchStrategy[str]:
    key = st.sampled_from(sorted(keys_lib.KEYS))
    chord = st.lists(key, min_size=1, max_size=3).filter(
        # Only a chord's last key can be the plus: `++` would be read as the end of the chord.
        lambda keys: "+" not in keys[:-1]
    )
    return st.lists(chord.map("+".join), min_size=1, max_size=most).map(" ".join)


def actions_of(verb: type[actions_lib.Action]) -> st.SearchStrategy[actions_lib.Action]:
    """Returns a strategy for a verb's actions, with defaults as often as not."""
    fields = {name: values(rule) for name, rule in verb.rules.items()}
    required = {
        name: strategy
        for name, strategy in fields.items()
        if verb.__dataclass_fields__[name].default
        is verb.__dataclass_fields__[name].default_factory
    }
    optional = {name: strategy for name, strategy in fields.items() if name not in required}
    given = st.fixed_dictionaries(required, optional=optional)
    # Only a point is more than its fields: it has both coordinates or neither.
    whole = given.filter(lambda fields: (fields.get("x") is None) == (fields.get("y") is None))
    return whole.map(lambda fields: verb(**fields))
