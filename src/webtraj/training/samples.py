"""The training sample: one decision of a recorded episode, as the model saw and made it.

A sample is cut from the record, never rebuilt: it has the messages that were sent and the token ids
that were sampled. Fields that were not recorded are empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj.agents.models.base import Image, Message, ToolCall
from webtraj.trajectory import Outcome

__all__ = ["Sample", "SampleKey", "key_of", "name_of"]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class SampleKey:
    """The unique key of a sample: episode, step and model call."""

    episode_id: str
    step: int
    """The index of the StepRecord whose decision it is."""
    call: int = 0
    """The index of the model call within the decision."""


def name_of(key: SampleKey) -> str:
    """Return a sample's name in rows: `<episode>/<step>/<call>`.

    >>> name_of(SampleKey("e1", 3))
    'e1/3/0'
    """
    return f"{key.episode_id}/{key.step}/{key.call}"


def key_of(name: str) -> SampleKey:
    """Return the key for a name from `name_of`.

    Raises:
        ValueError: The name is malformed.
    """
    episode_id, step, call = name.rsplit("/", 2)
    return SampleKey(episode_id, int(step), int(call))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One decision to learn from."""

    key: SampleKey
    messages: tuple[Message, ...]
    """The prompt as it was sent, with any system message first and images included."""
    completion: str
    """The text of the reply, as the model wrote it."""
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """What the recorded prompt holds and `messages` does not, such as earlier reasoning and names,
    by kind with its number."""
    calls: tuple[ToolCall, ...] = ()
    """The reply's tool calls."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """The tools that the model was offered, as the request had them."""
    prompt_token_ids: tuple[int, ...] = ()
    """The prompt's token ids as the model saw them; empty if not recorded."""
    completion_token_ids: tuple[int, ...] = ()
    """The sampled token ids; empty if not recorded."""
    mask: tuple[bool, ...] = ()
    """Which of the completion's tokens are trained; empty for all of them."""
    grids: tuple[Mapping[str, Any], ...] = ()
    """What the processor made of each picture of the prompt: see `webtraj.training.sft.pictures`;
    empty if that is not known."""
    processor: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The processor that made `grids`; empty if it is not known."""
    logprobs: tuple[float, ...] = ()
    """Log-probabilities of the completion's tokens under the weights that sampled them."""
    temperature: float | None = None
    """The sampling temperature of the completion, if recorded."""
    finish_reason: str = ""
    """Why the reply ended, in the provider's word; see `webtraj.trajectory.ending_of`."""
    loss_weight: float = 1.0
    """The weight in the loss; 0 trains nothing."""
    reward: float | None = None
    """The episode's reward: 1 for a success, 0 for a failure, or the judge's reward."""
    advantage: float | None = None
    """The reward minus the mean of its group, if computed; 0 in a group without a success."""
    outcome: Outcome = Outcome.UNKNOWN
    group_id: str = ""
    """The id shared by attempts that are compared with each other."""
    iteration: int = 0
    """The iteration that collected its episode, from 1; 0 if none."""
    task: str = ""
    site: str = ""
    goal: str = ""
    policy: str = ""
    policy_version: str = ""
    """The version of the weights that sampled it."""
    action: Any = None
    """The action parsed from the reply."""
    recorded: bool = True
    """Whether a model really received the prompt and wrote the completion. False for samples
    rendered afterwards from decisions of something other than a model."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Extra data for exporters."""

    @property
    def uses_tools(self) -> bool:
        """Whether the prompt or the reply has tool calls."""
        return bool(self.calls) or any(message.calls for message in self.messages)

    @property
    def images(self) -> list[Image]:
        """All pictures of the prompt, in order."""
        return [part for m in self.messages for part in m.parts if isinstance(part, Image)]
