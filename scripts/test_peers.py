"""Run tests/peers in BrowserGym's virtual environment, and other projects' tests with theirs.

These are W&B, Inspect and Harbor. Environments are made if missing. Arguments go to pytest in the
first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import tasks

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import peers  # noqa: E402 (it lives with the benchmarks)

WANDB_TESTS = ["tests/rollouts/metrics/test_metrics_sinks.py", "tests/loop/test_loop_wandb.py"]
INSPECT_TESTS = [
    "packages/webtraj-formats/tests/exporters/test_export_inspect.py",
    "packages/webtraj-formats/tests/exporters/test_export_atif.py",
]


def main() -> int:
    """Returns pytest's exit status."""
    made = subprocess.run(
        ["sh", "scripts/environment.sh", "wandb", "inspect"], cwd=ROOT, check=False
    )
    try:
        made.check_returncode()
        python = peers.browsergym_venv()
    except subprocess.CalledProcessError:
        sys.exit("test-peers: a virtual environment cannot be made; see above. Nothing was tested.")
    with tempfile.TemporaryDirectory() as folder:
        variables = peers.browsergym_variables(
            python, Path(folder), find_browser().path or "", tasks.html_folder() / "miniwob"
        )
        # The other tests' conftest needs packages that are not there.
        command = [python, "-m", "pytest", "--confcutdir=tests/peers", "tests/peers", *sys.argv[1:]]
        status = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **variables}, check=False
        ).returncode
    # They start the other environment's Python themselves, and are skipped where it is not.
    tests = [sys.executable, "-m", "pytest", "-p", "no:xdist", *WANDB_TESTS, *INSPECT_TESTS]
    tests += ["-k", "wandb or inspect or harbor"]
    return status or subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
