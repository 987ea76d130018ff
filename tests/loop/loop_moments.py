"""When a loop is killed: at a random moment of a phase, told by what the phase has written.

A moment is drawn from how far the phase has come, where that can be seen from outside: of a
rollout, from its episodes on record, of a training, from its log. Of the short phases it is drawn
from the time that the same phase took before. No moment is of the clock alone, and none is missed
because the machine is slow.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from loop_processes import Loop, Target
from loop_state import read_entries

from webtraj.loop.places import Places

__all__ = ["KILLS", "Kill", "Watch"]

_POLL = 0.005
_SOON = 0.4
"""Seconds after a moment of a long phase within which the kill comes."""
_GUESSED = {"scratch": 1.0, "postprocess": _SOON, "export": 0.5, "publish": 0.02}
"""Seconds that a phase surely lasts, taken as long as none has ended: a phase that was over before
its kill is not killed at all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kill:
    """One kill."""

    phase: str
    """Of which phase; `serve` is what comes before an evaluation, the server's start or update."""
    iteration: int
    """Of which iteration."""
    target: Target
    """What is killed. The loop goes on by itself after that of a phase or a server, and is gone on
    with after the others."""

    @property
    def key(self) -> tuple[int, str]:
        """The phase's key in the loop's state."""
        return self.iteration, self.phase

    def __str__(self) -> str:
        return f"{self.phase} {self.iteration}, {self.target}"


KILLS = (
    Kill("evaluate", 0, "loop"),
    Kill("rollout", 1, "all"),
    Kill("scratch", 1, "phase"),
    Kill("postprocess", 1, "all"),
    Kill("export", 1, "loop"),
    Kill("train", 1, "all"),
    Kill("publish", 1, "all"),
    Kill("serve", 1, "all"),
    Kill("evaluate", 1, "server"),
    Kill("rollout", 2, "loop"),
    # From here on the loop lives, so that its server gets other weights while it runs.
    Kill("postprocess", 2, "phase"),
    Kill("export", 2, "phase"),
    Kill("train", 2, "phase"),
    Kill("publish", 2, "phase"),
    Kill("serve", 2, "server"),
    Kill("evaluate", 2, "phase"),
)
"""All kills of a loop of two iterations that is evaluated before, between and after, in order."""


class Watch:
    """Waits for moments of a loop.

    Args:
        places: Where its things are.
        source: Draws the moments.
        steps: The steps of a training.
    """

    def __init__(self, places: Places, source: random.Random, *, steps: int) -> None:
        self._places, self._random, self._steps = places, source, steps

    def wait(self, kill: Kill, loop: Loop) -> Literal["now", "late", "ended"]:
        """Waits for a kill's moment.

        Returns:
            `now` in the moment; `late` if the phase was over before; `ended` if the loop was.
        """
        share = self._random.random()
        come = self._come(kill, loop, share)
        while not come():
            if loop.status() is not None:
                return "ended"
            if self._over(kill):
                return "late"
            time.sleep(_POLL)
        time.sleep(self._delay(kill, share))
        if loop.status() is not None:
            return "ended"
        return "late" if self._over(kill) else "now"

    def _come(self, kill: Kill, loop: Loop, share: float) -> Callable[[], bool]:
        """Returns what says whether a phase has come as far as it shall, a share of its way."""
        number = kill.iteration

        def begun() -> bool:
            return self._count(kill, "begun") > 0

        match kill.phase:
            case "serve":
                note = f"the weights of iteration {number} for evaluate of iteration {number}"
                return lambda: note in loop.said() and loop.server() is not None
            case "evaluate":
                return lambda: begun() and _played(self._places.evaluated(number), share)
            case "rollout":
                return lambda: begun() and _played(self._places.recorded(number), share)
            case "postprocess" if number == 1:  # Nobody knows yet how long it takes.
                made, read = self._places.processed(number), self._places.recorded(number)
                return lambda: begun() and _sealed(made) >= 0.3 * share * _sealed(read)
            case "train":
                return lambda: begun() and self._trained(number, 0.1 + 0.8 * share)
            case _ if kill.target == "phase":  # It is begun a little before its process is there.
                return lambda: begun() and loop.phase() is not None
            case _:
                return begun

    def _delay(self, kill: Kill, share: float) -> float:
        if kill.phase == "serve":
            # A start takes long, an update next to nothing.
            return share * (6.0 if kill.target == "all" else 0.05)
        lasted = self._lasted(kill.phase)
        return _SOON * self._random.random() if lasted is None else 0.9 * lasted * share

    def _lasted(self, phase: str) -> float | None:
        """Returns how long a short phase takes; None for a long one."""
        if phase not in _GUESSED:
            return None
        took = [e["seconds"] for e in self._entries(phase) if e["event"] == "ended"]
        return max(took, default=0.0) or _GUESSED[phase]

    def _over(self, kill: Kill) -> bool:
        if kill.phase == "serve":
            return self._count(dataclasses.replace(kill, phase="evaluate"), "begun") > 0
        return self._count(kill, "ended") > 0

    def _count(self, kill: Kill, event: str) -> int:
        return sum(
            entry["event"] == event and entry["iteration"] == kill.iteration
            for entry in self._entries(kill.phase)
        )

    def _entries(self, phase: str) -> list[dict[str, Any]]:
        entries = read_entries(self._places.state)
        return [entry for entry in entries if entry.get("phase") == phase]

    def _trained(self, iteration: int, share: float) -> bool:
        log = Path(self._places.training(iteration)) / "train_log.jsonl"
        return log.exists() and log.read_bytes().count(b"\n") >= share * self._steps


def _played(dataset: str, share: float) -> bool:
    """Whether so much of a dataset's plan is on record."""
    plans = list(Path(dataset).glob("runs/*/plan.jsonl"))
    if not plans:
        return False
    planned = len(plans[0].read_bytes().splitlines()) - 1
    # The last ones end together, and could be missed.
    return _sealed(dataset) >= 0.8 * share * planned


def _sealed(dataset: str) -> int:
    folder = Path(dataset) / "episodes"
    return sum(1 for _ in folder.glob("[!.]*")) if folder.is_dir() else 0
