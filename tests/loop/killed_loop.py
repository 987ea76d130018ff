"""The loop in small, with everything real, killed in every phase: it must end as if nobody had.

    .venv-train/bin/python tests/loop/killed_loop.py --out /tmp/killed    (as `make test-loop` does)

Three tasks, an iteration or two, a browser, PyTorch, vLLM. In each kind of phase something gets
SIGKILL at a random moment: the loop's process, all processes at once, the phase's alone, or the
server's; `loop_moments.KILLS` says what where. After each kill the loop goes on by itself, or is
gone on with by `--resume`. What must hold in the end is in `loop_audit`; what was learned must be
clearly better than chance, as in `check_learned`. Exits 1 if anything does not hold, and says what.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import random
import sys
import time
from pathlib import Path

import check_learned
from loop_audit import Audit
from loop_evidence import Evidence
from loop_moments import KILLS, Kill, Watch
from loop_processes import Loop, adopt_orphans, left_over

from webtraj.loop import load_loop_config
from webtraj.loop.places import Places

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "examples/two_cores/two_cores.yaml"
TASKS = ("miniwob/click-button", "miniwob/click-link", "miniwob/click-test-2")
PATIENCE = 60.0
"""Seconds that what is left of a loop has to end after the loop has."""


@dataclasses.dataclass
class KilledLoop:
    """One loop of many lives, and what was seen of it."""

    out: Path
    overrides: list[str]
    seed: int
    kills: tuple[Kill, ...]
    done: list[Kill] = dataclasses.field(default_factory=list)
    late: list[Kill] = dataclasses.field(default_factory=list)
    evidence: list[Evidence] = dataclasses.field(default_factory=list)
    lives: int = 0

    def __post_init__(self) -> None:
        self.config = load_loop_config(CONFIG, self.overrides)
        steps = self.config.train.overrides["max_steps"]
        self._watch = Watch(Places(self.config), random.Random(self.seed), steps=steps)
        self._left = collections.deque(self.kills)
        self._began = time.monotonic()

    def run(self) -> None:
        """Runs the loop to its end, through all kills."""
        while not self._live():
            pass

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
                loop.kill("all", lambda: None)

    def _live_through(self, loop: Loop) -> bool:
        while self._left:
            kill = self._left[0]
            come = self._watch.wait(kill, loop)
            if come == "ended":
                break
            self._left.popleft()
            if come == "late" or not loop.kill(kill.target, self._look):
                self._say(f"late for {kill}")
                self.late.append(kill)
                continue
            self._say(f"killed in {kill}")
            self.done.append(kill)
            if kill.target in ("loop", "all"):
                loop.wait()
                return False
        status = loop.wait()
        if status:
            sys.exit(f"FAILED: the loop ended with exit status {status}:\n{loop.said()[-5000:]}")
        self._say("the loop is done")
        return True

    def _look(self) -> None:
        self.evidence.append(Evidence.take(self.out))

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s: {text}", flush=True)


def _patient(section: str) -> list[str]:
    """Has a rollout wait for a server that is started again, on however busy a machine."""
    env = f"{section}.overrides.env_config"
    return [
        f"{env}.max_retries=1000",
        f"{env}.max_consecutive_errors=1000000",
        f"{env}.retry_policy.max_pause=10",
    ]


def show(killed: KilledLoop, audit: Audit) -> None:
    targets = collections.Counter(kill.target for kill in killed.done)
    print(
        f"killed {len(killed.done)} times ("
        + ", ".join(f"{target} {count}" for target, count in targets.items())
        + f"), {len(killed.late)} times too late, {killed.lives} lives; "
        f"{sum(len(evidence.open) for evidence in killed.evidence)} episodes were open then, "
        f"{audit.partial} are on record as cut off; {audit.made_again} datasets and exports made "
        "again"
    )


def problems(killed: KilledLoop, audit: Audit) -> list[str]:
    found = [f"still there: {process}" for process in left_over(PATIENCE)]
    never = {kill.phase for kill in killed.kills} - {kill.phase for kill in killed.done}
    found += [f"{phase}: was never killed" for phase in sorted(never)]
    found += audit.problems()
    return [*found, *check_learned.problems(killed.out)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the moments, and of the loop")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--iterations", type=int, default=2, help="how many, 1 or 2")
    parser.add_argument("--attempts", type=int, default=150, help="episodes of a task to train on")
    parser.add_argument("--evaluated", type=int, default=40, help="and to measure by")
    parser.add_argument("--copies", type=int, default=40, help="of each sample")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    os.chdir(ROOT)
    adopt_orphans()
    out = options.out.absolute() / "loop"
    overrides = [
        f"out={out}", f"iterations={options.iterations}", f"seed={options.seed}", "retries=3",
        f"rollout.overrides.env_config.train_tasks=[{','.join(TASKS)}]",
        *(
            f"{section}.env_config.train_tasks_rollout_size={options.attempts * len(TASKS)}"
            for section in ("first.rollout", "rollout.overrides")
        ),
        *_patient("rollout"), *_patient("evaluation"),
        f"evaluation.overrides.env_config.attempts_per_task={options.evaluated}",
        "export.iterations=1", f"export.options.copies={options.copies}",
        "train.overrides.schedule=stable", "train.overrides.max_steps=320",
        "train.overrides.save_steps=20",
        "train.overrides.log_steps=1", "serve.start_timeout=3600",
    ]  # fmt: skip
    kills = tuple(kill for kill in KILLS if kill.iteration <= options.iterations)
    killed = KilledLoop(out, overrides, options.seed, kills)
    killed.run()
    audit = Audit(killed.config, killed.evidence, options.out / "again")
    found = problems(killed, audit)
    show(killed, audit)
    for problem in found:
        print(f"FAILED: {problem}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
