"""The ledger: its lines come back as they were, and many shards are made few; turns in order."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processing_support import Noted, Short, record

from rows import each
from webtraj import errors
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.flow import Gate
from webtraj.processing.ledger import Count, Dropped, Entry, Failure, Ledger, Passage
from webtraj.processing.pipeline import Pipeline, process
from webtraj.store.places import open_storage

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True)
SMALL = st.integers(0, 1000)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PASSAGES = st.builds(
    Passage,
    outputs=st.lists(IDS, max_size=3).map(tuple),
    counts=st.lists(st.builds(Count, SMALL, SMALL, SMALL), max_size=4).map(tuple),
    dropped=st.lists(st.builds(Dropped, SMALL, TEXT, TEXT), max_size=3).map(tuple),
    signatures=st.dictionaries(SMALL, st.lists(JSON, max_size=3).map(tuple), max_size=2),
)
ENTRIES = st.builds(
    Entry,
    number=SMALL,
    source=IDS,
    sha256=TEXT,
    task=TEXT,
    passage=PASSAGES,
    failure=st.none() | st.builds(Failure, TEXT, TEXT, TEXT),
)


@settings(max_examples=60, deadline=None)
@given(ENTRIES)
def test_a_line_comes_back(entry):
    line = entry.to_line()
    assert line.count(b"\n") == 1
    assert Entry.from_line(line) == entry


@each(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"number": 1, "source": "../x", "sha256": "", "outputs": [], "counts": []}',
        b'{"number": 1, "source": "x", "sha256": "", "outputs": ["/x"], "counts": []}',
    ],
)
def test_what_is_no_line_is_refused(line):
    with pytest.raises(ValueError):
        Entry.from_line(line)


def entry(source, number=0, **more):
    return lambda n: Entry(number=n, source=source, sha256="a", **more)


def test_the_latest_line_counts_and_outputs_always_do(tmp_path):
    storage = open_storage(tmp_path)
    failed = Failure("step", "ValueError", "no")
    made = Passage(outputs=("e1",))
    ledger = Ledger(storage, "hash")
    for add in (entry("e1", failure=failed), entry("e2", failure=failed)):
        ledger.add(add)
        ledger.flush(lambda: None)
    ledger.add(entry("e1", passage=made))
    ledger.flush(lambda: None)
    again = Ledger(storage, "hash")
    assert again.entries["e1"].passage == made
    assert again.entries["e2"].failure == failed
    assert again.add(entry("e3")).number == 3
    again.add(entry("e1"))  # Another run at the same time dropped it.
    again.flush(lambda: None)
    assert Ledger(storage, "hash").entries["e1"].passage == made


def test_what_cannot_be_settled_is_not_written(tmp_path):
    ledger = Ledger(open_storage(tmp_path), "hash")
    ledger.add(entry("e1"))

    def fail():
        raise errors.StorageUnavailableError("away")

    with pytest.raises(errors.StorageUnavailableError):
        ledger.flush(fail)
    assert ledger.pending == 1
    assert not Ledger(open_storage(tmp_path), "hash").entries
    ledger.flush(lambda: None)
    assert list(Ledger(open_storage(tmp_path), "hash").entries) == ["e1"]


def test_many_shards_are_made_few(tmp_path):
    storage = open_storage(tmp_path)
    ledger = Ledger(storage, "hash")
    for number in range(60):
        ledger.add(entry(f"e{number}"))
        ledger.flush(lambda: None)
    assert len(list(storage.list("processing/"))) == 60
    before = ledger.entries
    assert Ledger(storage, "hash").entries == before
    assert len(list(storage.list("processing/"))) == 1
    assert Ledger(storage, "hash").entries == before


async def test_a_damaged_ledger_is_an_error(tmp_path):
    raw = record(tmp_path / "raw", range(3))
    out = tmp_path / "out"
    await process(raw, out, Pipeline([Noted()]))
    (path,) = (out / "processing").glob("*/ledger/*.jsonl")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(errors.CorruptDataError, match="cannot be read"):
        await process(raw, out, Pipeline([Noted()]))
    (out / "processing" / "pipeline.json").write_bytes(b"{}")
    with pytest.raises(errors.CorruptDataError, match=r"pipeline\.json"):
        await process(raw, out, Pipeline([Noted()]))


async def test_an_episode_that_somebody_else_added_is_left(tmp_path):
    from processing_support import make_episode

    raw = record(tmp_path / "raw", range(3))
    out = tmp_path / "out"
    pipeline = Pipeline([Short()])
    await process(raw, out, pipeline, where=lambda one: one.episode_id == "e00000")
    with DatasetWriter(out) as writer:
        writer.add(make_episode(1, goal="another"))
    report = await process(raw, out, pipeline)
    assert [(one.episode_id, one.step) for one in report.failures] == [("e00001", "write")]
    assert "different episode" in report.failures[0].error
    assert report.outputs == 2


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(8)), st.sets(st.integers(0, 7)))
def test_turns_come_in_order(arrivals, absent):
    async def play():
        gate, order = Gate(), []

        async def come(number):
            if number not in absent:
                await gate.turn(number)
                order.append(number)
            gate.mark_passed(number)
            gate.mark_passed(number)

        await asyncio.gather(*(come(number) for number in arrivals))
        return order

    assert asyncio.run(play()) == sorted(set(range(8)) - absent)
