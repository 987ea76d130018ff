"""Key names of all systems, to and from Playwright's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from webtraj.environments.actions import keys as keys_lib


@pytest.mark.parametrize("key", sorted(keys_lib.KEYS))
def test_every_key_is_spelt_and_read_back_in_every_system(key):
    assert keys_lib.canonical_key(key) == key
    xdotool = keys_lib.spell_key(key, keys_lib.XDOTOOL_NAMES)
    openai = keys_lib.spell_key(key, keys_lib.OPENAI_NAMES, upper=True)
    assert keys_lib.canonical_key(xdotool) == key
    assert keys_lib.canonical_key(openai) == key
    assert " " not in xdotool + openai
    assert keys_lib.split_chord(key) == (key,)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Return", "Enter"),
        ("RETURN", "Enter"),
        ("ENTER", "Enter"),
        ("Page_Down", "PageDown"),
        ("pagedown", "PageDown"),
        ("Prior", "PageUp"),
        ("BackSpace", "Backspace"),
        ("ESC", "Escape"),
        ("ctrl", "Control"),
        ("Control_L", "ControlLeft"),
        ("CMD", "Meta"),
        ("super", "Meta"),
        ("OPTION", "Alt"),
        ("KP_Enter", "NumpadEnter"),
        ("space", "Space"),
        (" ", "Space"),
        ("minus", "-"),
        ("a", "a"),
        ("A", "A"),
        ("F11", "F11"),
        ("f11", "F11"),
        ("ARROWLEFT", "ArrowLeft"),
        ("Left", "ArrowLeft"),
    ],
)
def test_common_spellings_are_read(name, key):
    assert keys_lib.canonical_key(name) == key


@pytest.mark.parametrize("name", ["", "hyper", "ctrl+a", "é", "F13", "ab", "\n", "Shift "])
def test_what_is_no_key_is_none(name):
    assert keys_lib.canonical_key(name) is None


@pytest.mark.parametrize(
    ("chord", "keys"),
    [
        ("a", ("a",)),
        ("+", ("+",)),
        ("Control+a", ("Control", "a")),
        ("Control++", ("Control", "+")),
        ("Control+Shift++", ("Control", "Shift", "+")),
        ("Control+", ("Control", "")),
        ("", ("",)),
    ],
)
def test_chords_are_split_at_the_plus_unless_it_is_the_key(chord, keys):
    assert keys_lib.split_chord(chord) == keys
    assert keys_lib.join_chord(keys) == chord


def test_the_keys_are_those_of_playwrights_keyboard():
    playwright = pytest.importorskip("playwright")
    bundle = Path(playwright.__file__).parent / "driver/package/lib/coreBundle.js"
    if not bundle.exists():
        pytest.skip("this Playwright does not keep its keyboard layout where we look for it")
    layout = re.search(r"USKeyboardLayout = \{(.*?)\n\s*\};", bundle.read_text(), re.DOTALL)
    assert layout
    codes = set(re.findall(r'^\s+"(\w+)": \{', layout[1], re.MULTILINE))
    named = {key for key in keys_lib.KEYS if len(key) > 1}
    assert codes <= named
    # Playwright's aliases for the keys that a keyboard has twice, and for either of two.
    assert named - codes == {"Alt", "Control", "ControlOrMeta", "Meta", "Shift"}
