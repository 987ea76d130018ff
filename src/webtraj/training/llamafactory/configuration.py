"""What an update is asked for: YAML, and `key=value` on top.

The keys are those of WebGym's `update_online.yaml`, and some more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from webtraj import configuration
from webtraj.configuration import Section
from webtraj.store.places import is_url
from webtraj.training.replay.selection import SplitBy

__all__ = ["AlgorithmConfig", "LogConfig", "PolicyConfig", "UpdateConfig", "load_update_config"]

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_PACKAGE = "webtraj.training.llamafactory"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class LogConfig(Section):
    """How a training is logged."""

    run_name: str = "webtraj"
    """The name that all iterations' runs are grouped under."""
    wandb_key_env_var: str = "WANDB_API_KEY"
    """The environment variable that holds W&B's key: its name, never the key."""
    entity_name: str | None = None
    """W&B's entity."""
    project_name: str = "webtraj"
    """W&B's project."""

    @pydantic.field_validator("wandb_key_env_var")
    @classmethod
    def _names_a_variable(cls, value: str) -> str:
        if not _VARIABLE.fullmatch(value):
            # What was given is not shown: it may be the key.
            raise ValueError(
                "is the name of an environment variable, in capitals, such as WANDB_API_KEY; the "
                "key itself does not belong into a configuration"
            )
        return value


class PolicyConfig(Section):
    """The model."""

    base_model: str | None = None
    """What the first update begins with: a folder, or a name on the Hub. By default the model that
    played the episodes."""
    template: str | None = None
    """LLaMA-Factory's template; by default the one for the model."""
    init_model_from_hf: bool = False
    """Whether to begin with `base_model` again, although there is a trained model."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may be run."""


class AlgorithmConfig(Section):
    """What is trained on, and how. What is not explained here is LLaMA-Factory's."""

    model_output_name: str = "model.pt"
    """The folder below `save_path` in which the trained model is put."""
    samples_to_train: int = pydantic.Field(default=16384, ge=1)
    """How many samples are drawn, if there are as many."""
    recency_bias_power: float = pydantic.Field(default=2.0, ge=0)
    """Of the iteration's age in a sample's weight."""
    last_n_iterations: int | None = pydantic.Field(default=4, ge=1)
    """How many iterations count, the latest ones; null for all."""
    filter_successful_only: bool = True
    """Whether only steps of successes are trained on."""
    filter_same_screenshot: bool = True
    """Whether steps without effect are left out."""
    min_steps: int = pydantic.Field(default=1, ge=0)
    """Actions that an episode must have."""
    where: str = ""
    """A condition on episodes."""
    val_split_ratio: float = pydantic.Field(default=0.05, ge=0, lt=1)
    """Which share is kept for validation; 0 for none."""
    val_split_by: SplitBy = "episode"
    """What stays in one part."""
    seed: int = pydantic.Field(default=42, ge=0)
    """Of the draw, the split and the training."""
    render_oracles: bool = False
    """Whether decisions that no model was asked for become samples, with the prompt that a model
    agent would be asked by."""

    finetuning_type: Literal["full"] = "full"
    """`full`; for LoRA use `webtraj train`, which merges its adapters into the model."""
    mask_history: bool = True
    """Whether only the last reply of a row is trained on."""
    cutoff_len: int = pydantic.Field(default=16384, ge=1)
    """Rows of more tokens are refused: LLaMA-Factory would cut them, or abort."""
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
    """Whether the loss on validation samples is measured."""
    eval_strategy: Literal["no", "steps", "epoch"] = "epoch"
    eval_steps: float | None = pydantic.Field(default=None, gt=0)

    save_strategy: Literal["no", "steps", "epoch"] = "steps"
    save_steps: float = pydantic.Field(default=999999, gt=0)
    """A checkpoint is made at the end in any case."""
    save_total_limit: int | None = pydantic.Field(default=1, ge=1)
    save_only_model: bool = False

    preprocessing_num_workers: int = pydantic.Field(default=16, ge=1)
    dataloader_num_workers: int = pydantic.Field(default=2, ge=0)
    dataloader_pin_memory: bool = True
    remove_unused_columns: bool = False
    min_token_length: int = pydantic.Field(default=10, ge=0)
    """Samples of fewer tokens, prompt and reply, are left out."""

    gradient_checkpointing: bool = False
    """In LLaMA-Factory's words `disable_gradient_checkpointing`, the other way round."""
    plot_loss: bool = False
    deepspeed_config_filename: str | None = None
    """`ds_config_zero2.json`, `ds_config_zero3.json`, `ds_config_b200_zero2.json`, or a file's
    path."""
    report_to: str | list[str] = "none"
    num_gpus: int | None = pydantic.Field(default=None, ge=1)
    """How many GPUs share a step; by default as many as LLaMA-Factory's Python sees. It counts
    where training goes on from a checkpoint."""
    resume: Literal["auto", "weights", "optimizer"] = "auto"
    """What continues from the last update. `weights`: the weights, with a fresh optimizer.
    `optimizer`: also the optimizer, the scheduler and the count of steps; an error if there are
    none. `auto`: those too if the last checkpoint has them."""
    extra: dict[str, Any] = {}  # noqa: RUF012  (pydantic copies it.)
    """Other keys of LLaMA-Factory."""

    @pydantic.field_validator("finetuning_type", mode="before")
    @classmethod
    def _is_full(cls, value: Any) -> Any:
        if value in ("lora", "freeze", "oft"):
            raise ValueError(
                "is full here, since model.pt is a whole model: export the samples "
                "(webtraj export --format tokens) and train with webtraj train, which has LoRA and "
                "merges its adapters"
            )
        return value

    @pydantic.field_validator("model_output_name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("is a folder's name, such as model.pt")
        return value


class UpdateConfig(Section):
    """An update of the policy."""

    save_path: str
    """Where rollouts record, `<save_path>/train_trajectories`: a folder or a bucket's URL."""
    work_path: str | None = None
    """The folder for training files, checkpoints and the model; by default `save_path`."""
    storage_options: dict[str, Any] | None = None
    """For a bucket: what `webtraj.store.open_storage` takes."""
    policy_config: PolicyConfig
    log_config: LogConfig = LogConfig()
    algorithm_config: AlgorithmConfig = AlgorithmConfig()

    @pydantic.model_validator(mode="after")
    def _works_in_a_folder(self) -> Self:
        if is_url(self.work_path or self.save_path):
            raise ValueError(
                "work_path: a folder is needed for training files, checkpoints and the model, "
                "where save_path is a bucket"
            )
        return self

    @property
    def folder(self) -> Path:
        """The folder for all that is made."""
        return Path(self.work_path or self.save_path).absolute()


def load_update_config(
    name: str = "update_online",
    overrides: Iterable[str] = (),
    *,
    config_dir: str | Path | None = None,
) -> UpdateConfig:
    """Load a configuration by name.

    Args:
        name: A file's name without `.yaml`: one of `config_dir`, or `update_online`, which ships.
        overrides: `key=value` each, the key dotted, the value YAML.
        config_dir: A folder of files of one's own.

    Raises:
        InvalidInputError: There is no such file, or it is no YAML; a key is unknown, missing or
            wrong.
        MissingDependencyError: OmegaConf is not installed.
    """
    data = configuration.read_named(name, config_dir=config_dir, package=_PACKAGE)
    data = configuration.with_overrides(
        data, overrides, example="algorithm_config.learning_rate=1e-5"
    )
    return configuration.checked(data, UpdateConfig, name)
