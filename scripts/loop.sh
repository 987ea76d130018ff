#!/bin/sh
# The loop on two cores, in the environments that it needs. Arguments go to webtraj loop: other
# values, or --resume.
set -eu
cd "$(dirname "$0")/.."
sh scripts/train_venv.sh
sh scripts/vllm_venv.sh
exec .venv-train/bin/python -m webtraj.cli loop --config configs/loop/two_cores.yaml "$@"
