#!/bin/sh
# Install the applications into .venv-apps, and check every task of each on SEEDS seeds: its oracle
# succeeds, and doing nothing or something else fails. SEEDS=1 takes seed 0 alone.
set -eu
cd "$(dirname "$0")/.."
export WEBTRAJ_APPS="$PWD/.venv-apps"
began=$(date +%s)
.venv/bin/webtraj apps install --all
echo "apps: installed in $(($(date +%s) - began)) s, $(du -sh "$WEBTRAJ_APPS" | cut -f1)"
.venv/bin/webtraj apps check --seeds "${SEEDS:-20}" --parallel "${PARALLEL:-4}"
