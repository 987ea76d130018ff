"""Every key of every configuration is read: another value makes another rollout."""

import dataclasses
import time

import pytest

from webtraj import errors
from webtraj.configuration import keys_of
from webtraj.rollouts.configuration.rollout import CrawlConfig, RolloutConfig
from webtraj.rollouts.sampling import Blocklist


@dataclasses.dataclass(frozen=True)
class Case:
    """What a key changes. `beside`: overrides that it needs, before and after."""

    value: str
    read: object
    expected: object
    beside: tuple = ()


def option(name):
    return lambda rollout: rollout.player.options.get(name)


def setting(path):
    def read(rollout):
        value = rollout.settings
        for part in path.split("."):
            value = getattr(value, part, None)
        return value

    return read


def limits(rollout):
    return rollout.browsers.open(4).limits


def tasks(rollout):
    return [planned.task for planned in rollout.plan]


def count(rollout):
    return len(rollout.plan)


def steps(rollout):
    return {planned.spec.difficulty: planned.spec.max_steps for planned in rollout.plan}


def judging(name):
    return lambda rollout: getattr(rollout.judging, name, None)


def judged(name):
    return lambda rollout: rollout.judging and rollout.judging.options.get(name)


TEST = ("env_config.split=test",)
JUDGED = ("openai_config.model=judge",)
WANDB = ("metrics.wandb.project=demo",)
RECORDED = {
    "format": Case("pb.zst", lambda r: r.spec.format, "pb.zst"),
    "metrics.tensorboard": Case("events", lambda r: r.spec.metrics.tensorboard, "events"),
    "metrics.wandb.project": Case("mine", lambda r: r.spec.metrics.wandb.project, "mine", WANDB),
    "metrics.wandb.entity": Case("us", lambda r: r.spec.metrics.wandb.entity, "us", WANDB),
    "metrics.wandb.run_name": Case(
        "first", lambda r: r.spec.metrics.wandb.run_name, "first", WANDB
    ),
    "metrics.wandb.mode": Case("offline", lambda r: r.spec.metrics.wandb.mode, "offline", WANDB),
    "metrics.wandb.folder": Case("kept", lambda r: r.spec.metrics.wandb.folder, "kept", WANDB),
}
SHARE = ("env_config.multinode_rank=0", "env_config.multinode_total_workers=2", "iteration=1")
WEIGHTED = (
    "env_config.multinode_rank=0", "env_config.all_rank_weights=[2, 1]", "iteration=1",
    "env_config.server_size=6",
)  # fmt: skip
FEW = ("env_config.train_tasks_sampler=sequential", "env_config.train_tasks_rollout_size=3")
BANDS = "{easy: {range: [1, 3], weight: 1}, hard: {range: [7, 9], weight: 3}}"

ROLLOUT = {
    **RECORDED,
    "save_path": Case("elsewhere", lambda r: r.out, "elsewhere/train_trajectories/iteration_0001"),
    "data_path": Case("{world}/other", tasks, ["task-77"]),
    "iteration": Case("7", lambda r: r.iteration, 7),
    "seed": Case("5", lambda r: r.spec.seed, 5),
    "storage_options": Case(
        "{timeout: 5.5}",
        lambda r: r.storage_options,
        {"timeout": 5.5},
        ("save_path=memory://keys", "env_config.blocklist_path=null"),
    ),
    "env_config.split": Case("test", tasks, [f"task-{i}" for i in range(5)]),
    "env_config.train_tasks": Case("test.jsonl", count, 5),
    "env_config.test_tasks": Case("train.jsonl", count, 30, TEST),
    "env_config.train_tasks_sampler": Case("sequential", tasks, [f"task-{i}" for i in range(30)]),
    "env_config.train_tasks_rollout_size": Case("4", count, 4),
    "env_config.test_tasks_rollout_size": Case("4", count, 4, TEST),
    "env_config.test_tasks_repeat_times": Case("3", count, 15, TEST),
    "env_config.attempts_per_task": Case("2", count, 60),
    "env_config.group": Case(
        "same-seed",
        lambda r: (len(r.plan), len({(planned.task, planned.seed) for planned in r.plan})),
        (60, 30),
        ("env_config.attempts_per_task=2",),
    ),
    "env_config.groups_per_task": Case(
        "3",
        lambda r: (len(r.plan), len({(planned.task, planned.seed) for planned in r.plan})),
        (180, 90),
        ("env_config.attempts_per_task=2", "env_config.group=same-seed"),
    ),
    "env_config.difficulty_ratio": Case(
        BANDS,
        lambda r: sorted(planned.spec.level for planned in r.plan).count("hard"),
        6,
        ("env_config.train_tasks_sampler=ratio", "env_config.train_tasks_rollout_size=8"),
    ),
    "env_config.deduplicate_across_iterations": Case(
        "true", tasks, ["tire"], (*FEW, "env_config.train_tasks=ladder.jsonl")
    ),
    "env_config.blocklist_path": Case(
        "blocked.jsonl", tasks, ["task-101"], ("env_config.train_tasks=sites.jsonl",)
    ),
    "env_config.blocklist_ttl_hours": Case(
        "0.0000001",
        count,
        2,
        ("env_config.train_tasks=sites.jsonl", "env_config.blocklist_path=blocked.jsonl"),
    ),
    "env_config.train_difficulty_max_steps": Case("[4, 5, 6]", steps, {1: 4, 2: 5, 3: 6}, FEW),
    "env_config.test_difficulty_max_steps": Case(
        "{easy: 4, medium: 5, hard: 6}", steps, {1: 4, 2: 4, 3: 4, 4: 5, 5: 5}, TEST
    ),
    "env_config.max_steps": Case("9", steps, {1: 9, 2: 9, 3: 9}, FEW),
    "env_config.max_repetitive_actions": Case("3", setting("max_repetitive_actions"), 3),
    "env_config.server_size": Case("12", setting("parallel"), 12),
    "env_config.contexts_per_browser": Case("3", lambda r: r.browsers.contexts, 3),
    "env_config.browser_endpoint": Case(
        "http://127.0.0.1:9222", lambda r: r.browsers.endpoint, "http://127.0.0.1:9222"
    ),
    **{
        f"env_config.http_pools.{name}": Case("5", setting(f"operations.{name}"), 5)
        for name in (
            "metadata",
            "navigate",
            "allocate",
            "release",
            "screenshot",
            "ac_tree",
            "page_metadata",
            "execute",
        )
    },
    "env_config.task_order": Case("fair", setting("order"), "fair"),
    "env_config.episodes_per_site": Case("2", setting("politeness.per_site"), 2),
    "env_config.site_interval": Case("1.5", setting("politeness.interval"), 1.5),
    "env_config.observe": Case("[axtree]", lambda r: r.environment_options["observe"], ["axtree"]),
    "env_config.environment_options": Case(
        "{height: 2}", lambda r: r.environment_options.get("height"), 2
    ),
    "env_config.wait_timeout": Case("7", lambda r: limits(r).lease, 7.0),
    "env_config.operation_timeout": Case("8", lambda r: limits(r).call, 8.0),
    "env_config.step_timeout": Case("9", setting("deadlines.step"), 9.0),
    "env_config.task_timeout_minutes": Case("2", setting("deadlines.episode"), 120.0),
    "env_config.run_timeout_minutes": Case("3", setting("deadlines.run"), 180.0),
    "env_config.max_retries": Case("4", setting("retry.max_retries"), 4),
    "env_config.retry_policy.pause": Case("0.5", setting("retry.pause"), 0.5),
    "env_config.retry_policy.max_pause": Case("9", setting("retry.max_pause"), 9.0),
    "env_config.max_consecutive_errors": Case("6", setting("max_consecutive_errors"), 6),
    "env_config.completion_threshold": Case("0.9", setting("completion.threshold"), 0.9),
    "env_config.completion_grace_period": Case("1", setting("completion.grace"), 1.0),
    "env_config.save_every_percent": Case("10", lambda r: r.spec.save_every_percent, 10.0),
    "env_config.vllm_server_url": Case(
        "[http://a:1, http://b:2/v1]", option("base_url"), ["http://a:1/v1", "http://b:2/v1"]
    ),
    "env_config.max_vllm_sessions": Case("9", option("max_concurrency"), 9),
    "env_config.vllm_timeout": Case("11", option("timeout"), 11.0),
    "env_config.request_per_minute": Case("30", option("requests_per_minute"), 30.0),
    "env_config.multinode_rank": Case("1", lambda r: r.run_id[-7:], "_rank_1", SHARE),
    "env_config.multinode_total_workers": Case("3", count, 10, SHARE),
    "env_config.multinode_rank_suffix": Case("-here", lambda r: r.run_id[-5:], "-here", SHARE),
    "env_config.rank_load_weight": Case("3", errors.InvalidInputError, "", SHARE),
    "env_config.total_load_weight": Case("5", errors.InvalidInputError, "", WEIGHTED[:-1]),
    "env_config.all_rank_weights": Case("'1,2'", setting("parallel"), 2, WEIGHTED),
    "env_config.verbose": Case("true", lambda r: r.spec.verbose, True),
    "policy_config.agent": Case("oracle", lambda r: r.player.name, "oracle"),
    "policy_config.agent_options": Case("{cut_harder: 1}", option("cut_harder"), 1),
    "policy_config.base_model": Case("other", option("model"), "other"),
    "policy_config.checkpoint_path": Case("model.pt", option("model"), "{world}/runs/model.pt"),
    "policy_config.provider": Case("vllm", option("provider"), "vllm"),
    "policy_config.api_key_env_var": Case("MY_KEY", option("api_key_variable"), "MY_KEY"),
    "policy_config.max_new_tokens": Case("99", option("max_tokens"), 99),
    "policy_config.temperature": Case("0.3", option("temperature"), 0.3),
    "policy_config.top_p": Case("0.8", option("top_p"), 0.8),
    "policy_config.top_k": Case("4", option("top_k"), 4),
    "policy_config.min_p": Case("0.1", option("min_p"), 0.1),
    "policy_config.sampling_seed": Case("4", option("seed"), 4),
    "policy_config.enforce_actions": Case("true", option("enforce_actions"), True),
    "policy_config.max_invalid_actions": Case("2", option("max_invalid_actions"), 2),
    "context_config.interaction_mode": Case("set-of-marks", option("mode"), "marks"),
    "context_config.dialect": Case("browsergym", option("dialect"), "browsergym"),
    "context_config.viewport": Case("[800, 600]", option("viewport"), [800, 600]),
    "context_config.images": Case("true", option("images"), True),
    **{
        f"context_config.{name}": Case("3", option(name), 3)
        for name in (
            "full_rounds",
            "slide",
            "older_lines",
            "screenshots",
            "page_tokens",
            "old_page_tokens",
            "text_tokens",
            "cut_harder",
        )
    },
    "context_config.changes": Case("true", option("changes"), True),
    "context_config.memory": Case("false", option("memory"), False),
    "env_config.evaluation_workers": Case("3", judging("parallel"), 3, JUDGED),
    "judge": Case("environment", judging("spec"), "environment"),
    "judge_when": Case("always", judging("when"), "always", JUDGED),
    "openai_config.model": Case("other", judged("model"), "other", JUDGED),
    "openai_config.openai_api_key_env_var": Case(
        "JUDGE_KEY", judged("api_key_variable"), "JUDGE_KEY", JUDGED
    ),
    "openai_config.base_url": Case("http://j/v1", judged("base_url"), "http://j/v1", JUDGED),
    "openai_config.provider": Case("openai", judged("provider"), "openai", JUDGED),
    "openai_config.max_concurrency": Case("3", judged("max_concurrency"), 3, JUDGED),
    "openai_config.requests_per_minute": Case("9", judged("requests_per_minute"), 9.0, JUDGED),
    "openai_config.votes": Case("3", judged("votes"), 3, JUDGED),
    "openai_config.temperature": Case("0.5", judged("temperature"), 0.5, JUDGED),
    "openai_config.timeout": Case("7", judged("timeout"), 7.0, JUDGED),
    "openai_config.judge_settings": Case(
        "{max_screenshots: 3}", judged("max_screenshots"), 3, JUDGED
    ),
    **{
        f"openai_config.{kind}.{key}": Case(
            value, lambda r, s=stage, o=option: r.judging.stages.get(s, {}).get(o), value, JUDGED
        )
        for kind, stage in (
            ("keypoint_detection", "screenshots"),
            ("blocking_detection", "blocked"),
            ("evaluation", "facts"),
        )
        for key, option, value in (
            ("model", "model", "small"),
            ("openai_api_key_env_var", "api_key_variable", "SMALL_KEY"),
            ("base_url", "base_url", "http://small/v1"),
        )
    },
    "model_config.model_type": Case("qwen3-instruct", option("keep_thinking"), True),
    "model_config.prompt_version": Case("complete", option("prompt"), "webgym_complete"),
}
"""What each key changes. That another value is read is told by what is made of it."""

ROLLOUT_FIXED = {
    "kind": "chooses the keys",
    "env_config.save_traj_progress": "has but one value; any other is refused",
}

COARSE = ("source_parquet_path={world}/coarse.jsonl",)
CRAWL = {
    **RECORDED,
    "source_parquet_path": Case("{world}/test.jsonl", count, 5),
    "s3_save_uri": Case("s3://bucket/raw", lambda r: r.out, "s3://bucket/raw"),
    "num_raw_data": Case("33", count, 33),
    "data_per_batch": Case("4", setting("parallel"), 4),
    "request_per_minute": Case("30", option("requests_per_minute"), 30.0),
    "max_steps": Case("7", lambda r: {p.spec.max_steps for p in r.plan}, {7}),
    "agent_name": Case("random", lambda r: r.player.name, "random"),
    "agent_model_provider": Case("openai", option("provider"), "openai"),
    "agent_model_name": Case("other", option("model"), "other"),
    "agent_model_url": Case("http://a/v1", option("base_url"), "http://a/v1"),
    "agent_model_api_key_env_var": Case("MY_KEY", option("api_key_variable"), "MY_KEY"),
    "proposer": Case("hindsight", lambda r: r.proposing and r.proposing.name, "hindsight", COARSE),
    "proposer_options": Case(
        "{max_tokens: 5}", lambda r: r.proposing.options.get("max_tokens"), 5,
        (*COARSE, "proposer=model"),
    ),
    "proposals_per_trajectory": Case(
        "7", lambda r: r.proposing.proposals, 7, (*COARSE, "proposer=hindsight")
    ),
    "agent_options": Case("{full_rounds: 1}", option("full_rounds"), 1),
    "temperature": Case("0.5", option("temperature"), 0.5),
    "max_tokens": Case("77", option("max_tokens"), 77),
    "max_repetitive_actions": Case("5", setting("max_repetitive_actions"), 5),
    "dp_max_retries": Case("1", setting("retry.max_retries"), 1),
    "timeout": Case("60", setting("deadlines.episode"), 60.0),
    "verbose": Case("true", lambda r: r.spec.verbose, True),
    "group_size": Case("2", lambda r: [p.group for p in r.plan], [0, 0], ("num_raw_data=2",)),
    "attempts": Case("3", lambda r: max(p.attempt for p in r.plan), 2, ("num_raw_data=null",)),
    "judge": Case("environment", judging("spec"), "environment"),
    "judge_options": Case("{votes: 3}", judged("votes"), 3, ("judge=model",)),
    "judge_when": Case("always", judging("when"), "always", ("judge=environment",)),
    "seed": Case("4", lambda r: r.spec.seed, 4),
    "storage_options": Case(
        "{region: here}", lambda r: r.storage_options, {"region": "here"},
        ("s3_save_uri=s3://bucket/raw",),
    ),
    "environment_options": Case(
        "{height: 2}", lambda r: r.environment_options.get("height"), 2
    ),
    "retry_pause": Case("0.5", setting("retry.pause"), 0.5),
    "max_retry_pause": Case("9", setting("retry.max_pause"), 9.0),
    "max_consecutive_errors": Case("6", setting("max_consecutive_errors"), 6),
    "step_timeout": Case("9", setting("deadlines.step"), 9.0),
    "run_timeout": Case("180", setting("deadlines.run"), 180.0),
    "completion_threshold": Case("0.9", setting("completion.threshold"), 0.9),
    "completion_grace_period": Case("1", setting("completion.grace"), 1.0),
    "task_order": Case("fair", setting("order"), "fair"),
    "episodes_per_site": Case("2", setting("politeness.per_site"), 2),
    "site_interval": Case("1.5", setting("politeness.interval"), 1.5),
    "blocklist_path": Case(
        "{world}/runs/blocked.jsonl", tasks, ["task-101"],
        ("source_parquet_path={world}/sites.jsonl",),
    ),
    "blocklist_ttl_hours": Case(
        "0.0000001", count, 2,
        (
            "source_parquet_path={world}/sites.jsonl",
            "blocklist_path={world}/runs/blocked.jsonl",
        ),
    ),
    "save_every_percent": Case("10", lambda r: r.spec.save_every_percent, 10.0),
    "observe": Case("[axtree]", lambda r: r.environment_options["observe"], ["axtree"]),
    "contexts_per_browser": Case("3", lambda r: r.browsers.contexts, 3),
    "browser_endpoint": Case(
        "http://127.0.0.1:9222", lambda r: r.browsers.endpoint, "http://127.0.0.1:9222"
    ),
    "wait_timeout": Case("7", lambda r: limits(r).lease, 7.0),
    "operation_timeout": Case("8", lambda r: limits(r).call, 8.0),
    "operation_limits": Case("{navigate: 5}", setting("operations.navigate"), 5),
    "judge_parallel": Case("3", judging("parallel"), 3, ("judge=environment",)),
}  # fmt: skip
CRAWL_FIXED = {"kind": "chooses the keys"}


@pytest.mark.parametrize(
    ("model", "cases", "fixed"),
    [(RolloutConfig, ROLLOUT, ROLLOUT_FIXED), (CrawlConfig, CRAWL, CRAWL_FIXED)],
    ids=["rollout", "crawl"],
)
def test_every_key_has_a_case(model, cases, fixed):
    assert set(cases) | set(fixed) == {key for key, _ in keys_of(model)}


@pytest.fixture(autouse=True)
def key_in_the_environment(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-of-the-test")


@pytest.mark.parametrize("key", ROLLOUT)
async def test_key_of_a_rollout_is_read(key, build, world, seeded):
    check(key, ROLLOUT[key], build, world, "own")


@pytest.mark.parametrize("key", CRAWL)
async def test_key_of_a_crawl_is_read(key, build, world, seeded):
    check(key, CRAWL[key], build, world, "crawled")


def check(key, case, build, world, name):
    case = dataclasses.replace(
        case, beside=tuple(text.replace("{world}", str(world)) for text in case.beside)
    )
    beside = [text for text in case.beside if not text.startswith(f"{key}=")]
    value = case.value.replace("{world}", str(world))
    override = f"{key}={value}"
    if isinstance(case.read, type):
        build(*beside, name=name)
        with pytest.raises(case.read, match=key.rpartition(".")[2]):
            build(*beside, override, name=name)
        return
    expected = case.expected
    if isinstance(expected, str):
        expected = expected.replace("{world}", str(world))
    if key != "env_config.difficulty_ratio":  # Without it there is no such sampler.
        assert case.read(build(*case.beside, name=name)) != expected
    assert case.read(build(*case.beside, override, name=name)) == expected


@pytest.fixture
async def seeded(world, build, task_row, write_rows):
    """An earlier iteration, a blocklist, a checkpoint, and other task files."""
    (world / "other").mkdir()
    write_rows(world / "other" / "train.jsonl", [task_row(77)])
    write_rows(world / "sites.jsonl", [task_row(100, website="shut.example"), task_row(101)])
    first = (
        "env_config.train_tasks=[ladder/climb, ladder/slip]", "policy_config.agent=oracle",
    )  # fmt: skip
    await build(*first).play()
    (world / "runs" / "model.pt").mkdir()
    hour_ago = time.time() - 3600
    Blocklist(world / "runs" / "blocked.jsonl", clock=lambda: hour_ago).add("shut.example")
