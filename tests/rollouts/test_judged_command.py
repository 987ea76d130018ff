"""`webtraj rollout` with a judge, from end to end: real browser, sites, model server, deaths."""

import asyncio
import http.server
import json
import signal
import subprocess
import sys
import threading

import psutil
import pytest

from webtraj import Outcome, open_dataset
from webtraj.datasets.verification import verify
from webtraj.rollouts.configuration.builder import resume_run
from webtraj.rollouts.samplers import Blocklist
from webtraj.testing.model_server import FakeModelServer

pytestmark = pytest.mark.slow

WAIT = 90.0
"""Seconds that a browser and an episode may take on a busy machine."""


def command(*arguments):
    return [sys.executable, "-m", "webtraj", "rollout", *map(str, arguments)]


def run(*arguments, cwd, code=0):
    done = subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


class Page(http.server.BaseHTTPRequestHandler):
    """A shop, and behind /wall one that lets nobody in."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        shut = b"<title>wall</title><h1>Prove that you are human</h1>"
        shop = b"<title>shop</title><h1>Tea: 3.50</h1><button>Buy</button>"
        self.wfile.write(shut if self.path.startswith("/wall") else shop)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def site():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def judge(request):
    """The rule of a judge that goes by what it is shown."""
    if "Did the site keep the agent from its task" in request.text:
        verdict = "blocked" if "Prove that you are human" in request.text else "open"
    else:
        verdict = "failure" if "bread" in request.text else "success"
    return json.dumps({"reasoning": "It was seen.", "verdict": verdict})


@pytest.mark.browser
@pytest.mark.gate
def test_tasks_of_the_web_get_their_outcomes_from_a_judge(tmp_path, site):
    rows = [
        {"task_name": f"Find the price of {what}", "task_id": what, "website": f"{site}/{path}",
         "difficulty": 1, "evaluator_reference": f"the price of {what} is seen",
         "definite_answer": ""}
        for what, path in (("tea", "shop"), ("bread", "shop"), ("milk", "wall"))
    ]  # fmt: skip
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with FakeModelServer(judge) as server:
        done = run(
            "--config-name", "rollout_test", "save_path=runs", "env_config.server_size=3",
            "policy_config.agent=random", "env_config.test_difficulty_max_steps=[2]",
            "env_config.observe=[url, title, axtree, text]", "openai_config.model=fake-model",
            f"openai_config.base_url={server.url}",
            cwd=tmp_path,
        )  # fmt: skip
    place = tmp_path / "runs/test_trajectories/iteration_0001"
    judged = {t.info.metadata["task"]["name"]: t for t in open_dataset(place)}
    assert {name.rpartition("/")[2]: t.outcome.name for name, t in judged.items()} == {
        "tea": "SUCCESS", "bread": "FAILURE", "milk": "BLOCKED",
    }  # fmt: skip
    assert all(t.end.judgements[0].model_calls for t in judged.values())
    assert verify(place).clean
    assert Blocklist(tmp_path / "runs" / "blocklist.jsonl").sites() == {
        site.removeprefix("http://")
    }
    assert "Verdicts of model, in runs/test_trajectories/iteration_0001:" in done.stdout
    assert "1/2 (50%)" in done.stdout


@pytest.mark.browser
@pytest.mark.gate
def test_judging_that_was_killed_is_gone_on_with_by_resume(tmp_path):
    held, reached = threading.Event(), threading.Event()
    asked = []

    def rule(request):
        # From the third episode on, nothing is answered until the process has been killed.
        asked.append(request)
        if len(asked) > 4:
            reached.set()
            held.wait(WAIT)
        return judge(request)

    with FakeModelServer(rule) as server:
        begun = (
            "--preset", "miniwob/click-test", "--episodes", 6, "--parallel", 2, "--out", "quick",
            "--judge-model", "fake-model", "--judge-base-url", server.url, "--judge-when", "always",
            "--judge-set", "max_concurrency=1", "--set", 'observe=["axtree", "text", "goal"]',
        )  # fmt: skip
        rollout = psutil.Popen(
            command(*begun), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert reached.wait(WAIT), rollout.communicate(timeout=5)
            rollout.send_signal(signal.SIGKILL)
            rollout.communicate(timeout=WAIT)
        finally:
            held.set()
            if rollout.poll() is None:
                rollout.kill()
        before = {s.episode_id: s.sha256 for s in open_dataset(tmp_path / "quick").summaries}
        assert len(before) == 6
        done = run("--out", "quick", "--resume", cwd=tmp_path)
        assert "Nothing left to run" in done.stdout
        calls = len(asked)
        # With nothing left to judge, no model is asked.
        again = asyncio.run(resume_run({}, out=str(tmp_path / "quick")).only_judge())
        assert again.complete
        assert len(asked) == calls
    judged = open_dataset(tmp_path / "quick")
    assert {t.info.episode_id for t in judged} == set(before)
    assert all(len(t.end.judgements) == 1 for t in judged)
    assert {t.outcome for t in judged} == {Outcome.SUCCESS}
    assert verify(tmp_path / "quick").clean
    assert before == {s.episode_id: s.sha256 for s in open_dataset(tmp_path / "quick").summaries}


@pytest.mark.gate
def test_a_judge_that_fails_on_all_episodes_is_the_commands_failure(tmp_path):
    with FakeModelServer(lambda request: "I would rather not say.") as server:
        arguments = (
            "--preset", "miniwob/click-test", "--agent", "oracle", "--out", "runs",
            "--judge-model", "fake-model", "--judge-base-url", server.url, "--judge-when", "always",
        )  # fmt: skip
        done = run(*arguments, cwd=tmp_path, code=1)
    assert "judge_error 1." in done.stdout
