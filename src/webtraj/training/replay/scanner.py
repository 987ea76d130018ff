"""Scan episodes for the buffer's rows: numbers, hashes and names.

Nothing else of an episode stays in memory. Blobs are not read, since their names are content
hashes. Large datasets in folders are scanned by a process per core.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.agents.models.base import Image, ToolCall
from webtraj.datasets import workers
from webtraj.datasets.dataset import Dataset, parse_condition
from webtraj.datasets.place import map_in_order
from webtraj.datasets.progress import count_items
from webtraj.datasets.workers import Workers
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.recorded import is_invalid
from webtraj.environments.tasks import TaskSpec
from webtraj.processing.base import Changed
from webtraj.processing.steps.observations import is_unobserved, never_observed
from webtraj.processing.steps.prune import DropNoEffect
from webtraj.processing.steps.relabel import RELABELLED
from webtraj.store import values
from webtraj.store.blobs import LazyBlob, blob_key
from webtraj.store.index import EpisodeSummary
from webtraj.training.replay import cutter
from webtraj.training.replay.cutter import Turn, outline, outline_of_messages
from webtraj.training.replay.filters import Filters, Reason, matches
from webtraj.training.replay.weights import STEPS, Names
from webtraj.training.samples import Sample
from webtraj.trajectory import (
    EndReason,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    is_scored,
)

__all__ = [
    "Batch",
    "EpisodeScan",
    "Scanner",
    "content_sha256",
    "digests_of",
    "page_digest",
    "prompt_digest",
    "sample_digest",
    "scan_batches",
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
    """Return the contents of calls without their random ids; empty if there are no calls."""
    return b"".join(b"\4" + repr((call.name, call.arguments)).encode() for call in calls)


def page_digest(goal: bytes, observation: Any) -> bytes:
    """Return an 8-byte digest of a page and its goal; empty if the observation shows no page."""
    if not isinstance(observation, Mapping):
        return b""
    shown = [(name, observation[name]) for name in _PAGE if _is_content(observation.get(name))]
    if not any(name != "url" and value for name, value in shown):
        return b""
    digest = hashlib.blake2b(goal, digest_size=8)
    for name, value in shown:
        digest.update(name.encode() + content_sha256(value))
    return digest.digest()


def unit_digest(*parts: object) -> int:
    """Return a number below 2**64 that depends only on the parts, on any machine."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def content_sha256(value: Any) -> bytes:
    """Return the SHA-256 of text, bytes or a picture, as in blob names."""
    if isinstance(value, Image):
        return bytes.fromhex(value.uuid)
    if isinstance(value, LazyBlob):
        try:
            return bytes.fromhex(value.blob.sha256)
        except (TypeError, ValueError):
            blob_key(value.blob)  # Raises a CorruptDataError that shows the name.
            raise
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()


def _is_content(value: Any) -> bool:
    return isinstance(value, (str, bytes, LazyBlob))


_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1000
_MAY_HAVE_EFFECT = DropNoEffect()


@dataclasses.dataclass(frozen=True, slots=True)
class EpisodeScan:
    """The result of scanning an episode."""

    dropped: Reason | None = None
    """The reason why the whole episode is left out; None if it is not."""
    detail: str = ""
    reward: float | None = None
    site: str = ""
    source: tuple[str, str] = ("", "")
    """The id and task of the episode that this one was relabelled from; empty if it was not."""
    fork: tuple[str, int] = ("", 0)
    """The id of the episode that this one forks, and the step; an empty id if it is not a fork."""
    level: str = "unknown"
    samples: int = 0
    reasons: Mapping[Reason, int] = dataclasses.field(default_factory=dict)
    """Numbers of steps without samples, by reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """The scans of several episodes."""

    summaries: Sequence[EpisodeSummary]
    scans: Sequence[EpisodeScan]
    """One for each summary."""
    rows: NDArray[Any]
    """Rows of `STEPS`: `episode` is an index into `scans`, `verb` into `verbs`, `version` into
    `versions`."""
    verbs: tuple[str, ...]
    versions: tuple[str, ...]


class Scanner:
    """A scanner of episodes. Safe to share between threads."""

    def __init__(self, filters: Filters, render: cutter.Renderer | None) -> None:
        self.filters = filters
        self.render = render
        self._where = parse_condition(filters.where) if filters.where else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the parsed condition."""
        return Scanner, (self.filters, self.render)

    def scan(self, dataset: Dataset) -> Batch:
        """Scan the episodes of a dataset, whose blobs are lazy.

        Raises:
            StorageError: An episode cannot be read now.
        """
        found = _Rows()
        scans = []
        for number, summary in enumerate(dataset.summaries):
            found.episode = number
            before = len(found.rows)
            try:
                scans.append(self._scan(dataset, summary, found))
            except errors.DatasetError as error:
                del found.rows[before:]
                problem = f"episode {summary.episode_id}: {error}"
                scans.append(EpisodeScan(Reason.UNREADABLE, problem))
        rows = np.array(found.rows, STEPS)
        return Batch(dataset.summaries, scans, rows, tuple(found.verbs), tuple(found.versions))

    def _scan(self, dataset: Dataset, summary: EpisodeSummary, found: _Rows) -> EpisodeScan:
        reason = self._before_reading(summary)
        if reason is not None:
            return EpisodeScan(reason, site=summary.site)
        trajectory = dataset[summary.episode_id]
        reason = self._why_not(
            trajectory.outcome,
            trajectory.end_reason,
            trajectory.num_steps,
            judged=trajectory.end is not None and bool(trajectory.end.judgements),
        )
        hole = "" if reason is not None else _hole_in(trajectory)
        reasons: collections.Counter[Reason] = collections.Counter()
        before = len(found.rows)
        if reason is None and not hole:
            self._decisions(trajectory, found, reasons)
        return EpisodeScan(
            Reason.HOLE if hole else reason,
            hole,
            reward=cutter.reward_of(trajectory),
            site=summary.site or str(cutter.task_facts(trajectory).get("site", "")),
            source=_source(trajectory),
            fork=_fork(trajectory),
            level=_level(trajectory),
            samples=len(found.rows) - before,
            reasons=reasons,
        )

    def _before_reading(self, summary: EpisodeSummary) -> Reason | None:
        """Return why an episode need not be read; None if it may give samples or a group's reward.

        An episode without samples can still count in its group with its reward, which only reading
        shows.
        """
        outcome, end = summary.outcome, summary.end_reason
        if self._where is not None and not self._where(summary):
            return Reason.WHERE
        if is_scored(outcome, end):
            return None
        return self._why_not(outcome, end, summary.num_steps, judged=False)

    def _why_not(
        self, outcome: Outcome, end: EndReason, num_steps: int, *, judged: bool
    ) -> Reason | None:
        if end not in (EndReason.TERMINATED, EndReason.TRUNCATED):
            return Reason.UNFINISHED
        if not is_scored(outcome, end):
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
        self, trajectory: EpisodeTrajectory, found: _Rows, reasons: collections.Counter[Reason]
    ) -> None:
        rendered = self.render.render(trajectory) if self.render is not None else {}
        idle = self._without_effect(trajectory)
        goal = content_sha256(trajectory.info.goal)
        for step in range(1, len(trajectory.steps)):
            if self.filters.valid_actions_only and is_invalid(trajectory.steps[step]):
                reasons[Reason.INVALID_ACTION] += 1
            elif step in idle:
                reasons[Reason.NO_EFFECT] += 1
            elif reason := found.add(trajectory, step, goal, rendered.get(step)):
                reasons[reason] += 1

    def _without_effect(self, trajectory: EpisodeTrajectory) -> frozenset[int]:
        info, filters = trajectory.info, self.filters
        if not filters.filter_same_screenshot:
            return frozenset()
        if any(matches(n, filters.same_screenshot_except) for n in (info.task, info.environment)):
            return frozenset()
        result = _MAY_HAVE_EFFECT(trajectory)
        return frozenset(result.changes["dropped"] if isinstance(result, Changed) else ())


class _Rows:
    """The rows of a batch, while it is scanned."""

    def __init__(self) -> None:
        self.episode = 0
        self.rows: list[tuple[Any, ...]] = []
        self.verbs, self.versions = Names(), Names()

    def add(
        self,
        trajectory: EpisodeTrajectory,
        step: int,
        goal: bytes,
        rendered: cutter.Rendered | None,
    ) -> Reason | None:
        """Add the row of a decision. If the decision gives no sample, return why."""
        decision = trajectory.steps[step].decision
        if cutter.is_repeated(decision):
            return Reason.REPEATED
        index = cutter.find_answered_call(decision)
        call: ModelCall | None = None
        calls: tuple[ToolCall, ...] = ()
        completion: str | LazyBlob
        if index is not None:
            assert decision is not None
            call = decision.model_calls[index]
            calls, completion = cutter.calls_of(call), call.text
            if not completion and not calls:
                return Reason.NO_REPLY
            try:
                turns = outline(call.messages)
            except errors.InvalidInputError:
                turns = ()
            if not turns:
                return Reason.UNREADABLE_PROMPT
        elif cutter.has_calls(decision):
            return Reason.NO_REPLY
        elif rendered is None:
            return Reason.NO_MODEL_CALL
        else:
            turns, completion = outline_of_messages(rendered.messages), rendered.completion
        counted = call is not None and bool(call.prompt_token_ids and call.completion_token_ids)
        if call is not None and counted:
            sizes = len(call.prompt_token_ids), len(call.completion_token_ids)
        else:
            sizes = _estimate(turns), _length(completion) // _CHARACTERS_PER_TOKEN + 1
        action = cutter.action_of(trajectory, step)
        verb = action.verb if isinstance(action, Action) else type(action).__name__
        prompt = prompt_digest(turns)
        row = (
            self.episode,
            step,
            index or 0,
            self.verbs.number(verb),
            self.versions.number("" if call is None else call.policy_version),
            *sizes,
            counted,
            call is not None,
            prompt,
            sample_digest(prompt, completion, calls),
            page_digest(goal, trajectory.steps[step - 1].observation),
        )
        self.rows.append(row)
        return None


def digests_of(sample: Sample) -> bytes:
    """Return the digest of a loaded sample."""
    prompt = prompt_digest(outline_of_messages(sample.messages))
    return sample_digest(prompt, sample.completion, sample.calls)


def _estimate(turns: tuple[Turn, ...]) -> int:
    characters = sum(_length(leaf.value) for t in turns for leaf in t.leaves if not leaf.is_image)
    images = sum(leaf.is_image for turn in turns for leaf in turn.leaves)
    return characters // _CHARACTERS_PER_TOKEN + images * _TOKENS_PER_IMAGE


def _length(value: Any) -> int:
    return value.blob.size if isinstance(value, LazyBlob) else len(value)


def _hole_in(trajectory: EpisodeTrajectory) -> str:
    """Return the place of a forbidden None or a lost step; empty if there is none."""
    if trajectory.lost_step is not None:
        return f"step {trajectory.lost_step} was not recorded"
    never = never_observed(trajectory)
    for step, record in enumerate(trajectory.steps):
        # No decision was made on the last observation.
        if not record.last and _is_none(record.observation, never):
            return f"the observation of step {step} is None"
        if step and cutter.action_of(trajectory, step) is None:
            return f"the action of step {step} is None"
        if _has_no_response(record):
            return f"the response of step {step} is None"
    return ""


def _is_none(observation: Any, never: frozenset[str]) -> bool:
    if isinstance(observation, Mapping):
        return is_unobserved(observation, never)
    return observation is None


def _has_no_response(record: StepRecord) -> bool:
    index = cutter.find_answered_call(record.decision)
    if index is None or record.decision is None:
        return False
    call = record.decision.model_calls[index]
    return not call.text and call.response is None


def _source(trajectory: EpisodeTrajectory) -> tuple[str, str]:
    found = trajectory.info.metadata.get(RELABELLED)
    if not isinstance(found, Mapping):
        return "", ""
    return str(found.get("episode_id", "")), str(found.get("task", ""))


def _fork(trajectory: EpisodeTrajectory) -> tuple[str, int]:
    place = trajectory.info.metadata.get("rollout")
    step = place.get("fork") if isinstance(place, Mapping) else None
    return (trajectory.info.parent_episode_id, step) if isinstance(step, int) else ("", 0)


def _level(trajectory: EpisodeTrajectory) -> str:
    difficulty = cutter.task_facts(trajectory).get("difficulty", 0)
    known = difficulty if type(difficulty) is int else 0
    return TaskSpec(name=trajectory.info.task, difficulty=known).level


_BATCH = 32
_THREADS = 16
_LARGE = 20_000
"""Steps of a dataset that are worth the start of processes, about a second each."""


def scan_batches(scanner: Scanner, datasets: Iterable[Dataset]) -> Generator[Batch, None, None]:
    """Yield the scans of all episodes of datasets, in order, with few episodes in memory at a time.

    Threads read buckets; processes read large datasets in folders.

    Raises:
        StorageError: An episode cannot be read.
    """
    with contextlib.ExitStack() as stack:
        pool: Workers[Dataset, Batch] | None = None
        cores = workers.cores()
        for dataset in datasets:
            summaries, is_remote = dataset.summaries, dataset.place.is_remote
            is_large = sum(summary.num_steps for summary in summaries) >= _LARGE
            if pool is None and is_large and cores > 1 and _may_leave(scanner):
                pool = stack.enter_context(contextlib.closing(Workers(scanner.scan, cores)))
            size = 1 if is_remote else _BATCH  # From a bucket, each read waits.
            jobs = (
                dataset.of(summaries[start : start + size], blobs="lazy")
                for start in range(0, len(summaries), size)
            )
            found: Iterator[Batch]
            if is_remote:
                found = map_in_order(scanner.scan, jobs, workers=_THREADS)
            elif pool is not None and is_large:
                found = map_in_order(pool.do, jobs, workers=2 * cores)
            else:
                found = map(scanner.scan, jobs)
            yield from count_items(
                found, "Reading episodes", len(summaries), number=lambda one: len(one.summaries)
            )


def _may_leave(scanner: Scanner) -> bool:
    """Return whether another process, which knows only webtraj's classes, would scan the same."""
    known = [
        *values.registered_types(),
        *([] if scanner.render is None else [type(scanner.render)]),
    ]
    return all(cls.__module__.startswith("webtraj.") for cls in known)
