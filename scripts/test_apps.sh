#!/bin/sh
# Install the applications into .venv-apps, that of the examples included, run the tests of webtraj-apps,
# and check all tasks on SEEDS seeds: the oracle succeeds, and no trick of an adversary does. The arguments
# are for `webtraj apps check`.
set -eu
cd "$(dirname "$0")/.."
export WEBTRAJ_APPS="$PWD/.venv-apps"
began=$(date +%s)
.venv/bin/webtraj apps install --all
.venv/bin/webtraj apps remove --old
echo "apps: installed in $(($(date +%s) - began)) s, $(du -sh "$WEBTRAJ_APPS" | cut -f1)"
.venv/bin/pytest -q -p no:xdist packages/webtraj-apps
.venv/bin/webtraj apps check --seeds "${SEEDS:-20}" --parallel "${PARALLEL:-4}" "$@"
