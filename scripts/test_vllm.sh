#!/bin/sh
# Tests with a real vLLM on the CPU, in a virtual environment of its own. Arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
sh scripts/vllm_venv.sh
WEBTRAJ_TEST_VLLM=1 exec .venv/bin/python -m pytest -p no:xdist tests/vllm "$@"
