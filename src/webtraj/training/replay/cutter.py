"""Cut samples out of recorded episodes.

A sample holds recorded data: the messages that were sent, the token ids that were sampled, and the
completion that came back. Only a renderer, if one is given, makes new prompts. Its samples are
marked (`Sample.recorded`).

An episode cut short by something other than the agent has no samples and no reward.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import math
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from webtraj import errors
from webtraj.agents.models import replies
from webtraj.agents.models.base import Image, Message, Part, Role, Text, ToolCall
from webtraj.environments.actions import read_action
from webtraj.environments.browser.recorded_channels import as_number
from webtraj.store.blobs import LazyBlob
from webtraj.store.foreign import valid_data
from webtraj.training.samples import Sample, SampleKey
from webtraj.trajectory import (
    Decision,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    is_scored,
)

__all__ = [
    "Leaf",
    "Rendered",
    "Renderer",
    "Turn",
    "action_of",
    "find_answered_call",
    "calls_of",
    "has_calls",
    "is_repeated",
    "load_blob",
    "outline",
    "outline_of_messages",
    "read_messages",
    "make_rendered_sample",
    "reward_of",
    "sample_of",
    "samples_of",
    "task_facts",
]

# Recorded conversations: from providers' shapes to messages.
#
# Messages that `webtraj.agents.models.messages` wrote into a `ModelCall` come back unchanged. Data
# URIs and base64 from other software are read too. Unknown shapes are refused, never guessed at.

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_TEXTS = ("text", "input_text", "output_text")
_THINKING = ("thinking", "redacted_thinking", "reasoning")
_MORE = (*_THINKING, "tool_use", "tool_result")
_SHAPE = (
    "expected messages with a role of system, user, assistant or tool, and a content of text, or "
    "of parts of text and pictures, or tool calls, in OpenAI's or Anthropic's form"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A text or picture of a message, possibly not loaded yet."""

    value: str | bytes | LazyBlob | Image
    is_image: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """One message, its parts possibly not loaded yet."""

    role: Role
    leaves: tuple[Leaf, ...]
    calls: tuple[ToolCall, ...] = ()
    """See `Message.calls`."""

    def load(self) -> Message:
        """Load the message."""
        return Message(self.role, tuple(map(_part_of, self.leaves)), self.calls)


def read_messages(
    messages: Iterable[Any], left_out: Counter[str] | None = None
) -> tuple[Message, ...]:
    """Return recorded messages in webtraj's form, with lazy blobs loaded.

    >>> read_messages([{"role": "user", "content": "Click it."}])[0].parts
    (Text(text='Click it.'),)

    Args:
        messages: The messages as recorded.
        left_out: Counts what is in the messages but not in the result, by kind: reasoning, names,
            ...

    Raises:
        InvalidInputError: They have an unknown shape, or hold content other than text, pictures,
            tool calls and results.
    """
    return tuple(turn.load() for turn in outline(messages, left_out))


def outline(messages: Iterable[Any], left_out: Counter[str] | None = None) -> tuple[Turn, ...]:
    """Return recorded messages as `read_messages` does, without loading lazy blobs.

    Raises:
        InvalidInputError: See `read_messages`.
    """
    counted: Counter[str] = Counter() if left_out is None else left_out
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        for turn in _turns(index, message, counted):
            if turns and turn.calls and turn.role == turns[-1].role == "assistant":
                # OpenAI's Responses has a reply's text and calls as items of their own.
                leaves = (*turns[-1].leaves, *turn.leaves)
                turns[-1] = Turn("assistant", leaves, (*turns[-1].calls, *turn.calls))
            else:
                turns.append(turn)
    return tuple(turns)


def outline_of_messages(messages: Iterable[Message]) -> tuple[Turn, ...]:
    """Return messages in the form of `outline`."""
    return tuple(
        Turn(
            message.role,
            tuple(
                Leaf(part, True) if isinstance(part, Image) else Leaf(part.text, False)
                for part in message.parts
            ),
            message.calls,
        )
        for message in messages
    )


def load_blob(value: Any) -> Any:
    """Return the content of a lazy blob, and any other value unchanged."""
    return value.load() if isinstance(value, LazyBlob) else value


_SHOWN: weakref.WeakValueDictionary[str, Image] = weakref.WeakValueDictionary()
"""The loaded pictures by SHA-256. The prompts of an episode show the same ones again and again."""


def _part_of(leaf: Leaf) -> Part:
    value = leaf.value
    if isinstance(value, Image):
        return value
    if not leaf.is_image:
        return Text(load_blob(value))
    if not isinstance(value, LazyBlob):
        return Image(load_blob(value))
    image = _SHOWN.get(value.blob.sha256)
    if image is None:
        sha256 = value.blob.sha256
        image = _SHOWN[sha256] = Image.with_hash(value.load(), sha256)
    return image


_CARRIED = frozenset(
    {
        "role", "type", "content", "text", "tool_calls", "tool_call_id", "function_call",
        "id", "call_id", "status", "index", "name", "arguments", "input", "action", "actions",
        "function", "output", "tool_use_id", "image_url", "source", "uuid",
    }
)  # fmt: skip
"""Keys that are read, and the names that servers give to items. A message's `name` is not."""


def _note(item: Mapping[Any, Any], left_out: Counter[str], *, named: bool = True) -> None:
    """Count the keys of a message, part or call that have a value but are not read."""
    for key, value in item.items():
        if key in _CARRIED and (named or key != "name"):
            continue
        if value is None or value is False or (key == "detail" and value == "auto"):
            continue  # What a server assumes without the key.
        if isinstance(value, (str, bytes, Sequence, Mapping)) and not value:
            continue
        left_out[f"left_out_{key!s:.40}"] += 1


def _turns(index: int, message: Any, left_out: Counter[str]) -> Iterator[Turn]:
    """Yield the turns of a message. Anthropic puts results of several tools into one message."""
    if not isinstance(message, Mapping):
        raise _refusal(index, message)
    kind, content = message.get("type"), message.get("content")
    if kind in _THINKING:
        left_out[f"left_out_{kind}"] += 1
        return
    _note(message, left_out, named=kind == "function_call")
    if kind in ("function_call", "computer_call"):
        yield Turn("assistant", (), _bare(replies.tool_calls_of({"output": [message]})))
    elif kind in ("function_call_output", "computer_call_output"):
        output = message.get("output")
        leaves = _leaves(index, [output] if isinstance(output, Mapping) else output, left_out)
        yield Turn("tool", leaves, (ToolCall(str(message.get("call_id")), ""),))
    elif isinstance(content, (list, tuple)) and any(map(_has_more, content)):
        yield from _turns_of_blocks(index, message, content, left_out)
    else:
        yield _turn(index, message, left_out)


def _has_more(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _MORE


def _turns_of_blocks(
    index: int, message: Mapping[str, Any], blocks: Sequence[Any], left_out: Counter[str]
) -> Iterator[Turn]:
    more = [block for block in blocks if _has_more(block)]
    for block in more:
        if (kind := block["type"]) in _THINKING:
            left_out[f"left_out_{kind}"] += 1
            continue
        _note(block, left_out)
        if kind == "tool_result":
            leaves = _leaves(index, block.get("content"), left_out)
            yield Turn("tool", leaves, (ToolCall(str(block.get("tool_use_id")), ""),))
    calls = _bare(replies.tool_calls_of({"content": more}))
    rest = [block for block in blocks if not _has_more(block)]
    if rest or calls:
        yield _turn(index, {**message, "content": rest}, left_out, calls)


def _turn(
    index: int,
    message: Mapping[str, Any],
    left_out: Counter[str],
    calls: tuple[ToolCall, ...] = (),
) -> Turn:
    role = _ROLES.get(str(message.get("role", "")))
    if role == "tool":
        id_ = message.get("tool_call_id")
        calls = (ToolCall(id_, ""),) if isinstance(id_, str) else ()
        role = role if calls else None
    elif message.get("tool_calls"):
        made = message["tool_calls"]
        for call in made if isinstance(made, (list, tuple)) else ():
            for item in (call, call.get("function")) if isinstance(call, Mapping) else ():
                if isinstance(item, Mapping):
                    _note(item, left_out)
        calls = _bare(replies.tool_calls_of({"choices": [{"message": message}]}))
        role = role if all(call.name for call in calls) else None
    # A message with more than content cannot be reduced to it.
    if role is not None and not message.get("function_call"):
        leaves = _leaves(index, message.get("content"), left_out)
        if leaves or (calls and role == "assistant"):
            if message["role"] == "developer":
                left_out["developer_as_system"] += 1
            return Turn(role, leaves, calls)
    raise _refusal(index, message)


def _bare(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return calls without items that only the provider understands."""
    return tuple(ToolCall(call.id, call.name, load_blob(call.arguments)) for call in calls)


def _leaves(index: int, content: Any, left_out: Counter[str]) -> tuple[Leaf, ...]:
    if _is_text(content):
        return (Leaf(content, False),)
    if not isinstance(content, (list, tuple)):
        return ()
    return tuple(_leaf(index, part, left_out) for part in content)


def _leaf(index: int, part: Any, left_out: Counter[str]) -> Leaf:
    if isinstance(part, Mapping):
        _note(part, left_out, named=False)
        if part.get("type") in _TEXTS:
            if _is_text(part.get("text")):
                return Leaf(part["text"], False)
        elif (picture := _picture(part)) is not None:
            if isinstance(part.get("image_url"), Mapping):
                _note({**part["image_url"], "url": None}, left_out)
            return Leaf(picture, True)
    raise _refusal(index, part)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, LazyBlob) and value.text)


def _picture(part: Mapping[str, Any]) -> bytes | LazyBlob | None:
    """Return the bytes of a picture; None if the part is not a recorded picture."""
    match part:
        case {"type": "image_url", "image_url": {"url": data}}:
            pass
        case {"type": "input_image" | "image_url" | "computer_screenshot", "image_url": data}:
            pass
        case {"type": "image", "source": {"type": "base64", "data": data}}:
            pass
        case _:
            return None
    if isinstance(data, LazyBlob) and not data.text:
        return data
    data = load_blob(data)
    if isinstance(data, bytes):
        return data or None
    if not isinstance(data, str):
        return None
    if data.startswith("data:"):
        head, _, data = data.partition(",")
        if not head.endswith(";base64"):
            return None
    try:
        return base64.b64decode(data, validate=True) or None
    except (binascii.Error, ValueError):
        return None  # A URL: the picture was not recorded.


def _refusal(index: int, what: Any) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"Cannot read message {index} of a recorded prompt: {_SHAPE}; got {what!r:.100}."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered prompt and completion of a decision."""

    messages: tuple[Message, ...]
    completion: str


class Renderer(Protocol):
    """A renderer of prompts and completions for decisions without a model call."""

    @property
    def reference(self) -> Mapping[str, Any]:
        """Return the renderer's name and settings as plain data, for the samples' provenance."""

    def render(self, trajectory: EpisodeTrajectory) -> Mapping[int, Rendered]:
        """Return the rendered decisions of an episode by step index."""


def samples_of(
    trajectory: EpisodeTrajectory, *, render: Renderer | None = None, iteration: int = 0
) -> Iterator[Sample]:
    """Yield a sample for each decision of an episode that a model made.

    Args:
        trajectory: The episode. If it did not end by itself, it has no samples.
        render: Makes samples from decisions without model calls too.
        iteration: The iteration that collected it.

    Raises:
        InvalidInputError: A recorded prompt has an unknown shape.
    """
    if not is_scored(trajectory.outcome, trajectory.end_reason):
        return
    rendered = render.render(trajectory) if render is not None else {}
    for step, record in enumerate(trajectory.steps):
        call = find_answered_call(record.decision)
        if call is not None:
            yield _cut_sample(trajectory, step, call, iteration)
        elif step in rendered and not (has_calls(record.decision) or is_repeated(record.decision)):
            assert render is not None
            yield make_rendered_sample(
                trajectory, step, rendered[step], render.reference, iteration
            )


def sample_of(
    trajectory: EpisodeTrajectory,
    step: int,
    call: int | None = None,
    *,
    render: Renderer | None = None,
    iteration: int = 0,
) -> Sample:
    """Return the sample of one decision.

    Args:
        trajectory: The episode.
        step: The index of the step.
        call: The index of the model call; None for the call that was acted on.
        render: Makes the sample if there are no model calls.
        iteration: The iteration that collected it.

    Raises:
        InvalidInputError: There is no such step or call, the call has no reply, the episode did
            not end by itself, or the prompt has an unknown shape.
    """
    where = f"The step {step} of the episode {trajectory.episode_id!r}"
    if not is_scored(trajectory.outcome, trajectory.end_reason):
        raise errors.InvalidInputError(
            f"{where} gives no sample: the episode ended as {trajectory.end_reason.name.lower()}, "
            f"{trajectory.outcome.name.lower()}, which says nothing about the agent."
        )
    if not 0 <= step < len(trajectory.steps):
        raise errors.InvalidInputError(f"{where} does not exist; it has {len(trajectory.steps)}.")
    decision = trajectory.steps[step].decision
    if render is not None and not has_calls(decision) and not call:
        rendered = render.render(trajectory)
        if step in rendered:
            return make_rendered_sample(
                trajectory, step, rendered[step], render.reference, iteration
            )
    index = find_answered_call(decision) if call is None else call
    calls = () if decision is None else decision.model_calls
    if index is None or not 0 <= index < len(calls) or calls[index].error:
        raise errors.InvalidInputError(
            f"{where} has no model call{'' if call is None else f' {call}'} with a reply to learn "
            "from. Decisions of oracles and scripts become samples by render=."
        )
    return _cut_sample(trajectory, step, index, iteration)


def find_answered_call(decision: Decision | None) -> int | None:
    """Return the index of the call that was acted on, the last with a reply, or None."""
    if decision is None:
        return None
    for index in range(len(decision.model_calls) - 1, -1, -1):
        if not decision.model_calls[index].error:
            return index
    return None


def calls_of(call: ModelCall) -> tuple[ToolCall, ...]:
    """Return the tool calls of a reply."""
    return () if call.response is None else _bare(replies.tool_calls_of(call.response))


def has_calls(decision: Decision | None) -> bool:
    """Return whether a model was asked for a decision, with or without a reply."""
    return decision is not None and bool(decision.model_calls)


def is_repeated(decision: Decision | None) -> bool:
    """Return whether a fork repeated the decision from its parent (`webtraj.rollouts.forks`)."""
    return decision is not None and "fork" in decision.metadata


def reward_of(trajectory: EpisodeTrajectory) -> float | None:
    """Return an episode's reward: the judge's, or 1 for success and 0 for failure.

    Returns:
        None if the reward is unknown, or the outcome must not be learned from.
    """
    outcome = trajectory.outcome
    scored = is_scored(outcome, trajectory.end_reason)
    if not scored or outcome is Outcome.UNKNOWN or trajectory.end is None:
        return None
    for judgement in reversed(trajectory.end.judgements):
        if judgement.outcome is outcome:
            if judgement.reward is not None and math.isfinite(judgement.reward):
                return float(judgement.reward)
            break
    return 1.0 if outcome is Outcome.SUCCESS else 0.0


def _is_json(data: Any) -> bool:
    try:
        orjson.dumps(data)
    except TypeError:
        return False
    return True


def _cut_sample(trajectory: EpisodeTrajectory, step: int, index: int, iteration: int) -> Sample:
    decision = trajectory.steps[step].decision
    assert decision is not None
    call = decision.model_calls[index]
    tools = call.sampling.get("tools")
    tools = tuple(tools) if isinstance(tools, (list, tuple)) else ()
    left_out: Counter[str] = Counter()
    try:
        if not _is_json(tools):  # They may hold half a character, which no row can.
            tools = tuple(valid_data(tools))
            left_out["left_out_half_character"] += 1
        if not _is_json(tools):
            raise errors.InvalidInputError("the tools that were offered are not JSON.")
        messages = read_messages(call.messages, left_out)
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(
            f"The step {step} of the episode {trajectory.episode_id!r}: {error}"
        ) from error
    return Sample(
        key=SampleKey(trajectory.episode_id, step, index),
        messages=messages,
        left_out=left_out,
        completion=load_blob(call.text),
        calls=calls_of(call),
        tools=tools,
        prompt_token_ids=tuple(call.prompt_token_ids),
        completion_token_ids=tuple(call.completion_token_ids),
        logprobs=tuple(call.logprobs),
        temperature=as_number(call.sampling.get("temperature")),
        finish_reason=load_blob(call.finish_reason),
        policy_version=call.policy_version,
        metadata=_metadata(decision, call),
        **_common(trajectory, step, iteration),
    )


def make_rendered_sample(
    trajectory: EpisodeTrajectory,
    step: int,
    rendered: Rendered,
    reference: Mapping[str, Any],
    iteration: int,
) -> Sample:
    """Return the sample of a rendered decision; `reference` names the renderer."""
    return Sample(
        key=SampleKey(trajectory.episode_id, step),
        messages=rendered.messages,
        completion=rendered.completion,
        recorded=False,
        metadata={"rendered": dict(reference)},
        **_common(trajectory, step, iteration),
    )


def _common(trajectory: EpisodeTrajectory, step: int, iteration: int) -> dict[str, Any]:
    info = trajectory.info
    return {
        "reward": reward_of(trajectory),
        "outcome": trajectory.outcome,
        "group_id": load_blob(info.group_id),
        "iteration": iteration,
        "task": load_blob(info.task),
        "site": load_blob(info.site) or task_facts(trajectory).get("site", ""),
        "goal": load_blob(info.goal),
        "policy": load_blob(info.policy),
        "action": action_of(trajectory, step),
    }


def _metadata(decision: Decision, call: ModelCall) -> dict[str, Any]:
    known: dict[str, Any] = {
        "model": call.model,
        "reasoning": replies.reasoning_of(call),
        "thought": load_blob(decision.thought),
        "prompt": decision.metadata.get("prompt"),
    }
    return {name: value for name, value in known.items() if value}


def action_of(trajectory: EpisodeTrajectory, step: int) -> Any:
    """Return the action of a step: its decision's, or the one sent to the environment.

    Text that is an action in the default dialect is parsed.
    """
    record = trajectory.steps[step]
    if record.decision is not None and record.decision.action is not None:
        return read_action(record.decision.action)
    return read_action(record.action)


def task_facts(trajectory: EpisodeTrajectory) -> Mapping[str, Any]:
    """Return the recorded facts of the task beyond its name: see `TaskSpec.to_data`."""
    facts = trajectory.info.metadata.get("task")
    return facts if isinstance(facts, Mapping) else {}
