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
