"""Tests with a Ray cluster of two machines: `make test-ray`."""

import os

import pytest
from two_machines import Network, NetworkedS3Server, missing

ENABLED = "WEBTRAJ_TEST_RAY"

collect_ignore_glob = ["*conftest.py", "rollout_driver.py", "two_machines.py"]
if os.environ.get(ENABLED) != "1":
    collect_ignore_glob += ["test_*.py"]


@pytest.fixture
def network(tmp_path):
    if why := missing():
        pytest.skip(why)
    with Network(tmp_path) as network:
        yield network


@pytest.fixture
def store(network):
    """An S3 server that every machine reaches."""
    server = NetworkedS3Server(network)
    server.start()
    yield server
    server.close()
