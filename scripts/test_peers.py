"""Runs tests/peers in BrowserGym's virtual environment, and the tests of what goes to W&B with its.

Both are made if they are not there. Arguments go to pytest in the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from webtraj.environments.browser.executable import find_browser
from webtraj.environments.miniwob import pages

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import peers  # noqa: E402 (it lives with the benchmarks)

WANDB = ["wandb==0.31.0"]
WANDB_TESTS = ["tests/rollouts/metrics/test_metrics_sinks.py", "tests/loop/test_loop_wandb.py"]


def main() -> int:
    """Returns pytest's exit status."""
    try:
        peers.make_venv("wandb", WANDB)
        python = peers.make_venv("browsergym", peers.BROWSERGYM)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"test-peers: a virtual environment cannot be made: {error}. What pip "
            "said is above; it needs a package index. Nothing was tested."
        )
    with tempfile.TemporaryDirectory() as folder:
        variables = peers.browsergym_variables(
            python, Path(folder), find_browser().path or "", pages.html_folder() / "miniwob"
        )
        # The other tests' conftest needs packages that are not there.
        command = [python, "-m", "pytest", "--confcutdir=tests/peers", "tests/peers", *sys.argv[1:]]
        status = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **variables}, check=False
        ).returncode
    # They start the other environment's Python themselves, and are skipped where it is not.
    wandb = [sys.executable, "-m", "pytest", "-p", "no:xdist", *WANDB_TESTS, "-k", "wandb"]
    return status or subprocess.run(wandb, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
