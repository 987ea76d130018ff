"""The keys that say where live metrics go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from webtraj.rollouts.configuration.checking import Section
from webtraj.rollouts.metrics.targets import MetricsTargets, WandbTarget

__all__ = ["MetricsConfig", "WandbConfig"]


class WandbConfig(Section):
    """A run of Weights & Biases."""

    project: Annotated[str, Field(min_length=1)]
    """The project's name."""
    entity: str | None = None
    """Whose project it is: a user or a team; by default the account's own."""
    run_name: str | None = None
    """What the run is called there; by default as the rollout's run."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """`offline` keeps it on this machine, for `wandb sync`; by default what WANDB_MODE says, else
    `online`."""
    folder: str | None = None
    """Where W&B keeps its files; by default the current folder."""


class MetricsConfig(Section):
    """Where live metrics go, if anywhere. `metrics.json` is written in any case."""

    tensorboard: Annotated[str, Field(min_length=1)] | None = None
    """A folder for TensorBoard: each run has one of its own in it."""
    wandb: WandbConfig | None = None
    """Weights & Biases."""

    def targets(self) -> MetricsTargets:
        """Returns where they go."""
        given = self.wandb
        wandb = (
            None
            if given is None
            else WandbTarget(
                project=given.project,
                entity=given.entity,
                run_name=given.run_name,
                mode=given.mode,
                folder=given.folder,
            )
        )
        return MetricsTargets(tensorboard=self.tensorboard, wandb=wandb)
