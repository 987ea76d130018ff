"""The settings of a training run, as a file or a command line gives them.

YAML, and `key=value` on top.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic

from webtraj import configuration, errors
from webtraj.configuration import Section

__all__ = ["LoraSettings", "PolicySettings", "SftSettings", "TrainConfig", "load_train_config"]

_Positive = Annotated[int, pydantic.Field(ge=1)]
_NotNegative = Annotated[float, pydantic.Field(ge=0)]


class LoraSettings(Section):
    """Low-rank adapters, for `method: lora`."""

    rank: _Positive = 16
    """The adapters' rank."""
    alpha: _Positive = 32
    """Their scale, times the rank."""
    dropout: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.0
    """The share of their input that is dropped."""
    targets: str | list[str] = "all-linear"
    """Which modules get one, by the ends of their names."""


class PolicySettings(Section):
    """Policy-gradient training on sampled replies, as in GRPO and its relatives.

    A row with log-probabilities and a reward trains by a clipped policy gradient; any other row
    trains as in supervised learning.
    """

    advantage: Literal["group_mean", "group_mean_std", "leave_one_out", "recorded"] = "group_mean"
    """How an episode compares with its group: its reward minus the group's mean (Dr. GRPO: Liu et
    al. 2025), divided by the group's standard deviation (GRPO: Shao et al. 2024), or minus the mean
    of the others (RLOO: Ahmadian et al. 2024); or the advantage that the row states."""
    temperature: Annotated[float, pydantic.Field(gt=0)] = 1.0
    """The temperature that replies were sampled at: recorded log-probabilities are of the
    distribution that was sampled from."""
    clip_low: Annotated[float, pydantic.Field(ge=0, le=1)] = 0.2
    """How far below 1 the ratio of probabilities is followed."""
    clip_high: _NotNegative = 0.2
    """How far above 1 (DAPO uses 0.28: Yu et al. 2025)."""
    proximal: bool = False
    """Measures the ratio against the weights that this run starts from instead of those that
    sampled (decoupled PPO: Hilton et al. 2022). Stale rows are then weighted by how much likelier
    the starting weights make them, up to `max_importance`."""
    max_importance: Annotated[float, pydantic.Field(gt=0)] = 2.0
    """The largest importance weight of a token, for `proximal`."""
    normalizer: Literal["tokens", "sequences", "constant"] = "tokens"
    """What the loss is averaged over: all tokens of a step (DAPO), each reply and then the replies
    (GRPO), or the replies times `constant` (Dr. GRPO), so that long failures weigh no less."""
    constant: Annotated[float, pydantic.Field(gt=0)] = 128.0
    """Tokens of a reply, for `normalizer: constant`."""
    max_staleness: Annotated[int, pydantic.Field(ge=0)] | None = None
    """Leaves out rows that are more iterations older than the newest row."""
    supervised_weight: _NotNegative = 1.0
    """The weight of rows without log-probabilities, beside their own."""


class SftSettings(Section):
    """How a model is trained on samples."""

    model: str
    """The model to begin with: a folder, or a name on the Hugging Face Hub."""
    output: str
    """The run's folder: checkpoints, log, plot."""
    resume: bool = True
    """Whether to go on with a run that is in `output` already; if not, one there is an error."""

    method: Literal["full", "lora"] = "full"
    """Whether all weights are trained, or adapters."""
    lora: LoraSettings = LoraSettings()
    """The adapters."""
    freeze_vision: bool = False
    """Leaves a vision-language model's vision tower as it is."""

    policy: PolicySettings | None = None
    """Trains by policy gradient instead of imitation; `policy={}` takes the defaults."""
    loss_on: Literal["completion", "all_turns"] = "completion"
    """Whether the reply is trained on alone, or the replies in the prompt too."""
    token_ids: Literal["auto", "recorded", "template"] = "auto"
    """Which token ids: those on record, and else by the chat template; those on record, and an
    error where there are none; or always by the template."""
    template_options: dict[str, Any] = pydantic.Field(default_factory=dict)
    """More arguments of the chat template, such as `enable_thinking: false`."""
    cutoff_len: _Positive = 4096
    """How many tokens a sample may have, images and reply included."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """Whether a longer sample is an error, or left out and counted. Samples are never cut: what is
    left would be another prompt than the one that was replied to."""
    packing: bool = False
    """Puts short samples together into rows of up to `cutoff_len`, which do not see each other.
    For text models."""

    batch_size: _Positive = 8
    """Rows in one pass of one device."""
    accumulation: _Positive = 1
    """Passes to a step."""
    epochs: _Positive = 1
    """How often each sample is trained on."""
    max_steps: _Positive | None = None
    """Ends after so many steps, or goes on for as many, instead of `epochs`."""
    learning_rate: Annotated[float, pydantic.Field(gt=0)] = 1e-5
    """The highest learning rate."""
    schedule: Literal["constant", "linear", "stable", "cosine"] = "cosine"
    """How it falls after the warm-up: not at all, or towards 0, which comes after the last step.
    `stable` stays for 60 % of the steps and falls in a line after that (warm-up, stable, decay: Hu
    et al. 2024, MiniCPM)."""
    warmup_steps: Annotated[int, pydantic.Field(ge=0)] = 0
    """Over how many steps it rises from 0."""
    weight_decay: _NotNegative = 0.0
    """AdamW's, of matrices."""
    adam_beta1: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.9
    """AdamW's first beta."""
    adam_beta2: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.999
    """AdamW's second beta."""
    max_grad_norm: _NotNegative = 1.0
    """What longer gradients are scaled down to; 0 leaves them."""
    precision: Literal["auto", "bf16", "float32"] = "auto"
    """What is computed in; `auto` is bf16 on GPUs that support it. Weights are kept in float32, but
    those under adapters in what is computed in."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """Which implementation of attention."""
    gradient_checkpointing: bool = False
    """Computes activations twice, to keep fewer of them."""
    seed: int = 0
    """Of the samples' order, of dropout and of new adapters."""

    eval_steps: _Positive | None = None
    """Evaluates every so many steps, if there is something to evaluate on; always at the end."""
    save_steps: _Positive | None = None
    """Saves every so many steps; always at the end."""
    keep_checkpoints: _Positive = 2
    """How many checkpoints are kept, the latest."""
    log_steps: _Positive = 1
    """Logs every so many steps."""
    tensorboard: bool = False
    """Writes TensorBoard's event files to `output/tensorboard`."""
    wandb_project: str | None = None
    """Logs to a run of this project of Weights & Biases."""

    def what_matters(self) -> dict[str, Any]:
        """Returns what the weights that come out depend on; a run that goes on must agree in it."""
        matters = self.model_dump(mode="json", exclude=set(_FREE))
        if self.policy is None:  # Runs of before there was policy-gradient training can be resumed.
            del matters["policy"]
        return matters

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


_FREE = frozenset(
    {
        "output", "resume", "eval_steps", "save_steps", "keep_checkpoints", "log_steps",
        "tensorboard", "wandb_project", "data", "eval_data", "publish",
    }
)  # fmt: skip


# From files and command lines.


class TrainConfig(SftSettings):
    """Settings, with what is trained on and where the result goes."""

    data: list[str]
    """Files of samples, as `webtraj.training.sft.rows` reads them, or folders of exports."""
    eval_data: list[str] | None = None
    """What to measure the loss on, likewise. If not given, the split `val` of the exports among
    `data`; `[]` is nothing."""
    publish: str | None = None
    """The folder in which the trained model is put, as `model.pt`, when all is done."""


def load_train_config(
    path: Path | None, overrides: Iterable[str] = (), given: dict[str, Any] | None = None
) -> TrainConfig:
    """Returns a configuration.

    Args:
        path: A YAML file. References such as `${oc.env:HOME}` are followed.
        overrides: `key=value` each, the value YAML: `lora.rank=8`.
        given: Values that go before all others.

    Raises:
        InvalidInputError: The file cannot be read, or a key is unknown, missing or wrong.
        MissingDependencyError: OmegaConf is not installed, and there is something to read.
    """
    name = "train" if path is None else str(path)
    data = {} if path is None else configuration.read_file(path)
    data = configuration.with_overrides(data, overrides, example="learning_rate=1e-4")
    data = configuration.merged(data, given or {})
    configuration.check_names(data, TrainConfig, name)
    _check_needed(data, name)
    return configuration.checked(data, TrainConfig, name)


def _check_needed(data: dict[str, Any], name: str) -> None:
    missing = [key for key in ("model", "data", "output") if key not in data]
    if missing:
        flags = ", ".join(f"--{key}" for key in missing)
        raise errors.InvalidInputError(
            f"The configuration {name!r} does not say {', '.join(missing)}; give {flags}, or the "
            "same in a YAML file, --config train.yaml."
        )
