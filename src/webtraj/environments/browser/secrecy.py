"""Secrets in a browser's episodes: given values, passwords, and what redaction rules match.

A password is any text typed into a password field, by any action, or found in one. The target
decides, as seen in the last observation. The same applies to elements that match a rule's selector.
Their axtree lines are recorded without their text, whatever its length; the text counts as a secret
from then on, if it is long enough to search for.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.browser import acting
from webtraj.environments.browser import screenshot_redaction as redaction_lib
from webtraj.environments.redaction import MIN_LENGTH, RedactionRules, Redactor

__all__ = ["PASSWORD", "SecretKeeper"]

PASSWORD: Final = "password"
"""The placeholder name of passwords."""

TOO_MUCH: Final = "private"
"""The placeholder name of a text that holds more private text than can be searched for."""

MAX_PRIVATE: Final = 1000
"""The most texts of private elements that are searched for in one episode."""

_LOGGER = logging.getLogger(__name__)

_TYPED: Final[Mapping[type[a.Action], str]] = {
    a.Fill: "value",
    a.TypeInto: "text",
    a.TypeAt: "text",
    a.TypeText: "text",
    a.InsertText: "text",
    a.Press: "keys",
    a.PressKey: "keys",
    a.HoldKey: "keys",
    a.KeyDown: "key",
    a.KeyUp: "key",
}
"""The field with the typed text, for each verb."""

_KEY_FIELDS = ("key", "keys")
_COMMANDS = {"Control", "ControlLeft", "ControlRight", "ControlOrMeta", "Alt", "AltLeft", "Meta"}
_TYPING_NAMES = (
    "Space", "Backquote", "Minus", "Equal", "Backslash", "BracketLeft", "BracketRight",
    "Semicolon", "Quote", "Comma", "Period", "Slash",
)  # fmt: skip
_TYPING_KEYS = frozenset(_TYPING_NAMES).union(
    key
    for key in keys_lib.KEYS - {"NumpadEnter"}
    if len(key) == 1 or key.startswith(("Digit", "Key", "Numpad"))
)


class SecretKeeper:
    """The secrets of one environment's episodes, and their redaction. See `Redacts`.

    Args:
        secrets: Values by name, searched for everywhere.
        passwords: Whether the contents of password fields are secret. False for synthetic pages
            whose goal names the passwords, as in MiniWoB++.
        rules: What else is secret.
    """

    def __init__(
        self,
        secrets: Mapping[str, str] | None = None,
        *,
        passwords: bool,
        rules: RedactionRules | None = None,
    ) -> None:
        rules = rules or RedactionRules()
        self._redactor = Redactor(secrets, rules=rules)
        self.watches_passwords = passwords
        self.selectors = rules.selectors_by_name
        """The rules' CSS selectors by name."""
        self.selector = ", ".join(self.selectors.values())
        """All of them as one selector; empty if there are none."""
        self._typed_unfindable = False
        self.begin_episode()

    @property
    def covers(self) -> bool:
        """Whether there may be something to cover on the screen."""
        return bool(self._redactor.spellings or self.selector or self._redactor.searches)

    def begin_episode(self) -> None:
        """Forget the passwords of the last episode."""
        self._redactor.forget_learned()
        # Elements whose typed text is secret, with the placeholder name.
        self._refs: dict[str, str] = {}
        self._password_boxes: list[tuple[redaction_lib.Box, str]] = []
        self._private_boxes: list[tuple[redaction_lib.Box, str]] = []
        self._password_focused = False
        self._private_focused = ""
        self._private: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._too_many = False

    def saw_passwords(self, passwords: Mapping[str, Any]) -> None:
        """Process the result of the page script's `passwordsSeen`."""
        self._refs.update(dict.fromkeys(passwords["refs"], PASSWORD))
        self._password_boxes = [(_box(box), PASSWORD) for box in passwords["boxes"]]
        self._password_focused = passwords["focused"]
        for value in passwords["values"]:
            self._redactor.learn(PASSWORD, value)

    def saw_password_field(self, ref: str) -> None:
        """Note a password field that no look has seen yet."""
        self._refs[ref] = PASSWORD

    def learn_password(self, text: str) -> None:
        """Redact a password that was typed."""
        self._redactor.learn(PASSWORD, text)

    def hide(self, name: str, selector: str) -> None:
        """Add elements to redact from now on; several selectors may have one name."""
        known = self.selectors.get(name)
        self.selectors = {**self.selectors, name: f"{known}, {selector}" if known else selector}
        self.selector = ", ".join(self.selectors.values())

    def saw_private(self, private: Mapping[str, Any]) -> None:
        """Process the result of the page script's `privateSeen`."""
        for name, ref, _ in private["fields"]:
            self._refs.setdefault(ref, name)
        self._refs.pop("", None)
        self._private_boxes = [(_box(box), name) for name, _, box in private["fields"]]
        self._private_focused = private["focused"]
        for name, line, redacted in private["lines"]:
            self._redactor.learn_line(line, redacted, name)
        self._too_many |= private["overflow"]
        for name, text in private["pieces"]:
            if len("".join(text.split())) < MIN_LENGTH:
                self._short.setdefault(text, name)
            elif len(self._private) < MAX_PRIVATE:
                self._private.setdefault(text, name)
            else:
                self._too_many = True
        self._redactor.learn_all(self._private)

    def boxes(
        self,
        before: redaction_lib.Snapshot | None,
        after: redaction_lib.Snapshot | None,
    ) -> list[redaction_lib.Box] | None:
        """Return the boxes of a page's secrets, from snapshots before and after a capture.

        Returns:
            None if they cannot be determined.
        """
        if before is None or after is None or before.in_transition or after.in_transition:
            return None
        noted = before.noted | after.noted if self.selector else None
        find = self._redactor.find if self._redactor.searches else None
        try:
            return [
                box
                for seen in (before, after)
                for box in redaction_lib.secret_boxes(
                    seen.shown, self._redactor.spellings, find=find, noted=noted
                )
            ]
        except (TimeoutError, OSError) as error:
            _LOGGER.warning("A screenshot is not recorded: %s", error)
            return None

    def cover(
        self,
        image: bytes,
        boxes: Sequence[redaction_lib.Box] | None,
        viewport: tuple[float, float],
    ) -> None:
        """Record a screenshot with boxes painted over, or not at all if that fails.

        Args:
            image: The screenshot, as the agent gets it.
            boxes: The boxes of its secrets; None if unknown.
            viewport: Its width and height in CSS pixels.
        """
        painted: list[bytes] = []

        def paint() -> bytes:
            if not painted:
                painted.append(_painted(image, boxes, viewport))
            return painted[0]

        if boxes or boxes is None:
            self._redactor.cover_image(image, paint)

    def redact_action(self, action: Any) -> Any:
        """See `Redacts.redact_action`."""
        self._typed_unfindable = False
        if not (self._refs or self._boxes or self._focused):
            return self._redactor.redact(action)
        try:
            meant = acting.to_action(action)
        except errors.InvalidInputError:
            return self._redactor.redact(action)
        field = _TYPED.get(type(meant))
        name = "" if field is None else self._goes_to(meant)
        if field is None or not name:
            return self._redactor.redact(action)
        text = getattr(meant, field)
        if not text or (field in _KEY_FIELDS and not _types_something(text)):
            return action
        self._typed_unfindable = field in _KEY_FIELDS or not self._redactor.learn(name, text)
        redacted = copy.copy(meant)
        object.__setattr__(redacted, field, self._redactor.placeholder_of(name))
        return a.format_action(redacted) if isinstance(action, str) else redacted

    def redact(self, value: Any) -> Any:
        """See `Redacts.redact`.

        A decision to type a secret that is too short to search for keeps only its action. The same
        applies to all decisions once private elements hold too much text to search for.
        """
        if isinstance(value, trajectory_lib.Decision) and (
            self._typed_unfindable or self._too_many
        ):
            return self._redactor.redact(trajectory_lib.Decision(action=value.action))
        if isinstance(value, trajectory_lib.StepRecord) and (self._short or self._too_many):
            observation = self._without_short(value.observation)
            value = dataclasses.replace(value, observation=observation)
        return self._redactor.redact(value)

    def _without_short(self, observation: Any) -> Any:
        """Return an observation without short private texts in its running text."""
        if not isinstance(observation, Mapping):
            return observation
        changed = {}
        for channel in ("text", "title", "aria"):
            text = observation.get(channel)
            if not isinstance(text, str):
                continue
            if self._too_many and text:
                changed[channel] = self._redactor.placeholder_of(TOO_MUCH)
            elif self._short:
                changed[channel] = self._words().sub(self._short_placeholder, text)
        return {**observation, **changed} if changed else observation

    def _words(self) -> re.Pattern[str]:
        words = "|".join(re.escape(text) for text in sorted(self._short, key=len, reverse=True))
        return re.compile(rf"(?<!\w)(?:{words})(?!\w)")

    def _short_placeholder(self, match: re.Match[str]) -> str:
        return self._redactor.placeholder_of(self._short[match[0]])

    def take_redactions(self) -> Mapping[str, int]:
        """See `Redacts.take_redactions`."""
        return self._redactor.take_counts()

    @property
    def _boxes(self) -> list[tuple[redaction_lib.Box, str]]:
        return self._password_boxes + self._private_boxes

    @property
    def _focused(self) -> str:
        return PASSWORD if self._password_focused else self._private_focused

    def _goes_to(self, action: Any) -> str:
        """Return the placeholder name of the secret that an action types; empty if none."""
        if hasattr(action, "ref"):
            return self._refs.get(action.ref, "")
        if hasattr(action, "x"):
            for (x, y, width, height), name in self._boxes:
                if x <= action.x <= x + width and y <= action.y <= y + height:
                    return name
            return ""
        return self._focused


def _box(given: Sequence[float]) -> redaction_lib.Box:
    x, y, width, height = given
    return x, y, width, height


def _types_something(keys: str) -> bool:
    """Whether pressing keys leaves a character, rather than moving on or giving a command."""
    chords = (keys_lib.split_chord(chord) for chord in keys.split(" "))
    return any(
        chord[-1] in _TYPING_KEYS and not _COMMANDS.intersection(chord[:-1]) for chord in chords
    )


def _painted(
    image: bytes, boxes: Sequence[redaction_lib.Box] | None, viewport: tuple[float, float]
) -> bytes:
    if boxes is None:
        return b""
    try:
        return redaction_lib.paint_over(image, boxes, viewport=viewport)
    except (errors.MissingDependencyError, OSError) as error:
        _LOGGER.warning("A screenshot with secrets on it is not recorded: %s", error)
        return b""
