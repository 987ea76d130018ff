#!/bin/sh
# The loop in small, with everything real: a browser, a training, vLLM. It is killed at named moments
# and resumed, and must end as if nobody had. Before that, unless GRADIENT=no, two recipes are played
# as they stand: that for one GPU, on the CPU, and that with policy gradient. Arguments go to
# tests/loop/killed_loop.py.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh train vllm
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [ "${GRADIENT:-yes}" != no ]; then
    .venv-train/bin/python tests/loop/gpu_recipe.py --out "$out/recipe"
    .venv-train/bin/python tests/loop/gradient_recipe.py --out "$out/gradient"
fi
.venv-train/bin/python tests/loop/killed_loop.py --out "$out/killed" "$@"
