"""TensorBoard's files are read back by TensorBoard, W&B's by W&B; neither needs a network."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from measured_episodes import make_trajectory

from wandb_support import needs_wandb, offline_runs, run_with_wandb
from webtraj import errors
from webtraj.metrics import MetricsObserver, TensorBoardSink, WandbSink, measure_trajectories
from webtraj.rollouts import collect

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="needs tensorboard"
)


def read_back(folder):
    """Returns the scalars of a folder, as (step, value) by tag, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return {
        tag: [(event.step, event.value) for event in reader.Scalars(tag)]
        for tag in reader.Tags()["scalars"]
    }


@needs_tensorboard
def test_tensorboard_reads_what_was_written(tmp_path):
    numbers = measure_trajectories([make_trajectory()]).overall.scalars()
    sink = TensorBoardSink(tmp_path / "new" / "folder", clock=lambda: 1234.5)
    sink.write(numbers, step=1)
    assert read_back(sink.path.parent)["success_rate"] == [(1, 1.0)]  # At once, not at the end.
    sink.write({"success_rate": 0.5}, step=2)
    sink.close()
    sink.close()
    found = read_back(sink.path.parent)
    assert found.keys() == numbers.keys()
    assert found["success_rate"] == [(1, 1.0), (2, 0.5)]
    assert found["avg_steps"] == [(1, 1.0)]
    assert sink.path.name.startswith("events.out.tfevents.0000001234.")


@needs_tensorboard
def test_two_sinks_in_one_folder_do_not_meet(tmp_path):
    sinks = [TensorBoardSink(tmp_path, clock=lambda: 1.0) for _ in range(2)]
    for step, sink in enumerate(sinks):
        sink.write({"x": float(step)}, step=step)
        sink.close()
    assert len({sink.path for sink in sinks}) == 2
    assert read_back(tmp_path)["x"] == [(0, 0.0), (1, 1.0)]


@needs_tensorboard
def test_a_record_that_breaks_off_is_taken_back(tmp_path):
    sink = TensorBoardSink(tmp_path)
    sink.write({"x": 1.0}, step=1)
    file = sink._file

    class Full:
        """A disk with room for 10 more bytes."""

        tell, seek, truncate = file.tell, file.seek, file.truncate
        room = 10

        def write(self, data):
            if not self.room:
                raise OSError(28, "No space left on device")
            taken, self.room = bytes(data[: self.room]), 0
            return file.write(taken)

    sink._records._writer._file = Full()
    with pytest.raises(OSError, match="No space left"):
        sink.write({"x": 2.0}, step=2)
    sink._records._writer._file = file
    sink.write({"x": 3.0}, step=3)
    sink.close()
    assert read_back(tmp_path)["x"] == [(1, 1.0), (3, 3.0)]


@needs_tensorboard
def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(errors.StorageError, match="Cannot create TensorBoard's event file"):
        TensorBoardSink(tmp_path / "file")


@needs_tensorboard
async def test_a_rollout_is_seen_in_tensorboard(climber, tmp_path):
    with MetricsObserver(TensorBoardSink(tmp_path / "events")) as observer:
        await collect(["ladder/climb", "ladder/slip"], climber(), episodes=6, observer=observer)
    found = read_back(tmp_path / "events")
    assert [step for step, _ in found["rollout/total"]] == [1, 2, 3, 4, 5, 6]
    assert found["rollout/success_rate"][-1] == (6, 0.5)
    assert observer.lost == {}


@pytest.mark.parametrize(
    ("make", "package"), [(TensorBoardSink, "tensorboard"), (WandbSink, "wandb")]
)
def test_a_package_that_is_missing_is_named_with_its_extra(make, package, monkeypatch, tmp_path):
    for name in [*sys.modules, package]:
        if name == package or name.startswith(f"{package}."):
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.MissingDependencyError, match=rf"\[{package}\]"):
        make(tmp_path / "x")


def test_metrics_import_neither_until_asked():
    code = (
        "import sys, webtraj.metrics\n"
        "print([n for n in ('tensorboard', 'wandb', 'rich', 'playwright') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@needs_wandb
def test_wandb_keeps_what_was_written_offline(tmp_path):
    run_with_wandb(tmp_path, Path(__file__).with_name("wandb_points.py"), tmp_path)
    (run,) = offline_runs(tmp_path, tmp_path)
    assert (run["project"], run["name"]) == ("webtraj-test", "a run")
    assert run["points"] == [
        {"episodes": 4, "rollout/success_rate": 0.25, "rollout/total": 4.0},
        {"episodes": 2, "rollout/success_rate": 0.5, "rollout/total": 2.0},
    ]
