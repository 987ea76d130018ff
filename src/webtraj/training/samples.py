"""What one training sample is: one decision of a recorded episode, as the model saw and made it.

A sample is cut out of a record, never made again: its messages are those that were sent, its token
ids those that were sampled. What is not on record is empty here, and what needs it says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj.agents.models.base import Message
from webtraj.trajectory import Outcome

__all__ = ["Sample", "SampleKey"]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class SampleKey:
    """Where a sample is from: enough to find it again, and to tell it from all others."""

    episode_id: str
    step: int
    """The index of the StepRecord whose decision it is."""
    call: int = 0
    """Which of the decision's model calls."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One decision to learn from."""

    key: SampleKey
    messages: tuple[Message, ...]
    """The prompt, system message first if there was one: as it was sent, pictures included."""
    completion: str
    """The reply, as the model wrote it."""
    prompt_token_ids: tuple[int, ...] = ()
    """As the model saw them; empty if they are not on record."""
    completion_token_ids: tuple[int, ...] = ()
    """As they were sampled."""
    logprobs: tuple[float, ...] = ()
    """Of the completion's tokens, under the weights that sampled them."""
    loss_weight: float = 1.0
    """How much it counts; 0 trains nothing."""
    reward: float | None = None
    """What its episode was worth: 1 for a success, 0 for a failure, or the judge's."""
    advantage: float | None = None
    """The reward minus the mean of its group, where that was asked for."""
    outcome: Outcome = Outcome.UNKNOWN
    group_id: str = ""
    """The attempts that are compared with each other."""
    iteration: int = 0
    """The iteration that its episode was collected in, from 1; 0 if there is none."""
    task: str = ""
    site: str = ""
    goal: str = ""
    policy: str = ""
    policy_version: str = ""
    """Which weights sampled it."""
    action: Any = None
    """The action that the reply was read as."""
    recorded: bool = True
    """Whether prompt and completion are what a model was sent and replied. False for those that
    were rendered afterwards, of a decision that no model was asked for."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What else an exporter may want to write down."""
