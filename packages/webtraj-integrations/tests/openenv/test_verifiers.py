"""verifiers: by the OpenEnv server, with its own client, and by an environment package."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("openenv")

import webtraj
from processes import browsers
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import Outcome

PYTHON = Path(__file__).parents[4] / ".venv-verifiers/bin/python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="run by make test-openenv")


def test_verifiers_plays(server, recorded):
    program = Path(__file__).with_name("verifiers_client.py")
    done = subprocess.run(
        [PYTHON, "-W", "ignore", program, server], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["rewards"] == [1.0, 1.0, 1.0]
    played = [one for one in webtraj.open_dataset(recorded) if one.info.group_id == "verifiers"]
    assert [one.end.outcome for one in played] == [Outcome.SUCCESS] * 3


@pytest.fixture
def evaluate(tmp_path):
    """Runs verifiers' own command on the package `examples/verifiers_web`, with a model."""

    def evaluate(rule, *arguments):
        process = None
        with FakeModelServer(lambda request: rule(request, process), models=["m"]) as server:
            command = [PYTHON.with_name("vf-eval"), "webtraj-web", "-m", "m", "--no-push"]
            process = subprocess.Popen(
                [*command, "--client.base-url", server.url, "-o", tmp_path / "runs",
                 "--env.out", tmp_path / "data", *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
                env={**os.environ, "OPENAI_API_KEY": "none"},
            )  # fmt: skip
            told, _ = process.communicate(timeout=240)
        assert process.returncode == 0, told
        (file,) = (tmp_path / "runs").glob("*/traces.jsonl")
        episodes = [json.loads(line) for line in file.read_text().splitlines()]
        return episodes, list(webtraj.open_dataset(tmp_path / "data"))

    return evaluate


def click_the_button(request, process):
    ref = re.search(r"\[(\w+)\] button", str(request.messages[-1]))[1]
    return f"Thought: a button.\nAction: click('{ref}')"


def test_its_own_command_plays_the_package(evaluate):
    episodes, recorded = evaluate(click_the_button, "-r", "2", "--env.taskset.pages", "3")
    assert [one["traces"][0]["rewards"]["task_reward"]["score"] for one in episodes] == [1.0] * 6
    [run] = {one.info.group_id.partition("/")[0] for one in recorded}
    assert sorted((one.info.group_id, one.info.attempt) for one in recorded) == [
        (f"{run}/click-test#{page}", attempt) for page in range(3) for attempt in range(2)
    ]
    assert {one.info.policy for one in recorded} == {"m"}
    told = {one["traces"][0]["info"]["webtraj_episode"] for one in episodes}
    assert told == {one.episode_id for one in recorded}


def test_an_episode_whose_browser_died_is_an_error_and_no_reward(evaluate):
    killed = []

    def kill_once(request, process):
        if not killed:
            killed.extend(browsers(process.pid))
            for browser in killed:
                browser.kill()
        return click_the_button(request, process)

    episodes, recorded = evaluate(kill_once, "-c", "1", "--env.taskset.pages", "2")
    assert killed
    failed, played = sorted(episodes, key=lambda one: one["errors"] == [])
    assert "EpisodeFailedError" in failed["errors"][0]["message"]
    assert all(not trace["rewards"] for trace in failed["traces"])
    assert played["traces"][0]["rewards"]["task_reward"]["score"] == 1.0
    assert sorted(one.end.outcome.name for one in recorded) == ["ENV_ERROR", "SUCCESS"]


def test_a_model_server_that_fails_is_an_error_and_no_reward(evaluate):
    def fail(request, process):
        return Reply.error(500)

    episodes, recorded = evaluate(
        fail, "--env.taskset.pages", "1", "--env.player.retries.max-retries", "0"
    )
    [trace] = episodes[0]["traces"]
    assert trace["errors"]
    assert trace["rewards"] == {}
    assert [one.end.outcome.name for one in recorded] == ["UNKNOWN"]


PLAY = """
import asyncio, contextlib, types
import webtraj_web

most = 0

class Player:
    config = types.SimpleNamespace(model="m")

    @contextlib.asynccontextmanager
    async def interaction(self, task):
        rewards = []
        trace = types.SimpleNamespace(errors=[], info={}, record_reward=print)
        yield types.SimpleNamespace(trace=trace, turn=self.turn)

    async def turn(self, text):
        global most
        most = max(most, len(environment._sessions.open))
        return types.SimpleNamespace(last_reply="answer('no')", terminated=False)

async def main():
    await environment.start()
    tasks = environment.taskset.load()
    agents = types.SimpleNamespace(player=Player())
    await asyncio.gather(*(environment.run(task, agents) for task in tasks))
    await environment.stop()
    print("most", most)

taskset = webtraj_web.WebConfig(id="webtraj-web", pages=4)
environment = webtraj_web.WebEnv(webtraj_web.WebEnvConfig(taskset=taskset, sessions=2))
asyncio.run(main())
"""


def test_samples_wait_until_a_page_is_free():
    """A session that waits for a page gives up after two minutes."""
    done = subprocess.run([PYTHON, "-W", "ignore", "-c", PLAY], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["most 2"], done.stderr
