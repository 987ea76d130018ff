"""The published JSON Schemas: all that is written follows them, and what is wrong does not."""

import copy
import json
import secrets
from pathlib import Path

import jsonschema
import orjson
import pytest
from hypothesis import given, settings

import webtraj
from rows import each
from webtraj.datasets.writer import DatasetWriter
from webtraj.store import layout
from webtraj.store.formats import format_named
from webtraj.store.places import open_storage
from webtraj.testing.strategies import trajectories

FOLDER = Path(webtraj.__file__).parents[2] / "docs" / "schema"


def validator(name):
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


EPISODE, INDEX, DATASET = (validator(name) for name in ("episode", "index", "dataset"))


def check(place):
    """Checks every object of a dataset that has a schema; returns how many there were."""
    storage = open_storage(place)
    count = 0
    for entry in storage.list():
        content = storage.read(entry.key)
        if entry.key.startswith("episodes/"):
            _, format_name = layout.split_name(entry.key)
            EPISODE.validate(format_named(format_name).decode(content, entry.key).data)
        elif entry.key.startswith("index/"):
            for line in content.splitlines():
                INDEX.validate(orjson.loads(line))
        elif entry.key == "dataset.json":
            DATASET.validate(orjson.loads(content))
        else:
            continue
        count += 1
    return count


@given(trajectories(max_steps=2))
@settings(deadline=None, max_examples=60)
def test_any_episode_follows_the_schemas(trajectory):
    place = f"memory://{secrets.token_hex(8)}"
    with DatasetWriter(place) as writer:
        writer.add(trajectory)
    assert check(place) == 3


@pytest.mark.parametrize("name", ["v1-json", "v1-pb", "v1-pb.zst"])
def test_the_golden_datasets_follow_the_schemas(name):
    assert check(Path(__file__).parents[1] / "golden" / name) >= 5


SOUND = {
    "schema_version": 1,
    "info": {"episode_id": "e1", "task": "t"},
    "start_time": 1.0,
    "end_time": None,
    "steps": [
        {"index": 0, "step_type": "first", "observation": {"x": [1, {"$": "bytes", "v": "AA=="}]}},
        {"index": 1, "step_type": "last", "observation": None, "action": "click",
         "decision": {"thought": "so", "model_calls": [{"prompt_token_ids": [1, 2]}]}},
    ],
    "end": {"reason": "terminated", "outcome": "success"},
}  # fmt: skip


WRONG = {
    "another version": (["schema_version"], 2),
    "no info": (["info"], None),
    "an id that leads elsewhere": (["info", "episode_id"], "../e1"),
    "a task that is no text": (["info", "task"], 3),
    "a field that is none": (["info", "tusk"], "t"),
    "steps that are no list": (["steps"], {}),
    "a negative index": (["steps", 0, "index"], -1),
    "an unknown step type": (["steps", 0, "step_type"], "FIRST"),
    "an unknown tag": (["steps", 0, "observation"], {"$": "pickle", "v": ""}),
    "a tag deep inside": (["steps", 0, "observation", "x", 1], {"$": "bytes", "v": 3}),
    "bytes that are no base64": (["steps", 0, "observation"], {"$": "bytes", "v": "\u00e4"}),
    "a blob's name": (["steps", 0, "observation"],
                      {"$": "blob", "sha256": "../x", "ext": "png", "size": 1}),
    "an array without a shape": (["steps", 1, "observation"],
                                 {"$": "ndarray", "dtype": "<f4", "v": {"$": "bytes", "v": ""}}),
    "a thought that is no text": (["steps", 1, "decision", "thought"], []),
    "a token that is none": (
        ["steps", 1, "decision", "model_calls", 0, "prompt_token_ids"], ["a"]
    ),
    "an unknown reason": (["end", "reason"], "bored"),
    "an unknown outcome": (["end", "outcome"], "won"),
    "a time that is none": (["start_time"], "noon"),
    "more than there is": (["extra"], 1),
}  # fmt: skip


@each(("path", "value"), WRONG.values())
def test_what_is_wrong_does_not_follow_the_schema(path, value):
    episode = copy.deepcopy(SOUND)
    target = episode
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert not EPISODE.is_valid(episode)


@pytest.mark.parametrize("key", ["schema_version", "info", "steps", "end"])
def test_what_is_missing_does_not_follow_the_schema(key):
    assert not EPISODE.is_valid({k: v for k, v in SOUND.items() if k != key})


@each("line", [{}, {"episode_id": "../x"}, {"episode_id": "e1", "num_steps": -1},
     {"episode_id": "e1", "start_time": "noon"}, {"episode_id": "e1", "format": "pickle"},
     {"removed": "e1"}, {"removed": "e1", "from": "a"},
     {"episode_id": "e1", "outcome": 1}])  # fmt: skip
def test_index_lines_that_are_wrong_do_not_follow_the_schema(line):
    assert not INDEX.is_valid(line)


@pytest.mark.parametrize(
    "header",
    [{}, {"schema_version": 2}, {"schema_version": "1"}, {"schema_version": 1, "format": "x"}],
    ids=str,
)
def test_headers_that_are_wrong_do_not_follow_the_schema(header):
    assert not DATASET.is_valid(header)
