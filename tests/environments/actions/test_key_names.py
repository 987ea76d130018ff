"""Key names of all systems, to and from Playwright's."""

from __future__ import annotations

from rows import each
from webtraj.environments.actions import keys as keys_lib


@each("key", sorted(keys_lib.KEYS))
def test_every_key_is_spelt_and_read_back_in_every_system(key):
    assert keys_lib.canonical_key(key) == key
    xdotool = keys_lib.spell_key(key, keys_lib.XDOTOOL_NAMES)
    openai = keys_lib.spell_key(key, keys_lib.OPENAI_NAMES, upper=True)
    assert keys_lib.canonical_key(xdotool) == key
    assert keys_lib.canonical_key(openai) == key
    assert " " not in xdotool + openai
    assert keys_lib.split_chord(key) == (key,)


@each(
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


@each("name", ["", "hyper", "ctrl+a", "é", "F13", "ab", "\n", "Shift "])
def test_what_is_no_key_is_none(name):
    assert keys_lib.canonical_key(name) is None


@each(
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
