"""What a pipeline makes of a dataset: outputs, provenance, reports; and what it refuses."""

import asyncio
import dataclasses

import orjson
import pytest
from processing_support import (
    Alike,
    Noted,
    Short,
    Twins,
    contents,
    ledger_lines,
    make_episode,
    objects,
    record,
)

from removal import remove
from rows import each
from webtraj import errors, open_dataset
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.base import Changed
from webtraj.processing.pipeline import Pipeline, process
from webtraj.testing.strategies import same


@pytest.fixture
def raw(tmp_path):
    return record(tmp_path / "raw", range(12))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


class Step:
    """A step of a function."""

    version, settings = "1", {}

    def __init__(self, function, name="step"):
        self.function, self.name = function, name

    def __call__(self, trajectory):
        return self.function(trajectory)


async def test_kept_changed_and_dropped_episodes(raw, out):
    before = objects(raw)
    report = await process(raw, out, Pipeline([Short(), Noted("hello")]), parallel=3)
    assert objects(raw) == before
    made = open_dataset(out)
    assert list(made.episode_ids) == [f"e{n:05}" for n in range(12) if n % 7 != 3]
    assert all(one.info.metadata == {"note": "hello"} for one in made)
    assert all(
        same(one.steps, two.steps) for one, two in zip(made[:3], open_dataset(raw)[:3], strict=True)
    )
    assert verify(out).clean
    assert (report.episodes, report.outputs, report.dropped) == (12, 10, 2)
    short, noted = report.steps
    assert (short.seen, short.kept, short.changed, short.dropped) == (12, 10, 0, {"short": 2})
    assert (noted.seen, noted.kept, noted.changed, noted.dropped) == (10, 10, 10, {})
    assert {task.task: (task.episodes, task.outputs, task.dropped) for task in report.tasks} == {
        "t0": (4, 3, 1), "t1": (4, 3, 1), "t2": (4, 4, 0),
    }  # fmt: skip
    (kept,) = [value for key, value in objects(out).items() if key.endswith("/report.json")]
    assert orjson.loads(kept) == orjson.loads(orjson.dumps(report.to_data()))


async def test_provenance_is_on_record(raw, out):
    pipeline = Pipeline([Short(), Noted(), Twins()])
    await process(raw, out, pipeline)
    source = open_dataset(raw).summaries[0]
    twin = open_dataset(out)["e00000.twin"]
    head, note, twins = twin.info.derivation
    assert head.step == "pipeline"
    assert (head.source, head.source_episode_id) == (str(raw), "e00000")
    assert head.source_sha256 == source.sha256
    assert head.settings == {
        "hash": pipeline.identity.hash,
        "steps": ["short 2", "note 1", "twins 1"],
    }
    assert list(head.changes["passage"]["outputs"]) == ["e00000", "e00000.twin"]
    assert (note.step, note.version, note.settings) == ("note", "1", {"word": "seen"})
    assert note.changes == {"note": "added"}
    assert note.software.startswith("webtraj ")
    assert (twins.step, twins.source_episode_id) == ("twins", "e00000")


async def test_a_processed_dataset_can_be_processed(raw, out, tmp_path):
    await process(raw, out, Pipeline([Noted("one")]))
    await process(out, tmp_path / "next", Pipeline([Noted("two")]))
    made = open_dataset(tmp_path / "next")[0]
    steps = [one.step for one in made.info.derivation]
    assert steps == ["pipeline", "note", "pipeline", "note"]
    assert made.info.derivation[2].source == str(out)


@pytest.mark.parametrize("parallel", [1, 4, 16])
async def test_ordered_steps_go_by_the_order_of_the_dataset(tmp_path, out, parallel):
    raw = record(tmp_path / "raw", range(60))

    class Late:
        """Takes longer for the earlier ones."""

        name, version, settings = "late", "1", {}

        async def __call__(self, trajectory):
            for _ in range((-int(trajectory.info.seed)) % 7):
                await asyncio.sleep(0)
            return trajectory

    report = await process(raw, out, Pipeline([Late(), Alike()]), parallel=parallel)
    assert list(open_dataset(out).episode_ids) == [f"e{n:05}" for n in range(40)]
    assert report.steps[1].dropped == {"alike": 20}
    assert [line["source"] for line in ledger_lines(out)] == [f"e{n:05}" for n in range(60)]


async def test_steps_of_a_pipeline_do_not_remember_earlier_runs(raw, tmp_path):
    pipeline = Pipeline([Alike()])
    first = await process(raw, tmp_path / "first", pipeline)
    again = await process(raw, tmp_path / "again", pipeline)
    assert again.outputs == first.outputs > 0


async def test_what_is_done_is_not_done_again_and_new_episodes_are(raw, out):
    asked = []
    step = Step(lambda one: asked.append(one.episode_id) or one)
    pipeline = Pipeline([step, Alike()])
    await process(raw, out, pipeline)
    assert len(asked) == 12
    assert (await process(raw, out, pipeline)).now == 0
    record(raw, range(12, 50))
    report = await process(raw, out, pipeline)
    assert set(asked[12:]) == {f"e{n:05}" for n in range(12, 50)}
    assert (report.now, report.episodes, report.outputs) == (38, 50, 40)


async def test_a_failed_episode_is_named_not_written_and_tried_again(raw, out):
    broken = True

    def fail(one):
        if broken and one.episode_id in ("e00002", "e00005"):
            raise ValueError("no reply")
        return one

    pipeline = Pipeline([Step(fail, "fragile"), Noted()])
    report = await process(raw, out, pipeline)
    assert [(f.episode_id, f.step, f.error) for f in report.failures] == [
        ("e00002", "fragile", "ValueError: no reply"),
        ("e00005", "fragile", "ValueError: no reply"),
    ]
    assert report.steps[0].failed == 2
    assert len(open_dataset(out)) == 10
    broken = False
    assert (await process(raw, out, pipeline, retry_failed=False)).now == 0
    report = await process(raw, out, pipeline)
    assert (report.now, report.failures, report.outputs) == (2, (), 12)
    undisturbed = out.with_name("undisturbed")
    await process(raw, undisturbed, pipeline)
    assert contents(out) == contents(undisturbed)


async def test_a_twin_is_not_lost_with_one_that_failed_after_it_was_let_in(raw, tmp_path, out):
    """The first of two alike is let in, keeps the second out, and fails: it comes in later."""
    raw = record(tmp_path / "pair", [0, 40])
    broken = True

    def fail(one):
        if broken:
            raise ValueError("away")
        return one

    pipeline = Pipeline([Alike(), Step(fail)])
    report = await process(raw, out, pipeline)
    assert (report.dropped, len(report.failures)) == (1, 1)
    broken = False
    report = await process(raw, out, pipeline)
    assert list(open_dataset(out).episode_ids) == ["e00000"]
    assert (report.outputs, report.dropped) == (1, 1)


async def test_too_many_failures_in_a_row_stop_it(raw, out):
    def fail(one):
        raise ValueError("the model is away")

    with pytest.raises(errors.ProcessingStoppedError, match=r"4 episodes in a row.*away"):
        await process(raw, out, Pipeline([Step(fail)]), patience=4, parallel=1)
    assert len(ledger_lines(out)) == 4  # It is on record, and is tried again.
    assert (await process(raw, out, Pipeline([Step(fail)]), patience=100)).now == 12


@pytest.mark.parametrize("result", [None, "text", Changed(())], ids=["none", "text", "empty"])
async def test_what_is_no_result_is_a_failure(raw, out, result):
    report = await process(raw, out, Pipeline([Step(lambda one: result)]), patience=100)
    assert len(report.failures) == 12
    assert "expected a trajectory" in report.failures[0].error


async def test_what_cannot_be_written_is_a_failure(raw, out):
    def spoil(one):
        return dataclasses.replace(one, end=None) if one.episode_id == "e00001" else one

    report = await process(raw, out, Pipeline([Step(spoil)]))
    assert [(one.episode_id, one.step) for one in report.failures] == [("e00001", "write")]
    assert report.outputs == 11


async def test_one_output_does_not_take_another_s_place(raw, out):
    def same_name(one):
        info = dataclasses.replace(one.info, episode_id="same")
        return dataclasses.replace(one, info=info)

    report = await process(raw, out, Pipeline([Step(same_name)]), patience=100, parallel=1)
    assert report.outputs == 1
    assert len(report.failures) == 11
    assert open_dataset(out)["same"].info.derivation[0].source_episode_id == "e00000"


async def test_a_damaged_episode_is_a_failure(raw, out):
    path = raw / "episodes" / "e00004.json"
    path.write_bytes(path.read_bytes().replace(b'"n":4', b'"n":5'))
    report = await process(raw, out, Pipeline([Noted()]))
    assert [(one.episode_id, one.step) for one in report.failures] == [("e00004", "read")]
    assert "does not match the index" in report.failures[0].error


@pytest.mark.parametrize("name", ["pb", "pb.zst"])
async def test_other_formats(raw, out, name):
    await process(raw, out, Pipeline([Noted()]), format=name)
    plain = out.with_name("plain")
    await process(raw, plain, Pipeline([Noted()]))
    assert contents(out) == contents(plain)
    assert verify(out).clean
    assert (await process(raw, out, Pipeline([Noted()]), format=name)).now == 0


@each(
    "inside",
    [lambda p: p, lambda p: p / "x", lambda p: p.parent, lambda p: p / ".." / p.name,
     lambda p: f"file://{p}/x"],
)  # fmt: skip
async def test_places_that_lie_in_each_other_are_refused(raw, inside):
    with pytest.raises(errors.InvalidInputError, match="one lies in the other"):
        await process(raw, inside(raw), Pipeline([Noted()]))


async def test_another_pipeline_is_refused_and_both_are_named(raw, out):
    await process(raw, out, Pipeline([Noted("one")]))
    with pytest.raises(errors.InvalidInputError) as raised:
        await process(raw, out, Pipeline([Short(), Noted("two")]))
    assert "note 1 (word='one')" in str(raised.value)
    assert "short 2 (least=1), note 1 (word='two')" in str(raised.value)


async def test_a_dataset_that_no_pipeline_made_is_refused(raw, tmp_path):
    other = record(tmp_path / "other", range(3))
    with pytest.raises(errors.InvalidInputError, match="no pipeline made"):
        await process(raw, other, Pipeline([Noted()]))
    assert len(open_dataset(other)) == 3


async def test_two_runs_at_once_in_a_folder_are_refused(raw, out):
    inside = asyncio.Event()

    class Waiting(Noted):
        async def __call__(self, trajectory):
            inside.set()
            await release.wait()
            return trajectory

    release = asyncio.Event()
    first = asyncio.create_task(process(raw, out, Pipeline([Waiting()])))
    await inside.wait()
    with pytest.raises(errors.InvalidInputError, match="Another run"):
        await process(raw, out, Pipeline([Waiting()]))
    release.set()
    assert (await first).outputs == 12


async def test_a_cancelled_run_goes_on(raw, out):
    async def slow(one):
        if one.episode_id == "e00006":
            reached.set()
            await asyncio.sleep(3600)
        return one

    reached = asyncio.Event()
    run = asyncio.create_task(process(raw, out, Pipeline([Step(slow)]), parallel=2))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    done = len(ledger_lines(out))
    assert done <= 6
    report = await process(raw, out, Pipeline([Step(lambda one: one)]))
    assert (report.now, report.outputs, report.episodes) == (12 - done, 12, 12)


async def test_a_changed_recorded_episode_is_told(raw, out):
    await process(raw, out, Pipeline([Noted()]))
    remove(raw, "e00003")
    with DatasetWriter(raw) as writer:
        writer.add(make_episode(3, goal="another"))
    report = await process(raw, out, Pipeline([Noted()]))
    assert (report.now, report.stale) == (0, ("e00003",))
