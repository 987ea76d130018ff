"""What of a browser's episodes must not be recorded: given secrets, and passwords.

Passwords are what is typed into a password field, by whatever action, and what is found in one. A
text counts as one by where it goes, as the last observation showed it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.browser import action_spec, blackout
from webtraj.environments.redaction import Redactor
from webtraj.environments.redaction.redactor import placeholder

__all__ = ["PASSWORD", "SecretKeeper"]

PASSWORD: Final = "password"
"""The name that passwords are replaced by."""

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
"""The field of each verb that holds what it types."""

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
    """Knows what of one environment's episodes must not be recorded. See `Redacts`.

    Args:
        secrets: Values by name, which are looked for everywhere.
        passwords: Whether what goes into password fields is secret. Not for made-up pages whose
            passwords are part of the goal, as in MiniWoB++.
    """

    def __init__(
        self,
        secrets: Mapping[str, str] | None = None,
        *,
        passwords: bool,
    ) -> None:
        self._redactor = Redactor(secrets)
        self.watches_passwords = passwords
        self._refs: set[str] = set()
        self._boxes: Sequence[blackout.Box] = ()
        self._focused = False
        self._typed_unfindable = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """What to look for on the screen; empty if there is nothing."""
        return self._redactor.spellings

    def begin_episode(self) -> None:
        """Forgets the passwords of the last episode."""
        self._redactor.forget_learned()
        self._refs.clear()
        self._boxes = ()
        self._focused = False

    def saw_passwords(self, passwords: Mapping[str, Any]) -> None:
        """Takes in what the page script's `passwordsSeen` told."""
        self._refs.update(passwords["refs"])
        self._boxes = [(x, y, width, height) for x, y, width, height in passwords["boxes"]]
        self._focused = passwords["focused"]
        for value in passwords["values"]:
            self._redactor.learn(PASSWORD, value)

    def cover(
        self, image: bytes, boxes: Sequence[blackout.Box] | None, viewport: tuple[float, float]
    ) -> None:
        """Has a screenshot recorded with boxes painted over; not at all where that fails.

        Args:
            image: The screenshot, as the agent gets it.
            boxes: Where it shows secrets; None if that could not be told.
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
            meant = action_spec.to_action(action)
        except errors.InvalidInputError:
            return self._redactor.redact(action)
        field = _TYPED.get(type(meant))
        if field is None or not self._goes_to_password(meant):
            return self._redactor.redact(action)
        text = getattr(meant, field)
        if not text or (field in _KEY_FIELDS and not _types_something(text)):
            return action
        self._typed_unfindable = field in _KEY_FIELDS or not self._redactor.learn(PASSWORD, text)
        redacted = copy.copy(meant)
        object.__setattr__(redacted, field, placeholder(PASSWORD))
        self._redactor.count(PASSWORD)
        return a.format_action(redacted) if isinstance(action, str) else redacted

    def redact(self, value: Any) -> Any:
        """See `Redacts.redact`.

        Of a decision to type what is too short to be found in text nothing is left but the action.
        """
        if self._typed_unfindable and isinstance(value, trajectory_lib.Decision):
            return trajectory_lib.Decision(action=value.action)
        return self._redactor.redact(value)

    def take_redactions(self) -> Mapping[str, int]:
        """See `Redacts.take_redactions`."""
        return self._redactor.take_counts()

    def _goes_to_password(self, action: Any) -> bool:
        if hasattr(action, "ref"):
            return action.ref in self._refs
        if hasattr(action, "x"):
            return any(
                x <= action.x <= x + width and y <= action.y <= y + height
                for x, y, width, height in self._boxes
            )
        return self._focused


def _types_something(keys: str) -> bool:
    """Whether pressing keys leaves a character, rather than moving on or giving a command."""
    chords = (keys_lib.split_chord(chord) for chord in keys.split(" "))
    return any(
        chord[-1] in _TYPING_KEYS and not _COMMANDS.intersection(chord[:-1]) for chord in chords
    )


def _painted(
    image: bytes, boxes: Sequence[blackout.Box] | None, viewport: tuple[float, float]
) -> bytes:
    if boxes is None:
        return b""
    try:
        return blackout.paint_over(image, boxes, viewport=viewport)
    except (errors.MissingDependencyError, OSError) as error:
        _LOGGER.warning("A screenshot with secrets on it is not recorded: %s", error)
        return b""
