"""The recipe of the real applications, in small: oracles play, a model learns and plays.

It needs webtraj[train] and installed applications: `make test-apps` installs them, and `make
test-train` runs it.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from webtraj import Outcome, open_dataset

CONFIG = Path(__file__).parents[1] / "apps.yaml"
SMALL = (
    "rollout.preset=apps/budget/train", "rollout.iteration.size=2",
    "evaluation.preset=apps/budget/test", "evaluation.iteration.size=1",
    "export.options.copies=1", "train.max_steps=2", "train.warmup_steps=1", "train.batch_size=2",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs webtraj[train]")
def test_a_model_learns_from_oracles_of_applications_and_plays(tmp_path):
    apps = pytest.importorskip("webtraj_apps.app")
    if not apps.find_app("budget").installed:
        pytest.skip("the application is not installed")
    command = (sys.executable, "-m", "webtraj", "loop", "--config", str(CONFIG))
    done = subprocess.run(
        [*command, f"out={tmp_path}", *SMALL], capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = list(open_dataset(tmp_path / "train_trajectories/iteration_0001"))
    assert [episode.outcome for episode in shown] == [Outcome.SUCCESS] * 2
    (oracle,), (played,) = (
        list(open_dataset(tmp_path / f"test_trajectories/iteration_000{n}")) for n in (1, 2)
    )
    assert oracle.info.task == played.info.task
    assert oracle.outcome is Outcome.SUCCESS
    calls = [call for step in played.steps[1:] for call in step.decision.model_calls]
    assert {call.provider for call in calls} == {"transformers"}
    assert all(len(call.completion_token_ids) == 2 for call in calls)
