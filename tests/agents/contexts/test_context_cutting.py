"""Texts are cut to a budget by whole lines, and say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webtraj.agents.contexts import cut_lines, estimate_tokens

LINES = "\n".join(f'[{number}] button "Number {number}"' for number in range(200))


def test_cut_text_keeps_whole_lines_from_the_start_and_says_how_many_are_gone():
    text, left_out = cut_lines(LINES, 300, estimate_tokens)
    *kept, last = text.splitlines()
    assert kept == LINES.splitlines()[: len(kept)]
    assert last == f"[... {left_out} lines cut]"
    assert len(kept) + left_out == 200
    assert estimate_tokens(text) <= 300
    longer = "\n".join([*LINES.splitlines()[: len(kept) + 1], last])
    assert estimate_tokens(longer) > 300  # Nothing more would have fitted.


@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp", "Cs"])), min_size=2),
    budget=st.integers(min_value=0, max_value=200),
)
def test_what_is_kept_and_what_is_cut_add_up_to_the_text(lines, budget):
    text = "\n".join(lines)
    cut, left_out = cut_lines(text, budget, len)
    if not left_out:
        assert cut == text
        return
    assert len(text) > budget
    if len(text.splitlines()) > 1:
        kept = cut.splitlines()[:-1]
        assert kept == text.splitlines()[: len(kept)]
        assert len(kept) + left_out == len(text.splitlines())


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcdef", 2), ("日本語", 3), ("\ud800", 1)]
)
def test_a_token_is_three_bytes(text, tokens):
    assert estimate_tokens(text) == tokens
