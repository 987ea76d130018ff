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
    # What is trained on is picked out here, on the CPU: the GPU would have to be waited for.
    wanted = batch.targets >= 0
    # Logits are large: only those at trained positions are made.
    columns = torch.nonzero(wanted.any(dim=0)).flatten()
    if not len(columns):
        columns = torch.zeros(1, dtype=torch.long)
    kept = wanted[:, columns]
    rows, places = (_moved(part, device) for part in torch.nonzero(kept, as_tuple=True))
    targets, weights, owners = (
        _moved(part[:, columns][kept], device)
        for part in (batch.targets, batch.weights, batch.owners)
    )
    columns = _moved(columns, device)
    inputs = {key: _moved(value, device) for key, value in batch.inputs.items()}
    if _keeps_logits(model):
        logits = model(**inputs, logits_to_keep=columns, use_cache=False).logits
    else:
        logits = model(**inputs, use_cache=False).logits[:, columns]
    if not len(targets):
        return logits[..., :0].sum().expand(0), weights, owners, targets.bool()
    chosen = logits[rows, places].float()
    nll = torch.nn.functional.cross_entropy(chosen, targets, reduction="none")
    return nll, weights, owners, chosen.argmax(dim=-1) == targets


def weighted_sum(nll: Any, weights: Any) -> Any:
    """Returns the sum of weight times loss."""
    return (nll * weights).sum()


def _moved(tensor: Any, device: Any) -> Any:
    """Returns a tensor on a device; a GPU takes it while it computes, from memory that stays."""
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _keeps_logits(model: Any) -> bool:
    inner = getattr(model, "module", model)
    if hasattr(inner, "get_base_model"):
        inner = inner.get_base_model()
    return "logits_to_keep" in inspect.signature(inner.forward).parameters
