#!/bin/sh
# Tests that really train, on the CPU, in a virtual environment of their own. Arguments go to
# pytest, `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh train
# One process: each would make models of its own. The other tests' conftest needs packages that are
# not there.
export WEBTRAJ_TEST_TRAIN=1 HF_HUB_OFFLINE=1
# One test plays applications, if `make test-apps` has installed them.
export WEBTRAJ_APPS="${WEBTRAJ_APPS:-$PWD/.venv-apps}"
.venv-train/bin/python -m pytest -p no:xdist --confcutdir tests/training/export \
    tests/training/export/test_export_lengths_of_models.py
.venv-train/bin/python -m pytest -p no:xdist --confcutdir examples/two_cores/tests \
    examples/two_cores/tests/test_pixel_tasks.py examples/two_cores/tests/test_apps_recipe.py
exec .venv-train/bin/python -m pytest -p no:xdist --confcutdir tests/training/sft \
    --durations=15 tests/training/sft "$@"
