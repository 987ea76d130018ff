"""What is decoded is what was encoded, to the byte."""

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded_episodes import Blobs, browser_episode, data_of

from rows import each
from webtraj import errors
from webtraj.datasets.dataset import decode_episode
from webtraj.store import encoding
from webtraj.store.blobs import blobs_of
from webtraj.store.formats import format_named
from webtraj.testing.strategies import same, trajectories

WRITABLE = ["pb", "pb.zst"]
property_test = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def there_and_back(data, blobs, name="pb"):
    made = format_named(name)
    return made.decode(made.encode(data, blobs), "it")


def assert_same(data, blobs=None, name="pb"):
    blobs = blobs or Blobs()
    stored = there_and_back(data, blobs, name)
    assert orjson.dumps(stored.data) == orjson.dumps(data)
    return stored


@given(trajectories())
@property_test
def test_any_episode(trajectory):
    data, blobs = data_of(trajectory)
    for name in WRITABLE:
        stored = assert_same(data, blobs, name)
        assert same(decode_episode(stored.data, stored.blobs), trajectory)


@given(trajectories())
@property_test
def test_any_episode_with_blobs_all_over(small_blobs, trajectory):
    data, blobs = data_of(trajectory)
    stored = assert_same(data, blobs)
    for blob in blobs_of(data):
        assert stored.blobs.read(blob) == blobs.read(blob)


json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["$", "v", "type", "fields", "shape", "dtype", "role", "content", "text"]
            )
            | st.text(st.characters(codec="utf-8"), max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
tags = st.sampled_from(["float", "bytes", "tuple", "record", "ndarray", "enum", "dict", "", "x"])
tagged = st.tuples(tags, json_data, json_data).map(
    lambda drawn: {"$": drawn[0], "v": drawn[1], "type": drawn[2]}
)


@given(st.data())
@property_test
def test_any_json_data_in_any_field_in_any_order(data):
    """Records of other versions, with unknown fields, wrong types, and what only looks tagged."""

    def record(*names):
        keys = data.draw(st.permutations(names))
        return {key: data.draw(json_data | tagged) for key in keys if data.draw(st.booleans())}

    call = record("model", "messages", "text", "prompt_token_ids", "logprobs", "latency", "new")
    decision = {**record("thought", "memory", "new"), "model_calls": [call]}
    step = record("reward", "index", "step_type", "action", "observation", "start_time", "$")
    episode = {
        "end": data.draw(st.just(None) | st.just(record("outcome", "reason", "error", "detail"))),
        "steps": [
            {"decision": decision, **step},
            {"observation": record("url", "goal", "focused")},
        ],
        "schema_version": 1,
        "new": data.draw(json_data),
        "info": record("goal", "site", "task", "seed", "versions", "new"),
    }
    assert_same(episode)


def test_values_nested_as_deep_as_webtraj_keeps_them():
    nest = b"x" * 2000
    for level in range(200):
        nest = [nest] if level % 3 else {"k": (nest,)} if level % 2 else (nest, {1: nest})[:1]
    data, blobs = data_of(browser_episode(1))
    inner, unwritable = encoding.dumps(nest, blobs)
    assert unwritable == []
    data["steps"][0]["observation"] = orjson.loads(inner)
    stored = assert_same(data, blobs)
    assert same(decode_episode(stored.data, stored.blobs).steps[0].observation, nest)


@each("change", [
        lambda data: data["info"].update(goal={"$": "text", "sha256": "0", "ext": "", "size": 1}),
        lambda data: data.update(steps=[1]),
        lambda data: data.update(steps=None),
        lambda data: data.update(info=[]),
        lambda data: data.update(schema_version="one"),
        lambda data: data.pop("info"),
        lambda data: data["info"].update(task=object()),
        lambda data: data["info"].update(seed=2**64),
        lambda data: data["info"].update(task="\ud800"),
        lambda data: data["steps"][0].update(observation={1: 2}),
    ])  # fmt: skip
def test_what_is_no_episode_is_refused(change):
    data, blobs = data_of(browser_episode())
    change(data)
    with pytest.raises(errors.CorruptDataError):
        format_named("pb").encode(data, blobs)
