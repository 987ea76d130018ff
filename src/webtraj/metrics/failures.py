"""Why episodes failed: who caused it, what went wrong, and the steps that show it.

Each failure has one cause and one kind. The cause follows from the episode's outcome and end
reason. The kind of an agent's failure follows from its last action. If it ran out of steps, it
follows from what it did in them. docs/metrics.md lists both.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.environments.actions.recorded import (
    answer_of,
    describe,
    is_invalid,
    same_action,
    verb_of,
)
from webtraj.environments.browser.recorded_channels import last_action_of, text_of
from webtraj.metrics.facts import fault_of, load_text
from webtraj.runs.run import Run
from webtraj.shown import one_line
from webtraj.trajectory import (
    EndReason,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    has_succeeded,
    is_broken,
    name_of_end,
)

if TYPE_CHECKING:
    from webtraj.datasets.place import Place
    from webtraj.store.index import EpisodeSummary

__all__ = ["Cause", "Failure", "FailureKind", "Quote", "explain", "find_failures", "summarize"]

_LONGEST = 240
"""The most characters of a quote."""
_LONGEST_NAME = 60
"""The most characters of an element's name within it."""
_REPEATS = 3
"""So many equal actions in a row explain an episode that ran out of steps."""


class Cause(enum.StrEnum):
    """Who caused a failure."""

    AGENT = "agent"
    MODEL_SERVER = "model server"
    ENVIRONMENT = "environment"
    JUDGE = "judge"
    TIME_LIMIT = "time limit"
    SITE = "site"
    CUT_OFF = "cut off"


@dataclasses.dataclass(frozen=True, slots=True)
class Quote:
    """A step that shows a failure."""

    text: str
    """The action and what came of it, as one line."""
    step: int | None = None
    """The step's index; None for the episode's end."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An episode that did not succeed."""

    episode_id: str
    task: str
    cause: Cause
    kind: str
    reason: str = ""
    """The error's message, or the judge's reason; its first line."""
    quotes: tuple[Quote, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailureKind:
    """Failures with the same cause and kind."""

    cause: Cause
    kind: str
    episodes: int
    tasks: int
    example: Failure
    """The first of them."""


def find_failures(
    dataset: Dataset | Place,
    *,
    run: str | None = None,
    condition: Callable[[EpisodeSummary], bool] | None = None,
) -> Iterator[Failure]:
    """Yield the failures of a dataset or one of its runs, in the order of its episodes.

    Superseded tries, successes, and episodes without a verdict are left out. An episode that cannot
    be read has no quotes.

    Args:
        dataset: The dataset, or its folder or URL.
        run: A run's id, or "last" for the latest.
        condition: The condition on episodes.

    Raises:
        InvalidInputError: There is no such run.
        StorageError: The dataset cannot be read.
    """
    if not isinstance(dataset, Dataset):
        dataset = open_dataset(dataset, blobs="lazy")
    of_run = None if run is None else Run.find(dataset.place.storage, run)
    failed = [
        one
        for one in dataset.summaries
        if one.episode_id not in dataset.superseded
        and cause_of(one.outcome, one.end_reason) is not None
        and (condition is None or condition(one))
        and (of_run is None or of_run.place_of(one.episode_id) is not None)
    ]
    lazy = dataset.of(failed, blobs="lazy")
    for summary in failed:
        try:
            found = explain(lazy[summary.episode_id])
        except errors.DatasetError:
            found = None
        yield found or _unread(summary)


def summarize(failures: Iterable[Failure]) -> list[FailureKind]:
    """Return failures by cause and kind, the most frequent first."""
    kinds: dict[tuple[Cause, str], list[Failure]] = collections.defaultdict(list)
    for failure in failures:
        kinds[failure.cause, failure.kind].append(failure)
    found = [
        FailureKind(
            cause=cause,
            kind=kind,
            episodes=len(those),
            tasks=len({failure.task for failure in those}),
            example=those[0],
        )
        for (cause, kind), those in kinds.items()
    ]
    return sorted(found, key=lambda one: -one.episodes)


def cause_of(outcome: Outcome, reason: EndReason) -> Cause | None:
    """Return who caused an episode's failure; None if it succeeded or nobody judged it.

    >>> cause_of(Outcome.FAILURE, EndReason.TRUNCATED)
    <Cause.AGENT: 'agent'>
    >>> cause_of(Outcome.FAILURE, EndReason.CRASHED)
    <Cause.ENVIRONMENT: 'environment'>
    """
    if outcome in _CAUSES:
        return _CAUSES[outcome]
    succeeded = has_succeeded(outcome, reason)
    if succeeded is None:
        if is_broken(outcome, reason):
            return Cause.ENVIRONMENT
        cut = reason not in (EndReason.TERMINATED, EndReason.TRUNCATED)
        return Cause.CUT_OFF if cut else None
    return None if succeeded else Cause.AGENT


_CAUSES = {
    Outcome.ENV_ERROR: Cause.ENVIRONMENT,
    Outcome.MODEL_ERROR: Cause.MODEL_SERVER,
    Outcome.JUDGE_ERROR: Cause.JUDGE,
    Outcome.TIMEOUT: Cause.TIME_LIMIT,
    Outcome.BLOCKED: Cause.SITE,
    Outcome.CANCELLED: Cause.CUT_OFF,
}


def explain(trajectory: EpisodeTrajectory) -> Failure | None:
    """Return an episode's failure; None if it succeeded, or nobody judged it.

    Raises:
        CorruptDataError: A long text cannot be read.
    """
    cause = cause_of(trajectory.outcome, trajectory.end_reason)
    if cause is None:
        return None
    taken = [step for step in trajectory.steps if not step.first]
    fault = fault_of(trajectory)
    if cause is Cause.AGENT and trajectory.outcome is not Outcome.AGENT_ERROR:
        kind, shown = _fault_of_agent(taken, truncated=trajectory.end_reason is EndReason.TRUNCATED)
        reason = trajectory.judgements[-1].reason if trajectory.judgements else ""
    else:
        kind, reason, shown = fault.kind, fault.message, taken[-1:]
    quotes = [Quote(_quote(step), step.index) for step in shown]
    end = trajectory.end
    if end is not None and end.action_in_flight:
        unseen = f"{describe(end.in_flight_action)}: its result was never seen"
        quotes.append(Quote(one_line(unseen, _LONGEST)))
    return Failure(
        episode_id=trajectory.info.episode_id,
        task=trajectory.info.task,
        cause=cause,
        kind=kind,
        reason=one_line(str(load_text(reason)).strip().partition("\n")[0], _LONGEST),
        quotes=tuple(quotes),
    )


def _fault_of_agent(
    taken: Sequence[StepRecord], *, truncated: bool
) -> tuple[str, Sequence[StepRecord]]:
    """Return the kind of an agent's failure, and the steps that show it."""
    last = taken[-1:]
    if not last:
        return "no action", ()
    if answer_of(last[0].action) is not None:
        gave_up = verb_of(last[0].action) == "report_infeasible"
        return "gave up" if gave_up else "wrong answer", last
    if not truncated:
        return "wrong result", last
    unreadable = [step for step in taken if is_invalid(step)]
    if 2 * len(unreadable) >= len(taken):
        return "unreadable replies", unreadable[:1]
    refused = [step for step in taken if last_action_of(step.observation).get("error")]
    if 2 * len(refused) >= len(taken):
        return "refused actions", refused[:1]
    if repeated := _longest_repeat(taken):
        return "repeated actions", repeated
    return "out of steps", taken[-2:]


def _longest_repeat(taken: Sequence[StepRecord]) -> Sequence[StepRecord]:
    """Return the first and last step of the longest run of equal actions; empty if it is short."""
    best, start = (0, 0), 0
    for at in range(1, len(taken) + 1):
        if at == len(taken) or not same_action(taken[at].action, taken[start].action):
            best, start = max(best, (at - start, -start)), at
    length, first = best[0], -best[1]
    return (taken[first], taken[first + length - 1]) if length >= _REPEATS else ()


def _quote(step: StepRecord) -> str:
    """Return a step as one line: its action, its element, and why it had no effect."""
    last, decision = last_action_of(step.observation), step.decision
    problem = (decision.parse_error if decision is not None else "") or last.get("error")
    parts = [describe(step.action)]
    if last.get("role"):
        parts.append(f" on {last['role']}")
    if last.get("name"):
        parts.append(f' "{one_line(last["name"], _LONGEST_NAME)}"')
    if problem:
        parts.append(f": {load_text(problem)}")
    if where := text_of(step.observation, "url"):
        parts.append(f" (at {where})")
    return one_line("".join(parts), _LONGEST)


def _unread(summary: EpisodeSummary) -> Failure:
    cause = cause_of(summary.outcome, summary.end_reason)
    assert cause is not None  # As `find_failures` chose it.
    return Failure(
        episode_id=summary.episode_id,
        task=summary.task,
        cause=cause,
        kind=name_of_end(summary.outcome, summary.end_reason),
        reason="The episode cannot be read; `webtraj verify` shows why.",
    )
