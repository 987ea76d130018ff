#!/bin/sh
# Tests of the adapters for verl and SkyRL with their own drivers, in a virtual environment of their
# own. What they import warns, of Ray's old names for example. Arguments go to pytest, `-k NAME` for
# example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh trainers
HF_HUB_OFFLINE=1 exec .venv-trainers/bin/python -m pytest -p no:xdist -W ignore \
    --confcutdir packages/webtraj-integrations/tests/trainers --durations=15 packages/webtraj-integrations/tests/trainers "$@"
