"""The index as a Parquet file: what pandas, DuckDB and Hugging Face datasets read of it."""

import math
import sys

import pytest

from webtraj import EndReason, Outcome, errors, open_dataset
from webtraj.datasets import parquet
from webtraj.datasets.parquet import write_parquet
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import open_storage

pq = pytest.importorskip("pyarrow.parquet")

SUMMARIES = [
    EpisodeSummary(
        episode_id=f"e{n}",
        task=f"t{n % 2}",
        goal="Größe\n„x“",
        seed=[None, 3, 2**70, -(2**63)][n % 4],
        outcome=Outcome.SUCCESS,
        end_reason=EndReason.TERMINATED,
        num_steps=n,
        total_reward=[1.5, math.nan, -math.inf][n % 3],
        start_time=None if n == 0 else 1.7e9 + n,
        sha256="ab" * 32,
    )
    for n in range(25)
]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_ROWS_AT_ONCE", 10)
    assert write_parquet(iter(SUMMARIES), tmp_path / "index.parquet") == 25
    return tmp_path / "index.parquet"


def test_every_field_of_every_summary_is_there(path):
    rows = pq.read_table(path).to_pylist()
    assert [row["episode_id"] for row in rows] == [s.episode_id for s in SUMMARIES]
    for row, summary in zip(rows, SUMMARIES, strict=True):
        assert row["goal"] == summary.goal
        assert row["outcome"] == "success"
        assert row["end_reason"] == "terminated"
        assert repr(row["total_reward"]) == repr(summary.total_reward)
        assert row["start_time"] == summary.start_time
    assert [row["seed"] for row in rows[:4]] == [None, 3, None, -(2**63)]
    assert pq.ParquetFile(path).num_row_groups == 3
    assert set(rows[0]) == set(EpisodeSummary.__dataclass_fields__)


def test_pandas_reads_it(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(path)
    assert len(frame) == 25
    assert frame[frame.task == "t1"].num_steps.sum() == sum(range(1, 25, 2))


def test_duckdb_reads_it(path):
    duckdb = pytest.importorskip("duckdb")
    query = f"SELECT task, count(*) FROM '{path}' GROUP BY task ORDER BY task"
    assert duckdb.sql(query).fetchall() == [("t0", 13), ("t1", 12)]


@pytest.mark.slow
def test_hugging_face_datasets_reads_it(path, tmp_path):
    datasets = pytest.importorskip("datasets")
    cache = str(tmp_path / "cache")
    found = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=cache)
    assert len(found) == 25
    assert found[3]["episode_id"] == "e3"


def test_a_dataset_writes_its_own_to_a_path_and_to_a_bucket(place, episodes, tmp_path):
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    dataset = open_dataset(place)
    assert dataset.to_parquet(tmp_path / "x.parquet") == 5
    assert dataset.filter(task="t0").to_parquet(tmp_path / "x.parquet") == 3
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 3
    dataset.to_parquet("memory://parquet-test/tables/x.parquet")
    again = open_storage("memory://parquet-test/tables").read("x.parquet")
    assert again[:4] == b"PAR1"


def test_text_with_lone_surrogates_is_kept_as_far_as_it_goes(tmp_path):
    write_parquet([EpisodeSummary(episode_id="e1", goal="a\ud800b")], tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["goal"].to_pylist() == ["a?b"]


def test_an_empty_index_has_columns(tmp_path):
    assert write_parquet([], tmp_path / "x.parquet") == 0
    assert "episode_id" in pq.read_table(tmp_path / "x.parquet").column_names


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.StorageError, match="cannot be written"):
        write_parquet(SUMMARIES, tmp_path / "file" / "x.parquet")
    (tmp_path / "file").unlink()

    def broken():
        yield SUMMARIES[0]
        raise RuntimeError("the reader broke")

    with pytest.raises(RuntimeError):
        write_parquet(broken(), tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(errors.MissingDependencyError, match=r"\[parquet\]"):
        write_parquet(SUMMARIES, tmp_path / "x.parquet")
