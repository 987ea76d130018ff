#!/bin/sh
# The loop in small, with everything real: three tasks, two iterations from random weights, a browser,
# a training, vLLM. It is killed in every phase and gone on with. Fails unless it ends as if nobody
# had, and what was learned is clearly better than chance. Arguments go to tests/loop/killed_loop.py.
set -eu
cd "$(dirname "$0")/.."
sh scripts/train_venv.sh
sh scripts/vllm_venv.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
.venv-train/bin/python tests/loop/killed_loop.py --out "$out/killed" "$@"
