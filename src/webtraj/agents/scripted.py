"""The scripted agent: it does what it was given to do, one action after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments import base as environment_lib

__all__ = ["ScriptedAgent", "read_script"]

Script = Sequence[Any] | Callable[[Mapping[str, Any]], Sequence[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptedAgent:
    """Does the same in each episode, whatever it sees.

    An episode that has not ended when the script has is given up, and so truncated.
    """

    script: Script
    """The actions, as `step` takes them; or a function that returns them for an episode, given what
    the environment says of it (`describe_episode`; an empty mapping if it says nothing)."""
    name: str = "scripted"

    def begin_episode(self, environment: environment_lib.Environment) -> _ScriptedActor:
        """Returns an actor at the beginning of the script."""
        script = self.script
        if callable(script):
            describe = getattr(environment, "describe_episode", None)
            script = script(describe() if callable(describe) else {})
        return _ScriptedActor(tuple(script))


@dataclasses.dataclass(slots=True)
class _ScriptedActor:
    script: tuple[Any, ...]
    done: int = 0

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        del observation
        if self.done == len(self.script):
            raise errors.EpisodeGivenUpError(
                f"the script of {len(self.script)} actions is done, and the episode has not ended"
            )
        self.done += 1
        return trajectory_lib.Decision(action=self.script[self.done - 1])


def read_script(path: str | Path) -> tuple[actions_lib.Action, ...]:
    """Reads a script from a text file: an action a line, as `click('12')`; # begins a comment.

    Raises:
        InvalidInputError: The file cannot be read, or a line is no action.
    """
    try:
        text = Path(path).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(
            f"The script {str(path)!r} cannot be read: {errors.reason(error)}. Give a UTF-8 text "
            "file."
        ) from None
    script = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        action = actions_lib.parse_action(line.strip())
        if isinstance(action, actions_lib.InvalidAction):
            raise errors.InvalidInputError(
                f"Line {number} of the script {str(path)!r} is no action: {action.reason}"
            )
        script.append(action)
    return tuple(script)
