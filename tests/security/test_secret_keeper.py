"""Which texts count as passwords: by where they go, whatever the action is called."""

import base64
import io
from typing import Any

import pytest
from PIL import Image

from rows import each
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.browser.secret_keeper import SecretKeeper
from webtraj.trajectory import Decision, StepRecord, StepType
from whole import whole

HIDDEN = "<secret:password>"
NOTHING: dict[str, Any] = {"refs": [], "boxes": [], "values": [], "focused": False}


def keeper(**seen: Any) -> SecretKeeper:
    made = SecretKeeper(passwords=True)
    made.saw_passwords({**NOTHING, **seen})
    return made


TYPED = [
    (a.Fill("7", "hunter2"), {"refs": ["7"]}),
    (a.TypeInto("7", "hunter2", submit=True), {"refs": ["7"]}),
    (a.Press("7", "h"), {"refs": ["7"]}),
    (a.TypeAt(20, 30, "hunter2"), {"boxes": [[10, 20, 100, 20]]}),
    (a.TypeText("hunter2"), {"focused": True}),
    (a.InsertText("hunter2"), {"focused": True}),
    (a.PressKey("h"), {"focused": True}),
    (a.PressKey("Shift+H u n"), {"focused": True}),
    (a.PressKey("Slash"), {"focused": True}),
    (a.PressKey("Tab Digit7"), {"focused": True}),
    (a.KeyDown("h"), {"focused": True}),
    (a.HoldKey("h", 1), {"focused": True}),
]


@each(("action", "seen"), TYPED)
def test_what_goes_into_a_password_field_is_redacted(action: Any, seen: dict[str, Any]) -> None:
    redacted = keeper(**seen).redact_action(action)
    assert type(redacted) is type(action)
    assert HIDDEN in whole(redacted)
    assert "hunter2" not in whole(redacted)
    assert HIDDEN not in repr(action)


@each(("action", "seen"), TYPED)
def test_the_same_is_recorded_anywhere_else(action: Any, seen: dict[str, Any]) -> None:
    assert keeper().redact_action(action) is action


@each("action", [a.PressKey("Tab"), a.PressKey("Enter"), a.PressKey("Control+a"),
     a.PressKey("Backspace"), a.TypeText(""), a.Click("7"), a.Clear("7"), a.Fill("8", "anna"),
     a.KeyUp("Shift")])  # fmt: skip
def test_what_types_nothing_into_it_is_recorded_as_it_is(action: Any) -> None:
    made = keeper(refs=["7"], focused=True)
    assert made.redact_action(action) is action


def test_a_dialect_s_string_is_redacted_as_a_string() -> None:
    made = keeper(refs=["7"])
    assert made.redact_action("fill('7', 'it\\'s me')") == f"fill('7', '{HIDDEN}')"
    assert made.redact({"axtree": 'text "it\'s me"'}) == {"axtree": f'text "{HIDDEN}"'}


def test_a_password_is_known_everywhere_once_typed() -> None:
    made = keeper(refs=["7"])
    made.redact_action(a.Fill("7", "hunter2"))
    decision = Decision(action="x", thought="The password is hunter2.")
    assert made.redact(decision).thought == f"The password is {HIDDEN}."


def test_a_password_that_the_page_had_is_known_too() -> None:
    made = keeper(values=["from the browser"])
    assert made.redact("from the browser") == HIDDEN


def test_a_decision_to_type_what_cannot_be_searched_keeps_its_action_only() -> None:
    made = keeper(focused=True)
    action = made.redact_action(a.PressKey("h"))
    kept = made.redact(Decision(action=action, thought="Now the h of hunter2"))
    assert kept == Decision(action=action)
    made.redact_action(a.Click("1"))
    decision = Decision(action=a.Click("1"), thought="Next")
    assert made.redact(decision) is decision


def test_a_new_episode_knows_no_old_password() -> None:
    made = keeper(refs=["7"], focused=True, values=["hunter2"])
    made.begin_episode()
    assert made.redact("hunter2") == "hunter2"
    assert made.redact_action(a.Fill("7", "text")) == a.Fill("7", "text")


def picture() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (100, 60), "white").save(data, format="PNG")
    return data.getvalue()


def test_a_covered_screenshot_is_recorded_painted() -> None:
    made, image = keeper(), picture()
    made.cover(image, [(10, 10, 20, 20)], (100, 60))
    recorded = made.redact({"screenshot": image})["screenshot"]
    with Image.open(io.BytesIO(recorded)) as opened:
        assert opened.convert("RGB").getpixel((20, 20)) == (0, 0, 0)
        assert opened.convert("RGB").getpixel((90, 50)) == (255, 255, 255)
    prompt = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    assert made.redact(prompt) != prompt


def test_a_screenshot_of_which_nothing_is_known_is_dropped() -> None:
    made, image = keeper(), picture()
    made.cover(image, None, (100, 60))
    assert made.redact({"screenshot": image}) == {"screenshot": b""}
    assert made.take_redactions() == {"screenshots_dropped": 1}


@pytest.mark.parametrize("fault", [ImportError, OSError, errors.MissingDependencyError])
def test_a_screenshot_that_cannot_be_painted_is_dropped(
    fault: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import builtins

    real_import = builtins.__import__

    def without_pillow(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "PIL":
            raise fault("no Pillow here")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    made, image = keeper(), picture()
    made.cover(image, [(10, 10, 20, 20)], (100, 60))
    assert made.redact({"screenshot": image}) == {"screenshot": b""}
    assert "is not recorded" in caplog.text


LOG_IN = {"url": "https://x.test/", "axtree": '[7] textbox "Password"\n[8] textbox "Code"'}


def after_a_look(made: SecretKeeper) -> SecretKeeper:
    made.redact(StepRecord(0, StepType.FIRST, LOG_IN))
    return made


@pytest.mark.parametrize(
    ("made", "action"),
    [
        (keeper(refs=["7"]), a.TypeInto("7", "Kestrel58")),
        (keeper(focused=True), a.TypeText("Kestrel58")),
        (keeper(boxes=[[10, 20, 100, 20]]), a.TypeAt(20, 30, "Kestrel58")),
        (SecretKeeper({"code": "Kestrel58"}, passwords=True), a.TypeInto("8", "Kestrel58")),
        (SecretKeeper({"code": "Kestrel58"}, passwords=False), a.TypeText("my Kestrel58!")),
    ],
)
def test_a_page_that_repeats_what_is_typed_gives_no_prefix_away(
    made: SecretKeeper, action: Any
) -> None:
    after_a_look(made).redact_action(action)
    for size in range(4, 10):
        prefix = "Kestrel58"[:size]
        seen = {"title": f"Now {prefix}", "console": [f"v={prefix}"], "network": f"?v={prefix}x"}
        assert prefix not in whole(made.redact(seen))


def test_a_password_that_a_person_types_gives_no_prefix_away() -> None:
    made = after_a_look(SecretKeeper(passwords=True))
    made.saw_passwords({**NOTHING, "refs": ["7"], "values": ["Kestrel58"]})
    assert "Kest" not in made.redact("typed Kest, Kestr, Kestre")


def test_a_label_that_a_password_begins_with_stays() -> None:
    made = after_a_look(keeper(refs=["7"]))
    made.redact_action(a.TypeInto("7", "password77"))
    assert made.redact({"axtree": LOG_IN["axtree"]}) == {"axtree": LOG_IN["axtree"]}
    assert "password7" not in made.redact("typed password7")
