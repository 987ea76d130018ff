"""Tests of LLaMA-Factory. Those that run it go by `scripts/test_llamafactory.sh`."""

import os

ENABLED = "WEBTRAJ_TEST_LLAMAFACTORY"

collect_ignore_glob = ["conftest.py", "llamafactory_runs.py", "make_tiny_qwen_vl.py"]
if os.environ.get(ENABLED) != "1":
    collect_ignore_glob += ["test_llamafactory_runs_*.py"]
