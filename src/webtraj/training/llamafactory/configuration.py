"""Settings of an update: YAML files with `key=value` overrides.

The keys are those of WebGym's `update_online.yaml`, with some additions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from webtraj.settings import configuration
from webtraj.settings.configuration import Section
from webtraj.store.places import is_url
from webtraj.training.replay.buffer import SplitBy

__all__ = [
    "AlgorithmConfig",
    "LogConfig",
    "PolicyConfig",
    "UpdateConfig",
    "UpdateSettings",
    "load_update_config",
]

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_PACKAGE = "webtraj.training.llamafactory"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class LogConfig(Section):
    """Settings for logging."""

    run_name: str = "webtraj"
    """The group name of all iterations' runs."""
    wandb_key_env_var: str = "WANDB_API_KEY"
    """The name of the environment variable with W&B's key, never the key itself."""
    entity_name: str | None = None
    """W&B's entity."""
    project_name: str = "webtraj"
    """W&B's project."""

    @pydantic.field_validator("wandb_key_env_var")
    @classmethod
    def _names_a_variable(cls, value: str) -> str:
        if not _VARIABLE.fullmatch(value):
            # Do not show the given value: it may be the key.
            raise ValueError(
                "must be the name of an environment variable, in capitals, such as WANDB_API_KEY; "
                "the key itself does not belong in a configuration"
            )
        return value


class PolicyConfig(Section):
    """Settings of the model."""

    base_model: str | None = None
    """The starting model of the first update: a folder, or a name on the Hub. By default the model
    that played the episodes."""
    template: str | None = None
    """LLaMA-Factory's template; by default the model's."""
    init_model_from_hf: bool = False
    """Whether to start from `base_model` even if there is a trained model."""
    trust_remote_code: bool = False
    """Whether to allow code that comes with the model."""


class AlgorithmConfig(Section):
    """Settings of data and training. Fields without a description are LLaMA-Factory's."""

    model_output_name: str = "model.pt"
    """The folder below `save_path` for the trained model."""
    samples_to_train: int = pydantic.Field(default=16384, ge=1)
    """The most samples to draw."""
    recency_bias_power: float = pydantic.Field(default=2.0, ge=0)
    """The power of recency in a sample's weight."""
    last_n_iterations: int | None = pydantic.Field(default=4, ge=1)
    """The number of latest iterations to use; null for all."""
    filter_successful_only: bool = True
    """Whether to train on successful episodes only."""
    filter_same_screenshot: bool = True
    """Whether to leave out steps without effect."""
    min_steps: int = pydantic.Field(default=1, ge=0)
    """The fewest actions in an episode."""
    where: str = ""
    """A condition on episodes."""
    val_split_ratio: float = pydantic.Field(default=0.05, ge=0, lt=1)
    """The share for validation; 0 for none."""
    val_split_by: SplitBy = "episode"
    """The unit that a split keeps together."""
    seed: int = pydantic.Field(default=42, ge=0)
    """Seed of the draw, the split and the training."""
    render_oracles: bool = False
    """Whether decisions of oracles and scripts become samples, with the prompt that a model agent
    would send."""

    finetuning_type: Literal["full"] = "full"
    """Only `full`. For LoRA use `webtraj train`, which merges its adapters into the model."""
    mask_history: bool = True
    """Whether to train on the last reply of a row only."""
    cutoff_len: int = pydantic.Field(default=16384, ge=1)
    """The most tokens in a row. Longer rows are refused, by an estimate without LLaMA-Factory's
    Python: LLaMA-Factory would cut them or abort."""
    image_max_pixels: int | None = pydantic.Field(default=None, ge=1)
    image_min_pixels: int | None = pydantic.Field(default=None, ge=1)
    freeze_vision_tower: bool | None = None
    per_device_train_batch_size: int = pydantic.Field(default=3, ge=1)
    per_device_eval_batch_size: int = pydantic.Field(default=3, ge=1)
    gradient_accumulation_steps: int = pydantic.Field(default=4, ge=1)
    learning_rate: float = pydantic.Field(default=1e-6, gt=0)
    max_grad_norm: float = pydantic.Field(default=1.0, ge=0)
    weight_decay: float = pydantic.Field(default=0.01, ge=0)
    num_train_epochs: float = pydantic.Field(default=2.0, gt=0)
    warmup_steps: float = pydantic.Field(default=30, ge=0)
    lr_scheduler_type: str = "constant_with_warmup"
    logging_steps: float = pydantic.Field(default=1, gt=0)
    bf16: bool = True

    do_eval: bool = False
    """Whether to measure the loss on validation samples."""
    eval_strategy: Literal["no", "steps", "epoch"] = "epoch"
    eval_steps: float | None = pydantic.Field(default=None, gt=0)

    save_strategy: Literal["no", "steps", "epoch"] = "steps"
    save_steps: float = pydantic.Field(default=999999, gt=0)
    """Steps between checkpoints. A run also saves at the end."""
    save_total_limit: int | None = pydantic.Field(default=1, ge=1)
    save_only_model: bool = False

    preprocessing_num_workers: int = pydantic.Field(default=16, ge=1)
    dataloader_num_workers: int = pydantic.Field(default=2, ge=0)
    dataloader_pin_memory: bool = True
    remove_unused_columns: bool = False
    min_token_length: int = pydantic.Field(default=10, ge=0)
    """The fewest tokens in a sample, prompt and reply; shorter ones are left out."""

    gradient_checkpointing: bool = False
    """The opposite of LLaMA-Factory's `disable_gradient_checkpointing`."""
    plot_loss: bool = False
    deepspeed_config_filename: str | None = None
    """`ds_config_zero2.json`, `ds_config_zero3.json`, `ds_config_b200_zero2.json`, or the path of
    a file."""
    report_to: str | list[str] = "none"
    num_gpus: int | None = pydantic.Field(default=None, ge=1)
    """The number of GPUs; by default as many as LLaMA-Factory's Python sees. It matters when
    training resumes from a checkpoint."""
    resume: Literal["auto", "weights", "optimizer"] = "auto"
    """What to resume from the last update. `weights`: the weights, with a fresh optimizer.
    `optimizer`: also the optimizer, scheduler and step count; an error if they are missing. `auto`:
    those too if the last checkpoint has them and this machine can resume them."""
    extra: dict[str, Any] = {}  # noqa: RUF012  (pydantic copies it.)
    """Extra keys for LLaMA-Factory."""

    @pydantic.field_validator("finetuning_type", mode="before")
    @classmethod
    def _is_full(cls, value: Any) -> Any:
        if value in ("lora", "freeze", "oft"):
            raise ValueError(
                "must be full, since model.pt is a whole model: for LoRA, export the samples "
                "(webtraj train export --format tokens) and train with webtraj train, which merges "
                "its adapters"
            )
        return value

    @pydantic.field_validator("model_output_name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("must be a folder's name, such as model.pt")
        return value


class UpdateSettings(Section):
    """Settings for updating the policy, independent of the rollouts."""

    policy_config: PolicyConfig = PolicyConfig()
    """Settings of the model."""
    log_config: LogConfig = LogConfig()
    """Settings for logging."""
    algorithm_config: AlgorithmConfig = AlgorithmConfig()
    """Settings of data and training."""


class UpdateConfig(UpdateSettings):
    """Settings of an update of the policy."""

    save_path: str
    """The folder or bucket URL of the rollouts, which record in `train_trajectories` below it."""
    work_path: str | None = None
    """The folder for training files, checkpoints and the model; by default `save_path`."""
    storage_options: dict[str, Any] | None = None
    """Options for a bucket: see `webtraj.store.open_storage`."""

    @pydantic.model_validator(mode="after")
    def _works_in_a_folder(self) -> Self:
        if is_url(self.work_path or self.save_path):
            raise ValueError(
                "work_path: must be a folder for training files, checkpoints and the model "
                "when save_path is a bucket; set work_path=FOLDER"
            )
        return self

    @property
    def folder(self) -> Path:
        """The folder of all outputs."""
        return Path(self.work_path or self.save_path).absolute()


def load_update_config(
    config: str | Path = "update_online",
    overrides: Iterable[str] = (),
    *,
    config_dir: str | Path | None = None,
) -> UpdateConfig:
    """Load a configuration.

    Args:
        config: A YAML file; or its name without `.yaml`, if it is in `config_dir` or is the
            built-in `update_online`.
        overrides: `key=value` texts with dotted keys and YAML values.
        config_dir: A folder of your own files.

    Raises:
        InvalidInputError: The file is missing or not YAML, or a key is unknown, missing or wrong.
        MissingDependencyError: OmegaConf is not installed.
    """
    data = configuration.read(config, package=_PACKAGE, config_dir=config_dir)
    data = configuration.with_overrides(
        data, overrides, example="algorithm_config.learning_rate=1e-5"
    )
    return configuration.check(data, UpdateConfig, str(config))
