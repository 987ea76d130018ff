"""From what a session saw to an observation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webtraj.environments.browser import camera as camera_lib
from webtraj.environments.browser import downloads as downloads_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import secrecy as secrecy_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser import tasks as tasks_lib

__all__ = ["Observer", "describe_action"]


class Observer:
    """Makes the observations of one environment.

    Args:
        observe: What to observe.
        keeper: Is told where screenshots show secrets.
    """

    def __init__(self, observe: observation_lib.Observe, keeper: secrecy_lib.SecretKeeper) -> None:
        self._observe = observe
        self.camera = camera_lib.Camera(observe, keeper)
        self._last_axtree = ""

    async def observation(
        self,
        session: session_lib.BrowserSession,
        seen: Mapping[str, Any],
        *,
        blocked: Sequence[str],
        step: int,
        goal: str,
        verdict: tasks_lib.Verdict,
        last_action: observation_lib.LastAction,
        begun: float,
        acted: float,
    ) -> dict[str, Any]:
        """Returns an observation, with pictures if they are due.

        Args:
            session: Where it was seen.
            seen: What `BrowserSession.look` gave.
            blocked: What was kept from pages and agent since the last observation.
            step: The step's number in its episode, from 0.
            goal: The episode's goal.
            verdict: What the task says of the step.
            last_action: How the action went; how settling went is filled in.
            begun: When the step began, by `time.perf_counter`.
            acted: When the action was done.
        """
        looked = time.perf_counter()
        pictures = await self.camera.pictures(session, seen, step=step)
        dialogs, console = session.take_events()
        last_action["settled"] = seen["settle"]["ended"]
        observation: dict[str, Any] = {}
        for channel in self._observe.channels:
            match channel:
                case "goal":
                    observation["goal"] = goal
                case "screenshot" | "set_of_marks":
                    observation[channel] = pictures[channel]
                case "scroll":
                    observation["scroll"] = {k: float(v) for k, v in seen["scroll"].items()}
                case "changes":
                    observation["changes"] = self._changes(seen["axtree"], first=step == 0)
                case "boxes":
                    observation["boxes"] = _boxes(seen["boxes"])
                case "tabs":
                    observation["tabs"] = observation_lib.strings(seen["tabs"])
                    observation["active_tab"] = seen["active_tab"]
                case "dialogs":
                    observation["dialogs"] = observation_lib.strings(dialogs)
                case "blocked":
                    observation["blocked"] = observation_lib.strings(blocked)
                case "downloads":
                    observation["downloads"] = _downloads(session.downloads.take())
                case "console":
                    observation["console"] = observation_lib.strings(console)
                case "http_status":
                    observation["http_status"] = session.http_status
                case "last_action":
                    observation["last_action"] = last_action
                case "timings":
                    now = time.perf_counter()
                    observation["timings"] = observation_lib.Timings(
                        act=acted - begun,
                        settle=seen["settle"]["ms"] / 1e3,
                        observe=seen["ms"] / 1e3,
                        pictures=seen.get("capture_seconds", 0.0) + now - looked,
                        total=now - begun,
                        waiting=session.lease.turns.take_waited(),
                    )
                case "info":
                    observation["info"] = _task_info(verdict)
                case _:
                    observation[channel] = seen[channel]
        self._last_axtree = seen.get("axtree", "")
        return observation

    def _changes(self, axtree: str, *, first: bool) -> Any:
        before = axtree if first else self._last_axtree
        return observation_lib.strings(observation_lib.changes_between(before, axtree))


def describe_action(
    touched: Mapping[str, Any] | None, *, error: str, error_kind: str
) -> observation_lib.LastAction:
    """Returns how an action went, settling and timings left open.

    Args:
        touched: The page script's description of the element that it was about, if any.
        error: Why it was not done; empty if it was.
        error_kind: The same in one word.
    """
    last_action = observation_lib.no_action()
    last_action["error"] = error
    last_action["error_kind"] = error_kind
    if touched:
        last_action["ref"] = touched["ref"]
        last_action["role"] = touched["role"]
        last_action["name"] = touched["name"]
        last_action["test_id"] = touched["test_id"]
        last_action["selector"] = touched["selector"]
        last_action["frame"] = touched["frame"]
        last_action["box"] = np.asarray(touched["box"], dtype=np.float64)
    return last_action


def _downloads(files: Sequence[downloads_lib.DownloadedFile]) -> observation_lib.Downloads:
    contents = np.empty(len(files), dtype=object)
    contents[:] = [file.content for file in files]
    return observation_lib.Downloads(
        names=observation_lib.strings(file.name for file in files),
        urls=observation_lib.strings(file.url for file in files),
        mime_types=observation_lib.strings(file.mime_type for file in files),
        sizes=np.array([file.size for file in files], dtype=np.int64),
        contents=contents,
        errors=observation_lib.strings(file.error for file in files),
    )


def _boxes(seen: Mapping[str, Any]) -> observation_lib.Boxes:
    return observation_lib.Boxes(
        refs=observation_lib.strings(seen["refs"]),
        boxes=np.array(seen["boxes"], dtype=np.float64).reshape(-1, 4),
    )


def _task_info(verdict: tasks_lib.Verdict) -> observation_lib.TaskInfo:
    return observation_lib.TaskInfo(
        raw_reward=float(verdict.raw_reward),
        scaled_reward=float(verdict.scaled_reward),
        success=verdict.success,
        reason=verdict.reason,
    )
