"""Runs tests/peers in BrowserGym's virtual environment, which is made if it is not there.

Arguments go to pytest.
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


def main() -> int:
    """Returns pytest's exit status."""
    try:
        python = peers.make_venv("browsergym", peers.BROWSERGYM)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"test-peers: the virtual environment for BrowserGym cannot be made: {error}. What pip "
            "said is above; it needs a package index. Nothing was tested."
        )
    with tempfile.TemporaryDirectory() as folder:
        variables = peers.browsergym_variables(
            python, Path(folder), find_browser().path or "", pages.html_folder() / "miniwob"
        )
        command = [python, "-m", "pytest", "tests/peers", *sys.argv[1:]]
        return subprocess.run(
            command, cwd=ROOT, env={**os.environ, **variables}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
