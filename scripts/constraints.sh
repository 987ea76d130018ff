#!/bin/sh
# Rewrites constraints.txt from pyproject.toml: run it after changing dependencies, then run the tests.
# Versions that are there stay; arguments go to `uv pip compile`, --upgrade for example. One file holds
# for every Python from 3.11 on. It is no uv.lock, because that names the package index's hosts four
# thousand times and cannot hold a PyTorch for CPUs, which PyPI does not have. The extras `openenv`
# and `inspect` are left out: they need an older pillow and an older click. scripts/*_requirements.txt pin them.
set -eu
cd "$(dirname "$0")/.."
. scripts/packages.sh
have_uv || { echo "constraints: this needs uv in .venv" >&2; exit 1; }
new=$(mktemp)
torch=$(mktemp)
trap 'rm -f "$new" "$torch"' EXIT
cp constraints.txt "$new"
# What the training environment has, less the mark of a build for CPUs.
sed -n 's/^\(torch[a-z]*==[^+]*\).*/\1/p' scripts/train_requirements.txt >"$torch"
.venv/bin/uv pip compile pyproject.toml --quiet --extra all --extra dev --universal --python-version 3.11 \
    --no-annotate --no-header --constraint "$torch" --output-file "$new" "$@"
{
    echo "# The versions that webtraj is developed and tested with. Written by scripts/constraints.sh."
    # Builds for CPUs do not have the first; the last are the packages of this checkout.
    grep -vE '^(nvidia|cuda)-|^triton==|^(-e |webtraj|\./)' "$new"
} >constraints.txt
