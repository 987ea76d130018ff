"""The loop in small, with everything real, killed at named moments: it must end as if nobody had.

    .venv-train/bin/python tests/loop/killed_loop.py --out /tmp/killed    (as `make test-loop` does)

Two tasks, an iteration or two, a browser, PyTorch, vLLM. `KILLS` says what gets SIGKILL, and after
which episode of a rollout or which line of a training's log. After each kill the loop goes on by
itself or is resumed. What must hold in the end is in `loop_audit`. Exits 1 if anything does not
hold, and says what. That resumed phases make the same to the byte, that trained models learn, and
that replies are those of the weights on record is tested without the loop, with smaller means.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from loop_audit import Audit
from loop_processes import Loop, Target, adopt_orphans, left_over
from loop_state import read_entries

from webtraj.loop import load_loop_config
from webtraj.loop.places import Places

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "examples/two_cores/two_cores.yaml"
TASKS = ("miniwob/click-button", "miniwob/click-test-2")
STEPS = 120
PATIENCE = 60.0
"""Seconds that what is left of a loop has to end after the loop has."""
POLL = 0.005


@dataclasses.dataclass(frozen=True, slots=True)
class Kill:
    """What is killed in a phase, and when."""

    phase: str
    iteration: int
    target: Target
    """The loop goes on by itself after the death of a phase or a server, and is resumed after the
    others."""
    after: int
    """So many episodes of the phase, or lines of its log, are on record; 0 when it is begun."""

    def __str__(self) -> str:
        return f"{self.target} in {self.phase} {self.iteration} after {self.after}"


KILLS = (
    Kill("rollout", 1, "all", 10),
    Kill("postprocess", 1, "loop", 0),
    Kill("train", 1, "all", 25),
    Kill("evaluate", 1, "server", 4),
    Kill("rollout", 2, "loop", 10),
    Kill("train", 2, "phase", 25),
    Kill("evaluate", 2, "phase", 4),
)
"""In the order in which a loop comes to them."""


class KilledLoop:
    """A loop of several lives."""

    def __init__(self, out: Path, overrides: list[str], kills: tuple[Kill, ...]) -> None:
        self.out, self.overrides = out, overrides
        self.config = load_loop_config(CONFIG, overrides)
        self.places = Places(self.config)
        self.lives = 0
        self._left = collections.deque(kills)

    def run(self) -> None:
        """Runs the loop to its end, through all kills."""
        while not self._live():
            pass
        if self._left:
            sys.exit(f"FAILED: the loop ended before it was killed: {self._left[0]}")

    def _live(self) -> bool:
        """One life of the loop; returns whether it came to its end."""
        resume = ["--resume"] if self.lives else []
        self.lives += 1
        command = [sys.executable, "-m", "webtraj", "loop", "--config", str(CONFIG)]
        log = self.out.with_name("loop.log")
        loop = Loop([*command, *self.overrides, *resume], log=log, variables={"COLUMNS": "120"})
        try:
            return self._live_through(loop)
        finally:
            if loop.status() is None:
                loop.kill("all")

    def _live_through(self, loop: Loop) -> bool:
        while self._left and loop.status() is None:
            kill = self._left[0]
            if not self._reached(kill):
                time.sleep(POLL)
                continue
            if not loop.kill(kill.target):
                continue  # Its process is not there yet.
            self._left.popleft()
            print(f"killed: {kill}", flush=True)
            if kill.target in ("loop", "all"):
                loop.wait()
                return False
        if status := loop.wait():
            sys.exit(f"FAILED: the loop ended with exit status {status}:\n{loop.said()[-5000:]}")
        return True

    def _reached(self, kill: Kill) -> bool:
        begun = any(
            (entry["event"], entry.get("iteration"), entry.get("phase"))
            == ("begun", kill.iteration, kill.phase)
            for entry in read_entries(self.places.state)
        )
        return begun and self._count(kill) >= kill.after

    def _count(self, kill: Kill) -> int:
        match kill.phase:
            case "rollout":
                return _episodes(self.places.rollout_dataset(kill.iteration))
            case "evaluate":
                return _episodes(self.places.evaluation_dataset(kill.iteration))
            case "train":
                log = Path(self.places.training_folder(kill.iteration)) / "train_log.jsonl"
                return log.read_bytes().count(b"\n") if log.exists() else 0
        return 0


def _episodes(dataset: str) -> int:
    folder = Path(dataset) / "episodes"
    return sum(1 for _ in folder.glob("[!.]*")) if folder.is_dir() else 0


def _patient(section: str) -> list[str]:
    """Has a rollout wait for a server that is started again, on however busy a machine."""
    return [
        f"{section}.max_retries=1000",
        f"{section}.max_consecutive_errors=1000000",
        f"{section}.max_retry_pause=10",
    ]


def problems(killed: KilledLoop) -> Iterator[str]:
    yield from (f"still there: {process}" for process in left_over(PATIENCE))
    yield from Audit(killed.config).problems()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the loop")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--iterations", type=int, default=2, help="how many, 1 or 2")
    parser.add_argument("--attempts", type=int, default=30, help="episodes of a task to train on")
    parser.add_argument("--evaluated", type=int, default=10, help="and to measure by")
    parser.add_argument("--copies", type=int, default=20, help="of each sample")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    os.chdir(ROOT)
    adopt_orphans()
    out = options.out.absolute() / "loop"
    overrides = [
        f"out={out}", f"iterations={options.iterations}", f"seed={options.seed}", "retries=3",
        f"rollout.preset=[{','.join(TASKS)}]",
        *(
            f"{section}.iteration.size={options.attempts * len(TASKS)}"
            for section in ("first.rollout", "rollout")
        ),
        *_patient("rollout"), *_patient("evaluation"),
        f"evaluation.attempts={options.evaluated}",
        "export.iterations=1", f"export.options.copies={options.copies}",
        "train.schedule=stable", f"train.max_steps={STEPS}",
        "train.save_steps=20",
        "train.log_steps=1", "serve.start_timeout=3600",
    ]  # fmt: skip
    kills = tuple(kill for kill in KILLS if kill.iteration <= options.iterations)
    killed = KilledLoop(out, overrides, kills)
    killed.run()
    found = list(problems(killed))
    print(f"killed {len(kills)} times, {killed.lives} lives")
    for problem in found:
        print(f"FAILED: {problem}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
