"""The OpenEnv server, asked by OpenEnv's own client and its own validation.

Runs in an environment of its own: `make test-openenv`.
"""

import asyncio
import base64
import contextlib
import io
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
from PIL import Image

import other_user
import webtraj
from vision import find_button
from webtraj.trajectory import EndReason, Outcome

ROLLOUTS = int(os.environ.get("WEBTRAJ_ROLLOUTS", "60"))
CLIENTS = int(os.environ.get("WEBTRAJ_CLIENTS", "8"))


def button(observation):
    """Return the action that solves click-test."""
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


async def test_a_message_that_is_too_long_is_an_error_and_the_session_stays_open(server):
    async with GenericEnvClient(base_url=server) as client:
        await client.reset(seed=2, episode_id="long")
        with pytest.raises(RuntimeError, match=r"has 17,8\d\d,\d\d\d characters; expected at most"):
            await client.step({"text": "x" * (17 * 2**20)})
        assert (await client.state())["episode_id"] == "long"


@other_user.needs_root
def test_another_user_of_the_machine_is_refused_at_every_route(server):
    with urllib.request.urlopen(f"{server}/openapi.json", timeout=60) as answer:
        paths = json.load(answer)["paths"]
    lines = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    lines += ["GET /openapi.json", "GET /docs", "WS /ws", "WS /mcp"]
    assert {"POST /reset", "POST /step", "GET /state"} < {*lines}
    own = other_user.statuses(server, *lines, user=0)
    assert not {0, 401, 403} & {*own}
    assert {*other_user.statuses(server, *lines)} == {401, 403}


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


async def test_a_refused_reset_leaves_the_episode_as_it_is(server):
    async with GenericEnvClient(base_url=server) as client:
        first = await client.reset(seed=2, episode_id="mine", task="click-test")
        before = await client.state()
        with pytest.raises(RuntimeError, match=r"reset takes seed, .*; got 'taks'"):
            await client.reset(seed=3, taks="enter-text")
        with pytest.raises(RuntimeError, match="There is no task 'x'"):
            await client.reset(task="x")
        assert await client.state() == before
        assert (await client.step({"text": button(first.observation)})).reward == 1.0


def test_a_page_of_another_site_is_refused(server):
    request = urllib.request.Request(f"{server}/health", headers={"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)


def test_openenvs_own_validation_passes(server):
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(server)
    failed = [one for one in report["criteria"] if not one["passed"] and one.get("required", True)]
    assert not failed, json.dumps(failed, indent=1)


async def test_clients_that_go_and_browsers_that_die(served, tmp_path, kill_browsers):
    out = tmp_path / "out"
    arguments = ("miniwob/click-test", "--sessions", "2", "--session-timeout", "600")
    with served(out, *arguments) as (url, process):
        gone = GenericEnvClient(base_url=url)
        await gone.reset(seed=0)
        gone._ws.transport.abort()  # As if its machine had died.
        async with GenericEnvClient(base_url=url) as client:
            assert (await client.reset(seed=0)).observation["page"]
            kill_browsers(psutil.Process(process.pid))
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


async def test_clients_see_pictures_at_the_same_time(served, tmp_path):
    """A picture is the JPEG that is recorded, as base64; never a list of numbers."""
    arguments = ("--dialect", "anthropic", "--mode", "coordinates", "--sessions", str(CLIENTS))

    async def play(url, seed):
        async with GenericEnvClient(base_url=url) as client:
            seen = (await client.reset(seed=seed)).observation
            image = base64.b64decode(seen["image"], validate=True)
            x, y = find_button(Image.open(io.BytesIO(image)))
            result = await client.step({"action": "left_click", "coordinate": [x, y]})
            return result.reward, seen["episode_id"], image

    with served(tmp_path / "out", "miniwob/click-test", *arguments) as (url, _):
        played = await asyncio.gather(*(play(url, seed) for seed in range(CLIENTS)))
    assert [reward for reward, _, _ in played] == [1.0] * CLIENTS
    recorded = {one.info.episode_id: one for one in webtraj.open_dataset(tmp_path / "out")}
    for _, episode_id, image in played:
        assert recorded[episode_id].steps[0].observation["screenshot"] == image


async def test_a_silent_client_gives_its_page_to_another(served, tmp_path):
    arguments = ("miniwob/click-test", "--sessions", "1", "--session-timeout", "1")
    with served(tmp_path / "out", *arguments) as (url, _):
        async with GenericEnvClient(base_url=url) as silent:
            await silent.reset(seed=0)
            async with asyncio.timeout(60):
                while True:
                    async with GenericEnvClient(base_url=url) as client:
                        with contextlib.suppress(RuntimeError):
                            result = await client.reset(seed=1)
                            break
                    await asyncio.sleep(0.2)
            assert result.observation["page"]
            with pytest.raises(RuntimeError, match="closed"):
                await silent.step({"text": "wait()"})


async def test_no_killed_browser_gives_a_reward(served, tmp_path, kill_browsers):
    """Rollouts while browsers are killed: whatever failed has no reward."""
    out, wanted, sessions = tmp_path / "out", ROLLOUTS, CLIENTS
    scored, failed, lost = [], [], 0

    async def play(url):
        nonlocal lost
        async with GenericEnvClient(base_url=url) as client:
            while len(scored) < wanted:
                try:
                    result = await client.reset(seed=len(scored), episode_id=str(len(scored)))
                    while not result.done:
                        result = await client.step({"text": button(result.observation)})
                except RuntimeError:
                    state = await client.state()
                    assert "without a reward" in state["error"]
                    assert (state["total_reward"], state["outcome"]) == (None, "env_error"), state
                    if state["recorded_as"]:
                        failed.append(state["recorded_as"])
                    lost += 1
                    continue
                scored.append(result.observation["episode_id"])
                assert (result.reward, (await client.state())["total_reward"]) == (1.0, 1.0)

    async def kill(process):
        for number in range(1, 6):
            while len(scored) < wanted * number // 6:
                await asyncio.sleep(0.05)
            kill_browsers(process)

    with served(out, "miniwob/click-test", "--sessions", str(sessions)) as (url, process):
        await asyncio.gather(
            kill(psutil.Process(process.pid)), *(play(url) for _ in range(sessions))
        )
    assert len(scored) >= wanted
    assert lost
    print(f"{len(scored)} rollouts of {sessions} clients, {lost} lost to killed browsers")
    episodes = {one.info.episode_id: one for one in webtraj.open_dataset(out)}
    for one in scored:
        assert episodes[one].end.outcome is Outcome.SUCCESS
    for one in failed:
        assert episodes[one].end.reason is EndReason.ERRORED
        assert episodes[one].end.outcome is Outcome.ENV_ERROR
    command = [sys.executable, "-m", "webtraj", "verify", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def test_openenv_takes_the_manifest(tmp_path):
    from openenv.validation import Level, run_validation

    command = [sys.executable, "-m", "webtraj", "openenv", "manifest", "miniwob/enter-text"]
    subprocess.run([*command, "--episodes", "4", "--out", tmp_path], check=True)
    report = run_validation(tmp_path, max_level=Level.STATIC)
    checked = {one.check_id: one for one in report.results}["static.manifest"]
    assert checked.status.value == "pass", checked.evidence
