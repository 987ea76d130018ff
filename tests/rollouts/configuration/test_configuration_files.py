"""Loading: files that build on others, overrides, references; what is wrong is told in a line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.rollouts.configuration import load_configuration
from webtraj.rollouts.configuration.rollout import REFUSED, CrawlConfig, RolloutConfig
from webtraj.settings import configuration
from webtraj.settings.configuration import keys_of


def load(*overrides, name="rollout_train", config_dir=None):
    return load_configuration(name, overrides, config_dir=config_dir).values


def problem(*overrides, name="rollout_train", config_dir=None):
    with pytest.raises(errors.InvalidInputError) as raised:
        load(*overrides, name=name, config_dir=config_dir)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_four_that_ship_have_the_values_of_their_sources():
    shipped = configuration.list_shipped("webtraj.rollouts.configuration")
    assert shipped == ["crawl", "rollout", "rollout_test", "rollout_train"]
    train = load("save_path=runs")
    assert (train.env_config.split, train.env_config.server_size) == ("train", 64)
    assert train.env_config.train_tasks_rollout_size == 1024
    assert train.env_config.train_difficulty_max_steps.hard == 30
    assert (train.policy_config.temperature, train.policy_config.top_p) == (1.0, 0.99)
    assert train.env_config.http_pools.navigate == 128
    test = load("save_path=runs", name="rollout_test")
    assert test.env_config.split == "test"
    assert test.env_config.test_difficulty_max_steps.model_dump() == {
        "easy": 30, "medium": 50, "hard": 70,
    }  # fmt: skip
    crawl = load("source_parquet_path=a.parquet", "s3_save_uri=s3://b/c", name="crawl")
    assert (crawl.episodes, crawl.parallel, crawl.max_steps) == (5, 16, 15)
    assert (crawl.max_tokens, crawl.max_retries, crawl.max_repetitive_actions) == (500, 3, 3)
    orbys = crawl.model_dump(by_alias=True)
    assert (orbys["num_raw_data"], orbys["data_per_batch"], orbys["dp_max_retries"]) == (5, 16, 3)


@each(
    ("override", "value"),
    [
        ("seed=8", 8),
        ("+seed=8", 8),
        ("++seed=8", 8),
        ("save_path=a=b", "a=b"),
        ("save_path='${data_path}/x'", "./x"),
        ("save_path=${oc.env:WEBTRAJ_TEST_PLACE}/x", "place/x"),
        ("env_config.train_tasks=[a.jsonl, b.jsonl]", ["a.jsonl", "b.jsonl"]),
        ("env_config.wait_timeout=1e3", 1000.0),
        ("env_config.verbose=true", True),
        ("env_config.train_tasks=miniwob/all@2/8", "miniwob/all@2/8"),
        ("policy_config.top_k=null", None),
        ("env_config.environment_options={reward: scaled}", {"reward": "scaled"}),
        ("policy_config.agent_options.top-k=8", 8),
        ("env_config.difficulty_ratio=null", None),
        ("model_config.model_type=qwen3-think", "qwen3-think"),
    ],
)
def test_override_is_typed(override, value, monkeypatch):
    monkeypatch.setenv("WEBTRAJ_TEST_PLACE", "place")
    loaded = load("save_path=runs", override).model_dump(by_alias=True)
    for part in override.partition("=")[0].lstrip("+").split("."):
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
        ("env_config.test_difficulty_max_steps={easy: 1}", "medium"),
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


@each("key", sorted(REFUSED))
def test_key_without_effect_is_refused_with_the_reason(key):
    told = problem("save_path=runs", f"{key}=1")
    assert f"{key} is not accepted: {REFUSED[key]}" in told
    assert key not in {known for known, _ in keys_of(RolloutConfig)}


def test_value_that_has_to_be_given_is_asked_for():
    assert "give save_path=..." in problem()
    assert "s3_save_uri=... source_parquet_path=..." in problem(name="crawl")


def test_unknown_configuration_is_told_with_the_nearest():
    assert "Did you mean 'rollout_train'?" in problem(name="rolout_train")
    assert "Invalid configuration name" in problem(name="../secret")
    assert "No configuration 'mine'" in problem(name="mine.yaml")


def test_file_builds_on_others_in_the_order_given(tmp_path):
    (tmp_path / "base.yaml").write_text("seed: 1\nenv_config: {server_size: 2, max_retries: 3}\n")
    (tmp_path / "last.yaml").write_text("seed: 9\n")
    (tmp_path / "mine.yaml").write_text(
        "defaults: [rollout_train, base, _self_, last]\nsave_path: runs\nseed: 5\n"
        "env_config: {max_retries: 4}\n"
    )
    loaded = load(name="mine", config_dir=tmp_path)
    assert (loaded.seed, loaded.save_path) == (9, "runs")
    assert (loaded.env_config.server_size, loaded.env_config.max_retries) == (2, 4)
    assert loaded.env_config.train_tasks == "train.jsonl"


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
    assert loaded.values.env_config.environment_options["secrets"]["by_name"] == "tell-no-one"
    assert "tell-no-one" not in str(loaded.data)
    assert "hush" not in str(loaded.data)
    (tmp_path / "again.yaml").write_text(json.dumps(loaded.data))
    given_again = [
        "env_config.environment_options.secrets.by_value=hush",
        "storage_options.secret_access_key=hushhush",
    ]
    again = load_configuration("again", given_again, config_dir=tmp_path)
    assert again.values == loaded.values


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_override_is_taken_or_refused(text):
    try:
        loaded = load("save_path=runs", text)
    except errors.InvalidInputError:
        return
    assert isinstance(loaded, (RolloutConfig, CrawlConfig))
