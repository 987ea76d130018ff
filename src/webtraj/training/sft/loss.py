"""The loss: the weighted mean of how badly each trained token was predicted."""

from __future__ import annotations

import inspect
from typing import Any

from webtraj.training.preparing.batches import Batch

__all__ = ["token_losses", "weighted_sum"]


def token_losses(model: Any, batch: Batch) -> tuple[Any, Any, Any, Any]:
    """Returns what each trained token of a batch costs.

    Args:
        model: A causal language model; on which device it is says where the batch goes.
        batch: What it is given.

    Returns:
        The negative log-likelihood of each trained token, its weight, the place of its sample in
        `batch.names`, and whether it would have been the first choice. All empty if nothing is
        trained on; the first then has a gradient of zeros still, as FSDP and DDP want it.
    """
    import torch

    device = next(model.parameters()).device
    wanted = batch.targets >= 0
    # Logits are large: only those at trained positions are made.
    columns = torch.nonzero(wanted.any(dim=0)).flatten()
    if not len(columns):
        columns = torch.zeros(1, dtype=torch.long)
    inputs = {key: value.to(device, non_blocking=True) for key, value in batch.inputs.items()}
    if _keeps_logits(model):
        logits = model(**inputs, logits_to_keep=columns.to(device), use_cache=False).logits
    else:
        logits = model(**inputs, use_cache=False).logits[:, columns.to(device)]
    kept = wanted[:, columns].to(device)
    targets = batch.targets[:, columns].to(device)[kept]
    weights = batch.weights[:, columns].to(device)[kept]
    owners = batch.owners[:, columns].to(device)[kept]
    if not len(targets):
        return logits[..., :0].sum().expand(0), weights, owners, targets.bool()
    chosen = logits[kept].float()
    nll = torch.nn.functional.cross_entropy(chosen, targets, reduction="none")
    return nll, weights, owners, chosen.argmax(dim=-1) == targets


def weighted_sum(nll: Any, weights: Any) -> Any:
    """Returns the sum of weight times loss."""
    return (nll * weights).sum()


def _keeps_logits(model: Any) -> bool:
    inner = getattr(model, "module", model)
    if hasattr(inner, "get_base_model"):
        inner = inner.get_base_model()
    return "logits_to_keep" in inspect.signature(inner.forward).parameters
