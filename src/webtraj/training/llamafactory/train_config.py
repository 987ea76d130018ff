"""`train_config.yaml`: what LLaMA-Factory is to do, in its words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.training.llamafactory.configuration import UpdateConfig

__all__ = ["DATASET", "FILE", "Start", "to_yaml", "train_config"]

DATASET = "webtraj"
"""What the data is called in `dataset_info.json`: `webtraj_train`, `webtraj_val`."""
FILE = "train_config.yaml"

_AS_THEY_ARE = (
    "finetuning_type", "mask_history", "cutoff_len", "image_max_pixels", "image_min_pixels",
    "freeze_vision_tower", "per_device_train_batch_size", "gradient_accumulation_steps",
    "learning_rate", "max_grad_norm", "weight_decay", "num_train_epochs", "warmup_steps",
    "lr_scheduler_type", "logging_steps", "bf16", "save_strategy", "save_steps",
    "save_total_limit", "save_only_model", "preprocessing_num_workers", "dataloader_num_workers",
    "dataloader_pin_memory", "remove_unused_columns", "plot_loss", "seed",
)  # fmt: skip
"""Keys that LLaMA-Factory calls the same. `min_token_length` it does not know: the samples are
chosen by it. `gradient_checkpointing` is its `disable_gradient_checkpointing`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """What a training begins with."""

    model: str
    """A folder, or a name on the Hub."""
    checkpoint: Path | None = None
    """The checkpoint whose optimizer goes on; None for a fresh one."""
    max_steps: int | None = None
    """At which step to end, those of the checkpoint counted; None for the end of the epochs."""


def train_config(
    config: UpdateConfig,
    *,
    data: Path,
    output: Path,
    template: str,
    start: Start,
    validation: bool,
    deepspeed: Path | None,
) -> dict[str, Any]:
    """Returns a training's configuration.

    Args:
        config: What was asked for.
        data: The folder of the rows.
        output: The run's folder.
        template: The model's.
        start: What it begins with.
        validation: Whether there are rows for it.
        deepspeed: DeepSpeed's configuration.

    Raises:
        InvalidInputError: `extra` has a key that is set by another one.
    """
    algorithm = config.algorithm_config
    found: dict[str, Any] = {
        "model_name_or_path": start.model,
        "trust_remote_code": config.policy_config.trust_remote_code,
        "stage": "sft",
        "do_train": True,
        "dataset": f"{DATASET}_train",
        "dataset_dir": str(data),
        "media_dir": str(data),
        "template": template,
        "overwrite_cache": True,
        "output_dir": str(output),
        "overwrite_output_dir": False,
        "run_name": f"{config.log_config.run_name}-{output.name}",
        "report_to": algorithm.report_to,
        "disable_gradient_checkpointing": not algorithm.gradient_checkpointing,
    }
    for name in _AS_THEY_ARE:
        if (value := getattr(algorithm, name)) is not None:
            found[name] = value
    if algorithm.do_eval and validation:
        found |= {
            "do_eval": True,
            "eval_dataset": f"{DATASET}_val",
            "eval_strategy": algorithm.eval_strategy,
            "per_device_eval_batch_size": algorithm.per_device_eval_batch_size,
        }
        if algorithm.eval_steps is not None:
            found["eval_steps"] = algorithm.eval_steps
    if start.checkpoint is not None:
        # The rows are others than the checkpoint's: none of them is to be skipped.
        found |= {"resume_from_checkpoint": str(start.checkpoint), "ignore_data_skip": True}
    if start.max_steps is not None:
        found["max_steps"] = start.max_steps
    if deepspeed is not None:
        found["deepspeed"] = str(deepspeed)
    if taken := sorted(found.keys() & algorithm.extra.keys()):
        raise errors.InvalidInputError(
            f"algorithm_config.extra has {', '.join(taken)}, which webtraj sets itself; give it as "
            "a key of algorithm_config, or leave it out."
        )
    return {**found, **algorithm.extra}


def to_yaml(values: Mapping[str, Any]) -> str:
    """Returns a configuration as YAML, which reads back as it was."""
    from omegaconf import OmegaConf

    text = OmegaConf.to_yaml(OmegaConf.create(dict(values)))
    assert isinstance(text, str)
    return text
