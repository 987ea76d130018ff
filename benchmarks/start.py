"""From `webtraj rollout` to its first step: how long each part takes, and the CPU that it uses.

    make bench-start        (or: .venv/bin/python benchmarks/start.py [--turns N])

Each turn runs `webtraj rollout --preset miniwob/click-test --agent random --episodes 1` in a new
process, which notes the time when a function begins or returns (`MARKS`). All figures are
milliseconds since the process began, medians of the turns: `wall` time, and the CPU of webtraj's
process (`Python`) and of Playwright's driver and the browser (`others`). `least` is the CPU of all
of them in the turn that used least.
"""

from __future__ import annotations

import argparse
import functools
import importlib.machinery
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

COMMAND = "webtraj rollout --preset miniwob/click-test --agent random --episodes 1 --out"

MARKS = {
    "the command line is imported": ("webtraj.cli.app", "main", "begins"),
    "arguments are read": ("webtraj.cli.rollout_run", "from_fields", "begins"),
    "the plan is made": ("webtraj.cli.rollout_run", "play", "begins"),
    "the rollout is prepared": ("webtraj.rollouts.runner", "Runner.play", "begins"),
    "Playwright's driver runs": (
        "webtraj.environments.browser.processes", "Driver.start", "returns",
    ),
    "the browser runs": ("webtraj.environments.browser.processes", "Driver.launch", "returns"),
    "a page is open": ("webtraj.environments.browser.pool", "BrowserPool.lease", "returns"),
    "first observation": (
        "webtraj.environments.browser.environment", "BrowserEnvironment.reset", "returns",
    ),
    "first step": (
        "webtraj.environments.browser.environment", "BrowserEnvironment.step", "returns",
    ),
    "the command ends": ("", "", ""),
}  # fmt: skip
"""Moments: a module's function, and whether it begins or returns."""

Times = dict[str, list[float]]
"""For each moment: wall time since the start, CPU of Python, CPU of the others."""


class Inside:
    """Runs the command in this process and notes the moments."""

    def __init__(self, began: float) -> None:
        self._began = began
        self.times: Times = {}

    def run(self, arguments: Sequence[str]) -> None:
        """Runs it to its end."""
        loader: Any = importlib.machinery.SourceFileLoader
        execute = loader.exec_module

        def exec_module(its_loader: Any, module: Any) -> None:
            execute(its_loader, module)
            for moment, (home, function, when) in MARKS.items():
                if home == module.__name__:
                    self._wrap(module, function, moment, before=when == "begins")

        loader.exec_module = exec_module
        sys.argv = [*arguments]
        try:
            from webtraj import cli

            cli.main()
        finally:
            self.note("the command ends")

    def _wrap(self, module: Any, path: str, moment: str, *, before: bool) -> None:
        *owner, name = path.split(".")
        place = functools.reduce(getattr, owner, module)
        static = isinstance(inspect.getattr_static(place, name), classmethod)
        function: Callable[..., Any] = getattr(place, name)

        def now(*args: Any, **given: Any) -> Any:
            if before:
                self.note(moment)
            result = function(*args, **given)
            return result if before or not inspect.isawaitable(result) else later(result)

        async def later(result: Any) -> Any:
            value = await result
            self.note(moment)
            return value

        setattr(place, name, staticmethod(now) if static else now)

    def note(self, moment: str) -> None:
        """Notes a moment the first time that it comes."""
        if moment not in self.times:
            python, wall = time.process_time(), time.time() - self._began
            from process_tree import ProcessTree

            tree = ProcessTree()
            others = sum(
                tree.cpu_seconds_of(pid, reaped=True) for pid in tree.pids() if pid != os.getpid()
            )
            self.times[moment] = [wall, python, others]


def turn() -> Times:
    """Runs the command once in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder, "times.json")
        subprocess.run(
            [sys.executable, __file__, "--inside", times, str(time.time()), f"{folder}/out"],
            check=True,
            capture_output=True,
        )
        found: Times = json.loads(times.read_text())
    return found


def main() -> None:
    """Measures and shows."""
    if sys.argv[1:2] == ["--inside"]:
        _, _, file, began, out = sys.argv
        inside = Inside(float(began))
        try:
            inside.run([*COMMAND.split(), out])
        finally:
            Path(file).write_text(json.dumps(inside.times))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    turns = [turn() for _ in range(parser.parse_args().turns + 1)][1:]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'until':30}{'wall':>8}{'Python':>8}{'others':>8}{'least':>8}")
    for moment in MARKS:
        each = [times[moment] for times in turns]
        figures = [*map(statistics.median, zip(*each, strict=True))]
        figures.append(min(python + others for _, python, others in each))
        print(f"{moment:30}" + "".join(f"{seconds * 1e3:8.0f}" for seconds in figures))


if __name__ == "__main__":
    main()
