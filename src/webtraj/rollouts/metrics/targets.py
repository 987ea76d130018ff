"""Where a run's live metrics are to go, as configurations and commands say it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.rollouts.metrics.live import MetricsObserver
from webtraj.rollouts.metrics.sinks import MetricsSink, TensorBoardSink, WandbSink

__all__ = ["MetricsTargets", "WandbTarget"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WandbTarget:
    """A run of Weights & Biases."""

    project: str
    """The project's name."""
    entity: str | None = None
    """Whose project it is; None for the account's own."""
    run_name: str | None = None
    """What the run is called there; None for the rollout's run."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """See `WandbSink`."""
    folder: str | None = None
    """Where W&B keeps its files; None for the current folder."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTargets:
    """Where live metrics go."""

    tensorboard: str | None = None
    """A folder, in which each run has a folder of its own."""
    wandb: WandbTarget | None = None
    """Weights & Biases."""

    def __bool__(self) -> bool:
        return self.tensorboard is not None or self.wandb is not None

    def open(
        self,
        run_id: str,
        *,
        config: Mapping[str, Any] | None = None,
        earlier: Iterable[EpisodeFacts] = (),
    ) -> MetricsObserver:
        """Opens the sinks, and returns who writes to them; whoever opened it closes it. Blocks.

        A run that is gone on with goes on with its numbers there, too.

        Args:
            run_id: The rollout's run.
            config: What it was made from, for W&B.
            earlier: The run's episodes that have ended already.

        Raises:
            MissingDependencyError: TensorBoard or wandb is not installed.
            StorageError: TensorBoard's folder cannot be written.
            Exception: What wandb raises if no run can be begun, such as without an API key.
        """
        with contextlib.ExitStack() as undo:
            sinks: list[MetricsSink] = []
            if self.tensorboard is not None:
                sinks.append(TensorBoardSink(Path(self.tensorboard) / run_id))
                undo.callback(sinks[-1].close)
            if (wandb := self.wandb) is not None:
                sinks.append(
                    WandbSink(
                        wandb.project,
                        entity=wandb.entity,
                        name=wandb.run_name or run_id,
                        run_id=run_id,
                        mode=wandb.mode,
                        folder=wandb.folder,
                        config=config,
                    )
                )
            observer = MetricsObserver(*sinks, earlier=earlier)
            undo.pop_all()
            return observer
