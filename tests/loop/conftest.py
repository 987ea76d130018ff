import subprocess
import sys
from pathlib import Path

import pytest

from webtraj.loop import load_loop_config

HERE = Path(__file__).parent
WORK = str(HERE / "work.py")


def work(out, *inputs):
    """A phase's keys: a command that makes `out` of inputs, with the phase's seed."""
    return {"command": ["{python}", "-IS", WORK, out, "{seed}", *inputs], "retries": 0}


class Loop:
    """A loop of small phases, each a process that goes on with what it began."""

    def __init__(self, folder):
        self.folder = folder
        self.out = folder / "loop"
        self.config_file = folder / "loop.yaml"

    def data(self, **more):
        return {
            "out": str(self.out),
            "iterations": 2,
            "seed": 3,
            "retries": 0,
            "patience": 20.0,
            "rollout": work("{recorded}"),
            "judge": work("{out}/verdicts/{iteration}", "{recorded}"),
            "postprocess": work("{processed}", "{recorded}", "{out}/verdicts/{iteration}"),
            "export": work("{export}", "{datasets}"),
            "groups": work("{groups}", "{recorded}"),
            "train": {**work("{model}", "{export}", "{groups}", "{latest}"), "model": "some/model"},
            "evaluation": work("{evaluated}"),
            **more,
        }

    def config(self, **more):
        return load_loop_config(given=self.data(**more))

    def start(self, *arguments, env=None, **more):
        """Starts the loop in a process of its own, from a file of its configuration."""
        import orjson

        self.config_file.write_bytes(orjson.dumps(self.data(**more)))
        return subprocess.Popen(
            [sys.executable, str(HERE / "play_loop.py"), str(self.config_file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )

    def results(self, out=None):
        """What the phases made, by place."""
        out = self.out if out is None else out
        found = out.rglob("result")
        return {str(path.relative_to(out)): path.read_text() for path in found}

    def units(self):
        """The units of work that each phase did, by place."""
        done = self.out.rglob("done")
        return {str(path.relative_to(self.out)): path.read_text().split() for path in done}

    def starts(self, place):
        """How often the work at a place was begun."""
        return len((self.out / place / "starts").read_text().splitlines())


@pytest.fixture
def small_loop(tmp_path):
    return Loop(tmp_path)
