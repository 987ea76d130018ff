"""What an environment takes as an action, in any of its forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from dm_env import specs

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.actions import Action, Wait

__all__ = ["ActionSpec", "to_action"]

_NO_ACTION = (
    "A browser environment takes an Action, a Decision that holds one, or a string such as "
    "\"click('12')\"; got {given!r}."
)


class ActionSpec(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """Any `Action`, or a string in BrowserGym's dialect."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=object, name="action")

    def validate(self, value: Any) -> Any:
        """Return the action that `value` stands for.

        Raises:
            ValueError: It is not an action.
        """
        return to_action(value)

    def generate_value(self) -> Action:
        """Return an action that is always allowed and changes nothing."""
        return Wait(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return ActionSpec, ()


def to_action(value: Any) -> Action:
    """Return the action that was passed to `step`, in any of its forms.

    Raises:
        InvalidInputError: `value` is not an action.
    """
    if isinstance(value, trajectory_lib.Decision):
        value = value.action
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, str):
        return actions_lib.parse_action(value)
    if isinstance(value, Action):
        return value
    raise errors.InvalidInputError(_NO_ACTION.format(given=value))
