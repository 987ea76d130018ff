import subprocess
import sys

import pytest


@pytest.fixture
def run_webtraj(tmp_path):
    """Runs the installed command in a folder of its own."""

    def run(*arguments, env=None, timeout=120):
        return subprocess.run(
            [sys.executable, "-m", "webtraj", *map(str, arguments)],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


_CORRIDOR = """
import sys, dm_env, webtraj, webtraj.cli
from webtraj.agents import base, catalog

class Corridor:
    def reset(self): return dm_env.restart("here")
    def step(self, action): return dm_env.termination(reward=1.0, observation="there")
    def close(self): pass

webtraj.register("corridor", lambda: webtraj.as_async(Corridor()))
make = lambda seed, options: base.as_agent(lambda observation: "right")
catalog.AGENTS["walker"] = catalog.AgentKind("Walks.", make)
webtraj.cli.main()
"""


@pytest.fixture
def play_corridor(tmp_path):
    """Runs a command of `webtraj` that plays an environment without a browser."""

    def play(*arguments, timeout=120):
        which = ("--preset", "corridor", "--agent", "walker")
        return subprocess.run(
            [sys.executable, "-c", _CORRIDOR, *map(str, arguments), *which],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return play
