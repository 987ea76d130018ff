"""One optimizer step: its loss, its gradient, its learning rate."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from webtraj.training.sft.batches import Batch, MicroBatch
from webtraj.training.sft.failures import NonFiniteLossError
from webtraj.training.sft.policy_gradient import SUMS, PolicyGradient
from webtraj.training.sft.settings import SftSettings

__all__ = [
    "evaluate",
    "learning_rate",
    "make_optimizer",
    "make_step",
    "token_losses",
    "weighted_sum",
]

# The loss: the weighted mean over the trained tokens.


def token_losses(
    model: Any, batch: Batch, *, temperature: float = 1.0
) -> tuple[Any, Any, Any, Any]:
    """Return the loss of each trained token of a batch.

    Args:
        model: A causal language model. The batch moves to its device.
        batch: The model's input.
        temperature: The divisor of the logits of sampled replies.

    Returns:
        The negative log-likelihood of each trained token, its weight, the index of its sample in
        `batch.names`, and whether it is the model's first choice. All are empty if nothing is
        trained on. The first then still has a gradient of zero, which FSDP and DDP need.
    """
    import torch

    device = next(model.parameters()).device
    # Select trained positions on the CPU, which avoids a wait for the GPU.
    wanted = batch.targets >= 0
    # Logits are large, so compute them at trained positions only.
    columns = torch.nonzero(wanted.any(dim=0)).flatten()
    if not len(columns):
        columns = torch.zeros(1, dtype=torch.long)
    kept = wanted[:, columns]
    rows, places = (_move(part, device) for part in torch.nonzero(kept, as_tuple=True))
    targets, weights, owners = (
        _move(part[:, columns][kept], device)
        for part in (batch.targets, batch.weights, batch.owners)
    )
    columns = _move(columns, device)
    inputs = {key: _move(value, device) for key, value in batch.inputs.items()}
    if _keeps_logits(model):
        logits = model(**inputs, logits_to_keep=columns, use_cache=False).logits
    else:
        logits = model(**inputs, use_cache=False).logits[:, columns]
    if not len(targets):
        return logits[..., :0].sum().expand(0), weights, owners, targets.bool()
    chosen = logits[rows, places].float()
    if batch.policy is not None and temperature != 1.0:
        imitated = torch.isnan(batch.policy.advantages[batch.targets >= 0])
        divisors = torch.where(imitated, 1.0, temperature)
        chosen = chosen / _move(divisors, device)[:, None]
    nll = torch.nn.functional.cross_entropy(chosen, targets, reduction="none")
    return nll, weights, owners, chosen.argmax(dim=-1) == targets


def weighted_sum(nll: Any, weights: Any) -> Any:
    """Return the sum of weight times loss."""
    return (nll * weights).sum()


def _move(tensor: Any, device: Any) -> Any:
    """Return a tensor on a device. The copy to a GPU is asynchronous, from pinned memory."""
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _keeps_logits(model: Any) -> bool:
    inner = getattr(model, "module", model)
    if hasattr(inner, "get_base_model"):
        inner = inner.get_base_model()
    return "logits_to_keep" in inspect.signature(inner.forward).parameters


# Evaluation on held-out samples.


def evaluate(accelerator: Any, model: Any, batches: Iterable[Batch]) -> dict[str, float]:
    """Return mean loss and accuracy per trained token. All processes must call it together.

    Args:
        accelerator: The Accelerator of the run.
        model: The model; it is left in training mode.
        batches: This process's share. All processes need the same number.
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


def compute_sampled_logprobs(
    accelerator: Any,
    model: Any,
    batches: Iterable[tuple[MicroBatch, Batch]],
    *,
    temperature: float = 1.0,
) -> list[npt.NDArray[np.float32]]:
    """Return the log-probabilities of each sample's trained tokens.

    All processes must call it together.

    Args:
        accelerator: The Accelerator of the run.
        model: The model; it is left in training mode.
        batches: This process's share of all samples, one per row. All processes need the same
            number.
        temperature: As in `token_losses`.
    """
    import torch
    from accelerate.utils import gather_object

    found: list[tuple[int, npt.NDArray[np.float32]]] = []
    model.eval()
    with torch.no_grad():
        for planned, batch in batches:
            nll, _, owners, _ = token_losses(model, batch, temperature=temperature)
            values, owner = (-nll).float().cpu().numpy(), owners.cpu().numpy()
            if planned.counts:
                found += [
                    (sample, values[owner == place]) for place, (sample,) in enumerate(planned.rows)
                ]
    model.train()
    return [values for _, values in sorted(gather_object(found), key=lambda one: one[0])]


def make_step(
    accelerator: Any,
    model: Any,
    optimizer: Any,
    batches: list[Batch],
    *,
    mass: float,
    rate: float,
    max_grad_norm: float,
    policy: PolicyGradient | None = None,
) -> tuple[float, float, dict[str, float]]:
    """Make one optimizer step. All processes must call it together.

    Args:
        accelerator: The Accelerator of the run.
        model: The model, prepared by accelerate.
        optimizer: Its optimizer, prepared by accelerate.
        batches: This process's passes.
        mass: The denominator of the loss: the weights of all trained tokens of the step, summed
            over all processes.
        rate: The learning rate.
        max_grad_norm: The largest gradient norm; 0 disables clipping.
        policy: The loss of tokens with an advantage; None imitates all tokens.

    Returns:
        The loss, the gradient norm before clipping, and the report of `policy`.

    Raises:
        NonFiniteLossError: The loss or the gradient is not finite. The weights did not change.
    """
    import torch

    # DDP and FSDP take the mean over processes; the loss is a sum.
    scale = accelerator.num_processes / mass
    temperature = 1.0 if policy is None else policy.settings.temperature or 1.0
    by_sample = []
    sums: dict[str, Any] = {}
    for index, batch in enumerate(batches):
        last = index == len(batches) - 1
        with contextlib.nullcontext() if last else accelerator.no_sync(model):
            nll, weights, owners, _ = token_losses(model, batch, temperature=temperature)
            losses = nll
            if policy is not None:
                losses, found = policy(nll, batch)
                sums = {name: sums.get(name, 0) + value for name, value in found.items()} or sums
            accelerator.backward(weighted_sum(losses, weights) * scale)
            zeros = torch.zeros(len(batch.names), device=nll.device)
            by_sample.append(zeros.index_add(0, owners, (losses * weights).detach()))
    # Check once per step: each check waits for the GPU.
    total = accelerator.reduce(torch.cat(by_sample).sum(), reduction="sum")
    value = float(total) * scale / accelerator.num_processes
    if not math.isfinite(value):
        optimizer.zero_grad()
        raise NonFiniteLossError(_blame(batches, by_sample))
    norm = _whole(accelerator.clip_grad_norm_(model.parameters(), max_grad_norm or math.inf))
    if not math.isfinite(norm):
        optimizer.zero_grad()
        raise NonFiniteLossError(
            f"The gradient is not finite in a step with loss {value:.3g}. Its samples: "
            f"{_some([name for batch in batches for name in batch.names])}"
        )
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
    return value, norm, _report(accelerator, policy, sums)


def _report(
    accelerator: Any, policy: PolicyGradient | None, sums: dict[str, Any]
) -> dict[str, float]:
    import torch

    if policy is None:
        return {}
    # A process without sampled tokens must still take part in the sum.
    ours = torch.tensor([float(sums.get(name, 0.0)) for name in SUMS], device=accelerator.device)
    total = accelerator.reduce(ours, reduction="sum").tolist()
    return policy.read(dict(zip(SUMS, total, strict=True)))


_FALLING = 0.4
"""The share of the steps in which the schedule `stable` falls."""


def learning_rate(settings: SftSettings, step: int, total: int) -> float:
    """Return the learning rate of a step, from 1 to `total`.

    >>> settings = SftSettings(model="m", out="o", learning_rate=1.0, warmup_steps=2)
    >>> [round(learning_rate(settings, step, 6), 3) for step in range(1, 7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    >>> settings = SftSettings(model="m", out="o", learning_rate=1.0, schedule="stable")
    >>> [round(learning_rate(settings, step, 10), 3) for step in range(1, 11)]
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warmup = min(settings.warmup_steps, total)
    if step <= warmup:
        return settings.learning_rate * step / warmup
    done = (step - 1 - warmup) / (total - warmup)
    factor = {
        "constant": 1.0,
        "linear": 1.0 - done,
        "stable": min(1.0, (1.0 - done) / _FALLING),
        "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
    }[settings.schedule]
    return settings.learning_rate * factor


def make_optimizer(model: Any, settings: SftSettings) -> Any:
    """Return AdamW for the trained parameters of a model."""
    import torch

    trained = [p for p in model.parameters() if p.requires_grad]
    # Vectors are biases and scales: no weight decay.
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        betas=(settings.adam_beta1, settings.adam_beta2),
        fused=torch.cuda.is_available(),
    )


def _whole(norm: Any) -> float:
    """Return a norm as a number, including the parts in other processes if weights are sharded."""
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def _blame(batches: list[Batch], by_sample: list[Any]) -> str:
    import torch

    names = [name for batch in batches for name in batch.names]
    wrong = ~torch.isfinite(torch.cat(by_sample)).cpu()
    blamed = [name for name, bad in zip(names, wrong.tolist(), strict=True) if bad]
    return (
        f"The loss of these samples is not finite: {_some(blamed) or 'those of another process.'} "
        "The weights did not change. Check these samples, lower learning_rate, or train in float32."
    )


def _some(names: list[str]) -> str:
    bare = [name.removeprefix("The sample of ").rstrip(",") for name in names]
    shown = "; ".join(bare[:5])
    return f"{shown}." if len(names) <= 5 else f"{shown}; and {len(names) - 5} more."
