#!/bin/sh
# Tests of the OpenEnv server with OpenEnv's client, TRL and verifiers, in virtual environments of
# their own. Arguments go to pytest, `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh openenv verifiers
HF_HUB_OFFLINE=1 exec .venv-openenv/bin/python -m pytest -p no:xdist \
    --confcutdir packages/webtraj-integrations/tests/openenv --durations=15 packages/webtraj-integrations/tests/openenv "$@"
