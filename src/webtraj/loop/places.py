"""Where a loop's things are.

::

    <out>/loop.yaml                               what the loop was told, the last time
          state.jsonl                             what was done: see `state`
          metrics.jsonl, success.png              what came of it: see `metrics`, `plots`
          logs/iteration_0001/train.log           what each phase printed
          train_trajectories/iteration_0001/      what was recorded in iteration 1,
          train_trajectories/judged/iteration_0001/    with what judges said,
          processed/iteration_0001/               and what post-processing made of it
          test_trajectories/iteration_0001/       the evaluation with the weights that began with
                            iteration_0002/       that with the weights of iteration 1
          exports/iteration_0001/                 what iteration 1 was trained on
          training/iteration_0001/                the run, and the model: model.pt
          model.pt -> training/iteration_0001/model.pt    the latest model
          locks/                                  held while the loop and its phases run

In both splits, iteration k was played with the weights of iteration k - 1, turn by turn.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from webtraj.loop.configuration import LoopConfig
from webtraj.rollouts.iterations import Iterations

__all__ = ["MODEL", "Places", "version_name"]

MODEL = "model.pt"
"""What a trained model's folder is called."""


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The paths of a loop."""

    config: LoopConfig

    @property
    def out(self) -> Path:
        """The loop's folder."""
        return Path(self.config.out)

    @property
    def configuration(self) -> Path:
        """What it was told."""
        return self.out / "loop.yaml"

    @property
    def state(self) -> Path:
        """What was done."""
        return self.out / "state.jsonl"

    @property
    def metrics(self) -> Path:
        """What came of it."""
        return self.out / "metrics.jsonl"

    @property
    def plot(self) -> Path:
        """The same as a picture."""
        return self.out / "success.png"

    @property
    def latest_model(self) -> Path:
        """Leads to the latest model."""
        return self.out / MODEL

    def lock(self, name: str) -> Path:
        """The file that the loop, or a phase, holds the lock of."""
        return self.out / "locks" / name

    def log(self, iteration: int, phase: str) -> Path:
        """What a phase prints goes there."""
        return self.out / "logs" / _numbered(iteration) / f"{phase}.log"

    @property
    def server_log(self) -> Path:
        """What the policy's server prints goes there."""
        return self.out / "logs" / "server.log"

    def recorded(self, iteration: int) -> str:
        """What the iteration's rollout records."""
        return Iterations(self.config.out, "train").dataset(iteration)

    def evaluated(self, iteration: int) -> str:
        """What is recorded with the weights that the iteration ends with."""
        return Iterations(self.config.out, "test").dataset(iteration + 1)

    def judged(self, iteration: int) -> str:
        """What judges make of what was recorded."""
        return Iterations(self.config.out, "train").judged(iteration)

    def processed(self, iteration: int) -> str:
        """What post-processing makes of it."""
        return str(self.out / "processed" / _numbered(iteration))

    def latest(self, iteration: int) -> str:
        """The last of these that the configuration has phases for."""
        if self.config.postprocess is not None:
            return self.processed(iteration)
        return (self.judged if self.config.judge is not None else self.recorded)(iteration)

    def trained_on(self, iteration: int) -> list[str]:
        """The datasets that an iteration is trained on, the oldest first."""
        export = self.config.export
        window = None if export is None else export.iterations
        first = 1 if window is None else max(iteration - window + 1, 1)
        return [self.latest(number) for number in range(first, iteration + 1)]

    def export(self, iteration: int) -> str:
        """What the iteration is trained on, as files."""
        return str(self.out / "exports" / _numbered(iteration))

    def training(self, iteration: int) -> str:
        """The iteration's training run."""
        return str(self.out / "training" / _numbered(iteration))

    def model(self, iteration: int) -> str:
        """The model that comes of it."""
        return str(self.out / "training" / _numbered(iteration) / MODEL)

    def weights(self, version: int) -> str:
        """The model of a version: that of an iteration, or of 0 what the loop began with."""
        if version:
            return self.model(version)
        first = self.config.first
        return (self.config.train.model or "") if first.agent is not None else first.policy

    def base(self, iteration: int) -> str:
        """The model that an iteration's training begins with."""
        if iteration > 1 and self.config.train.begin == "previous":
            return self.model(iteration - 1)
        return self.config.train.model or self.weights(0)


def version_name(version: int) -> str:
    """Returns what weights are called by the server, and in records.

    >>> version_name(3)
    'iteration_0003'
    """
    return _numbered(version)


def _numbered(iteration: int) -> str:
    return f"iteration_{iteration:04d}"
