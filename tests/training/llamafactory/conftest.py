"""Tests of LLaMA-Factory. Those that run it go by `scripts/test_llamafactory.sh`."""

import os
import subprocess

import pytest
from llamafactory_runs import PYTHON, ROOT

ENABLED = "WEBTRAJ_TEST_LLAMAFACTORY"

collect_ignore_glob = ["conftest.py", "llamafactory_runs.py", "make_qwen_vl.py"]
if os.environ.get(ENABLED) != "1":
    collect_ignore_glob += ["test_llamafactory_runs_*.py"]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A tiny vision-language model of random weights."""
    folder = tmp_path_factory.mktemp("models") / "qwen_vl"
    corpus = folder.with_name("corpus.txt")
    corpus.write_text("".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))))
    script = ROOT / "tests" / "training" / "llamafactory" / "make_qwen_vl.py"
    subprocess.run([PYTHON, "-W", "ignore", script, folder, corpus], check=True)
    return folder
