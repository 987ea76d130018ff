"""How good a model is at samples that it is not trained on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webtraj.training.preparing.batches import Batch
from webtraj.training.sft.loss import token_losses, weighted_sum

__all__ = ["evaluate"]


def evaluate(accelerator: Any, model: Any, batches: Iterable[Batch]) -> dict[str, float]:
    """Returns loss and accuracy for each trained token; called by all processes at once.

    Args:
        accelerator: accelerate's.
        model: The model; it is left in training mode.
        batches: This process's share: as many for each process.
    """
    import torch

    sums = torch.zeros(4, dtype=torch.float64)
    model.eval()
    with torch.no_grad():
        for batch in batches:
            nll, weights, _, right = token_losses(model, batch)
            found = (weighted_sum(nll, weights), weights.sum(), right.sum(), len(right))
            sums += torch.tensor([float(value) for value in found], dtype=torch.float64)
    model.train()
    sums = accelerator.reduce(sums.to(accelerator.device), reduction="sum")
    loss, weight, right, tokens = (float(value) for value in sums)
    return {"eval_loss": loss / weight, "eval_accuracy": right / tokens}
