#!/bin/sh
# Rollouts on a Ray cluster of two machines, in network namespaces of this one. Needs root, `ip`,
# and Ray with its dashboard. Arguments go to pytest, `-k NAME` for example.
set -eu
cd "$(dirname "$0")/.."
# In a network of its own: when an interface comes or goes, every browser of the same network drops
# its connections (ERR_NETWORK_CHANGED). Where that is not allowed, the tests with two machines are
# skipped.
if unshare --net true 2>/dev/null && [ -z "${WEBTRAJ_OWN_NETWORK:-}" ]; then
    export WEBTRAJ_OWN_NETWORK=1
    exec unshare --net sh -c 'ip link set lo up && exec sh "$0" "$@"' "$0" "$@"
fi
# One process: each would start clusters of its own.
WEBTRAJ_TEST_RAY=1 exec .venv/bin/python -m pytest -p no:xdist tests/ray "$@"
