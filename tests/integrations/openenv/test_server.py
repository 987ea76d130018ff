"""The OpenEnv server, asked by OpenEnv's own client and its own validation.

Runs in an environment of its own: `make test-openenv`.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter

import psutil
import pytest

pytest.importorskip("openenv")

from openenv.core.generic_client import GenericEnvClient

import webtraj
from webtraj.trajectory import EndReason, Outcome


@contextlib.contextmanager
def served(out, *arguments):
    """Runs the command, and yields its URL and process."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "webtraj",
            "openenv",
            "serve",
            *arguments,
            "--port",
            "0",
            "--out",
            out,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+[0-9]", line)[0], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    out = tmp_path_factory.mktemp("served") / "out"
    with served(out, "miniwob/click-test", "miniwob/enter-text", "--sessions", "4") as (url, _):
        yield url


def button(observation):
    ref = re.search(r"\[(\w+)\] button", observation["page"])[1]
    return f"click('{ref}')"


async def test_an_episode_over_the_wire(server):
    async with GenericEnvClient(base_url=server) as client:
        first = await client.reset(seed=2, episode_id="mine")
        assert (first.reward, first.done) == (None, False)
        assert first.observation["task"] == "click-test"
        assert "click(" in first.observation["instructions"]
        missed = await client.step({"text": "no idea"})
        assert missed.observation["notices"]
        assert (missed.reward, missed.done) == (0.0, False)
        last = await client.step({"text": button(first.observation)})
        assert (last.reward, last.done, last.observation["outcome"]) == (1.0, True, "success")
        state = await client.state()
        assert (state["episode_id"], state["step_count"]) == ("mine", 2)
        assert (state["total_reward"], state["outcome"]) == (1.0, "success")
        with pytest.raises(RuntimeError, match="Reset first"):
            await client.step({"text": "wait()"})
        again = await client.reset(seed=3, task="click-test")
        assert again.observation["seed"] == 3


async def test_the_same_seed_is_the_same_page_for_all_of_a_group(server):
    async def first_page(attempt):
        async with GenericEnvClient(base_url=server) as client:
            result = await client.reset(seed=5, group_id="g5", attempt=attempt)
            return result.observation["page"], result.observation["goal"]

    assert len(set(await asyncio.gather(*(first_page(n) for n in range(4))))) == 1


async def test_mistakes_are_errors_with_words(server):
    async with GenericEnvClient(base_url=server) as client:
        with pytest.raises(RuntimeError, match="There is no task 'x'"):
            await client.reset(task="x")
        with pytest.raises(RuntimeError, match="Reset first"):
            await client.step({"text": "wait()"})
        with pytest.raises(RuntimeError):
            await client.step({})
        assert (await client.reset(seed=0)).observation["goal"]


def test_a_page_of_another_site_is_refused(server):
    request = urllib.request.Request(f"{server}/health", headers={"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)


def test_openenvs_own_validation_passes(server):
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(server)
    failed = [one for one in report["criteria"] if not one["passed"] and one.get("required", True)]
    assert not failed, json.dumps(failed, indent=1)


async def test_clients_that_go_and_browsers_that_die(tmp_path):
    out = tmp_path / "out"
    arguments = ("miniwob/click-test", "--sessions", "2", "--session-timeout", "600")
    with served(out, *arguments) as (url, process):
        gone = GenericEnvClient(base_url=url)
        await gone.reset(seed=0)
        gone._ws.transport.abort()  # As if its machine had died.
        async with GenericEnvClient(base_url=url) as client:
            assert (await client.reset(seed=0)).observation["page"]
            for one in psutil.Process(process.pid).children(recursive=True):
                if "headless" in one.name() and not any("--type=" in p for p in one.cmdline()):
                    one.kill()
            with pytest.raises(RuntimeError, match="without a reward"):
                await client.step({"text": "click('1')"})
            state = await client.state()
            assert (state["outcome"], state["total_reward"]) == ("env_error", None)
            result = await client.reset(seed=1)
            result = await client.step({"text": button(result.observation)})
            assert result.reward == 1.0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "1 success, 1 env_error" in process.stdout.read()
    ends = Counter((one.end.reason, one.end.outcome) for one in webtraj.open_dataset(out))
    assert ends[EndReason.TERMINATED, Outcome.SUCCESS] == 1
    assert ends[EndReason.ERRORED, Outcome.ENV_ERROR] == 1
    assert sum(ends.values()) == 3
    assert not [one for one in psutil.Process(os.getpid()).children() if one.pid == process.pid]
