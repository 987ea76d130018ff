"""Tests with a real vLLM: `make test-vllm`. It has a virtual environment of its own.

The models are built here, of random weights. What records say of tokens and log-probabilities is
checked against transformers, which reads the same weights in its own way.
"""

import os

import pytest
import pytest_asyncio
from vllm_server import Reference, client_of, serve, start_there

ENABLED = "WEBTRAJ_TEST_VLLM"

collect_ignore_glob = ["*conftest.py", "tiny_models.py", "reference.py", "mismatch.py"]
if os.environ.get(ENABLED) != "1":
    collect_ignore_glob += ["test_*.py"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folder with the tiny models."""
    folder = tmp_path_factory.mktemp("models")
    process = start_there("tiny_models.py", folder)
    process.communicate()
    assert process.returncode == 0
    return folder


@pytest.fixture(scope="session")
def reference(models):
    asked = Reference(models)
    yield asked.ask
    asked.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def text_server(models, tmp_path_factory):
    # Adapters are for the tests of updates; to share the server is what makes them affordable.
    adapters = {"runtime_lora": True, "max_lora_rank": 8}
    async with serve(models / "text-0", tmp_path_factory.mktemp("logs"), **adapters) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def client(text_server):
    async with client_of(text_server) as made:
        yield made
