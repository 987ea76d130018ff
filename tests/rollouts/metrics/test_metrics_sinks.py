"""TensorBoard's files are read back by TensorBoard, W&B's by W&B; neither needs a network."""

import importlib.util
from pathlib import Path

import pytest
from measured_episodes import make_trajectory

from wandb_support import needs_wandb, offline_runs, run_with_wandb
from webtraj.metrics import TensorBoardSink, measure_trajectories

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


@needs_wandb
def test_wandb_keeps_what_was_written_offline(tmp_path):
    run_with_wandb(tmp_path, Path(__file__).with_name("wandb_points.py"), tmp_path)
    (run,) = offline_runs(tmp_path, tmp_path)
    assert (run["project"], run["name"]) == ("webtraj-test", "a run")
    assert run["points"] == [
        {"episodes": 4, "rollout/success_rate": 0.25, "rollout/total": 4.0},
        {"episodes": 2, "rollout/success_rate": 0.5, "rollout/total": 2.0},
    ]
