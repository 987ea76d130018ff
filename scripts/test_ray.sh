#!/bin/sh
# Rollouts on a Ray cluster of two machines, in network namespaces of this one. Needs root, `ip`,
# and Ray with its dashboard. Arguments go to pytest, `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
# One process: each would start clusters of its own.
WEBTRAJ_TEST_RAY=1 exec .venv/bin/python -m pytest -p no:xdist tests/ray "$@"
