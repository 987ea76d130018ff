"""Tests with peers that cannot live beside webtraj's own dependencies: `make test-peers`."""

import importlib.util

# Elsewhere there is nothing to import; scripts/test_peers.py makes sure that there it is.
collect_ignore_glob = ["*conftest.py"]
if importlib.util.find_spec("browsergym") is None:
    collect_ignore_glob += ["test_*.py"]
