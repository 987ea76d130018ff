"""Anything anywhere in a source is read or reported; nothing is raised, nothing invalid made."""

import copy
import gzip
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import webgym_shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_validity import assert_valid

from webtraj.datasets.importers import Problem, Source
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EpisodeTrajectory
from webtraj_formats.importers import agentlab, miniwob_demos, webgym

DATA = Path(__file__).parent / "data"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
VALUES = JSON | st.binary(max_size=5) | st.just(OpaqueRecord("x", {})) | st.just(np.arange(2))


def check(found):
    """Asserts that what was found is sound, as far as the source was."""
    for one in found:
        if isinstance(one, EpisodeTrajectory) and not one.end.recording_errors:
            if not one.end.violations and one.lost_step is None:
                assert_valid(one)
        elif isinstance(one, Problem):
            assert one.where
            assert str(one.error)


def paths_in(value, path=()):
    """Yields the path of every value in a nest of records, mappings and lists."""
    if path:
        yield path
    if isinstance(value, OpaqueRecord):
        value = value.fields
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_in(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from paths_in(item, (*path, i))


def put(value, path, new):
    """Puts a value where a path leads."""
    for part in path[:-1]:
        value = (value.fields if isinstance(value, OpaqueRecord) else value)[part]
    (value.fields if isinstance(value, OpaqueRecord) else value)[path[-1]] = new


def make(name, **fields):
    return OpaqueRecord(f"webgym.data.components.{name}", fields)


WEBGYM = {
    "trajectories": webgym_shapes.trajectories(make),
    "metadata": {"iteration": 1, "solution_model": "m"},
}
WEBGYM_PATHS = sorted(paths_in(WEBGYM), key=str)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WEBGYM_PATHS), VALUES), min_size=1, max_size=3))
def test_webgym(tmp_path_factory, changes):
    data = copy.deepcopy(WEBGYM)
    for path, value in changes:
        try:
            put(data, path, value)
        except (TypeError, KeyError, IndexError):  # An earlier change took the place away.
            continue
    file = tmp_path_factory.mktemp("webgym") / "a.pt"
    file.write_bytes(b"PK")
    reader = webgym.read_torch_file
    webgym.read_torch_file = lambda *_, **__: data
    try:
        check(list(webgym.read(Source(path=file))))
    finally:
        webgym.read_torch_file = reader


DEMO = json.loads((DATA / "demos" / "enter-text-failed.json").read_bytes())
DEMO_PATHS = sorted((path for path in paths_in(DEMO) if len(path) <= 5), key=str)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DEMO_PATHS), JSON), min_size=1, max_size=3))
def test_demonstrations(tmp_path_factory, changes):
    data = copy.deepcopy(DEMO)
    for path, value in changes:
        try:
            put(data, path, value)
        except (TypeError, KeyError, IndexError):
            continue
    folder = tmp_path_factory.mktemp("demos")
    (folder / "a.json").write_text(json.dumps(data))
    check(list(miniwob_demos.read(Source(path=folder))))


(EXPERIMENT,) = (DATA / "browsergym").glob("*-solved_*")
FILES = sorted(path.name for path in EXPERIMENT.iterdir())


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_an_experiment_with_a_changed_file(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("bytes") / EXPERIMENT.name
    shutil.copytree(EXPERIMENT, folder)
    content = (folder / name).read_bytes()
    packed = name.endswith(".gz")
    mutable = bytearray(gzip.decompress(content) if packed else content)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(mutable) - 1))
        mutable[at] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(gzip.compress(mutable) if packed else mutable)
    check(list(agentlab.read(Source(path=folder))))


class StepInfo:
    """Stands for the record of a step. Pickles by this module's name."""

    def __init__(self, fields):
        self.__dict__.update(fields)


RECORD = {
    "step": 0, "obs": {"goal": "g", "goal_object": None}, "reward": 0.0, "raw_reward": None,
    "terminated": False, "truncated": False, "action": "a", "stats": {"input_tokens": 3},
    "agent_info": {
        "think": "t", "stats": {}, "extra_info": {"chat_model_args": {"model_name": "m"}},
        "chat_messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]},
                          {"role": "assistant", "content": "y"}],
    },
    "profiling": {"env_start": 1.0, "env_stop": 2.0, "agent_start": 2.0, "agent_stop": 3.0},
    "task_info": {},
}  # fmt: skip
RECORD_PATHS = sorted(paths_in(RECORD), key=str)
SUMMARY = {"err_msg": None, "stack_trace": None, "terminated": True, "truncated": False}
PLAIN = JSON | st.binary(max_size=5) | st.just(np.arange(2))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(RECORD_PATHS), PLAIN), min_size=1, max_size=3
    ),
    st.dictionaries(st.sampled_from(sorted(SUMMARY)), JSON, max_size=2),
)
def test_an_experiment_with_other_values(tmp_path_factory, changes, summary):
    folder = tmp_path_factory.mktemp("values")
    records = [copy.deepcopy({**RECORD, "step": k}) for k in range(3)]
    for k, record in enumerate(records):
        record["profiling"] = {name: time + 9 * k for name, time in record["profiling"].items()}
    records[2].update(action=None, stats=None, terminated=True)
    for k, path, value in changes:
        try:
            put(records[k], path, value)
        except (
            TypeError,
            KeyError,
            IndexError,
            ValueError,
        ):  # No such place now.
            continue
    for k, record in enumerate(records):
        content = pickle.dumps(StepInfo(record))
        (folder / f"step_{k}.pkl.gz").write_bytes(gzip.compress(content))
    (folder / "summary_info.json").write_text(json.dumps({**SUMMARY, **summary}))
    allowed = (f"{StepInfo.__module__}.StepInfo",)
    found = list(agentlab.read(Source(path=folder, allow_classes=allowed)))
    times = any("profiling" in path for _, path, _ in changes)
    if not times:  # They may run backwards, and are kept as they are.
        check(found)
