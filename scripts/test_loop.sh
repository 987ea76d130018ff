#!/bin/sh
# The loop in small, with everything real: a browser, a training, vLLM. First the recipe for one GPU,
# on the CPU. Then two tasks, imitated first and then by policy gradient, unless GRADIENT=no. Then three tasks, an
# iteration or two from random weights, killed in every phase and gone on with: it fails unless that
# ends as if nobody had, and what was learned is clearly better than chance. Arguments go to
# tests/loop/killed_loop.py.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh train vllm
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
.venv-train/bin/python tests/loop/gpu_recipe.py --out "$out/recipe"
[ "${GRADIENT:-yes}" = no ] || .venv-train/bin/python tests/loop/gradient_recipe.py --out "$out/gradient"
.venv-train/bin/python tests/loop/killed_loop.py --out "$out/killed" "$@"
