"""The documents' own command lines, and what of each reaches the runner.

The cases are the command lines and fields of WebGym's `rollout.py`, of Orby's trajectory collector
and its `ray_job_submit.sh`, and of this project's documents. `golden/rollouts/commands.json` has
what they play; to write it anew, set WEBTRAJ_WRITE_GOLDEN=1. The folder `begun` beside it holds
runs that were begun.
"""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from webtraj import registry
from webtraj.cli.app import main
from webtraj.exploring import proposing
from webtraj.http import httpx
from webtraj.rollouts import making
from webtraj.rollouts.distributed import collecting, job
from webtraj.rollouts.runner import Runner
from webtraj.rollouts.sampling import Blocklist

GOLDEN = Path(__file__).parents[1] / "golden" / "rollouts"
TASK = "policy_config.base_model=Qwen/Qwen3-VL-8B-Instruct"
SERVED = "env_config.vllm_server_url=http://127.0.0.1:8000"
WEBGYM = ("data_path=.", "save_path=runs", TASK, SERVED)
ORBY = ("source_parquet_path=coarse.jsonl", "s3_save_uri=raw")
CLIMB = ("--preset", "ladder/climb")
SERVER = ("--base-url", "http://127.0.0.1:8000/v1")

CASES = {
    "webgym train": ("--config-name", "rollout_train", *WEBGYM),
    "webgym test": ("--config-name", "rollout_test", *WEBGYM),
    "webgym train, its documented keys": (
        "--config-name", "rollout_train", *WEBGYM, "env_config.split=train",
        "env_config.server_size=64", "env_config.train_tasks_rollout_size=2",
        "env_config.train_tasks_sampler=uniform", "env_config.save_traj_progress=true",
        "env_config.save_every_percent=25", "policy_config.max_new_tokens=3072",
        "policy_config.temperature=1", "policy_config.top_p=0.99",
        "model_config.model_type=qwen3-think", "context_config.interaction_mode=set_of_marks",
        *(f"env_config.http_pools.{name}=128" for name in (
            "metadata", "navigate", "screenshot", "ac_tree", "page_metadata", "execute")),
        "env_config.http_pools.allocate=4", "env_config.http_pools.release=4",
    ),
    "webgym rank": (
        "--config-name", "rollout_train", *WEBGYM, "iteration=1", "env_config.multinode_rank=1",
        "env_config.multinode_total_workers=2", "env_config.rank_load_weight=1",
        "env_config.total_load_weight=2",
    ),
    "webgym, a small agent": (
        "--config-name", "rollout_train", *WEBGYM, "policy_config.agent=oracle",
        "env_config.train_tasks=[ladder/climb, ladder/slip]", "env_config.max_steps=7",
        "env_config.max_retries=2", "seed=3",
    ),
    "orby's defaults": ("--config-name", "crawl", *ORBY),
    "orby's fields": (
        "--config-name", "crawl", *ORBY, "num_raw_data=5", "data_per_batch=16",
        "request_per_minute=30", "max_steps=15", "agent_name=basic",
        "agent_model_provider=anthropic", "agent_model_name=claude-3-5-sonnet-20241022",
        "temperature=0.0", "max_tokens=500", "max_repetitive_actions=3", "dp_max_retries=3",
        "timeout=60", "verbose=false",
    ),
    "a crawl that explores": (
        "--config-name", "crawl", *ORBY, "agent_name=explorer", "agent_model_provider=openai",
        "agent_model_name=m", "agent_model_url=http://127.0.0.1:8000/v1", "num_raw_data=3",
    ),
    "a crawl without a model": (
        "--config-name", "crawl", *ORBY, "agent_name=curious", "proposer=hindsight",
        "max_steps=3", "num_raw_data=null",
    ),
    "preset": (*CLIMB, "--out", "out"),
    "presets": (
        *CLIMB, "--preset", "ladder/all:0:3", "--agent", "random", "--episodes", "8", "--parallel",
        "2", "--seed", "5", "--max-steps", "9", "--out", "out", "--format", "pb.zst",
        "--set", "height=2",
    ),
    "groups": (*CLIMB, "--agent", "random", "--episodes", "4", "--group-size", "2", "--out", "out"),
    "preset with a model": (
        *CLIMB, "--model", "m", *SERVER, "--api-key-variable", "MY_KEY", "--agent-set",
        "temperature=0.5", "--agent-set", "mode=marks", "--out", "out",
    ),
    "preset on several servers": (
        *CLIMB, "--agent", "model", "--agent-set", "model=m", *SERVER, "--base-url",
        "http://127.0.0.1:8001/v1", "--out", "out",
    ),
    "preset in a browser": (
        "--preset", "page", "--agent", "random", "--har", "--out", "out", "--parallel", "3",
        "--judge", "environment", "--judge-when", "always", "--tensorboard", "events",
    ),
    "resumed: preset": ("--out", "begun/preset", "--resume"),
    "resumed: preset, with more at a time": (
        "--out", "begun/preset", "--resume", "--parallel", "4", "--set", "height=5",
    ),
    "resumed: preset with a model": (
        "--out", "begun/model", "--resume", "--model", "other", "--agent-set", "temperature=0.1",
    ),
    "resumed: crawl": (
        "--config-name", "crawl", "source_parquet_path=coarse.jsonl", "s3_save_uri=begun/crawl",
        "agent_name=curious", "--resume",
    ),
}  # fmt: skip
TO = ("--out", "out")
EXPLORED = {
    "explore": ("coarse.jsonl", *TO),
    "explore, every option": (
        "coarse.jsonl", *TO, "--agent", "curious", "--proposer", "hindsight", "--proposals", "5",
        "--attempts", "2", "--parallel", "3", "--max-steps", "5", "--seed", "7", "--format", "pb",
        "--agent-set", "ends=0.2", "--set", "max_steps=4",
    ),
    "explore with a model": (
        "coarse.jsonl", *TO, "--model", "m", *SERVER, "--api-key-variable", "MY_KEY", "--attempts",
        "4", "--parallel", "8", "--agent-set", "temperature=0.5", "--proposer-set",
        "max_tokens=900", "--proposer-set", "max_attempts=2",
    ),
    "explore with a model on several servers": (
        "coarse.jsonl", *TO, "--model", "m", *SERVER, "--base-url", "http://127.0.0.1:8001/v1",
    ),
    "explore, a model proposes": (
        "coarse.jsonl", *TO, "--agent", "curious", "--proposer", "model", "--model", "m", *SERVER,
    ),
    "explore, a model explores": (
        "coarse.jsonl", *TO, "--agent", "model", "--proposer", "hindsight", "--model", "m", *SERVER,
    ),
    "explore at random": ("coarse.jsonl", *TO, "--agent", "random"),
    "resumed: explore": ("--out", "begun/explore", "--resume"),
    "resumed: explore, changed": (
        "--out", "begun/explore", "--resume", "--parallel", "4", "--max-steps", "9", "--proposals",
        "2", "--agent-set", "ends=0.5",
    ),
    "resumed: explore with a model": (
        "--out", "begun/explored", "--resume", "--model", "other", "--proposer-set",
        "max_tokens=800",
    ),
    "propose": ("propose", "begun/explore", "--proposer", "hindsight", "--proposals", "5"),
    "propose with a model": (
        "propose", "begun/explored", "--model", "m", *SERVER, "--parallel", "2",
    ),
    "propose for one run": ("propose", "begun/explore", "--run", "20261126T170000-000-0f1e2d3c"),
}  # fmt: skip
SUBMITTED = {
    "job": ("--source", "coarse.jsonl", "--save", "out", "--agent", "curious"),
    "job of the script": (
        "SOURCE_S3_URI=coarse.jsonl", "SAVE_S3_URI=out", "OPENAI_API_KEY=sk-of-the-script",
        "MAX_TRAJS=3", "MAX_STEPS=9", "--model", "m",
    ),
    "job of presets": (
        "--source", "ladder/climb,ladder/slip", "--save", "out", "--agent", "random",
        "--max-trajs", "5", "--max-steps", "4", "--set", "height=2", "--agent-set", "ends=0.1",
        "--format", "pb", "--parallel", "4", "--max-retries", "1", "--seed", "3", "--run-id",
        "one", "--import", "json", "--pass-variable", "MY_KEY",
    ),
    "job with a model": (
        "--source", "coarse.jsonl", "--save", "out", "--max-trajs", "2", "--model", "m", *SERVER,
        "--agent-set", "mode=marks", "--agent-set", "temperature=0.5",
    ),
    "resumed: job": (
        "--save", "begun/job", "--resume", "last", "--agent", "random", "--max-steps", "4",
    ),
    "resumed: job of a name": (
        "--source", "ladder/climb", "--save", "begun/job", "--resume", "one", "--agent", "random",
        "--max-retries", "0",
    ),
}  # fmt: skip


class NoBrowsers(contextlib.nullcontext):
    """A pool that opens no browser."""

    async def start(self):
        """Starts nothing."""


@pytest.fixture
def world(tmp_path, ladder, monkeypatch):
    """A folder with task files and runs that were begun, and presets that open no browser."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-" + "x" * 40)
    monkeypatch.setenv("MY_KEY", "sk-of-the-test")
    monkeypatch.setattr(making.Browsers, "find", lambda self: None)
    monkeypatch.setattr(making.Browsers, "open", lambda *_: NoBrowsers())

    class Page(ladder):
        def __init__(self, tasks=("climb",), *, observe=(), pool=None, task=None, max_steps=None):
            super().__init__(tasks)

    registry.register("web", Page, uses_browser=True)
    registry.register("page", Page, tasks=("climb",), uses_browser=True)
    rows = [
        {"task_name": f"find {n}", "task_id": f"t{n}", "website": f"s{n}.example",
         "difficulty": 1 + n * 4, "evaluator_reference": "it is there"}
        for n in range(3)
    ]  # fmt: skip
    for name in ("train", "test"):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    write_rows(
        tmp_path / "coarse.jsonl", [{"url": f"s{n}.example", "description": "Look."} for n in "ab"]
    )
    if (GOLDEN / "begun").exists():
        shutil.copytree(GOLDEN / "begun", tmp_path / "begun")
    return tmp_path


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def reached(world, monkeypatch):
    """Gives what of a command line reaches the runner."""
    seen = []

    async def play(self):
        seen.append(self)
        return []

    monkeypatch.setattr(Runner, "play", play)

    def reached(*arguments):
        monkeypatch.setattr(sys, "argv", ["webtraj", "rollout", *arguments])
        with pytest.raises(SystemExit):
            main()
        (runner,) = seen
        return json.loads(json.dumps(told(runner, world), sort_keys=True))

    return reached


def told(runner, world):
    collector = runner.trajectory_collector
    return {
        "agent": plain(runner.agent),
        "rows": [
            [turn.planned.task, turn.planned.attempt, turn.planned.group, turn.planned.seed,
             turn.planned.spec.max_steps]
            for turn in runner.turns
        ],
        "settings": plain(runner.settings),
        "environment options": plain(runner.environment_options),
        "browsers": plain(runner.browser_pool),
        "blocklist": any(isinstance(one, Blocklist) for one in runner.observer._observers),
        "out": os.path.relpath(runner.run.storage.url.removeprefix("file://"), world),
        "format": runner.run.read_settings().get("format"),
        "collector": type(collector).__name__,
    }  # fmt: skip


def plain(value, depth=4):
    """Returns what a value holds, as JSON; of a dataclass, what differs from the defaults."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item, depth) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and depth:
        held = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != default_of(field)
        }
    elif isinstance(value, httpx.URL):
        return str(value)
    elif depth and type(value).__module__.startswith("webtraj.") and hasattr(value, "__dict__"):
        held = vars(value)
    else:
        return type(value).__name__
    shown = {name: plain(item, depth - 1) for name, item in held.items() if not callable(item)}
    return {"": type(value).__name__, **shown}


def default_of(field):
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@pytest.fixture
def explored(world, monkeypatch):
    """Gives what of `webtraj explore` reaches the runner and the proposer."""
    seen = {}

    async def play(self):
        seen["played"] = told(self, world)
        seen["played"]["environment options"]["observe"].sort()
        assert seen["played"].pop("browsers")
        return []

    async def ask(self, episode_ids, parallel):
        place = os.path.relpath(self.dataset.url.removeprefix("file://"), world)
        seen["proposed"] = {
            "proposer": plain(self.proposer), "proposals": self.limit, "parallel": parallel,
            "place": place, "run": "" if place == "out" else self.files.run,
        }  # fmt: skip

    monkeypatch.setattr(Runner, "play", play)
    monkeypatch.setattr(proposing._Asking, "all", ask)

    def explored(*arguments):
        monkeypatch.setattr(sys, "argv", ["webtraj", "explore", *arguments])
        with pytest.raises(SystemExit):
            main()
        return json.loads(json.dumps(seen, sort_keys=True))

    return explored


@pytest.fixture
def submitted(world, monkeypatch):
    """Gives what of `webtraj rollout submit` reaches the driver and the nodes of a cluster."""
    seen = {}

    class Client:
        def submit_job(self, *, entrypoint, runtime_env):
            (module,) = runtime_env["py_modules"]
            shutil.copytree(module, world / "sent")
            return "job-1"

    class Cluster:
        def __init__(self, work, sizing, runtime_env):
            self.work = work

        async def end_nodes_of_before(self): ...

    class Driver(contextlib.nullcontext):
        lost_nodes = ()

        def __init__(self, *, work, parallel, **more):
            super().__init__(self)
            self.work, self.parallel = work, parallel

        async def gather(self): ...

        async def play(self, turns, *, session):
            work = self.work
            seen.update(
                agent=work.agent.name,
                agent_options=plain(work.agent.options),
                rows=sorted(
                    [turn.planned.task, turn.planned.attempt, turn.planned.seed,
                     turn.planned.spec.max_steps or work.settings.max_steps]
                    for turn in turns
                ),
                out=os.path.relpath(work.out, world),
                run=work.run_id if work.run_id == "one" else "",
                parallel=self.parallel,
                settings=plain(dataclasses.replace(work.settings, parallel=1)),  # The driver's is.
                environment_options=plain(work.environment_options),
                format=work.format,
                seed=work.agent.seed,
                storage_options=work.storage_options or {},
                variables=sorted(work.variables),
                imports=list(work.setup.args[0]),
                browsers=plain(work.browsers),
            )  # fmt: skip
            return []

    monkeypatch.setattr(job, "_client", lambda address: Client())
    monkeypatch.setattr(job, "_folder", lambda: world / "sent")
    monkeypatch.setattr(collecting, "RayCluster", Cluster)
    monkeypatch.setattr(collecting, "Driver", Driver)
    monkeypatch.setattr(collecting, "connected", lambda *_: contextlib.nullcontext())
    for name in ("OPENAI_API_KEY", "SOURCE_S3_URI", "SAVE_S3_URI", "MAX_TRAJS", "MAX_STEPS"):
        monkeypatch.delenv(name, raising=False)

    def submitted(*arguments):
        variables = [text for text in arguments if re.match("[A-Z_0-9]+=", text)]
        for text in variables:
            monkeypatch.setenv(*text.split("=", 1))
        asked = [text for text in arguments if text not in variables]
        monkeypatch.setattr(sys, "argv", ["webtraj", "rollout", "submit", "--no-wait", *asked])
        with pytest.raises(SystemExit, match="0"):
            main()
        with contextlib.suppress(SystemExit):
            job.main()
        return json.loads(json.dumps(seen, sort_keys=True))

    return submitted


def compare_with_golden(name, now):
    path = GOLDEN / "commands.json"
    golden = json.loads(path.read_text()) if path.exists() else {}
    if os.environ.get("WEBTRAJ_WRITE_GOLDEN") == "1":
        path.write_text(json.dumps({**golden, name: now}, indent=1, sort_keys=True) + "\n")
        return
    assert now == golden[name]


@pytest.mark.parametrize("name", CASES)
def test_command_line_plays_what_it_always_did(name, reached):
    compare_with_golden(name, reached(*CASES[name]))


@pytest.mark.parametrize("name", EXPLORED)
def test_command_line_explores_as_it_always_did(name, explored):
    compare_with_golden(name, explored(*EXPLORED[name]))


@pytest.mark.parametrize("name", SUBMITTED)
def test_job_plays_what_it_always_did(name, submitted):
    compare_with_golden(name, submitted(*SUBMITTED[name]))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ((), []),
        (("--parallel", "2"), []),
        (("--model", "other"), ["model=m and now continues with other."]),
    ],
)
def test_resuming_a_record_of_0_2_warns_of_what_changed_alone(changed, told, reached, capsys):
    reached("--out", "begun/model", "--resume", *changed)
    lines = [line.partition(" was started with ") for line in capsys.readouterr().err.splitlines()]
    assert [what for _, found, what in lines if found] == told
