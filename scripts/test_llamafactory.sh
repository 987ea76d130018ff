#!/bin/sh
# Tests that really run LLaMA-Factory, on the CPU, in a virtual environment of its own. Arguments go
# to pytest, `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh llamafactory
# One process: each would make models of its own.
WEBTRAJ_TEST_LLAMAFACTORY=1 HF_HUB_OFFLINE=1 exec .venv/bin/python -m pytest -p no:xdist \
    --durations=15 tests/training/llamafactory "$@"
