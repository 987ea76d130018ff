"""What the tests with a real vLLM share."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from webtraj.agents.models.openai import OpenAICompatibleClient
from webtraj.serving import ModelServer, RestartPolicy, VllmLaunch, interpreters

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TRAINER = ROOT / ".venv-train/bin/python"
"""The Python that has the trainer, if it was made."""


def start_there(script, *arguments):
    """Starts a script of this folder with the Python that has vLLM."""
    return subprocess.Popen(
        [interpreters.require_python(interpreters.VLLM), HERE / script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    )


class Reference:
    """Asks transformers, in a process of its own, what a model makes of tokens."""

    def __init__(self, models):
        self._models = models
        self._process = start_there("reference.py")

    def ask(self, model, sequences):
        """Returns texts and log-probabilities.

        Args:
            model: One of the tiny models.
            sequences: Pairs of a prompt's ids and a completion's ids, with a temperature.
        """
        question = {"model": str(self._models / model), "sequences": list(sequences)}
        print(json.dumps(question), file=self._process.stdin, flush=True)
        answers = json.loads(self._process.stdout.readline())
        assert len(answers) == len(question["sequences"])
        return answers

    def close(self):
        self._process.communicate()
        assert self._process.returncode == 0


@contextlib.asynccontextmanager
async def serve(model, folder, *, dtype="float32", max_model_len=8192, **settings):
    """Runs a vLLM server on the CPU. In float32, log-probabilities are close to transformers'."""
    launch = VllmLaunch(
        model=model,
        dtype=dtype,
        max_model_len=max_model_len,
        kv_cache_gib=1,
        enforce_eager=True,
        dev_mode=True,
        # On a CPU, vLLM 0.32 dies of a request with a seed whose prompt it reads in parts.
        extra_args=("--no-enable-chunked-prefill", "--max-num-batched-tokens=8192"),
        **settings,
    )
    server = ModelServer(
        launch,
        log_file=folder / f"{model.name}.log",
        restarts=RestartPolicy(first_pause=0.1),
        start_timeout=900,  # On a machine with much else to do.
    )
    start = time.monotonic()
    async with server:
        print(f"\nvLLM serves {server.model} after {time.monotonic() - start:.0f} s")
        yield server


def client_of(server, **options):
    return OpenAICompatibleClient(server.model, server.base_url, **options)


def is_text_of(told, decoded):
    """Whether vLLM told what tokens decode to.

    It holds back a token that ends in half a character, such as "`" with the first byte of another,
    and what follows.
    """
    told = told.rstrip("\N{REPLACEMENT CHARACTER}")
    left = decoded.removeprefix(told)
    return decoded.startswith(told) and (not left or "\N{REPLACEMENT CHARACTER}" in left)


def measure_mismatch(model, precision, backend, *files):
    """Returns what `mismatch.py` says of each file of rows."""
    result = subprocess.run(
        [TRAINER, HERE / "mismatch.py", model, precision, backend, *files],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return list(map(json.loads, result.stdout.splitlines()))
