"""The scripted agent: it takes a fixed list of actions, one after another."""

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
    """Takes the same actions in each episode, whatever it sees.

    If the script ends before the episode, the episode is given up and thus truncated.
    """

    script: Script
    """The actions, as `step` takes them; or a function that returns them, given the environment's
    `describe_episode()`, or an empty mapping if it has none."""
    name: str = "scripted"

    def begin_episode(self, environment: environment_lib.Environment) -> _ScriptedActor:
        """Return an actor at the start of the script."""
        script = self.script
        if callable(script):
            script = script(environment_lib.description_of(environment))
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
    """Read a script from a text file: one action per line, such as `click('12')`; # is a comment.

    Raises:
        InvalidInputError: The file cannot be read, or a line is not an action.
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
                f"Line {number} of the script {str(path)!r} is not an action: {action.reason}"
            )
        script.append(action)
    return tuple(script)
