"""`webtraj serve`, as a process of its own."""

import os
import re
import signal
import subprocess
import sys

import httpx
import pytest


def webtraj_serve(stand_in, *arguments, **variables):
    python = str(stand_in.python)
    return subprocess.Popen(
        [sys.executable, "-m", "webtraj", "serve", "--python", python, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **stand_in.variables, **variables},
    )


def url_of(process):
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line.split(" at ")[1].split("/v1 ")[0]


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_it_serves_until_a_signal(stand_in, signum):
    of_vllm = ("--max-model-len", "64", "-tp=1", "--enforce-eager")
    process = webtraj_serve(stand_in, stand_in.model, *of_vllm, "--log", stand_in.log)
    line = process.stdout.readline()
    found = re.fullmatch(r"Serving tiny at (http://127\.0\.0\.1:\d+)/v1 \(log: (.*)\)\n", line)
    assert found, line + process.stderr.read()
    assert httpx.get(f"{found[1]}/health", trust_env=False).is_success
    assert found[2] == str(stand_in.log)
    seen = httpx.get(f"{found[1]}/seen", trust_env=False).json()
    assert tuple(seen["arguments"][-4:]) == of_vllm
    process.send_signal(signum)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 128 + signum
    assert not stand_in.survivors


@pytest.mark.slow
def test_start_that_fails_is_exit_code_1_with_the_log(stand_in):
    process = webtraj_serve(stand_in, stand_in.model, "--log", stand_in.log, STAND_IN_FAIL="1")
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert stdout == ""
    assert stderr.startswith("webtraj: The model server exited with status 1")
    assert stderr.endswith("stand-in: there is no such model\n")


@pytest.mark.slow
def test_server_that_dies_too_often_is_exit_code_1(stand_in):
    process = webtraj_serve(stand_in, stand_in.model, "--restarts=0", "--log", stand_in.log)
    url_of(process)
    os.kill(stand_in.processes[0][0], signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "webtraj: The model server exited with status 137" in stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--max-model-len", "64", "some/model"], "'--max-model-len' stands where the model"),
        (["./nowhere"], "No model folder at './nowhere'"),
        (["some/model", "--dev-mode", "--host=0.0.0.0"], "dev_mode would allow any machine"),
        (
            ["some/model", "--runtime-lora", "--host=0.0.0.0"],
            "runtime_lora would allow any machine",
        ),
        (
            [
                "some/model",
                "--runtime-lora",
                "--runtime-lora-exposed",
                "--host=0.0.0.0",
                "--uds=x",
            ],
            "extra_args has '--uds=x'",  # So the flag before it was heard.
        ),
    ],
    ids=["option", "model", "dev-mode", "runtime-lora", "another address"],
)
def test_wrong_input_is_exit_code_2(stand_in, arguments, match):
    process = webtraj_serve(stand_in, *arguments)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 2, stderr
    assert stdout == ""
    assert match in stderr
    assert stderr.count("\n") == 1
    assert not stand_in.processes
