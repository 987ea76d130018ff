"""The index as a Parquet file: what pandas, DuckDB and Hugging Face datasets read of it."""

import math

import pytest

from webtraj import EndReason, Outcome
from webtraj.datasets import parquet
from webtraj.datasets.parquet import write_parquet
from webtraj.store.index import EpisodeSummary

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
    assert set(rows[0]) == {*EpisodeSummary.__struct_fields__, "superseded"}


@pytest.mark.slow
def test_hugging_face_datasets_reads_it(path, tmp_path):
    datasets = pytest.importorskip("datasets")
    cache = str(tmp_path / "cache")
    found = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=cache)
    assert len(found) == 25
    assert found[3]["episode_id"] == "e3"
