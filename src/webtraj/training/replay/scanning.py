"""Scanning of an episode for the buffer's row: numbers, hashes and names.

Nothing else of the episode stays in memory. Blobs are not read: their names are content hashes.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import ToolCall
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.verbs import InvalidAction
from webtraj.processing.base import Changed
from webtraj.processing.steps.pruning import DropNoEffect
from webtraj.store.blobs import LazyBlob
from webtraj.store.index import EpisodeSummary
from webtraj.tasks import TaskSpec
from webtraj.training.replay import cutting
from webtraj.training.replay.cutting import Turn, outline, outline_of_messages
from webtraj.training.replay.filters import Filters, Reason, matches
from webtraj.training.samples import Sample
from webtraj.trajectory import EpisodeTrajectory, ModelCall, Outcome, StepRecord

__all__ = [
    "EpisodeScan",
    "Found",
    "Scanner",
    "content_sha256",
    "digests_of",
    "page_digest",
    "prompt_digest",
    "sample_digest",
    "unit_digest",
]

# Digests of samples: equal for equal contents, loaded or not.
#
# A lazy blob's name is the SHA-256 of its bytes, so prompts are compared without reading blobs.

_PAGE = ("url", "axtree", "text", "screenshot")
_SIZE = 16


def prompt_digest(turns: Iterable[Turn]) -> bytes:
    """Return the 16-byte digest of a prompt."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    for turn in turns:
        digest.update(b"\1" + turn.role.encode())
        for leaf in turn.leaves:
            digest.update(b"\3" if leaf.is_image else b"\2")
            digest.update(content_sha256(leaf.value))
        digest.update(_calls_data(turn.calls))
    return digest.digest()


def sample_digest(
    prompt: bytes, completion: str | LazyBlob, calls: tuple[ToolCall, ...] = ()
) -> bytes:
    """Return the 16-byte digest of a prompt with its completion."""
    data = prompt + content_sha256(completion) + _calls_data(calls)
    return hashlib.blake2b(data, digest_size=_SIZE).digest()


def _calls_data(calls: tuple[ToolCall, ...]) -> bytes:
    """Return the contents of calls, without their ids, which are random; empty without calls."""
    return b"".join(b"\4" + repr((call.name, call.arguments)).encode() for call in calls)


def page_digest(goal: Any, observation: Any) -> bytes:
    """Return the 8-byte digest of a goal on a page; empty if no page is observed."""
    if not isinstance(observation, Mapping):
        return b""
    shown = [(name, observation[name]) for name in _PAGE if _is_content(observation.get(name))]
    if not any(name != "url" and value for name, value in shown):
        return b""
    digest = hashlib.blake2b(content_sha256(goal), digest_size=8)
    for name, value in shown:
        digest.update(name.encode() + content_sha256(value))
    return digest.digest()


def unit_digest(*parts: object) -> int:
    """Return a number below 2**64 that depends on the parts only, on every machine."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def content_sha256(value: Any) -> bytes:
    """Return the SHA-256 of text or bytes, as in blob names."""
    if isinstance(value, LazyBlob):
        return bytes.fromhex(value.blob.sha256)
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()


def _is_content(value: Any) -> bool:
    return isinstance(value, (str, bytes, LazyBlob))


_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1000
_MAY_HAVE_EFFECT = DropNoEffect()


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """One decision that gives a sample."""

    step: int
    call: int
    verb: str
    version: str
    prompt_tokens: int
    completion_tokens: int
    counted: bool
    """Whether the tokens were recorded and not estimated."""
    recorded: bool
    prompt: bytes
    sample: bytes
    page: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class EpisodeScan:
    """The result of scanning an episode."""

    summary: EpisodeSummary
    dropped: Reason | None = None
    """The reason why the whole episode is left out; None if it is not."""
    detail: str = ""
    reward: float | None = None
    site: str = ""
    level: str = "unknown"
    steps: int = 0
    """Its decisions, including those without samples."""
    found: tuple[Found, ...] = ()
    reasons: Mapping[Reason, int] = dataclasses.field(default_factory=dict)
    """Numbers of steps without samples, by reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scanner:
    """A scanner of episodes. Safe to share between threads."""

    filters: Filters
    render: cutting.Renderer | None
    where: Callable[[EpisodeSummary], bool] | None

    def before_reading(self, summary: EpisodeSummary) -> Reason | None:
        """Return why an episode is left out, as far as the index shows; None otherwise."""
        if self.where is not None and not self.where(summary):
            return Reason.WHERE
        # Only the episode shows whether an unknown outcome was judged.
        reason = self._why_not(
            summary.end_reason in cutting.FINISHED, summary.outcome, summary.num_steps, judged=False
        )
        return None if reason is Reason.NOT_JUDGED else reason

    def scan(
        self, summary: EpisodeSummary, load: Callable[[str], EpisodeTrajectory]
    ) -> EpisodeScan:
        """Scan an episode.

        Raises:
            StorageError: The episode cannot be read now.
        """
        try:
            trajectory = load(summary.episode_id)
        except errors.DatasetError as error:
            return EpisodeScan(summary, Reason.UNREADABLE, str(error))
        reason = self._why_not(
            trajectory.end_reason in cutting.FINISHED,
            trajectory.outcome,
            trajectory.num_steps,
            judged=trajectory.end is not None and bool(trajectory.end.judgements),
        )
        known = EpisodeScan(
            summary,
            reward=cutting.reward_of(trajectory),
            site=summary.site or str(cutting.task_facts(trajectory).get("site", "")),
            level=_level(trajectory),
            steps=trajectory.num_steps,
        )
        if reason is not None:
            return dataclasses.replace(known, dropped=reason)
        if hole := _hole_in(trajectory):
            return dataclasses.replace(known, dropped=Reason.HOLE, detail=hole)
        found, reasons = self._decisions(trajectory)
        return dataclasses.replace(known, found=tuple(found), reasons=reasons)

    def _why_not(
        self, finished: bool, outcome: Outcome, num_steps: int, *, judged: bool
    ) -> Reason | None:
        if not finished:
            return Reason.UNFINISHED
        if outcome in cutting.NO_REWARD:
            return Reason.INFRASTRUCTURE
        if num_steps == 0:
            return Reason.EMPTY
        if num_steps < self.filters.min_steps:
            return Reason.TOO_SHORT
        if not self.filters.filter_successful_only or outcome is Outcome.SUCCESS:
            return None
        if outcome is Outcome.UNKNOWN:
            return Reason.UNDECIDED if judged else Reason.NOT_JUDGED
        return Reason.NOT_SUCCESSFUL

    def _decisions(
        self, trajectory: EpisodeTrajectory
    ) -> tuple[list[Found], collections.Counter[Reason]]:
        reasons: collections.Counter[Reason] = collections.Counter()
        found: list[Found] = []
        rendered = self.render.render(trajectory) if self.render is not None else {}
        idle = self._without_effect(trajectory)
        for step in range(1, len(trajectory.steps)):
            if self.filters.valid_actions_only and _is_invalid(trajectory, step):
                reasons[Reason.INVALID_ACTION] += 1
            elif step in idle:
                reasons[Reason.NO_EFFECT] += 1
            else:
                outcome = _found(trajectory, step, rendered.get(step))
                if isinstance(outcome, Found):
                    found.append(outcome)
                else:
                    reasons[outcome] += 1
        return found, reasons

    def _without_effect(self, trajectory: EpisodeTrajectory) -> frozenset[int]:
        info, filters = trajectory.info, self.filters
        if not filters.filter_same_screenshot:
            return frozenset()
        if any(matches(n, filters.same_screenshot_except) for n in (info.task, info.environment)):
            return frozenset()
        result = _MAY_HAVE_EFFECT(trajectory)
        return frozenset(result.changes["dropped"] if isinstance(result, Changed) else ())


def _found(
    trajectory: EpisodeTrajectory, step: int, rendered: cutting.Rendered | None
) -> Found | Reason:
    decision = trajectory.steps[step].decision
    index = cutting.answered_call(decision)
    if index is None:
        if cutting.has_calls(decision):
            return Reason.NO_REPLY
        if rendered is None:
            return Reason.NO_MODEL_CALL
        turns = outline_of_messages(rendered.messages)
        return _sized(trajectory, step, 0, turns, rendered.completion, None)
    assert decision is not None
    call = decision.model_calls[index]
    calls = cutting.calls_of(call)
    if not call.text and not calls:
        return Reason.NO_REPLY
    try:
        turns = outline(call.messages)
    except errors.InvalidInputError:
        return Reason.UNREADABLE_PROMPT
    if not turns:
        return Reason.UNREADABLE_PROMPT
    return _sized(trajectory, step, index, turns, call.text, call, calls)


def _sized(
    trajectory: EpisodeTrajectory,
    step: int,
    index: int,
    turns: tuple[Turn, ...],
    completion: str | LazyBlob,
    call: ModelCall | None,
    calls: tuple[ToolCall, ...] = (),
) -> Found:
    prompt = prompt_digest(turns)
    counted = call is not None and bool(call.prompt_token_ids and call.completion_token_ids)
    action = cutting.action_of(trajectory, step)
    if counted:
        assert call is not None
        sizes = len(call.prompt_token_ids), len(call.completion_token_ids)
    else:
        sizes = _estimate(turns), _length(completion) // _CHARACTERS_PER_TOKEN + 1
    return Found(
        step=step,
        call=index,
        verb=action.verb if isinstance(action, Action) else type(action).__name__,
        version="" if call is None else call.policy_version,
        prompt_tokens=sizes[0],
        completion_tokens=sizes[1],
        counted=counted,
        recorded=call is not None,
        prompt=prompt,
        sample=sample_digest(prompt, completion, calls),
        page=page_digest(trajectory.info.goal, trajectory.steps[step - 1].observation),
    )


def digests_of(sample: Sample) -> bytes:
    """Return the digest of a loaded sample."""
    prompt = prompt_digest(outline_of_messages(sample.messages))
    return sample_digest(prompt, sample.completion, sample.calls)


def _estimate(turns: tuple[Turn, ...]) -> int:
    characters = sum(_length(leaf.value) for t in turns for leaf in t.leaves if not leaf.is_image)
    images = sum(leaf.is_image for turn in turns for leaf in turn.leaves)
    return characters // _CHARACTERS_PER_TOKEN + images * _TOKENS_PER_IMAGE


def _length(value: str | bytes | LazyBlob) -> int:
    return value.blob.size if isinstance(value, LazyBlob) else len(value)


def _is_invalid(trajectory: EpisodeTrajectory, step: int) -> bool:
    record = trajectory.steps[step]
    if record.decision is not None and record.decision.parse_error:
        return True
    return isinstance(record.action, InvalidAction)


def _hole_in(trajectory: EpisodeTrajectory) -> str:
    """Return the place of a forbidden None; empty if there is none."""
    for step, record in enumerate(trajectory.steps):
        # No decision was made on the last observation.
        if not record.last and _is_none(record.observation):
            return f"the observation of step {step} is None"
        if step and cutting.action_of(trajectory, step) is None:
            return f"the action of step {step} is None"
        if _has_no_response(record):
            return f"the response of step {step} is None"
    return ""


def _is_none(observation: Any) -> bool:
    if isinstance(observation, Mapping):
        return not observation or any(value is None for value in observation.values())
    return observation is None


def _has_no_response(record: StepRecord) -> bool:
    index = cutting.answered_call(record.decision)
    if index is None or record.decision is None:
        return False
    call = record.decision.model_calls[index]
    return not call.text and call.response is None


def _level(trajectory: EpisodeTrajectory) -> str:
    difficulty = cutting.task_facts(trajectory).get("difficulty", 0)
    known = difficulty if type(difficulty) is int else 0
    return TaskSpec(name=trajectory.info.task, difficulty=known).level
