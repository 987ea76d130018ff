"""Demonstrations of MiniWoB++, recorded by its own recorder in a browser (scripts/)."""

import json
from pathlib import Path

from rows import each
from webtraj import Outcome, errors
from webtraj.datasets.importers import Problem, Source
from webtraj.environments.actions import ClickAt, MouseDown, PressKey, TypeText
from webtraj.testing import assert_valid_trajectory
from webtraj_formats.importers import miniwob_demos

DATA = Path(__file__).parent / "data" / "demos"


def read(path, **options):
    return list(miniwob_demos.read(Source(path=path, **options)))


def demo(name):
    (episode,) = read(DATA / f"{name}.json")
    assert_valid_trajectory(episode)
    return episode


def test_typing_is_one_action_and_so_is_each_click():
    episode = demo("enter-text")
    assert [step.action for step in episode.steps] == [
        None,
        ClickAt(71, 62),
        TypeText("Nathalie"),
        PressKey("Backspace"),
        TypeText("e"),
        ClickAt(54, 105),
    ]
    assert [step.reward for step in episode.steps] == [None, 0.0, 0.0, 0.0, 0.0, 1.0]
    assert episode.outcome is Outcome.SUCCESS


def test_what_is_known_of_the_episode():
    info = demo("enter-text").info
    assert info.task == "miniwob/enter-text"
    assert info.goal == 'Enter "Nathalie" into the text field and press Submit.'
    assert 0.9 < info.metadata["reward"] < info.metadata["raw_reward"] == 1
    assert info.metadata["imported"]["system"] == "miniwob-demos"


def test_each_observation_is_what_the_action_led_to():
    def field(step):
        return next(
            element["value"]
            for element in walk(step.observation["dom"])
            if element.get("id") == "tt"
        )

    steps = demo("enter-text").steps
    typed = ["", "", "Nathalie", "Nathali", "Nathalie", "Nathalie"]
    assert [field(step) for step in steps] == typed


def walk(element):
    yield element
    for child in element.get("children", ()):
        yield from walk(child)


def test_nothing_that_was_recorded_is_lost():
    data = json.loads((DATA / "enter-text.json").read_bytes())
    steps = demo("enter-text").steps
    states = [{"time": steps[0].observation["time"], "dom": steps[0].observation["dom"]}]
    for step in steps[1:]:
        told = [dict(state) for state in step.decision.metadata["events"]]
        told[-1]["dom"] = step.observation["dom"]
        states += told
    states[0]["action"] = None
    assert states == data["states"]


def events(*kinds):
    """Returns states of events, each before and after; (kind, x, y) or (kind, key, character)."""
    states = [{"time": 0, "action": None}]
    for kind, *more in kinds:
        keys = ("keyCode", "charCode") if kind.startswith("key") else ("x", "y")
        told = {"type": kind, **dict(zip(keys, more, strict=False))}
        states += [{"action": {**told, "timing": timing}} for timing in (1, 3)]
    return states


CLICK = (("mousedown", 9, 9), ("mouseup", 9, 9), ("click", 9, 9))
EVENTS = {
    "nothing": ((), []),
    "a click": (CLICK, [ClickAt(9, 9)]),
    "a click with a trembling hand": (
        (("mousedown", 9, 9), ("mouseup", 11, 9), ("click", 11, 9)),
        [ClickAt(9, 9)],
    ),
    "a click whose click event was stopped": (CLICK[:2], [ClickAt(9, 9)]),
    "a press that ends the episode": (CLICK[:1], [MouseDown(9, 9)]),
    "two clicks": (CLICK * 2, [ClickAt(9, 9), ClickAt(9, 9)]),
    "a double click": ((*CLICK, *CLICK, ("dblclick", 9, 9)), [ClickAt(9, 9, count=2)]),
    "scrolling goes with what was before": ((*CLICK, ("scroll",)), [ClickAt(9, 9)]),
    "scrolling alone": ((("scroll",),), [None]),
    "off the screen": ((("mousedown", -5, -5), ("mouseup", -5, -5)), [None]),
    "Enter": (
        (("keydown", 13, 0), ("keypress", 13, 13), ("keyup", 13, 0)),
        [PressKey("Enter")],
    ),
    "a capital": (
        (("keydown", 16, 0), ("keydown", 65, 0), ("keypress", 65, 65), ("keyup", 65, 0),
         ("keyup", 16, 0)),
        [TypeText("A")],
    ),
    "select all and copy": (
        (("keydown", 17, 0), ("keydown", 65, 0), ("keyup", 65, 0), ("keydown", 67, 0),
         ("keyup", 67, 0), ("keyup", 17, 0)),
        [PressKey("Control+a"), PressKey("Control+c")],
    ),
    "back by tab": (
        (("keydown", 16, 0), ("keydown", 9, 0), ("keyup", 9, 0), ("keyup", 16, 0)),
        [PressKey("Shift+Tab")],
    ),
    "click and type": (
        (*CLICK, ("keydown", 65, 0), ("keypress", 97, 97), ("keyup", 65, 0)),
        [ClickAt(9, 9), TypeText("a")],
    ),
}  # fmt: skip


@each("case", EVENTS)
def test_events_become_actions(case):
    given, expected = EVENTS[case]
    states = events(*given)
    found = miniwob_demos.chunks(states)
    assert [chunk.action for chunk in found] == expected
    # Each state but the first is in exactly one of them.
    covered = [i for chunk in found for i in range(chunk.first, chunk.last + 1)]
    assert covered == list(range(1, len(states)))


BROKEN = {
    "no JSON": b"{",
    "no object": b"[]",
    "no states": b'{"taskName": "t"}',
    "empty states": b'{"taskName": "t", "states": []}',
    "states that are none": b'{"taskName": "t", "states": [1]}',
    "an action that is none": b'{"taskName": "t", "states": [{"action": 3}]}',
    "nested": b"[" * 100_000,
    "another format": b'{"schema_version": "ATIF-v1.8"}',
}


@each("case", BROKEN)
def test_what_is_no_demonstration_is_reported(case, tmp_path):
    (tmp_path / "a.json").write_bytes(BROKEN[case])
    assert not miniwob_demos.recognises(tmp_path)
    (problem,) = read(tmp_path)
    assert isinstance(problem, Problem)
    assert isinstance(problem.error, errors.CorruptDataError)
    assert "'a.json'" in str(problem.error)
