"""Golden files are read to the very values that they were written with; newer ones are refused."""

import importlib.util
import shutil
from pathlib import Path

import orjson
import pytest

from rows import each
from webtraj import JsonTrajectoryCollector, errors, open_dataset
from webtraj.collectors.local import ProtobufTrajectoryCollector
from webtraj.datasets.partition import split
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.transfer import convert, copy, merge
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.layout import DatasetLayout
from webtraj.testing.strategies import same

GOLDEN = Path(__file__).parents[1] / "golden"


def load_golden():
    spec = importlib.util.spec_from_file_location("make_golden_v1", GOLDEN / "make_golden_v1.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden = load_golden()

NAMES = ["v1-json", "v1-pb", "v1-pb.zst"]


@pytest.mark.parametrize("name", NAMES)
def test_golden_datasets_are_read_to_the_values_they_were_written_with(name):
    dataset = open_dataset(GOLDEN / name)
    expected = golden.episodes()
    assert len(dataset) == len(expected) == 3
    for read, written in zip(dataset, expected, strict=True):
        assert same(read, written)
    assert verify(GOLDEN / name).clean


@pytest.mark.parametrize("name", NAMES)
def test_golden_datasets_are_found_without_their_index(name, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path / "d", ignore=shutil.ignore_patterns("index"))
    found = open_dataset(tmp_path / "d").summaries
    indexed = open_dataset(GOLDEN / name).summaries
    assert list(map(repr, found)) == list(map(repr, indexed))


def test_a_golden_journal_is_recovered(tmp_path):
    shutil.copytree(GOLDEN / "v1-open", tmp_path / "d")
    assert open_dataset(tmp_path / "d").open_episodes == ("golden-open",)
    report = recover(tmp_path / "d")
    assert [summary.episode_id for summary in report.sealed] == ["golden-open"]
    assert same(open_dataset(tmp_path / "d")[0], golden.journaled())
    assert verify(tmp_path / "d").clean


# Newer ones.


@pytest.fixture
def newer(tmp_path):
    """A dataset that webtraj 9.9 wrote."""
    shutil.copytree(GOLDEN / "v1-json", tmp_path / "newer")
    header = {"schema_version": 2, "webtraj_version": "9.9.0", "format": "json"}
    (tmp_path / "newer" / "dataset.json").write_bytes(orjson.dumps(header))
    return tmp_path / "newer"


ENTRIES = {
    "open": open_dataset,
    "verify": verify,
    "recover": recover,
    "rebuild": rebuild,
    "convert": lambda place: convert(place, place.parent / "there", format="pb"),
    "copy": lambda place: copy(place, place.parent / "there"),
    "copy to": lambda place: copy(GOLDEN / "v1-json", place),
    "merge": lambda place: merge([GOLDEN / "v1-json", place], place.parent / "there"),
    "split": lambda place: split(place, place.parent / "there", {"a": 1.0}),
    "write": DatasetWriter,
    "collect json": JsonTrajectoryCollector,
    "collect protobuf": ProtobufTrajectoryCollector,
    "check": lambda place: DatasetLayout(place).check(),
}


@each("enter", ENTRIES.values())
def test_a_newer_dataset_is_refused_with_the_version_it_needs(newer, enter):
    before = {path: path.read_bytes() for path in newer.rglob("*.*")}
    with pytest.raises(errors.UnsupportedSchemaError, match=r"version 2.*webtraj 9\.9\.0"):
        enter(newer)
    assert {path: path.read_bytes() for path in newer.rglob("*.*")} == before
    assert not (newer.parent / "there").exists()


def with_newer_episode(tmp_path, *, indexed):
    shutil.copytree(GOLDEN / "v1-json", tmp_path / "d")
    path = tmp_path / "d" / "episodes" / "golden-1-won.json"
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":2', 1))
    if not indexed:
        shutil.rmtree(tmp_path / "d" / "index")
    return tmp_path / "d"


@pytest.mark.parametrize("indexed", [True, False])
def test_a_newer_episode_is_refused_and_the_others_are_read(tmp_path, indexed):
    place = with_newer_episode(tmp_path, indexed=indexed)
    dataset = open_dataset(place)
    assert len(dataset) == 3
    # Changed after its index line was written, it is no longer looked into.
    said = "does not match the index" if indexed else "version 2"
    with pytest.raises(errors.DatasetError, match=said):
        dataset["golden-1-won"]
    assert dataset["golden-3-failed"].num_steps == 2
    told = [p.what for p in verify(place).problems if p.where == "golden-1-won"]
    assert any("schema version 2" in what for what in told)
    recover(place)
    assert len(open_dataset(place)) == 3


def test_a_newer_journal_is_left_and_told(tmp_path):
    shutil.copytree(GOLDEN / "v1-open", tmp_path / "d")
    path = tmp_path / "d" / "journal" / "golden-open.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"schema_version":1', b'"schema_version":2', 1))
    before = path.read_bytes()
    report = recover(tmp_path / "d")
    assert report.sealed == ()
    assert "schema version 2" in report.unreadable[0]
    assert path.read_bytes() == before
