"""The keys that the source documents write, and the settings that each becomes."""

from pathlib import Path

import pytest

from rows import each
from webtraj.rollouts.configuration import build_rollout, load_configuration

TRAIN = (
    "save_path=runs", "policy_config.base_model=Qwen/Qwen3-VL-8B-Instruct",
    "env_config.vllm_server_url=http://127.0.0.1:8000",
)  # fmt: skip
POOLS = ("metadata", "navigate", "screenshot", "ac_tree", "page_metadata", "execute")
CRAWL = ("source_parquet_path=coarse.jsonl", "s3_save_uri=raw")

LINES = {
    "webgym train, as it ships": ("rollout_train", TRAIN, {
        "parallel": 64, "model": "Qwen/Qwen3-VL-8B-Instruct",
        "base_url": "http://127.0.0.1:8000/v1",
        "max_tokens": 3072, "temperature": 1.0, "agent_options.top_p": 0.99,
        "operation_limits.navigate": 128, "operation_limits.allocate": 4,
        "save_every_percent": 25.0, "preset": ["./train.jsonl"], "attempts": 1,
        "completion_threshold": 0.95, "blocklist_path": "runs/blocklist.jsonl",
    }),
    "webgym test, as it ships": ("rollout_test", TRAIN, {
        "parallel": 64, "preset": ["./test.jsonl"], "operation_limits.navigate": 32,
        "completion_threshold": 1.0,
    }),
    "webgym, other values": ("rollout_train", (
        *TRAIN, "env_config.server_size=12", "policy_config.max_new_tokens=99",
        "policy_config.temperature=0.3", "policy_config.top_p=0.8", "policy_config.top_k=4",
        "policy_config.min_p=0.1", "env_config.save_every_percent=10",
        *(f"env_config.http_pools.{name}=5" for name in POOLS),
        "env_config.max_repetitive_actions=3", "env_config.max_retries=4",
        "env_config.retry_policy.pause=0.5", "env_config.retry_policy.max_pause=9",
        "env_config.task_timeout_minutes=2", "env_config.run_timeout_minutes=3",
        "env_config.wait_timeout=7", "env_config.operation_timeout=8", "env_config.step_timeout=9",
        "env_config.attempts_per_task=2", "env_config.vllm_timeout=11",
        "env_config.max_vllm_sessions=9", "env_config.task_order=fair",
    ), {
        "parallel": 12, "max_tokens": 99, "temperature": 0.3, "agent_options.top_p": 0.8,
        "agent_options.top_k": 4, "agent_options.min_p": 0.1, "save_every_percent": 10.0,
        **{f"operation_limits.{name}": 5 for name in POOLS},
        "max_repetitive_actions": 3, "max_retries": 4, "retry_pause": 0.5, "max_retry_pause": 9.0,
        "timeout": 120.0, "run_timeout": 180.0, "wait_timeout": 7.0, "operation_timeout": 8.0,
        "step_timeout": 9.0, "attempts": 2, "agent_options.timeout": 11.0,
        "agent_options.max_concurrency": 9, "task_order": "fair",
    }),
    "webgym, how the model is asked": ("rollout_train", (
        *TRAIN, "context_config.interaction_mode=set_of_marks",
        "model_config.model_type=qwen3-think", "model_config.prompt_version=vanilla",
        "policy_config.sampling_seed=4", "context_config.viewport=[800, 600]",
        "context_config.full_rounds=3", "context_config.memory=false",
    ), {
        "agent_options.mode": "marks", "agent_options.keep_thinking": False,
        "agent_options.prompt": "webgym_vanilla", "agent_options.seed": 4,
        "agent_options.viewport": [800, 600], "agent_options.full_rounds": 3,
        "agent_options.memory": False,
    }),
    "webgym, its judge": ("rollout_train", (
        *TRAIN, "openai_config.model=gemini-3-flash-preview",
        "openai_config.openai_api_key_env_var=GEMINI_API_KEY",
        "openai_config.base_url=http://judge/v1", "env_config.evaluation_workers=3",
        "openai_config.keypoint_detection.model=eyes", "openai_config.votes=3",
        "openai_config.blocking_detection.model=guard",
        "openai_config.evaluation={model: scholar, openai_api_key_env_var: SMALL_KEY}",
    ), {
        "judge": "model", "judge_parallel": 3, "judge_options.model": "gemini-3-flash-preview",
        "judge_options.api_key_variable": "GEMINI_API_KEY", "judge_options.votes": 3,
        "judge_options.base_url": "http://judge/v1",
        "judge_options.stages.screenshots.model": "eyes",
        "judge_options.stages.blocked.model": "guard",
        **{
            f"judge_options.stages.{stage}": {"model": "scholar", "api_key_variable": "SMALL_KEY"}
            for stage in ("answer", "facts", "goal", "reference")
        },
    }),
    "webgym, one of two unequal nodes": ("rollout_train", (
        *TRAIN, "iteration=1", "env_config.multinode_rank=1",
        "env_config.multinode_total_workers=2", "env_config.rank_load_weight=1",
        "env_config.total_load_weight=4",
    ), {"parallel": 16, "operation_limits.navigate": 32, "operation_limits.allocate": 1}),
    "orby's controller, its defaults": ("crawl", CRAWL, {
        "kind": "crawl", "preset": ["coarse.jsonl"], "out": "raw", "episodes": 5, "parallel": 16,
        "requests_per_minute": None, "max_steps": 15, "provider": "anthropic",
        "model": "claude-3-5-sonnet-20241022", "temperature": 0.0, "max_tokens": 500,
        "max_repetitive_actions": 3, "max_retries": 3, "timeout": None, "verbose": False,
    }),
    "orby's controller, every field": ("crawl", (
        *CRAWL, "num_raw_data=33", "data_per_batch=4", "request_per_minute=30", "max_steps=7",
        "agent_name=basic", "agent_model_provider=openai", "agent_model_name=other",
        "temperature=0.5", "max_tokens=77", "max_repetitive_actions=5", "dp_max_retries=1",
        "timeout=60", "verbose=true",
    ), {
        "episodes": 33, "parallel": 4, "requests_per_minute": 30.0, "max_steps": 7,
        "agent": "model", "provider": "openai", "model": "other", "temperature": 0.5,
        "max_tokens": 77, "max_repetitive_actions": 5, "max_retries": 1, "timeout": 60.0,
        "verbose": True,
    }),
    "orby's controller, without a model": ("crawl", (
        *CRAWL, "agent_name=curious", "proposer=hindsight", "num_raw_data=null",
    ), {"agent": "curious", "proposer": "hindsight", "model": None, "episodes": None}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, "sk-of-the-test-" + "x" * 30)


@each(("name", "given", "expected"), LINES.values())
def test_a_documented_line_has_its_settings(name, given, expected, world, monkeypatch):
    for key in ("JUDGE_KEY", "SMALL_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "MY_KEY"):
        monkeypatch.setenv(key, "sk-of-the-test")
    settings = build_rollout(load_configuration(name, given)).spec.model_dump()
    found = {}
    for path in expected:
        value = settings
        for part in path.split("."):
            value = value.get(part, "missing") if isinstance(value, dict) else "missing"
        found[path] = value
    assert found == expected


def test_where_a_rollout_samples_and_records(build, world):
    train = build("env_config.train_tasks_rollout_size=4", "seed=3")
    assert (len(train.plan), train.iteration, train.spec.seed) == (4, 1, 3)
    assert train.out == str(Path(world, "runs/train_trajectories/iteration_0001"))
    test = build("env_config.split=test", "env_config.test_tasks_repeat_times=3", "iteration=7")
    assert {planned.attempt for planned in test.plan} == {0, 1, 2}
    assert (len(test.plan), test.iteration) == (15, 7)
    sequential = ("env_config.train_tasks_sampler=sequential", "env_config.max_steps=9")
    assert [planned.task for planned in build(*sequential).plan] == [f"task-{i}" for i in range(30)]
    limits = build(
        "env_config.train_tasks_sampler=sequential", "env_config.train_tasks_rollout_size=9",
        "env_config.train_difficulty_max_steps={easy: 4, medium: 5, hard: 6}",
    )  # fmt: skip
    assert [planned.spec.max_steps for planned in limits.plan] == [4] * 3 + [5] * 3 + [6] * 3
