"""The documents' own command lines, and what of each reaches the runner.

The cases are the command lines and fields of WebGym's `rollout.py`, of Orby's trajectory collector
and of this project's documents. `golden/rollouts/commands.json` has what they play; to write it
anew, set WEBTRAJ_WRITE_GOLDEN=1. The folder `begun` beside it holds runs begun by webtraj 0.2,
which must stay resumable.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from webtraj import registry
from webtraj.cli.app import main
from webtraj.http import httpx
from webtraj.rollouts import making
from webtraj.rollouts.runner import Runner

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


@pytest.fixture
def world(tmp_path, ladder, monkeypatch):
    """A folder with task files and runs that were begun, and presets that open no browser."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-" + "x" * 40)
    monkeypatch.setenv("MY_KEY", "sk-of-the-test")
    monkeypatch.setattr(making.Browsers, "find", lambda self: None)
    monkeypatch.setattr(
        making.Browsers,
        "open",
        lambda self, parallel, executable=None: contextlib.nullcontext(self),
    )

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
        "blocklist": runner.blocklist is not None,
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


@pytest.mark.parametrize("name", CASES)
def test_command_line_plays_what_it_always_did(name, reached):
    path = GOLDEN / "commands.json"
    golden = json.loads(path.read_text()) if path.exists() else {}
    now = reached(*CASES[name])
    if os.environ.get("WEBTRAJ_WRITE_GOLDEN") == "1":
        path.write_text(json.dumps({**golden, name: now}, indent=1, sort_keys=True) + "\n")
        return
    assert now == golden[name]


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
