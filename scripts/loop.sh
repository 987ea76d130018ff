#!/bin/sh
# The loop on two cores, in the environments that it needs. Arguments go to webtraj loop: other
# values, or --resume.
set -eu
cd "$(dirname "$0")/.."
sh scripts/environment.sh train vllm
exec .venv-train/bin/python -m webtraj loop --config examples/two_cores/two_cores.yaml "$@"
