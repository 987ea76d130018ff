"""Key names: Playwright's, which are canonical here, and those of other systems.

A *key* is one name (`Enter`, `a`, `ArrowLeft`). A *chord* is keys held together, joined by `+`
(`Control+Shift+T`; the plus key itself is `+`, so `Control++`). *Keys*, as actions take them, are
one chord or several pressed one after another, separated by single spaces (`Tab Enter`; the space
bar is `Space`).

Names are those of Playwright's US keyboard layout (`keyboard.press` raises on any other). The
tables below also read xdotool's names (Anthropic's computer use) and the upper-case names that
OpenAI's computer use sends.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

__all__ = [
    "KEYS",
    "MODIFIERS",
    "OPENAI_NAMES",
    "XDOTOOL_NAMES",
    "canonical_key",
    "check_keys",
    "join_chord",
    "read_keys",
    "spell_key",
    "split_chord",
]

MODIFIERS = ("Alt", "Control", "ControlOrMeta", "Meta", "Shift")
"""The keys that may be held during a click, by Playwright's names."""

_NAMED = (
    "Escape F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 Backspace Tab CapsLock Enter Space Shift "
    "ShiftLeft ShiftRight Control ControlLeft ControlRight ControlOrMeta Alt AltLeft AltRight "
    "AltGraph Meta MetaLeft MetaRight ContextMenu PrintScreen ScrollLock Pause PageUp "
    "PageDown Insert Delete Home End ArrowLeft ArrowUp ArrowRight ArrowDown Backquote Minus "
    "Equal Backslash BracketLeft BracketRight Semicolon Quote Comma Period Slash "
    "AudioVolumeMute AudioVolumeDown AudioVolumeUp MediaTrackNext MediaTrackPrevious "
    "MediaPlayPause NumLock NumpadDivide NumpadMultiply NumpadSubtract NumpadAdd "
    "NumpadDecimal NumpadEnter"
)

KEYS = frozenset(
    [
        *_NAMED.split(),
        *(f"Digit{digit}" for digit in string.digits),
        *(f"Numpad{digit}" for digit in string.digits),
        *(f"Key{letter}" for letter in string.ascii_uppercase),
        *string.ascii_letters,
        *string.digits,
        *string.punctuation,
    ]
)
"""Every key name that Playwright's keyboard accepts, the space bar only as `Space`."""

# Playwright name -> the name that xdotool (X keysyms) prints. Letters and digits are the same.
XDOTOOL_NAMES = {
    "Enter": "Return",
    "Backspace": "BackSpace",
    "Space": "space",
    "PageUp": "Page_Up",
    "PageDown": "Page_Down",
    "ArrowLeft": "Left",
    "ArrowRight": "Right",
    "ArrowUp": "Up",
    "ArrowDown": "Down",
    "Control": "ctrl",
    "ControlLeft": "Control_L",
    "ControlRight": "Control_R",
    "Shift": "shift",
    "ShiftLeft": "Shift_L",
    "ShiftRight": "Shift_R",
    "Alt": "alt",
    "AltLeft": "Alt_L",
    "AltRight": "Alt_R",
    "AltGraph": "ISO_Level3_Shift",
    "Meta": "super",
    "MetaLeft": "Super_L",
    "MetaRight": "Super_R",
    "ContextMenu": "Menu",
    "PrintScreen": "Print",
    "ScrollLock": "Scroll_Lock",
    "CapsLock": "Caps_Lock",
    "NumLock": "Num_Lock",
    "NumpadEnter": "KP_Enter",
    "NumpadAdd": "KP_Add",
    "NumpadSubtract": "KP_Subtract",
    "NumpadMultiply": "KP_Multiply",
    "NumpadDivide": "KP_Divide",
    "NumpadDecimal": "KP_Decimal",
    **{f"Numpad{digit}": f"KP_{digit}" for digit in string.digits},
    "AudioVolumeMute": "XF86AudioMute",
    "AudioVolumeDown": "XF86AudioLowerVolume",
    "AudioVolumeUp": "XF86AudioRaiseVolume",
    "MediaTrackNext": "XF86AudioNext",
    "MediaTrackPrevious": "XF86AudioPrev",
    "MediaPlayPause": "XF86AudioPlay",
    "-": "minus",
    "+": "plus",
    "=": "equal",
    ",": "comma",
    ".": "period",
    "/": "slash",
    "\\": "backslash",
    ";": "semicolon",
    ":": "colon",
    "'": "apostrophe",
    '"': "quotedbl",
    "`": "grave",
    "~": "asciitilde",
    "!": "exclam",
    "@": "at",
    "#": "numbersign",
    "$": "dollar",
    "%": "percent",
    "^": "asciicircum",
    "&": "ampersand",
    "*": "asterisk",
    "(": "parenleft",
    ")": "parenright",
    "_": "underscore",
    "<": "less",
    ">": "greater",
    "?": "question",
    "|": "bar",
    "[": "bracketleft",
    "]": "bracketright",
    "{": "braceleft",
    "}": "braceright",
}

# Playwright name -> the name in OpenAI's `keypress` items. Names not listed go in upper case.
OPENAI_NAMES = {
    "Control": "CTRL",
    "Escape": "ESC",
    "Meta": "CMD",
    **{letter: letter for letter in string.ascii_letters},
    **{letter: letter for letter in string.punctuation},
}

# Other spellings that models use, in lower case.
_ALIASES = {
    "ctl": "Control",
    "cmd": "Meta",
    "command": "Meta",
    "win": "Meta",
    "windows": "Meta",
    "option": "Alt",
    "opt": "Alt",
    "esc": "Escape",
    "del": "Delete",
    "ins": "Insert",
    "pgup": "PageUp",
    "pgdn": "PageDown",
    "prior": "PageUp",
    "next": "PageDown",
    "kp_delete": "NumpadDecimal",
    "spacebar": "Space",
    "mod": "ControlOrMeta",
    "meta_l": "MetaLeft",
    "meta_r": "MetaRight",
}

_READING: dict[str, str] = {
    **{name.lower(): name for name in KEYS if len(name) > 1},
    **{name.lower(): key for key, name in OPENAI_NAMES.items() if len(name) > 1},
    **{name.lower(): key for key, name in XDOTOOL_NAMES.items()},
    **_ALIASES,
}


def canonical_key(name: str) -> str | None:
    """Return Playwright's name of a key in any system's spelling, or None.

    >>> canonical_key("Return"), canonical_key("CTRL"), canonical_key("a"), canonical_key("warp")
    ('Enter', 'Control', 'a', None)
    """
    if name in KEYS:
        return name
    return "Space" if name == " " else _READING.get(name.lower())


def spell_key(key: str, names: Mapping[str, str], *, upper: bool = False) -> str:
    """Return a key's name in another system; `canonical_key` converts it back.

    >>> spell_key("Enter", XDOTOOL_NAMES), spell_key("ArrowUp", OPENAI_NAMES, upper=True)
    ('Return', 'ARROWUP')
    """
    name = names.get(key, key.upper() if upper else key)
    return name if canonical_key(name) == key else key


def split_chord(chord: str) -> tuple[str, ...]:
    """Return the keys of a chord. A malformed chord gives empty parts.

    >>> split_chord("Control++"), split_chord("+"), split_chord("Shift+a")
    (('Control', '+'), ('+',), ('Shift', 'a'))
    """
    if chord == "+":
        return ("+",)
    if chord.endswith("++"):
        return (*chord[:-2].split("+"), "+")
    return tuple(chord.split("+"))


def join_chord(keys: tuple[str, ...]) -> str:
    """Return keys as one chord: the inverse of `split_chord`."""
    return "+".join(keys)


def read_keys(keys: Any) -> Any:
    """Return keys by Playwright's names, from any system's spelling; unchanged if unknown.

    >>> read_keys("CTRL+A Return"), read_keys(["ctrl", "a"]), read_keys("warp")
    ('Control+A Enter', 'Control+a', 'warp')
    """
    said = keys
    if isinstance(keys, list) and all(isinstance(key, str) for key in keys):
        if any(canonical_key(key) not in MODIFIERS for key in keys[:-1]):
            return keys  # Keys that are held together, or one after another?
        said = join_chord(tuple(keys))
    if not isinstance(said, str) or " + " in said:  # A chord with spaces, or the plus key?
        return keys
    chords = [[canonical_key(key) for key in split_chord(chord)] for chord in said.split()]
    if not chords or any(key is None for chord in chords for key in chord):
        return keys
    return " ".join(join_chord(tuple(filter(None, chord))) for chord in chords)


def check_keys(keys: str, *, max_chords: int = 100) -> str:
    """Return what is wrong with `keys`, or an empty string."""
    chords = keys.split(" ")
    if len(chords) > max_chords:
        return f"at most {max_chords} chords"
    for chord in chords:
        for key in split_chord(chord):
            if key not in KEYS:
                return f"Playwright key names such as 'Enter' or 'Control+a' ({key!r} is none)"
    return ""
