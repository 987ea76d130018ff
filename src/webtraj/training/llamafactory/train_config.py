"""LLaMA-Factory's configuration: `train_config.yaml`, DeepSpeed's file and `wandb_env.sh`."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.settings import configuration
from webtraj.training.llamafactory.configuration import LogConfig, UpdateConfig

__all__ = [
    "CONFIGS",
    "DATASET",
    "FILE",
    "Start",
    "environment",
    "read_json",
    "script",
    "template_for",
    "to_yaml",
    "train_config",
    "variables",
    "write",
]

# `train_config.yaml`: the training in LLaMA-Factory's keys.

DATASET = "webtraj"
"""The prefix of the datasets' names in `dataset_info.json`: `webtraj_train`, `webtraj_val`."""
FILE = "train_config.yaml"

_AS_THEY_ARE = (
    "finetuning_type", "mask_history", "cutoff_len", "image_max_pixels", "image_min_pixels",
    "freeze_vision_tower", "per_device_train_batch_size", "gradient_accumulation_steps",
    "learning_rate", "max_grad_norm", "weight_decay", "num_train_epochs", "warmup_steps",
    "lr_scheduler_type", "logging_steps", "bf16", "save_strategy", "save_steps",
    "save_total_limit", "save_only_model", "preprocessing_num_workers", "dataloader_num_workers",
    "dataloader_pin_memory", "remove_unused_columns", "plot_loss", "seed",
)  # fmt: skip
"""Keys with the same name in LLaMA-Factory. It has no `min_token_length`, which selects samples.
`gradient_checkpointing` is its `disable_gradient_checkpointing`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """The starting point of a training."""

    model: str
    """The model: a folder, or a name on the Hub."""
    checkpoint: Path | None = None
    """The checkpoint whose optimizer is resumed; None for a fresh one."""
    max_steps: int | None = None
    """The last step, counting those of the checkpoint; None for the end of the epochs."""
    why_fresh: str = ""
    """Why the optimizer is fresh although a checkpoint has its state; empty if it is not so."""


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
        config: The settings of the update.
        data: The folder of the rows.
        output: The run's folder.
        template: The model's template.
        start: The starting point.
        validation: Whether there are rows for validation.
        deepspeed: The file of DeepSpeed's configuration.

    Raises:
        InvalidInputError: `extra` has a key that webtraj sets itself.
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
        # The rows differ from the checkpoint's, so none may be skipped.
        found |= {"resume_from_checkpoint": str(start.checkpoint), "ignore_data_skip": True}
    if start.max_steps is not None:
        found["max_steps"] = start.max_steps
    if deepspeed is not None:
        found["deepspeed"] = str(deepspeed)
    if taken := sorted(found.keys() & algorithm.extra.keys()):
        raise errors.InvalidInputError(
            f"algorithm_config.extra has {', '.join(taken)}, which webtraj sets itself. Set it as "
            "a key of algorithm_config, or remove it."
        )
    return {**found, **algorithm.extra}


# A model's template. LLaMA-Factory does not choose it.

_BY_TYPE = {
    "qwen2": "qwen",
    "qwen2_vl": "qwen2_vl",
    "qwen2_5_vl": "qwen2_vl",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3",
    "qwen3_vl": "qwen3_vl",
    "qwen3_vl_moe": "qwen3_vl",
    "qwen3_5": "qwen3_5",
    "llama": "llama3",
    "llama4": "llama4",
    "mllama": "mllama",
    "gemma3": "gemma3",
    "glm4v": "glm4v",
    "llava": "llava",
    "llava_next": "llava_next",
    "internvl": "intern_vl",
    "kimi_vl": "kimi_vl",
    "mistral3": "mistral_small",
}
_BY_NAME = (
    ("qwen3-vl", "qwen3_vl"),
    ("qwen2.5-vl", "qwen2_vl"),
    ("qwen2-vl", "qwen2_vl"),
    ("qwen3.5", "qwen3_5"),
    ("qwen3", "qwen3"),
    ("qwen2", "qwen"),
)
_THINKS = ("qwen3_vl", "qwen3", "qwen3_5")


def template_for(model: str) -> str | None:
    """Return a model's template, by its folder's config.json or its name; None if unknown.

    For model families with and without thinking, choose the template without, unless the name
    says "thinking".

    >>> template_for("Qwen/Qwen3-VL-8B-Instruct"), template_for("Qwen/Qwen3-VL-8B-Thinking")
    ('qwen3_vl_nothink', 'qwen3_vl')
    """
    name = model.lower()
    found = _BY_TYPE.get(str(read_json(Path(model) / "config.json").get("model_type")))
    if found is None:
        found = next((template for part, template in _BY_NAME if part in name), None)
    if found in _THINKS and "thinking" not in name:
        return f"{found}_nothink"
    return found


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is none."""
    try:
        data = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def to_yaml(values: Mapping[str, Any]) -> str:
    """Return a configuration as YAML that reads back unchanged.

    Raises:
        MissingDependencyError: OmegaConf is not installed.
    """
    configuration.require()
    from omegaconf import OmegaConf

    text = OmegaConf.to_yaml(OmegaConf.create(dict(values)))
    assert isinstance(text, str)
    return text


# DeepSpeed's configurations.
#
# Sizes and rates are `auto`: the trainer fills them in. Without a scheduler here, the trainer uses
# its own, whose state is where resuming expects it.

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
    # Without it, a checkpoint has no publishable weights.
    "stage3_gather_16bit_weights_on_model_save": True,
}

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "ds_config_zero2.json": {**_COMMON, "zero_optimization": _zero2(500_000_000)},
    "ds_config_zero3.json": {**_COMMON, "zero_optimization": _ZERO3},
    # For GPUs with much memory: larger buckets, fewer calls.
    "ds_config_b200_zero2.json": {**_COMMON, "zero_optimization": _zero2(1_000_000_000)},
}
"""The built-in configurations by file name."""


def write(name: str, folder: Path) -> Path:
    """Write a configuration into a folder, and return its path.

    Args:
        name: A name in `CONFIGS`, or the path of a file to copy.
        folder: The folder to write to.

    Raises:
        InvalidInputError: There is no such configuration, or it is not a JSON object.
    """
    if name in CONFIGS:
        data: Any = CONFIGS[name]
    else:
        try:
            data = orjson.loads(Path(name).read_bytes())
        except (OSError, ValueError) as error:
            raise errors.InvalidInputError(
                f"Cannot read deepspeed_config_filename {name!r:.100}: {errors.reason(error)}; "
                f"expected one of {', '.join(CONFIGS)}, or the path of a JSON file."
            ) from error
        if not isinstance(data, dict):
            raise errors.InvalidInputError(f"{name!r:.100} is not a JSON object.")
    path = folder / Path(name).name
    path.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")
    return path


# `wandb_env.sh`: the environment variables for W&B. Of the secret it has only the variable's name.


def variables(config: LogConfig) -> dict[str, str]:
    """Return the environment variables without secrets.

    >>> variables(LogConfig(run_name="it's"))
    {'WANDB_PROJECT': 'webtraj', 'WANDB_RUN_GROUP': "it's"}
    """
    found = {"WANDB_PROJECT": config.project_name, "WANDB_RUN_GROUP": config.run_name}
    if config.entity_name:
        found["WANDB_ENTITY"] = config.entity_name
    return found


def script(config: LogConfig) -> str:
    """Return a shell script that sets them, and the key if the environment has one."""
    lines = ["# Source this before training: . wandb_env.sh"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(config).items()]
    name = config.wandb_key_env_var
    if name != "WANDB_API_KEY":
        lines.append(f'[ -z "${{{name}:-}}" ] || export WANDB_API_KEY="${name}"')
    return "\n".join(lines) + "\n"


def environment(config: LogConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the variables of the script."""
    found = {**given, **variables(config)}
    if key := given.get(config.wandb_key_env_var):
        found["WANDB_API_KEY"] = key
    return found
