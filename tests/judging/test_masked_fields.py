"""What fields with bullets hold: known from the actions, or not known, and never wrong."""

from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj.environments import actions as a
from webtraj.judging.masked_fields import find_typed_texts, is_masked
from webtraj.trajectory import Decision, StepRecord, StepType


def tree(one=0, two=0, plain=""):
    """A page of two passwords of so many characters, and a field that shows what it holds."""
    lines = ["[1] textbox", "[2] textbox", '[3] textbox "User"', '[4] button "Send"']
    for place, shown in enumerate(("\u2022" * one, "\u2022" * two, plain)):
        lines[place] += f' value="{shown}"' if shown else ""
    return "\n".join(lines)


def steps_of(*done, begun=""):
    """Steps of an episode: actions, and the pages and errors after them."""
    steps = [StepRecord(0, StepType.FIRST, {"axtree": begun or tree()})]
    for index, (action, page, *error) in enumerate(done, 1):
        ref = getattr(action, "ref", "1" if isinstance(action, a.TypeAt) else "")
        last = {"ref": ref, "error": error[0] if error else ""}
        seen = {"axtree": page, "last_action": last}
        steps.append(StepRecord(index, StepType.MID, seen, action, 0.0, 1.0))
    return steps


FILLED = (a.Fill("1", "abc"), tree(3))
KNOWN = {
    "filled": ([FILLED], {"1": "abc"}),
    "filled, by a string": ([("fill('1', 'abc')", tree(3))], None),
    "typed": ([(a.TypeInto("1", "abc"), tree(3))], {"1": "abc"}),
    "typed at a point": ([(a.TypeAt(1, 1, "abc"), tree(3))], {"1": "abc"}),
    "the last text": ([FILLED, (a.Fill("1", "xyz"), tree(3))], {"1": "xyz"}),
    "typed anew": ([FILLED, (a.TypeInto("1", "xyz", clear=True), tree(3))], {"1": "xyz"}),
    "two fields": ([FILLED, (a.Fill("2", "de"), tree(3, 2))], {"1": "abc", "2": "de"}),
    "another field": ([FILLED, (a.Fill("3", "de"), tree(3, plain="de"))], {"1": "abc"}),
    "clicks and Enter": (
        [FILLED, (a.Click("3"), tree(3)), (a.Press("1", "Enter"), tree(3))], {"1": "abc"},
    ),
    "no action": ([FILLED, (a.InvalidAction(reason="?"), tree(3))], {"1": "abc"}),
    "beyond the basic plane": ([(a.Fill("1", "\U0001f511"), tree(2))], {"1": "\U0001f511"}),
    "in a decision": ([(Decision(action=a.Fill("1", "abc")), tree(3))], None),
}  # fmt: skip
UNKNOWN = {
    "nobody typed": [(a.Click("3"), tree(3))],
    "other characters": [(a.Fill("1", "abc"), tree(2))],
    "added to what was there": [FILLED, (a.TypeInto("1", "d"), tree(4))],
    "added to what nobody knows": [(a.Click("4"), tree(3)), (a.TypeInto("1", "abc"), tree(3))],
    "emptied": [FILLED, (a.Clear("1"), tree()), (a.Click("4"), tree(3))],
    "a key in it": [FILLED, (a.Press("1", "x"), tree(3))],
    "a key somewhere": [FILLED, (a.Press("3", "Tab"), tree(3))],
    "text to the focus": [FILLED, (a.TypeText("x"), tree(3))],
    "dragged": [FILLED, (a.DragTo("3", "1"), tree(3))],
    "a tab in the text": [(a.TypeInto("1", "ab\t"), tree(3))],
    "not done": [FILLED, (a.Fill("1", "xyz"), tree(3), "It is disabled.")],
    "the page changed it": [FILLED, (a.Click("4"), tree(5))],
    "gone and back": [FILLED, (a.Click("4"), ""), (a.Click("4"), tree(3))],
    "another field of another page": [FILLED, (a.Reload(), tree(3).replace("[1]", "[11]"))],
    "a page that nobody saw": [FILLED, (a.Click("4"), None), (a.Click("4"), tree(3))],
    "redacted": [(a.Fill("1", "<secret:password>"), tree(17))],
    "an action that is none": [FILLED, (7, tree(3))],
}


@each("case", KNOWN)
def test_what_was_typed_last_is_known(case):
    done, known = KNOWN[case]
    steps = steps_of(*done)
    if known is None:  # What it was done to, only the observation says.
        steps[1].observation["last_action"]["ref"] = "1"
        known = {"1": "abc"}
    assert find_typed_texts(steps)[-1] == known


@each("case", UNKNOWN)
def test_what_is_not_sure_is_not_known(case):
    assert find_typed_texts(steps_of(*UNKNOWN[case]))[-1] == {}


def test_each_step_has_what_was_known_then():
    steps = steps_of(FILLED, (a.Fill("1", "xyz"), tree(3)), (a.Click("4"), tree()))
    assert find_typed_texts(steps) == [{}, {"1": "abc"}, {"1": "xyz"}, {}]
    assert find_typed_texts([]) == []


def test_without_word_of_how_the_action_went_nothing_is_known():
    steps = steps_of(FILLED)
    del steps[1].observation["last_action"]
    assert find_typed_texts(steps)[-1] == {}


_TEXTS = st.text("ab", max_size=2)
_REFS = st.sampled_from(["1", "2"])
_ACTIONS = st.one_of(
    st.builds(a.Fill, _REFS, _TEXTS),
    st.builds(a.TypeInto, _REFS, _TEXTS, clear=st.booleans()),
    st.builds(a.Press, _REFS, st.sampled_from(["a", "Backspace", "Enter"])),
    st.builds(a.Clear, _REFS),
    st.builds(a.Click, _REFS),
    st.builds(a.TypeText, st.text("ab", min_size=1, max_size=2)),
)


def _done(action, held, focus):
    """What a field holds after an action."""
    match action:
        case a.Fill(value=text):
            return text
        case a.TypeInto(text=text, clear=clear):
            return text if clear else held + text
        case a.Press(keys="a"):
            return "a" + held  # The caret may be anywhere.
        case a.Press(keys="Backspace"):
            return held[1:]
        case a.Clear():
            return ""
        case a.TypeText(text=text):
            return text + held[len(text) :]
    return held


@given(st.lists(_ACTIONS, max_size=12), _TEXTS)
def test_what_is_known_is_so(actions, begun):
    held = {"1": begun, "2": ""}
    focus = "1"
    done, truths = [], []
    for action in actions:
        focus = getattr(action, "ref", focus)
        held[focus] = _done(action, held[focus], focus)
        done.append((action, tree(len(held["1"]), len(held["2"]))))
        truths.append(dict(held))
    known = find_typed_texts(steps_of(*done, begun=tree(len(begun))))
    for told, truth in zip(known[1:], truths, strict=True):
        assert told.items() <= truth.items()
    assert not known[0]


@each(("value", "masked"), [("\u2022", True), ("***", True), ("", False), ("a*", False)])
def test_masks_are_known_by_their_signs(value, masked):
    assert is_masked(value) is masked
