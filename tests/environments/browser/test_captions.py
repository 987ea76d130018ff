"""What fields without names are called: the text right before them, and nothing else."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj.environments.browser.observation import captions_in

CASES = {
    "a text": ('text "City"\n[1] textbox', {"1": "City"}),
    "a plain element": ('[1] generic "City"\n[2] textbox', {"2": "City"}),
    "within wrappers": ('[1] paragraph\n  [2] generic "City"\n  [3] textbox', {"3": "City"}),
    "cells of a row": (
        '[1] row\n  [2] cell "City"\n  [3] cell\n    [4] textbox',
        {"4": "City"},
    ),
    "the nearest": ('text "Where?"\ntext "City"\n[1] textbox', {"1": "City"}),
    "without colon and star": ('text "City: *"\n[1] searchbox', {"1": "City"}),
    "a question": ('text "Where to?"\n[1] combobox value="Bonn"', {"1": "Where to?"}),
    "one for each": (
        'text "From"\n[1] textbox\ntext "To"\n[2] textbox', {"1": "From", "2": "To"},
    ),
    "not of the second field": ('text "Phone"\n[1] textbox\n[2] textbox', {"1": "Phone"}),
    "of fields with names, too": ('text "Now"\n[1] textbox "City"', {"1": "Now"}),
    "an icon in between": ('text "City"\n[1] img\n[2] textbox', {"2": "City"}),
    "a control in between": ('text "City"\n[1] button "Help"\n[2] textbox', {}),
    "what a control says again": ('[1] button "Go"\n  [2] generic "Go"\n[3] textbox', {}),
    "the head of a column": ('[1] columnheader "City"\n[2] cell\n  [3] textbox', {}),
    "a sentence": ('text "Tell us more."\n[1] textbox', {}),
    "a long text": (f'text "{"x" * 61}"\n[1] textbox', {}),
    "signs alone": ('text "*"\n[1] textbox', {}),
    "a box to tick": ('text "Gift"\n[1] checkbox', {}),
    "nothing": ("", {}),
}  # fmt: skip


@each("case", CASES)
def test_caption_is_the_text_right_before_a_field(case):
    axtree, captions = CASES[case]
    assert captions_in(axtree) == captions


@given(said=st.text(max_size=80), name=st.text(max_size=20))
def test_any_page_has_captions_that_stand_on_it(said, name):
    tree = f"text {json.dumps(said)}\n[1] textbox {json.dumps(name)}\n[2] textbox"
    for caption in captions_in(tree).values():
        assert caption
        assert caption in said
