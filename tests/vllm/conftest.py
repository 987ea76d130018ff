"""Tests with a real vLLM: `make test-vllm`. It has a virtual environment of its own.

The models are built here, of random weights. What records say of tokens and log-probabilities is
checked against transformers, which reads the same weights in its own way.
"""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import pytest_asyncio

from webtraj.agents.models.openai import OpenAICompatibleClient
from webtraj.serving import ModelServer, RestartPolicy, VllmLaunch, interpreters

ENABLED = "WEBTRAJ_TEST_VLLM"
HERE = Path(__file__).parent

collect_ignore_glob = ["*conftest.py", "tiny_models.py", "reference.py"]
if os.environ.get(ENABLED) != "1":
    collect_ignore_glob += ["test_*.py"]


def run_there(script, *arguments, **options):
    """Runs a script of this folder with the Python that has vLLM."""
    return subprocess.run(
        [interpreters.find_vllm_python(), HERE / script, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
        **options,
    ).stdout


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folder with the tiny models."""
    folder = tmp_path_factory.mktemp("models")
    run_there("tiny_models.py", folder)
    return folder


@contextlib.asynccontextmanager
async def serve(model, folder, **settings):
    """Runs a vLLM server on the CPU."""
    launch = VllmLaunch(
        model=model,
        dtype="float32",  # So that log-probabilities agree closely with transformers'.
        max_model_len=8192,
        kv_cache_gib=1,
        enforce_eager=True,
        dev_mode=True,
        **settings,
    )
    server = ModelServer(
        launch,
        log_file=folder / f"{model.name}.log",
        restarts=RestartPolicy(first_pause=0.1),
        start_timeout=240,
    )
    start = time.monotonic()
    async with server:
        print(f"\nvLLM serves {server.model} after {time.monotonic() - start:.0f} s")
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def text_server(models, tmp_path_factory):
    async with serve(models / "text-0", tmp_path_factory.mktemp("logs")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def client(text_server):
    async with client_of(text_server) as made:
        yield made


def client_of(server, **options):
    return OpenAICompatibleClient(server.model, server.base_url, **options)


@pytest.fixture(scope="session")
def reference(models):
    """Asks transformers what a model makes of tokens: their text, and their log-probabilities.

    A sequence is (prompt's ids, completion's ids, temperature).
    """

    def ask(model, sequences):
        question = json.dumps({"model": str(models / model), "sequences": sequences})
        answer = json.loads(run_there("reference.py", input=question))
        assert len(answer) == len(sequences)
        return answer

    return ask
