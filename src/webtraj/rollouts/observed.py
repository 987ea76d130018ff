"""What browsers observe in a rollout: what the agent needs, and what its records should tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webtraj.agents.base import Agent
from webtraj.rollouts.plan import PlannedEpisode

__all__ = ["channels_for", "environment_options"]

_RECORDED = ("timings", "info")
"""Channels that no agent looks at, and every reader of the records wants."""


def channels_for(agent: Agent) -> list[str]:
    """Returns the channels for an agent that says what it needs (`channels`); none for others."""
    channels = getattr(agent, "channels", ())
    return [*channels, *_RECORDED] if channels else []


def environment_options(
    plan: Sequence[PlannedEpisode], given: Mapping[str, Any], channels: Sequence[str]
) -> dict[str, Any]:
    """Returns the presets' options: what to observe, where all tasks are played in a browser."""
    options: dict[str, Any] = {}
    if channels and all(planned.selection.uses_browser for planned in plan):
        options["observe"] = list(channels)
    return {**options, **given}
