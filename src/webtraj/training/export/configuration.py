"""The settings of `webtraj train export`, which are also the keys of a loop's phase."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from webtraj.settings.configuration import Section

__all__ = ["ExportSettings", "RenderSettings"]


class RenderSettings(Section):
    """Settings for the prompts of decisions without a model call, such as an oracle's."""

    render: bool = False
    """Whether to also make samples without a model call, such as from an oracle's decisions."""
    render_options: dict[str, Any] = Field(default_factory=dict)
    """With `render`: options of the agent `model` that the prompts are for, such as its mode,
    dialect and prompt: `{mode: coordinates}`."""

    @model_validator(mode="after")
    def _have_prompts(self) -> Self:
        if self.render_options and not self.render:
            raise ValueError("render_options needs render: it sets how prompts are made. Give both")
        return self


class ExportSettings(RenderSettings):
    """Settings for which samples to export, and in what form."""

    format: str = "tokens"
    """Format of the samples: tokens, sharegpt, openai, ..."""
    filters: dict[str, Any] = Field(default_factory=dict)
    """Filters of the samples: `{filter_successful_only: true, min_steps: 1}`."""
    where: str | None = None
    """Condition that selects the episodes."""
    held_out: list[str] = Field(default_factory=list)
    """Tasks, patterns or task files that the data must not hold."""
    loss_weights: Literal["success", "reward", "uniform", "advantage", "rare"] | None = None
    """Weight of each sample in the loss; default: success, or uniform for tokens and pairs."""
    samples: Annotated[int, Field(ge=1)] | None = None
    """Number of samples to draw; null for all."""
    recency_bias_power: Annotated[float, Field(ge=0)] | None = None
    """With `samples`: how strongly to prefer later iterations; default: 2."""
    val_split: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the samples for validation."""
    split_by: Literal["episode", "group", "task", "site"] | None = None
    """Unit that is not split between training and validation; default: episode, or group for tokens
    and pairs."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the format."""

    @model_validator(mode="after")
    def _have_effect(self) -> Self:
        if self.split_by and not self.val_split:
            raise ValueError(
                "split_by needs val_split: it says what to keep together in a split. Give both"
            )
        if self.recency_bias_power is not None and not self.samples:
            raise ValueError(
                "recency_bias_power needs samples: it sets how samples are drawn. Give both"
            )
        return self
