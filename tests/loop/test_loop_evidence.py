"""What `make test-loop` goes by: what was durable when a loop was killed, and is lost later."""

import json
import shutil

import pytest
from loop_evidence import Evidence, lost

from webtraj import JsonTrajectoryCollector
from webtraj.datasets.recovery import recover
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, StepRecord, StepType

DATASET = "train_trajectories/iteration_0001"
TRAINING = "training/iteration_0001"


def record(collector, name, *, steps=3, ends=True):
    recorder = collector.begin_episode(EpisodeInfo(episode_id=name))
    recorder.record_step(StepRecord(0, StepType.FIRST, {"page": "p" * 5000}))
    for index in range(1, steps):
        recorder.record_step(StepRecord(index, StepType.MID, {"n": index}, "click", 0.0, 1.0))
    if ends:
        recorder.end_episode(EpisodeEnd(reason=EndReason.CANCELLED))
    return recorder


@pytest.fixture
async def killed(tmp_path):
    """A loop's folder with a sealed episode, one that was cut off, and a training; and evidence."""
    async with JsonTrajectoryCollector(tmp_path / DATASET) as collector:
        record(collector, "sealed")
    collector = JsonTrajectoryCollector(tmp_path / DATASET)
    open_still = record(collector, "open", ends=False)
    training = tmp_path / TRAINING
    checkpoint = training / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    (training / "latest").write_text("checkpoint-2")
    (checkpoint / "state.json").write_text('{"step": 2}')
    write_log(training, [0.3, 0.2, 0.1])
    evidence = Evidence.take(tmp_path)
    shutil.copytree(tmp_path, tmp_path / "dead")
    del open_still
    await collector.aclose()
    recover(tmp_path / "dead" / DATASET)
    return tmp_path / "dead", evidence


def write_log(training, losses):
    lines = [json.dumps({"step": n, "loss": loss}) for n, loss in enumerate(losses, start=1)]
    (training / "train_log.jsonl").write_text("\n".join(lines) + "\n")


def test_what_goes_on_has_lost_nothing(killed):
    out, evidence = killed
    write_log(out / TRAINING, [0.3, 0.2, 0.15, 0.14])  # What came after the checkpoint is anew.
    assert list(lost(evidence, out)) == []
    assert len(evidence.open) == 1
    assert {name.split("/")[2] for name in evidence.files} == {"episodes", "blobs"}


def remove_episode(out):
    (out / DATASET / "episodes/sealed.json").unlink()


def change_episode(out):
    path = out / DATASET / "episodes/sealed.json"
    path.write_bytes(path.read_bytes() + b" ")


def remove_blob(out):
    next((out / DATASET / "blobs").rglob("*.*")).unlink()


def forget_open_episode(out):
    (out / DATASET / "episodes/open.json").unlink()


def forget_a_step(out):
    path = out / DATASET / "episodes/open.json"
    data = json.loads(path.read_bytes())
    path.write_text(json.dumps({**data, "steps": data["steps"][:-1]}))


def train_again(out):
    write_log(out / TRAINING, [0.3, 0.21, 0.1])


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        pytest.param(remove_episode, "is gone", id="episode-removed"),
        pytest.param(change_episode, "has changed", id="episode-changed"),
        pytest.param(remove_blob, "is gone", id="blob-removed"),
        pytest.param(forget_open_episode, "no episode was made of it", id="open-episode-forgotten"),
        pytest.param(forget_a_step, "has others", id="step-forgotten"),
        pytest.param(train_again, "does not go on", id="trained-again"),
    ],
)
def test_what_is_lost_is_told(killed, harm, told):
    out, evidence = killed
    harm(out)
    (problem,) = lost(evidence, out)
    assert told in problem
