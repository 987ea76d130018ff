"""The OpenEnv server, asked by verifiers with its own version of OpenEnv's client."""

import json
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("openenv")

import webtraj
from webtraj.trajectory import Outcome

PYTHON = Path(__file__).parents[3] / ".venv-verifiers/bin/python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="run by make test-openenv")


def test_verifiers_plays(server, recorded):
    program = Path(__file__).with_name("verifiers_client.py")
    done = subprocess.run(
        [PYTHON, "-W", "ignore", program, server], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rewards"] == [1.0, 1.0, 1.0]
    played = [one for one in webtraj.open_dataset(recorded) if one.info.group_id == "verifiers"]
    assert [one.end.outcome for one in played] == [Outcome.SUCCESS] * 3
