"""DeepSpeed's configurations.

Sizes and rates are `auto`: the trainer fills them in. No scheduler is named, so that the trainer's
own is used, and its state is where resuming expects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors

__all__ = ["CONFIGS", "write"]

_COMMON: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "zero_allow_untested_optimizer": True,
    "fp16": {
        "enabled": "auto",
        "loss_scale": 0,
        "loss_scale_window": 1000,
        "initial_scale_power": 16,
        "hysteresis": 2,
        "min_loss_scale": 1,
    },
    "bf16": {"enabled": "auto"},
}


def _zero2(bucket: int) -> dict[str, Any]:
    return {
        "stage": 2,
        "allgather_partitions": True,
        "allgather_bucket_size": bucket,
        "overlap_comm": True,
        "reduce_scatter": True,
        "reduce_bucket_size": bucket,
        "contiguous_gradients": True,
        "round_robin_gradients": True,
    }


_ZERO3 = {
    "stage": 3,
    "overlap_comm": True,
    "contiguous_gradients": True,
    "sub_group_size": 1_000_000_000,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 1_000_000_000,
    "stage3_max_reuse_distance": 1_000_000_000,
    # Without it, a checkpoint has no weights that can be published.
    "stage3_gather_16bit_weights_on_model_save": True,
}

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "ds_config_zero2.json": {**_COMMON, "zero_optimization": _zero2(500_000_000)},
    "ds_config_zero3.json": {**_COMMON, "zero_optimization": _ZERO3},
    # Cards with much memory: larger buckets, fewer calls.
    "ds_config_b200_zero2.json": {**_COMMON, "zero_optimization": _zero2(1_000_000_000)},
}
"""The configurations that ship, by their files' names."""


def write(name: str, folder: Path) -> Path:
    """Writes a configuration into a folder, and returns its path.

    Args:
        name: One of `CONFIGS`, or the path of a file, which is copied.
        folder: Where to.

    Raises:
        InvalidInputError: There is no such configuration, or it is no JSON object.
    """
    if name in CONFIGS:
        data: Any = CONFIGS[name]
    else:
        try:
            data = orjson.loads(Path(name).read_bytes())
        except (OSError, ValueError) as error:
            raise errors.InvalidInputError(
                f"deepspeed_config_filename is {name!r:.200}, which cannot be read: {error}; "
                f"expected one of {', '.join(CONFIGS)}, or the path of a JSON file."
            ) from error
        if not isinstance(data, dict):
            raise errors.InvalidInputError(f"{name!r:.200} holds no JSON object.")
    path = folder / Path(name).name
    path.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")
    return path
