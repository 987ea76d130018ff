"""What a run computes on: one process or several, weights whole or in shards."""

from __future__ import annotations

import os
from typing import Any

from webtraj import errors
from webtraj.training.sft import models
from webtraj.training.sft.settings import SftSettings

__all__ = ["is_sharded", "make_accelerator"]


def make_accelerator(settings: SftSettings) -> Any:
    """Returns accelerate's own, for a run.

    Raises:
        InvalidInputError: Sharded weights are wanted, and accelerate would not shard them, or in a
            way that is not trained on here.
        MissingDependencyError: It is not installed.
    """
    try:
        import accelerate
    except ImportError as error:
        raise errors.missing_dependency("Training needs accelerate", "train") from error
    accelerator = accelerate.Accelerator(
        mixed_precision="bf16" if models.computes_in_bf16(settings) else "no"
    )
    _check_sharding(accelerator)
    return accelerator


def is_sharded(accelerator: Any) -> bool:
    """Returns whether each process has a part of the weights only (FSDP)."""
    return str(accelerator.distributed_type).endswith("FSDP")


def _check_sharding(accelerator: Any) -> None:
    wanted = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    if wanted and not is_sharded(accelerator):  # Of which accelerate says nothing.
        raise errors.InvalidInputError(
            "FSDP is wanted, and accelerate shards weights on several GPUs only; this run has "
            f"{accelerator.num_processes} process(es) on {accelerator.device.type}. Launch it "
            "without FSDP."
        )
    if is_sharded(accelerator) and accelerator.state.fsdp_plugin.fsdp_version != 2:
        raise errors.InvalidInputError(
            "fsdp_version is 1, which makes one vector of all weights, so that weight_decay would "
            "meet biases too, or none; expected fsdp_version: 2 in accelerate's configuration."
        )
