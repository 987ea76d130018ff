"""The paths of a loop.

::

    <out>/loop.yaml                               the loop's latest configuration
          state.jsonl                             what has been done: see `state`
          metrics.jsonl                           results: see `metrics`
          logs/iteration_0001/train.log           the output of each phase
          train_trajectories/iteration_0001/      the recordings of iteration 1, with verdicts
          processed/iteration_0001/               the same, after post-processing
          test_trajectories/iteration_0001/       the evaluation of the initial weights
                            iteration_0002/       the evaluation of iteration 1's weights
          exports/iteration_0001/                 the training data of iteration 1
          groups/iteration_0001/                  its groups of attempts, for policy gradient
          training/iteration_0001/                the training run, and the model: model.pt
          model.pt -> training/iteration_0001/model.pt    the latest model
          locks/                                  held while the loop and its phases run

Without overlap, iteration k of both splits was played with the weights of iteration k - 1.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from webtraj.loop.configuration import LoopConfig
from webtraj.runs.iterations import Iterations, Split

__all__ = ["MODEL", "Places", "version_name"]

MODEL = "model.pt"
"""Name of a trained model's folder."""


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
        """The loop's configuration."""
        return self.out / "loop.yaml"

    @property
    def state(self) -> Path:
        """The record of what has been done."""
        return self.out / "state.jsonl"

    @property
    def metrics(self) -> Path:
        """The metrics of each iteration."""
        return self.out / "metrics.jsonl"

    @property
    def latest_model(self) -> Path:
        """The link to the latest model."""
        return self.out / MODEL

    def lock(self, name: str) -> Path:
        """Return the lock file of the loop or a phase."""
        return self.out / "locks" / name

    def log(self, iteration: int, phase: str) -> Path:
        """Return the log of a phase."""
        return self.out / "logs" / version_name(iteration) / f"{phase}.log"

    @property
    def server_log(self) -> Path:
        """The log of the policy's server."""
        return self.out / "logs" / "server.log"

    def rollout_dataset(self, iteration: int) -> str:
        """Return the dataset that the iteration's rollout records."""
        return Iterations(self.config.out, "train").dataset(iteration)

    def evaluation_dataset(self, iteration: int) -> str:
        """Return the dataset that evaluates the weights at the iteration's end."""
        return Iterations(self.config.out, "test").dataset(iteration + 1)

    def played_dataset(self, iteration: int, *, split: Split = "train") -> str:
        """Return the dataset of what was played."""
        return Iterations(self.config.out, split).dataset(iteration)

    def processed_dataset(self, iteration: int) -> str:
        """Return the post-processed dataset."""
        return str(self.out / "processed" / version_name(iteration))

    def latest(self, iteration: int) -> str:
        """Return the processed dataset if that phase is configured, else the recorded one."""
        place = self.played_dataset if self.config.postprocess is None else self.processed_dataset
        return place(iteration)

    def training_datasets(self, iteration: int) -> list[str]:
        """Return the datasets that an iteration is trained on, the oldest first."""
        export = self.config.export
        window = None if export is None else export.iterations
        first = 1 if window is None else max(iteration - window + 1, 1)
        return [self.latest(number) for number in range(first, iteration + 1)]

    def groups_of(self, iteration: int) -> list[str]:
        """Return the datasets whose groups an iteration is trained on, the oldest first.

        These are the recorded datasets, because processing changes what the policy did.
        """
        first = max(iteration - self.config.groups.iterations + 1, 1)
        numbers = [n for n in range(first, iteration + 1) if self.config.algorithm(n) != "sft"]
        return [self.played_dataset(number) for number in numbers]

    def groups(self, iteration: int) -> str:
        """Return the folder of the iteration's groups of attempts."""
        return str(self.out / "groups" / version_name(iteration))

    def export(self, iteration: int) -> str:
        """Return the folder of the iteration's training data."""
        return str(self.out / "exports" / version_name(iteration))

    def training_folder(self, iteration: int) -> str:
        """Return the folder of the iteration's training run."""
        return str(self.out / "training" / version_name(iteration))

    def model(self, iteration: int) -> str:
        """Return the folder of the iteration's trained model."""
        return f"{self.training_folder(iteration)}/{MODEL}"

    def weights(self, version: int) -> str:
        """Return the model that iteration `version` has trained, or the initial model for 0."""
        if version:
            return self.model(version)
        first = self.config.first
        return (self.config.train.model or "") if first.agent is not None else first.policy

    def base(self, iteration: int) -> str:
        """Return the model that an iteration's training starts from."""
        if iteration > 1 and self.config.train.begin == "previous":
            return self.model(iteration - 1)
        return self.config.train.model or self.weights(0)


def version_name(version: int) -> str:
    """Return the name of a version of the weights, on the server and in records.

    >>> version_name(3)
    'iteration_0003'
    """
    return f"iteration_{version:04d}"
