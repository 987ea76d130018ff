"""Setting of the learning rate in a checkpoint.

A standalone script for LLaMA-Factory's Python::

    python rate_setter.py CHECKPOINT LEARNING_RATE

A resumed trainer takes the rate from the scheduler's state, but for the first step from the
optimizer's state. Both files are read as tensors and plain values; nothing else is unpickled.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def main(folder: str, learning_rate: float) -> None:
    """Set the rate in a checkpoint's scheduler, and in its optimizer if it is PyTorch's.

    Raises:
        ValueError: The scheduler's state has no base rate.
    """
    import torch

    path = os.path.join(folder, "scheduler.pt")  # noqa: PTH118  (webtraj is not installed here.)
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    before = [float(rate) for rate in state.get("base_lrs", ())]
    if not before or not all(rate > 0 for rate in before):
        raise ValueError("the scheduler's state has no base learning rate")
    if all(rate == learning_rate for rate in before):
        return
    state["base_lrs"] = [learning_rate] * len(before)
    last = [float(rate) for rate in state.get("_last_lr", before)]
    shares = [now / base for now, base in zip(last, before, strict=True)]
    state["_last_lr"] = [learning_rate * share for share in shares]
    _save(torch, state, path)
    path = os.path.join(folder, "optimizer.pt")  # noqa: PTH118
    if os.path.exists(path):  # noqa: PTH110
        state = torch.load(path, map_location="cpu", weights_only=True)
        for group, share in zip(state["param_groups"], shares, strict=True):
            group["lr"] = learning_rate * share
            if "initial_lr" in group:
                group["initial_lr"] = learning_rate
        _save(torch, state, path)


def _save(torch: Any, state: Any, path: str) -> None:
    draft = f"{path}.tmp"
    torch.save(state, draft)
    os.replace(draft, path)  # noqa: PTH105


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
