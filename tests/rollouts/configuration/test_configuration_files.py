"""Loading: files that build on others, overrides, references; what is wrong is told in a line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.rollouts import RunSpec
from webtraj.rollouts.configuration import load_configuration
from webtraj.rollouts.configuration.dialects import WEBGYM
from webtraj.settings import configuration


def load(*overrides, name="rollout_train", config_dir=None):
    return load_configuration(name, overrides, config_dir=config_dir).spec


def problem(*overrides, name="rollout_train", config_dir=None):
    with pytest.raises(errors.InvalidInputError) as raised:
        load(*overrides, name=name, config_dir=config_dir)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_four_that_ship_have_the_values_of_their_sources():
    shipped = configuration.list_shipped("webtraj.rollouts.configuration")
    assert shipped == ["crawl", "rollout", "rollout_test", "rollout_train"]
    train = load("save_path=runs")
    assert (train.iteration.split, train.parallel, train.iteration.size) == ("train", 64, 1024)
    assert train.iteration.steps.hard == 30
    assert (train.temperature, train.agent_options["top_p"]) == (1.0, 0.99)
    assert train.operation_limits["navigate"] == 128
    test = load("save_path=runs", name="rollout_test")
    assert test.iteration.split == "test"
    assert test.iteration.steps.model_dump() == {"easy": 30, "medium": 50, "hard": 70}
    crawl = load("source_parquet_path=a.parquet", "s3_save_uri=s3://b/c", name="crawl")
    assert (crawl.episodes, crawl.parallel, crawl.max_steps) == (5, 16, 15)
    assert (crawl.max_tokens, crawl.max_retries, crawl.max_repetitive_actions) == (500, 3, 3)


@each(
    ("override", "path", "value"),
    [
        ("seed=8", "seed", 8),
        ("+seed=8", "seed", 8),
        ("++seed=8", "seed", 8),
        ("save_path=a=b", "out", "a=b"),
        ("save_path='${data_path}/x'", "out", "./x"),
        ("save_path=${oc.env:WEBTRAJ_TEST_PLACE}/x", "out", "place/x"),
        ("env_config.train_tasks=[a.jsonl, /b.jsonl]", "preset", ["./a.jsonl", "/b.jsonl"]),
        ("env_config.wait_timeout=1e3", "wait_timeout", 1000.0),
        ("env_config.verbose=true", "verbose", True),
        ("env_config.train_tasks=miniwob/all@2/8", "preset", ["miniwob/all@2/8"]),
        ("env_config.environment_options={reward: scaled}", "environment_options.reward", "scaled"),
        ("policy_config.agent_options.top-k=8", "agent_options.top-k", 8),
        ("policy_config.top_k=4", "agent_options.top_k", 4),
        ("env_config.difficulty_ratio=null", "iteration.bands", None),
        ("model_config.model_type=qwen3-think", "agent_options.keep_thinking", False),
    ],
)
def test_override_is_typed(override, path, value, monkeypatch):
    monkeypatch.setenv("WEBTRAJ_TEST_PLACE", "place")
    loaded = load("save_path=runs", override).model_dump()
    for part in path.split("."):
        loaded = loaded[part]
    assert loaded == value
    assert type(loaded) is type(value)


@each(
    ("override", "told"),
    [
        ("server_size=4", "server_size is unknown; did you mean env_config.server_size?"),
        ("env_config.server_siz=4", "did you mean env_config.server_size?"),
        ("env_config.http_pools.navgate=1", "did you mean env_config.http_pools.navigate?"),
        ("policy_config.temprature=1", "did you mean policy_config.temperature?"),
        ("xyzzy=1", "xyzzy is unknown."),
        ("env_config.server_size=0", "env_config.server_size: must be greater"),
        ("env_config.server_size=many", "env_config.server_size: "),
        ("env_config.server_size=1.5", "got 1.5"),
        ("env_config.server_size='4'", "got '4'"),
        ("env_config.max_retries=-1", "env_config.max_retries"),
        ("env_config.completion_threshold=1.5", "env_config.completion_threshold"),
        ("env_config.save_every_percent=0", "env_config.save_every_percent"),
        ("env_config.save_traj_progress=false", "env_config.save_traj_progress"),
        ("env_config.save_traj_progress=false", "env_config.save_traj_progress: cannot be false"),
        ("env_config.split=dev", "env_config.split: must be 'train' or 'test'; got 'dev'"),
        ("env_config.wait_timeout=.inf", "env_config.wait_timeout"),
        ("env_config.train_tasks_sampler=ratio", "env_config.difficulty_ratio"),
        ("env_config.difficulty_ratio={a: {range: [1, 2], weight: 1}}", "sampler 'ratio'"),
        ("env_config.test_difficulty_max_steps={easy: 1}", "test_difficulty_max_steps.medium"),
        ("env_config.task_timeout_minutes=ten", "env_config.task_timeout_minutes: must be"),
        ("model_config.model_type=qwen", "model_config.model_type: must be 'qwen3-instruct' or"),
        ("model_config.model_type=[qwen]", "model_config.model_type: must be 'qwen3-instruct' or"),
        ("save_path=2024", "save_path: must be a valid string; got 2024"),
        ("policy_config.checkpoint_path=7", "policy_config.checkpoint_path: must be a valid"),
        ("env_config.multinode_rank=0.5", "env_config.multinode_rank: must be a whole number"),
        ("env_config=3", "env_config: must be a valid mapping of keys; got 3"),
        ("save_path=${nowhere}", "'nowhere' not found"),
        ("save_path=${oc.env:WEBTRAJ_NOT_SET_AT_ALL}", "WEBTRAJ_NOT_SET_AT_ALL"),
        ("save_path=${evil:1}", "evil"),
        ("save_path=", "save_path"),
        ("save_path=${", "cannot be read"),
        ("save_path={a: 1", "cannot be read as YAML"),
        ("save_path=!!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("1=2", "is not an override"),
        ("seed", "expected key=value"),
        ("~seed", "seed=null"),
        ("kind=flight", "kind is 'flight'; expected one of rollout, crawl"),
    ],
)
def test_wrong_override_is_told_by_the_keys_full_name(override, told):
    assert told in problem("save_path=runs", override)


@each("key", sorted(WEBGYM.refused))
def test_key_without_effect_is_refused_with_the_reason(key):
    told = problem("save_path=runs", f"{key}=1")
    assert f"{key} is not accepted: {WEBGYM.refused[key]}" in told
    assert key not in WEBGYM.table


def test_value_that_has_to_be_given_is_asked_for():
    assert "give save_path=..." in problem()
    assert "s3_save_uri=... source_parquet_path=..." in problem(name="crawl")


def test_unknown_configuration_is_told_with_the_nearest():
    assert "Did you mean 'rollout_train'?" in problem(name="rolout_train")
    assert "Invalid configuration name" in problem(name="../secret", config_dir=".")
    assert "'mine.yaml' cannot be read" in problem(name="mine.yaml")


def test_file_builds_on_others_in_the_order_given(tmp_path):
    (tmp_path / "base.yaml").write_text("seed: 1\nenv_config: {server_size: 2, max_retries: 3}\n")
    (tmp_path / "last.yaml").write_text("seed: 9\n")
    (tmp_path / "mine.yaml").write_text(
        "defaults: [rollout_train, base, _self_, last]\nsave_path: runs\nseed: 5\n"
        "env_config: {max_retries: 4}\n"
    )
    loaded = load(name="mine", config_dir=tmp_path)
    assert (loaded.seed, loaded.out, loaded.parallel, loaded.max_retries) == (9, "runs", 2, 4)
    assert loaded.preset == ["./train.jsonl"]
    assert load(name=str(tmp_path / "mine.yaml")) == loaded


@each(
    ("text", "told"),
    [
        ("defaults: [a]\n", "in a circle: a -> a"),
        ("defaults: [b]\n", "in a circle: a -> b -> a"),
        ("defaults: {db: mysql}\n", "Hydra's config groups"),
        ("defaults: [{db: mysql}]\n", "Hydra's config groups"),
        ("[1, 2]\n", "not a mapping"),
        ("seed: 1\nseed: 2\n", "duplicate key"),
        ("1: 2\n", "expected a name"),
        ("seed: [\n", "cannot be read as YAML"),
        ("x: !!python/name:os.system\n", "could not determine a constructor"),
    ],
)
def test_file_that_is_none_is_told(text, told, tmp_path):
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text("defaults: [a]\n")
    assert told in problem("save_path=runs", name="a", config_dir=tmp_path)


def test_file_that_is_no_text_or_far_too_large_is_told(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"seed: \xff\n")
    assert "not UTF-8" in problem(name="a", config_dir=tmp_path)
    (tmp_path / "a.yaml").write_text("#" * (1 << 20) + "\n")
    assert "bytes" in problem(name="a", config_dir=tmp_path)


def test_source_gives_the_same_configuration_again_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("WEBTRAJ_TEST_SECRET", "tell-no-one")
    secrets = "{by_name: '${oc.env:WEBTRAJ_TEST_SECRET}', by_value: hush}"
    loaded = load_configuration(
        "rollout_test",
        [
            "save_path=s3://bucket/runs",
            f"env_config.environment_options.secrets={secrets}",
            "storage_options={region: here, secret_access_key: hushhush}",
            "env_config.max_retries=7",
        ],
    )
    assert loaded.spec.environment_options["secrets"]["by_name"] == "tell-no-one"
    assert "tell-no-one" not in str(loaded.data)
    assert "hush" not in str(loaded.data)
    (tmp_path / "again.yaml").write_text(json.dumps(loaded.data))
    given_again = [
        "env_config.environment_options.secrets.by_value=hush",
        "storage_options.secret_access_key=hushhush",
    ]
    again = load_configuration("again", given_again, config_dir=tmp_path)
    assert again.spec == loaded.spec


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_override_is_taken_or_refused(text):
    try:
        loaded = load("save_path=runs", text)
    except errors.InvalidInputError:
        return
    assert isinstance(loaded, RunSpec)
