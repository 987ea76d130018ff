"""`webtraj rollout --config-name` from end to end: real browser, model server, signals, deaths."""

import collections
import http.server
import json
import shlex
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from rows import each
from webtraj import EndReason, Outcome, open_dataset
from webtraj.cli.app import main
from webtraj.datasets.verification import verify
from webtraj.testing.model_server import FakeModelServer

pytestmark = pytest.mark.slow

WAIT = 60.0
"""Seconds that a starting browser may take on a busy machine."""

MINIWOB = """
defaults: [rollout]
save_path: runs
policy_config: {agent: oracle}
env_config:
  server_size: 2
  task_order: given
  max_retries: 0
  completion_threshold: 1.0
  train_tasks: [miniwob/click-test, miniwob/login-user]
"""


def command(*arguments):
    return [sys.executable, "-m", "webtraj", "rollout", *map(str, arguments)]


def run(*arguments, cwd, code=0):
    done = subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "pages.yaml").write_text(MINIWOB)
    return tmp_path


PAGES = ("--config-name", "pages", "--config-dir", "configs")


@pytest.mark.browser
def test_configuration_is_played_into_iterations(folder):
    for number in (1, 2):
        done = run(*PAGES, "env_config.attempts_per_task=2", "seed=4", cwd=folder)
        out = folder / "runs" / "train_trajectories" / f"iteration_{number:04d}"
        outcomes = collections.Counter((t.info.task, t.outcome) for t in open_dataset(out))
        assert outcomes == {
            ("miniwob/click-test", Outcome.SUCCESS): 2,
            ("miniwob/login-user", Outcome.SUCCESS): 2,
        }
        assert f"4 of 4 episodes are in runs/train_trajectories/{out.name}." in done.stdout
        assert "100% of the remaining episodes are recorded" in done.stderr
        assert verify(out).clean


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>shop</title><button>Buy</button>")

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


@pytest.mark.browser
def test_webgym_rows_are_limited_by_their_difficulty_above_the_environments_own_limit(folder, site):
    rows = [
        {"task_name": f"buy {n}", "task_id": str(n), "website": site, "difficulty": n,
         "evaluator_reference": "bought", "definite_answer": ""}
        for n in (1, 4, 9)
    ]  # fmt: skip
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(
        "--config-name", "rollout_test", "save_path=runs", "env_config.server_size=3",
        "policy_config.agent=random",
        "env_config.test_difficulty_max_steps={easy: 2, medium: 4, hard: 33}",
        cwd=folder,
    )  # fmt: skip
    dataset = open_dataset(folder / "runs/test_trajectories/iteration_0001")
    steps = {trajectory.info.task: trajectory.num_steps for trajectory in dataset}
    assert {name.rpartition("/")[2]: count for name, count in steps.items()} == {
        "1": 2, "4": 4, "9": 33,
    }  # fmt: skip
    assert all(trajectory.end_reason is EndReason.TRUNCATED for trajectory in dataset)


@pytest.mark.browser
def test_crawl_by_the_documents_keys_leaves_a_pb_file_with_screenshots_of_each(folder, site):
    rows = [{"url": f"{site}/{n}", "description": f"Look around {n}."} for n in range(2)]
    (folder / "coarse.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = ("claude-3-5-sonnet-20241022",)
    with FakeModelServer(lambda request: "Action: scroll(0, 100)", models=models) as server:
        run(
            "--config-name", "crawl", "source_parquet_path=coarse.jsonl", "s3_save_uri=raw",
            "num_raw_data=2", "data_per_batch=16", "request_per_minute=null", "max_steps=15",
            "agent_name=basic", "agent_model_provider=anthropic", "temperature=0.0",
            "max_tokens=500", "max_repetitive_actions=3", "dp_max_retries=3", "timeout=null",
            "verbose=false", f"agent_model_url={server.url}",
            cwd=folder,
        )  # fmt: skip
        assert {request.path for request in server.requests} == {"/v1/messages"}
    assert len(list((folder / "raw").rglob("*.pb"))) == 2
    for episode in open_dataset(folder / "raw"):
        assert episode.num_steps == 3
        for step in episode.steps:
            assert step.observation["screenshot"][:3] in (b"\xff\xd8\xff", b"\x89PN")
            assert step.observation["axtree"]


EPISODES = 14
"""More than the model answers for before it is told to."""
MANY = ("env_config.train_tasks=miniwob/click-test", f"env_config.attempts_per_task={EPISODES}")
QUICK = (
    "--preset", "miniwob/click-test", "--episodes", EPISODES, "--parallel", 2, "--out", "quick",
)  # fmt: skip


@pytest.fixture
def model():
    """A model that solves click-test, and holds its replies from the tenth on until told."""

    def reply(request):
        if len(server.requests) >= 9 and not server.answers_all:
            server.pause()
        return "Thought: Press it.\nAction: click('1')"

    with FakeModelServer(reply) as server:
        server.answers_all = False
        yield server


@pytest.mark.browser
@pytest.mark.gate
@pytest.mark.parametrize(
    ("kind", "signum"), [("configured", signal.SIGKILL), ("quick", signal.SIGINT)]
)
def test_what_is_left_is_played_by_the_command_that_is_told(kind, signum, folder, model):
    configured = (
        *PAGES, *MANY, "policy_config.agent=model", "policy_config.base_model=fake-model",
        "context_config.interaction_mode=text", "model_config.prompt_version=plain",
        f"env_config.vllm_server_url={model.url.removesuffix('/v1')}",
    )  # fmt: skip
    arguments, out = (
        (configured, folder / "runs/train_trajectories/iteration_0001")
        if kind == "configured"
        else ((*QUICK, "--model", "fake-model", "--base-url", model.url), folder / "quick")
    )
    rollout = psutil.Popen(
        command(*arguments), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for_episodes(out, rollout)
        rollout.send_signal(signum)
        stdout, stderr = rollout.communicate(timeout=WAIT)
    finally:
        if rollout.poll() is None:
            rollout.kill()
    model.answers_all = True
    model.resume()
    assert "Traceback" not in stderr
    done = {t.info.episode_id: t.outcome for t in open_dataset(out)}
    assert 1 <= collections.Counter(done.values())[Outcome.SUCCESS] < EPISODES
    if signum == signal.SIGINT:
        assert rollout.returncode == 128 + signum
        (told,) = [line for line in stdout.splitlines() if line.startswith("To resume")]
        words = shlex.split(told.partition(": ")[2])
        assert words[:2] == ["webtraj", "rollout"]
        resume = words[2:]
    elif kind == "configured":
        resume = (*configured, "--resume")
    else:
        resume = ("--out", "quick", "--resume")
    run(*resume, cwd=folder)
    summaries = open_dataset(out).summaries
    rows = collections.Counter(
        summary.episode_id.rsplit("-", 2)[1]
        for summary in summaries
        if summary.outcome is Outcome.SUCCESS
    )
    assert rows == {f"{row:06d}": 1 for row in range(EPISODES)}
    assert {summary.episode_id for summary in summaries} >= set(done)
    assert verify(out).clean
    if (kind, signum) == ("quick", signal.SIGINT):  # A run that is over is left as it is.
        assert "Nothing left to run" in run(*resume, cwd=folder).stdout
        assert len(open_dataset(out)) == len(summaries)


@each(
    ("arguments", "told"),
    [
        ([], "Nothing to run: give --preset"),
        (["--config-name", "rolout"], "Did you mean 'rollout'?"),
        (["--config-name", "rollout_train"], "give save_path=..."),
        (["--config-name", "rollout_train", "save_path=x", "server_size=2"],
         "did you mean env_config.server_size?"),
        (["--config-name", "rollout_train", "save_path=x", "openai_config.votes=2",
          "policy_config.agent=oracle"],
         "openai_config.votes applies only to the judge 'model'"),
        (["--config-name", "rollout_train", "save_path=x", "policy_config.base_model=m"],
         "There is no task file"),
        (["--config-name", "rollout_train", "save_path=x"], "policy_config.base_model"),
        (["--config-name", "rollout_train", "--episodes", "3"], "--episodes cannot be combined"),
        (["--preset", "miniwob/click-test", "save_path=x"], "save_path is unknown"),
        (["--preset", "miniwob/click-test", "--parallel", "0"], "parallel"),
        (["--preset", "miniwob/click-test", "--parallel", "all"], "--parallel got 'all'"),
        (["--preset", "ladder/clmb"], "Did you mean 'ladder/climb'"),
        (["--preset", "miniwob/click-test", "some-run"], "Unexpected argument 'some-run'"),
        (["--resume"], "--resume needs the run's dataset"),
        (["--resume", "a", "b", "--out", "x"], "Unexpected argument 'b'"),
        (["--resume", "--out", "nowhere"], "No run to resume"),
    ],
)  # fmt: skip
def test_wrong_command_is_told_in_one_line_and_leaves_nothing(
    arguments, told, folder, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["webtraj", "rollout", *arguments])
    with pytest.raises(SystemExit) as ended:  # In this process: twenty more would take long.
        main()
    assert ended.value.code == 2
    _check_told(told, *capsys.readouterr(), folder)


def _check_told(told, out, err, folder):
    assert told in err
    assert err.startswith("webtraj: ")
    assert err.count("\n") == 1
    assert out == ""
    assert sorted(path.name for path in folder.iterdir()) == ["configs"]


def wait_for_episodes(out, rollout):
    deadline = time.monotonic() + WAIT
    while not (out / "episodes").is_dir() or len(list((out / "episodes").iterdir())) < 4:
        assert rollout.poll() is None, rollout.communicate()
        assert time.monotonic() < deadline, "no episodes were recorded"
        time.sleep(0.02)
