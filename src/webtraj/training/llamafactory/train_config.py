"""The files that LLaMA-Factory is told by: `train_config.yaml`, DeepSpeed's, and `wandb_env.sh`."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.training.llamafactory.configuration import LogConfig, UpdateConfig

__all__ = [
    "CONFIGS",
    "DATASET",
    "FILE",
    "Start",
    "environment",
    "script",
    "to_yaml",
    "train_config",
    "variables",
    "write",
]

# `train_config.yaml`: what LLaMA-Factory is to do, in its words.

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
    """Return a training's configuration.

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
    """Return a configuration as YAML, which reads back as it was."""
    from omegaconf import OmegaConf

    text = OmegaConf.to_yaml(OmegaConf.create(dict(values)))
    assert isinstance(text, str)
    return text


# DeepSpeed's configurations.
#
# Sizes and rates are `auto`: the trainer fills them in. No scheduler is named, so that the
# trainer's own is used, and its state is where resuming expects it.

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
    """Write a configuration into a folder, and returns its path.

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


# `wandb_env.sh`: what a shell has to set for W&B. It holds no secret, only where one is.


def variables(config: LogConfig) -> dict[str, str]:
    """Return the environment variables that are no secret.

    >>> variables(LogConfig(run_name="it's"))
    {'WANDB_PROJECT': 'webtraj', 'WANDB_RUN_GROUP': "it's"}
    """
    found = {"WANDB_PROJECT": config.project_name, "WANDB_RUN_GROUP": config.run_name}
    if config.entity_name:
        found["WANDB_ENTITY"] = config.entity_name
    return found


def script(config: LogConfig) -> str:
    """Return the shell script that sets them, and the key if the environment has one."""
    lines = ["# Source this before training: . wandb_env.sh"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(config).items()]
    name = config.wandb_key_env_var
    if name != "WANDB_API_KEY":
        lines.append(f'[ -z "${{{name}:-}}" ] || export WANDB_API_KEY="${name}"')
    return "\n".join(lines) + "\n"


def environment(config: LogConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with what the script would have set in it."""
    found = {**given, **variables(config)}
    if key := given.get(config.wandb_key_env_var):
        found["WANDB_API_KEY"] = key
    return found
