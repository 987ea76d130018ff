"""Copying, converting, merging and splitting: the identity, round and round, and nothing lost."""

import contextlib
import secrets
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from rows import each
from webtraj import errors, open_dataset
from webtraj.datasets.partition import split
from webtraj.datasets.place import open_place
from webtraj.datasets.transfer import convert, copy, merge
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.places import open_storage
from webtraj.testing.strategies import same, trajectories


def bucket():
    return f"memory://{secrets.token_hex(8)}/dataset"


def content(place):
    """Returns a dataset's episodes and blobs, byte for byte."""
    storage = open_storage(place)
    prefixes = ("episodes/", "blobs/")
    return {e.key: storage.read(e.key) for prefix in prefixes for e in storage.list(prefix)}


@pytest.fixture
def source(tmp_path, episodes):
    with DatasetWriter(tmp_path / "source") as writer:
        for episode in episodes:
            writer.add(episode)
    return tmp_path / "source"


@pytest.mark.parametrize("workers", [1, 8])
def test_a_copy_is_byte_for_byte(source, place, workers, monkeypatch):
    monkeypatch.setattr("webtraj.datasets.transfer._WORKERS", workers)
    report = copy(source, place)
    assert report.added == ("e0", "e1", "e2", "e3", "e4")
    assert report.complete
    assert content(place) == content(source)
    assert verify(place).clean
    assert copy(source, place).skipped == report.added


ROUTES = {
    "json pb json": ["pb", "json"],
    "json zst json": ["pb.zst", "json"],
    "json pb zst pb json": ["pb", "pb.zst", "pb", "json"],
}


@each("where", ["folders", "buckets", "both"])
@each("route", ROUTES.values())
def test_round_and_round_is_the_identity(source, tmp_path, route, where):
    here = source
    for number, format_name in enumerate(route):
        in_bucket = where == "buckets" or (where == "both" and number % 2 == 0)
        there = bucket() if in_bucket else tmp_path / f"stop{number}"
        assert convert(here, there, format=format_name).complete
        assert verify(there).clean
        assert all(map(same, open_dataset(there), open_dataset(source)))
        here = there
    assert content(here) == content(source)


@given(trajectories(max_steps=3))
@settings(deadline=None, max_examples=25)
def test_any_episode_comes_back_byte_for_byte(trajectory):
    with tempfile.TemporaryDirectory() as folder:
        json = Path(folder, "json")
        with DatasetWriter(json) as writer:
            writer.add(trajectory)
        places = [bucket(), str(Path(folder, "pb")), bucket(), str(Path(folder, "again"))]
        here = json
        for there, format_name in zip(places, ["pb", "pb.zst", "json", "json"], strict=True):
            assert convert(here, there, format=format_name).complete
            here = there
        assert content(here) == content(json)


class DiedError(Exception):
    pass


@pytest.mark.parametrize("survived", [0, 1, 2, 3, 7, 11])
def test_a_conversion_that_died_leaves_a_sound_dataset_and_goes_on(
    source, place, monkeypatch, survived
):
    writes = []
    storage_type = type(open_place(source).storage if place[0] == "/" else open_storage(place))
    write = storage_type.write

    def dying(self, key, data, **kwargs):
        if key.startswith(("episodes/", "blobs/", "index/")):
            writes.append(key)
            if len(writes) > survived:
                raise DiedError
        return write(self, key, data, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(storage_type, "write", dying)
        with contextlib.suppress(DiedError):  # A folder needs fewer writes of this kind.
            convert(source, place, format="json")
    assert not [p for p in verify(place).problems if "not in the index" not in p.what]
    assert convert(source, place, format="json").complete
    assert content(place) == content(source)
    assert verify(place).clean


def test_a_condition_chooses_what_is_copied(source, place):
    copy(source, place, where=lambda summary: summary.task == "t0")
    assert list(open_dataset(place).episode_ids) == ["e0", "e2", "e4"]
    assert verify(place).unreferenced_blobs == 0


DAMAGE = {
    "a changed episode": ("episodes/e1.json", lambda d: d.replace(b"click", b"clack"), "e1"),
    "an episode cut short": ("episodes/e1.json", lambda d: d[:-9], "e1"),
    "an episode of another": ("episodes/e1.json", lambda d: d.replace(b'"e1"', b'"e9"'), "e1"),
}


@pytest.mark.parametrize(("key", "damage", "where"), DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("indexed", [True, False])
def test_what_cannot_be_read_is_reported_and_the_rest_is_copied(
    source, place, key, damage, where, indexed
):
    path = source / key
    path.write_bytes(damage(path.read_bytes()))
    if not indexed:
        for index in (source / "index").glob("*.jsonl"):
            index.unlink()
    report = copy(source, place)
    if not indexed and key == "episodes/e1.json" and b"clack" in path.read_bytes():
        assert report.complete  # Nothing says what it was.
        return
    assert [what[:2] for what in report.failed] == [where]
    assert not report.complete
    assert report.added == ("e0", "e2", "e3", "e4")
    assert verify(place).clean


# Merging.


def test_datasets_of_several_kinds_become_one(source, tmp_path, place, episode):
    other = bucket()
    with DatasetWriter(other, format="pb") as writer:
        for number in (3, 4, 5, 6):
            writer.add(episode(number))
    report = merge([source, other], place)
    assert report.complete
    assert len(report.added) == 7
    assert report.skipped == ("e3", "e4")
    assert [e.episode_id for e in open_dataset(place)] == [f"e{n}" for n in range(7)]
    assert verify(place).clean


def test_episodes_of_the_same_id_that_differ_are_reported(source, tmp_path, place, episode):
    with DatasetWriter(tmp_path / "other") as writer:
        writer.add(episode(1, goal="another"))
        writer.add(episode(9))
    report = merge([source, tmp_path / "other"], place)
    assert len(report.clashes) == 1
    assert "different episode 'e1'" in report.clashes[0]
    assert not report.complete
    assert open_dataset(place)["e1"].info.goal == ""
    assert "e9" in open_dataset(place)
    with pytest.raises(errors.InvalidInputError, match="Name at least one"):
        merge([], place)


# Splitting.


def test_parts_by_share_are_whole_and_apart(source, place):
    split(source, place, {"train": 0.6, "test": 0.4}, seed=3)
    parts = [open_dataset(f"{place}/{name}") for name in ("train", "test")]
    assert [len(part) for part in parts] == [3, 2]
    assert {e for part in parts for e in part.episode_ids} == {f"e{n}" for n in range(5)}
    assert all(verify(part.url).clean for part in parts)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_dataset_that_has_grown_is_split_again_and_nothing_moves(tmp_path, episode, seed):
    source, into = tmp_path / "source", tmp_path / "parts"
    with DatasetWriter(source) as writer:
        for n in range(20):
            writer.add(episode(n))
        split(source, into, {"train": 0.8, "test": 0.2}, seed=3)
        before = {name: set(open_dataset(into / name).episode_ids) for name in ("train", "test")}
        for n in range(20, 60):
            writer.add(episode(n))
    split(source, into, {"train": 0.8, "test": 0.2}, seed=seed)
    after = {name: set(open_dataset(into / name).episode_ids) for name in ("train", "test")}
    assert {name: len(ids) for name, ids in after.items()} == {"train": 48, "test": 12}
    assert all(before[name] <= after[name] for name in before)
    assert not after["train"] & after["test"]


@pytest.mark.parametrize("call", [copy, lambda d, into: split(d, into, {"a": 1.0})])
def test_nothing_is_written_into_the_source(source, place, call):
    copy(source, place)
    for dataset in (source, place):
        before = content(dataset)
        with pytest.raises(errors.InvalidInputError, match="is inside the dataset"):
            call(dataset, f"{dataset}/inner")
        assert content(dataset) == before
        with pytest.raises(errors.NotADatasetError):
            open_dataset(f"{dataset}/inner")
    assert len(copy(source, source).skipped) == 5


@each("parts", [{}, {"a": 0.8, "b": 0.3}, {"a": -0.1}, {"a": float("nan")},
     {"a": 0.5, "b": "seed > 1"}, {"../a": 0.5}, {"a": "import os"}, {"": 1.0}])  # fmt: skip
def test_parts_that_are_none_are_refused_and_leave_nothing(source, tmp_path, parts):
    with pytest.raises(errors.InvalidInputError):
        split(source, tmp_path / "parts", parts)
    assert not (tmp_path / "parts").exists()


def test_a_whole_copy_keeps_runs_and_labels_and_a_part_says_what_it_left(tmp_path, source):
    beside = {
        "runs/one/plan.jsonl": b"the plan\n", "runs/one/settings.json": b"{}",
        "runs/one/sessions/0000": b"{}\n", "tasks/one/proposed-x.jsonl": b"{}\n",
        "labels/anna.jsonl": b'{"episode_id":"e1"}\n{"episode_id":"other"}\nno json\n',
    }  # fmt: skip
    for key, content in {**beside, "runs/one/underway.json": b"{}"}.items():
        (source / key).parent.mkdir(parents=True, exist_ok=True)
        (source / key).write_bytes(content)
    whole, part, other = tmp_path / "whole", tmp_path / "part", tmp_path / "other"
    for _ in range(2):  # Copying again changes nothing.
        report = copy(source, whole)
        assert (report.runs, report.left_runs) == (("one",), ())
        for key, content in beside.items():
            if not key.startswith("labels/"):
                assert (whole / key).read_bytes() == content
        assert not (whole / "runs/one/underway.json").exists()
        (labels,) = whole.glob("labels/*.jsonl")
        assert labels.read_bytes() == b'{"episode_id":"e1"}\n'
    report = copy(source, part, where=lambda summary: summary.episode_id == "e2")
    assert (report.runs, report.left_runs) == ((), ("one",))
    assert not list(part.glob("runs/*"))
    assert not list(part.glob("labels/*"))
    with DatasetWriter(other):
        (other / "runs/one").mkdir(parents=True)
        (other / "runs/one/plan.jsonl").write_bytes(b"another plan\n")
    assert copy(source, other).left_runs == ("one",)
    assert (other / "runs/one/plan.jsonl").read_bytes() == b"another plan\n"
    assert not (other / "runs/one/settings.json").exists()
