#!/bin/sh
# `make demo` from nothing, in a copy of the checkout: prints its seconds and what it installed, and
# fails if that is more than 400 MB.
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --exclude='./.git' --exclude='./.venv*' --exclude='./build' --exclude='./runs' -cf - . |
    tar -xf - -C "$copy"
began=$(date +%s)
make -C "$copy" demo </dev/null
size=$(du -sm "$copy/.venv" | cut -f1)
echo "make demo from nothing took $(($(date +%s) - began)) s and installed $size MB"
[ "$size" -le 400 ]
