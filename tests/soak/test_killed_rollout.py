"""SIGKILL for a process in the middle of a rollout: its browsers, pages and driver go with it."""

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
import uuid

import psutil
import pytest

import webtraj
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.gate,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's parent-death signal"),
]

PAGES = 8
MARK = "WEBTRAJ_TEST_MARK"

# Prints a line when all its pages are open, and another whenever an episode has ended.
CHILD = f"""
import asyncio, sys
from webtraj.environments.browser.pool import BrowserPool
from webtraj.rollouts import RunSpec, collect

class Teller:
    def rollout_planned(self, plan):
        print("planned", flush=True)

    def episode_ended(self, result):
        if pool.stats.leases == {PAGES}:
            print("open", flush=True)

async def main():
    global pool
    pool = BrowserPool(2, {PAGES} // 2)
    spec = RunSpec(
        preset=["miniwob/click-test", "miniwob/login-user", "miniwob/use-slider"],
        agent="oracle",
        episodes=100_000,
        parallel={PAGES},
        out=sys.argv[1],
    )
    await collect(spec, pool=pool, observer=Teller())

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("signal", "times"),
    [("planned", 1), ("open", 1), ("open", 12)],
    ids=["before a browser is there", "when all pages are open", "after the 12th episode"],
)
async def test_nothing_survives_a_killed_rollout(tmp_path, signal, times):
    mark = str(uuid.uuid4())
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), tmp_path / "dataset"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK: mark},
    ) as rollout:
        try:
            while times:
                times -= rollout.stdout.readline() == f"{signal}\n"
                assert rollout.poll() is None
            families = sessions_under(rollout.pid)
        finally:
            rollout.kill()
    if signal == "open":
        assert len(families) >= 3  # A driver and two browsers.
    async with asyncio.timeout(60):
        while survivors(families, mark):
            await asyncio.sleep(0.01)
    if (tmp_path / "dataset" / "dataset.json").exists():
        recover(tmp_path / "dataset")
        report = verify(tmp_path / "dataset")
        assert report.clean, report.problems
        assert not webtraj.open_dataset(tmp_path / "dataset").open_episodes


def sessions_under(pid):
    """Returns the sessions of a process's descendants: each browser and driver has its own."""
    sessions = set()
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(ProcessLookupError):
            sessions.add(os.getsid(process.pid))
    return sessions - {os.getsid(0)}


def survivors(sessions, mark):
    """Returns what is alive in those sessions, or was given the mark in its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) in sessions or process.environ().get(MARK) == mark:
                found.append(process)
    return found
