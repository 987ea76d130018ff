#!/bin/sh
# Tests that really train, on the CPU, in a virtual environment of their own. Arguments go to
# pytest, `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/train_venv.sh
# One process: each would make models of its own. The other tests' conftest needs packages that are
# not there.
WEBTRAJ_TEST_TRAIN=1 HF_HUB_OFFLINE=1 exec .venv-train/bin/python -m pytest -p no:xdist \
    --confcutdir tests/training/sft tests/training/sft "$@"
