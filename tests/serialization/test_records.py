"""The records of `webtraj.trajectory` to JSON and back."""

import hashlib

import orjson
import pytest
from hypothesis import given, settings

from rows import each
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import encoding, records
from webtraj.store.blobs import blobs_in, blobs_of
from webtraj.testing.strategies import decisions, same, trajectories


def round_trip(record):
    line, unwritable = encoding.dumps_fields({"record": record})
    assert unwritable == []
    return records.decode_record(type(record), orjson.loads(line)["record"])


@given(trajectories())
@settings(deadline=None, max_examples=20)
def test_reading_a_trajectory_gives_what_was_written(trajectory):
    assert same(round_trip(trajectory), trajectory)


@given(decisions())
@settings(deadline=None, max_examples=20)
def test_reading_a_decision_gives_what_was_written(decision):
    assert same(round_trip(decision), decision)


def test_defaults_are_left_out():
    step = trajectory_lib.StepRecord(0, trajectory_lib.StepType.FIRST, "seen")
    assert encoding.encode_record(step, encoding.Encoder()) == {
        "index": 0,
        "step_type": "first",
        "observation": "seen",
    }


def test_fields_that_this_version_does_not_know_are_left_aside():
    data = {"index": 0, "step_type": "first", "observation": 1, "smell": "none"}
    step = records.decode_record(trajectory_lib.StepRecord, data)
    assert step == trajectory_lib.StepRecord(0, trajectory_lib.StepType.FIRST, 1)


@pytest.mark.parametrize(
    ("data", "reason", "phase", "outcome"),
    [
        ({"reason": "closed", "phase": "exit", "outcome": "success"}, "CLOSED", "exit", "SUCCESS"),
        ({"reason": "abducted"}, "UNKNOWN", None, "UNKNOWN"),
        ({"reason": None, "phase": "dusk", "outcome": 7}, "UNKNOWN", None, "UNKNOWN"),
    ],
)
def test_enum_names_that_are_not_known_decode_to_unknown(data, reason, phase, outcome):
    end = records.decode_record(trajectory_lib.EpisodeEnd, data)
    assert (end.reason.name, end.phase, end.outcome.name) == (reason, phase, outcome)


@each(
    ("cls", "data"),
    [
        (trajectory_lib.StepRecord, {}),
        (trajectory_lib.StepRecord, {"index": 0, "step_type": "middle", "observation": 1}),
        (trajectory_lib.StepRecord, {"index": 0, "step_type": None, "observation": 1}),
        (trajectory_lib.StepRecord, []),
        (trajectory_lib.EpisodeEnd, {}),
        (trajectory_lib.EpisodeEnd, None),
        (trajectory_lib.Decision, {"model_calls": 3}),
        (trajectory_lib.Decision, {"model_calls": ["x"]}),
        (trajectory_lib.Decision, {"action": {"$": "?"}}),
        (trajectory_lib.EpisodeTrajectory, {"info": {}, "steps": None}),
        (trajectory_lib.EpisodeTrajectory, {"info": "x", "steps": []}),
        (trajectory_lib.EpisodeTrajectory, {"steps": []}),
    ],
)
def test_records_that_do_not_follow_the_format_are_refused(cls, data):
    with pytest.raises(errors.CorruptDataError):
        records.decode_record(cls, data)


SHA = hashlib.sha256(b"").hexdigest()


def test_references_are_found_wherever_they_are():
    tag = {"$": "blob", "sha256": SHA, "ext": "bin", "size": 0}
    text = {**tag, "$": "text"}
    nested = {"$": "nested", "v": orjson.dumps([{"x": tag}]).decode()}
    lines = b"\n".join(map(orjson.dumps, [{"a": [tag]}, {"b": {"$": "tuple", "v": [nested]}}]))
    assert len(blobs_in(lines + b'\n{"torn": ')) == 1
    assert blobs_of({"deep": [[text]]}) == blobs_of(tag)


@pytest.mark.parametrize(
    "data",
    [
        {"$": "blob"},
        {"$": "blob", "sha256": SHA, "ext": "bin", "size": "many"},
        {"$": "text", "sha256": SHA, "ext": "bin", "size": None},
        {"$": "nested"},
        {"$": "nested", "v": "[1"},
    ],
    ids=str,
)
def test_references_that_do_not_follow_the_format_are_refused(data):
    with pytest.raises(errors.CorruptDataError):
        blobs_of([data])
    with pytest.raises(errors.CorruptDataError):
        blobs_in(orjson.dumps(data))
