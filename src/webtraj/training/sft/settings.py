"""Settings of a training run: YAML files with `key=value` overrides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic

from webtraj import errors
from webtraj.settings import configuration
from webtraj.settings.configuration import Section

__all__ = [
    "LoraSettings",
    "PolicySettings",
    "SftSettings",
    "TrainConfig",
    "TrainingSettings",
    "load_train_config",
]

_Positive = Annotated[int, pydantic.Field(ge=1)]
_NotNegative = Annotated[float, pydantic.Field(ge=0)]


class LoraSettings(Section):
    """Low-rank adapters, for `method: lora`."""

    rank: _Positive = 16
    """The adapters' rank."""
    alpha: _Positive = 32
    """The adapters' scale, times the rank."""
    dropout: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.0
    """Dropout rate on the adapters' input."""
    targets: str | list[str] = "all-linear"
    """Modules that get an adapter, by name suffix."""


class PolicySettings(Section):
    """Policy-gradient training on sampled replies, as in GRPO and its relatives.

    A row with log-probabilities and a reward trains by a clipped policy gradient; any other row
    trains as in supervised learning.
    """

    advantage: Literal["group_mean", "group_mean_std", "leave_one_out", "recorded"] = "group_mean"
    """The advantage of an episode within its group: its reward minus the group's mean (Dr. GRPO:
    Liu et al. 2025), that divided by the group's standard deviation (GRPO: Shao et al. 2024), its
    reward minus the mean of the others (RLOO: Ahmadian et al. 2024), or the recorded advantage."""
    temperature: Annotated[float, pydantic.Field(gt=0)] | None = None
    """The sampling temperature of the replies, which recorded log-probabilities include; by default
    that in the rows, or 1 if they have none."""
    clip_low: Annotated[float, pydantic.Field(ge=0, le=1)] = 0.2
    """Clip range of the probability ratio below 1."""
    clip_high: _NotNegative = 0.2
    """Clip range above 1 (DAPO uses 0.28: Yu et al. 2025)."""
    proximal: bool = False
    """Whether to measure the ratio against this run's starting weights instead of the weights
    that sampled the reply (decoupled PPO: Hilton et al. 2022). Stale rows are then weighted by
    their likelihood ratio under the starting weights, up to `max_importance`."""
    max_importance: Annotated[float, pydantic.Field(gt=0)] = 2.0
    """The largest importance weight of a token, for `proximal`."""
    normalizer: Literal["tokens", "sequences", "constant"] = "tokens"
    """What the loss is averaged over: all tokens of a step (DAPO); the tokens of each reply, then
    the replies (GRPO); or the replies times `constant` (Dr. GRPO), so that long failures do not
    count less."""
    constant: Annotated[float, pydantic.Field(gt=0)] = 128.0
    """Assumed tokens per reply, for `normalizer: constant`."""
    max_staleness: Annotated[int, pydantic.Field(ge=0)] | None = None
    """Largest age of a sampled row in iterations, relative to the newest one. Older ones are left
    out."""
    supervised_weight: _NotNegative = 1.0
    """Factor on the weight of rows without log-probabilities."""


class TrainingSettings(Section):
    """Settings for training, independent of the model and the samples."""

    method: Literal["full", "lora"] = "full"
    """Train all weights, or only adapters."""
    lora: LoraSettings = LoraSettings()
    """Settings of the adapters."""
    freeze_vision: bool = False
    """Whether to freeze a vision-language model's vision tower."""

    policy: PolicySettings | None = None
    """Policy-gradient settings. None imitates the replies; `{}` takes the defaults."""
    loss_on: Literal["completion", "all_turns"] = "completion"
    """Train on the reply alone, or on the replies in the prompt too."""
    token_ids: Literal["auto", "recorded", "template"] = "auto"
    """The source of token ids: recorded ids with the chat template as fallback, recorded ids only
    (missing ones are an error), or the template only."""
    template_options: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Extra arguments for the chat template, such as `enable_thinking: false`."""
    cutoff_len: _Positive = 4096
    """The most tokens in a sample, images and reply included."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """Whether a longer sample is an error, or is left out and counted. Samples are never cut: the
    model did not reply to the shorter prompt."""
    no_samples: Literal["refuse", "keep"] = "refuse"
    """Whether having nothing to train on is an error, or keeps the starting weights: a rollout may
    have no group whose attempts differ."""
    packing: bool = False
    """Whether to pack short samples into rows of up to `cutoff_len`. Packed samples do not attend
    to each other. Models whose positions depend on images, such as Qwen-VL, are refused."""

    batch_size: _Positive = 8
    """The most rows per device in one pass. One process splits a pass whose rows differ much in
    length."""
    accumulation: _Positive = 1
    """A step has `accumulation` times `batch_size` rows per device."""
    epochs: _Positive = 1
    """Passes over the data."""
    max_steps: _Positive | None = None
    """The exact number of steps, instead of `epochs`."""
    learning_rate: Annotated[float, pydantic.Field(gt=0)] = 1e-5
    """The peak learning rate."""
    schedule: Literal["constant", "linear", "stable", "cosine"] = "cosine"
    """Decay after the warm-up: none, or to 0 just after the last step. `stable` is flat for 60 %
    of the steps and then linear (warm-up, stable, decay: Hu et al. 2024, MiniCPM)."""
    warmup_steps: Annotated[int, pydantic.Field(ge=0)] = 0
    """Steps over which the learning rate rises from 0."""
    weight_decay: _NotNegative = 0.0
    """AdamW's weight decay, applied to matrices only."""
    adam_beta1: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.9
    """AdamW's first beta."""
    adam_beta2: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.999
    """AdamW's second beta."""
    max_grad_norm: _NotNegative = 1.0
    """The largest gradient norm; longer gradients are scaled down. 0 disables clipping."""
    precision: Literal["auto", "bf16", "float32"] = "auto"
    """The type used to compute; `auto` is bf16 on GPUs that support it. Trained weights stay in
    float32; weights under adapters use this type."""
    image_backend: Literal["auto", "pil", "torchvision"] = "auto"
    """The library that scales pictures; `auto` is torchvision if it is installed, as for vLLM,
    whose builds for CPUs come without it. Both scale a little differently, so policy-gradient
    training needs the server's."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """The attention implementation."""
    gradient_checkpointing: bool = False
    """Whether to recompute activations to save memory."""
    seed: int = 0
    """Seed of the samples' order, dropout and new adapters."""

    eval_steps: _Positive | None = None
    """Steps between evaluations, if there is evaluation data. A run also evaluates at the end."""
    save_steps: _Positive | None = None
    """Steps between checkpoints. A run also saves at the end."""
    keep_checkpoints: _Positive = 2
    """How many of the latest checkpoints to keep."""
    log_steps: _Positive = 1
    """Steps between log lines. A policy gradient's first step is always logged."""
    tensorboard: bool = False
    """Whether to write TensorBoard events to `out/tensorboard`."""
    wandb_project: str | None = None
    """The Weights & Biases project to log to."""

    @pydantic.model_validator(mode="after")
    def _check_policy(self) -> Self:
        if self.policy is not None and self.loss_on != "completion":
            raise ValueError(
                "policy trains on the sampled reply, so loss_on must be completion; "
                f"got {self.loss_on}"
            )
        if self.policy is not None and self.token_ids == "template":
            raise ValueError(
                "policy needs the recorded token ids, so token_ids must be auto or recorded; "
                "got template"
            )
        return self


class SftSettings(TrainingSettings):
    """Settings for training a model on samples."""

    model: str
    """The starting model: a folder, or a name on the Hugging Face Hub."""
    out: str
    """The run's folder: checkpoints, log, plot."""
    resume: bool = True
    """Whether to resume a run in `out`. If false, an existing run is an error."""

    def what_matters(self) -> dict[str, Any]:
        """Return the settings that determine the trained weights. A resumed run must match them."""
        return self.model_dump(mode="json", exclude=set(_FREE))


_FREE = frozenset(
    {
        "out", "resume", "no_samples", "eval_steps", "save_steps", "keep_checkpoints",
        "log_steps", "tensorboard", "wandb_project", "data", "eval_data", "publish",
    }
)  # fmt: skip


# From files and command lines.


class TrainConfig(SftSettings):
    """All settings: the training, the data, and the place of the result."""

    data: list[str]
    """Files of samples (see `webtraj.training.rows`) or folders of exports."""
    eval_data: list[str] | None = None
    """Data for evaluation, in the same form. Defaults to the split `val` of the exports among
    `data`; `[]` turns evaluation off."""
    publish: str | None = None
    """The folder that gets the trained model, as `model.pt`, when the run is done."""


def load_train_config(
    path: Path | None, overrides: Iterable[str] = (), given: dict[str, Any] | None = None
) -> TrainConfig:
    """Load a training configuration.

    Args:
        path: A YAML file. References such as `${oc.env:HOME}` are followed.
        overrides: `key=value` texts with YAML values, which override all others: `lora.rank=8`.
        given: Values of flags, which override the file.

    Raises:
        InvalidInputError: The file cannot be read, or a key is unknown, missing or wrong.
        MissingDependencyError: OmegaConf is needed and not installed.
    """
    name = "train" if path is None else str(path)
    data = {} if path is None else configuration.read_file(path)
    data = configuration.merge_layers(data, given or {}, overrides, example="learning_rate=1e-4")
    configuration.check_names(data, TrainConfig, name)
    _check_needed(data, name)
    return configuration.check(data, TrainConfig, name)


def _check_needed(data: dict[str, Any], name: str) -> None:
    missing = [key for key in ("model", "data", "out") if key not in data]
    if missing:
        flags = ", ".join(f"--{key}" for key in missing)
        raise errors.InvalidInputError(
            f"The configuration {name!r} lacks {', '.join(missing)}. Pass {flags}, or set the same "
            "keys in a YAML file: --config train.yaml."
        )
