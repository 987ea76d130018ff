#!/bin/sh
# Tests with a real vLLM on the CPU, in a virtual environment of its own. Arguments go to pytest,
# `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh vllm
# One process: each would start servers of its own.
WEBTRAJ_TEST_VLLM=1 WEBTRAJ_VLLM_PYTHON=.venv-vllm/bin/python \
    exec .venv/bin/python -m pytest -p no:xdist --durations=15 tests/vllm "$@"
