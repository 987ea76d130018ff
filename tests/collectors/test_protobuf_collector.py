"""What the Protobuf collector promises beyond what every collector does."""

import shutil
import subprocess
import sys

import pytest

import webtraj
from webtraj import JsonTrajectoryCollector, errors, open_dataset
from webtraj.collectors.local import ProtobufTrajectoryCollector
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.trajectory import EndReason

SUFFIXES = {None: "pb", "zst": "pb.zst"}
SHOT = b"\xff\xd8\xff" + bytes(range(256)) * 40
SEEN = {"url": "https://a.example/", "screenshot": SHOT, "text": "long " * 2000}


@pytest.fixture(params=SUFFIXES, ids=["plain", "zst"])
def squeezed(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "dataset"


def record(collector, records, episode_id="one", num_steps=3):
    recorder = collector.begin_episode(records.info(episode_id, goal="tea"))
    for index in range(num_steps):
        if index:
            recorder.record_intent(f"a{index}")
        recorder.record_step(records.step(index, SEEN, last=index == num_steps - 1))
    return recorder


def test_an_episode_is_one_file_and_leaves_nothing_else(folder, records, squeezed):
    with ProtobufTrajectoryCollector(folder, compression=squeezed) as collector:
        record(collector, records).end_episode(records.end)
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert sorted(name for name in files if not name.startswith("index/")) == [
        "dataset.json",
        f"episodes/one.{SUFFIXES[squeezed]}",
    ]
    assert not list((folder / "unshared").iterdir())
    (episode,) = open_dataset(folder)
    assert [step.observation for step in episode.steps] == [SEEN] * 3
    assert verify(folder).clean


def test_the_file_alone_is_the_episode(folder, records, tmp_path):
    with ProtobufTrajectoryCollector(folder) as collector:
        record(collector, records).end_episode(records.end)
    message = pb.TrajectoryData.FromString((folder / "episodes/one.pb").read_bytes())
    shutil.rmtree(folder)
    assert message.goal == "tea"
    assert message.actions[1].browser_gym_action.action_string == "a1"
    assert message.actions[1].after_state.viewport.screenshot.content == SHOT


async def test_the_three_formats_hold_the_same(folder, records, tmp_path):
    collectors = {
        "json": JsonTrajectoryCollector(tmp_path / "json"),
        "pb": ProtobufTrajectoryCollector(tmp_path / "pb"),
        "pb.zst": ProtobufTrajectoryCollector(tmp_path / "zst", compression="zst"),
    }
    async with webtraj.TeeTrajectoryCollector(*collectors.values()) as collector:
        record(collector, records).end_episode(records.end)
    read = [open_dataset(tmp_path / name)["one"] for name in ("json", "pb", "zst")]
    assert read[0].steps == read[1].steps == read[2].steps
    assert read[0].end == read[1].end == read[2].end


def test_what_a_dead_process_left_is_recovered(folder, records, squeezed):
    program = f"""
import os, webtraj
from webtraj.collectors.local import ProtobufTrajectoryCollector
from webtraj.trajectory import StepRecord, StepType
collector = ProtobufTrajectoryCollector({str(folder)!r}, compression={squeezed!r})
recorder = collector.begin_episode(webtraj.EpisodeInfo(episode_id="one"))
recorder.record_step(StepRecord(0, StepType.FIRST, {SEEN!r}))
recorder.record_intent("a1")
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 9
    (sealed,) = recover(folder).sealed
    assert (sealed.end_reason, sealed.format) == (EndReason.CRASHED, SUFFIXES[squeezed])
    (episode,) = open_dataset(folder)
    assert episode.steps[0].observation == SEEN
    assert episode.end.in_flight_action == "a1"
    assert not (folder / "unshared").exists() or not list((folder / "unshared").iterdir())
    assert verify(folder).clean


def test_a_damaged_blob_seals_nothing_and_loses_nothing(folder, records):
    collector = ProtobufTrajectoryCollector(folder)
    recorder = record(collector, records)
    (shot,) = (folder / "unshared/one").glob("*.jpg")
    whole = shot.read_bytes()
    shot.write_bytes(whole[:-1] + b"!")
    recorder.end_episode(records.end)
    with pytest.raises(errors.CollectorError, match="Its journal is kept"):
        collector.close()
    shot.write_bytes(whole)
    assert len(recover(folder).sealed) == 1
    assert open_dataset(folder)["one"].steps[0].observation == SEEN


def test_a_changed_file_is_found(folder, records, squeezed):
    with ProtobufTrajectoryCollector(folder, compression=squeezed) as collector:
        record(collector, records).end_episode(records.end)
    path = folder / f"episodes/one.{SUFFIXES[squeezed]}"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert any("does not match the index" in str(each) for each in verify(folder).problems)
