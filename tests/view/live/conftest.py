"""Rollouts in processes of their own, held where the tests want them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import held_rollout as held_lib
import pytest

from webtraj import errors, registry
from webtraj.view import RunMonitor

SCRIPT = Path(__file__).with_name("held_rollout.py")
PATIENCE = 60.0
"""Seconds that anything may take on a busy machine."""


class HeldRollout:
    """A rollout in a process of its own, its gates, and a monitor that looks at it."""

    def __init__(self, folder, tasks, *, out=None, options=None, env=None, parallel=8):
        self.out = str(folder / "data") if out is None else out
        self.gates = folder / "gates"
        self.gates.mkdir()
        self.options = options
        arguments = [self.out, str(self.gates), *tasks, "--parallel", str(parallel)]
        if options is not None:
            arguments += ["--options", json.dumps(options)]
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **(env or {})},
        )  # fmt: skip

    def monitor(self, **options):
        """Waits until the run can be watched, and returns who watches it."""

        def opened():
            try:
                return RunMonitor(self.out, storage_options=self.options, **options)
            except (errors.InvalidInputError, errors.StorageMissingError):
                assert self.process.poll() is None, self.process.communicate()[0]
                return None

        return wait_for(opened)

    def open(self, *gates):
        for gate in gates:
            (self.gates / gate).touch()

    def finish(self):
        said, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, said

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def wait_for(look):
    """Returns the first true value that `look` gives."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("It did not come to that in time.")


def wait_for_status(monitor, meets):
    """Returns the first status that meets a condition."""
    seen = []

    def look():
        seen.append(monitor.look())
        return seen[-1] if meets(seen[-1]) else None

    try:
        return wait_for(look)
    except AssertionError:
        raise AssertionError(f"Seen last: {seen[-1]}") from None


@pytest.fixture
def wait():
    """Gives `wait_for_status`."""
    return wait_for_status


@pytest.fixture
def held_rollout(tmp_path):
    """Starts a rollout; gives it back to be watched, and ends it with the test."""
    started = []

    def start(*tasks, **options):
        started.append(HeldRollout(tmp_path, tasks, **options))
        return started[-1]

    yield start
    for rollout in started:
        if rollout.process.poll() is None:
            rollout.kill()
        rollout.process.stdout.close()


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Plays a rollout in this process, to its end."""
    registry.info()  # Loads the presets that ship, which would land in the copy otherwise.
    monkeypatch.setattr(registry, "_presets", dict(registry._presets))
    (tmp_path / "gates").mkdir(exist_ok=True)

    def play(*tasks, out=None, **options):
        out = str(tmp_path / "data") if out is None else out
        asyncio.run(held_lib.play(out, tmp_path / "gates", tasks, **options))
        return out

    return play
