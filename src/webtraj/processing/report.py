"""What came of a pipeline: of all recorded episodes that it has seen, in whichever run."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webtraj.processing.ledger import Entry

__all__ = ["FailedEpisode", "ProcessingReport", "StepReport", "TaskReport", "make_report"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What one step did."""

    name: str
    version: str
    seen: int = 0
    """Trajectories that came to it."""
    changed: int = 0
    """Those of them that it changed, or said something of."""
    kept: int = 0
    """Trajectories that went on from it."""
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Trajectories that it dropped, by reason."""
    failed: int = 0
    """Recorded episodes that it failed on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What became of the episodes of one task."""

    task: str
    episodes: int
    """Recorded ones that are done or have failed."""
    outputs: int
    """Episodes that were made of them."""
    dropped: int
    """Recorded ones of which none was made."""
    failed: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailedEpisode:
    """An episode that could not be processed. Nothing of it was written."""

    episode_id: str
    step: str
    """The step that failed; `read` or `write` where it was none."""
    error: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingReport:
    """What came of all recorded episodes, those of earlier runs included."""

    pipeline: str
    """The pipeline's hash."""
    episodes: int
    """Recorded ones that are done or have failed."""
    outputs: int
    """Episodes that were made of them."""
    dropped: int
    """Recorded ones of which none was made."""
    failures: tuple[FailedEpisode, ...]
    steps: tuple[StepReport, ...]
    tasks: tuple[TaskReport, ...]
    """In the order of their names."""
    stale: tuple[str, ...] = ()
    """Ids of recorded ones whose file has changed since they were processed: left as they are."""
    now: int = 0
    """How many of the recorded ones this run has processed."""
    found: int = 0
    """How many of those had been processed already by a run that was cut off."""

    def to_data(self) -> dict[str, Any]:
        """Returns what does not depend on how many runs it took, as JSON data."""
        data = dataclasses.asdict(self)
        del data["now"], data["found"], data["stale"]
        return data


def make_report(
    pipeline: str,
    steps: Sequence[tuple[str, str]],
    entries: Iterable[Entry],
    *,
    stale: tuple[str, ...] = (),
    now: int = 0,
    found: int = 0,
) -> ProcessingReport:
    """Adds up what became of each episode.

    Args:
        pipeline: The pipeline's hash.
        steps: The name and version of each step.
        entries: One of each episode.
        stale: See `ProcessingReport`, as for the next two.
        now: How many this run has processed.
        found: How many of those were found.
    """
    entries = sorted(entries, key=lambda entry: entry.number)
    tasks: dict[str, list[Entry]] = {}
    for entry in entries:
        tasks.setdefault(entry.task, []).append(entry)
    total = _of_task("", entries)
    return ProcessingReport(
        pipeline=pipeline,
        episodes=total.episodes,
        outputs=total.outputs,
        dropped=total.dropped,
        failures=tuple(
            FailedEpisode(
                episode_id=entry.source,
                step=entry.failure.step,
                error=f"{entry.failure.type}: {entry.failure.message}",
            )
            for entry in entries
            if entry.failure
        ),
        steps=tuple(_of_step(n, *step, entries) for n, step in enumerate(steps)),
        tasks=tuple(_of_task(task, tasks[task]) for task in sorted(tasks)),
        stale=stale,
        now=now,
        found=found,
    )


def _of_step(place: int, name: str, version: str, entries: Sequence[Entry]) -> StepReport:
    counts = [entry.passage.counts[place] for entry in entries if place < len(entry.passage.counts)]
    dropped = collections.Counter(
        one.reason for entry in entries for one in entry.passage.dropped if one.step == place
    )
    # A step that failed on an episode comes after those that have counted it.
    failed = [
        entry
        for entry in entries
        if entry.failure and entry.failure.step == name and len(entry.passage.counts) == place
    ]
    return StepReport(
        name=name,
        version=version,
        seen=sum(count.seen for count in counts) + len(failed),
        changed=sum(count.changed for count in counts),
        kept=sum(count.kept for count in counts),
        dropped=dict(sorted(dropped.items())),
        failed=len(failed),
    )


def _of_task(task: str, entries: Sequence[Entry]) -> TaskReport:
    failed = sum(entry.failure is not None for entry in entries)
    outputs = [len(entry.passage.outputs) for entry in entries if not entry.failure]
    return TaskReport(
        task=task,
        episodes=len(entries),
        outputs=sum(outputs),
        dropped=outputs.count(0),
        failed=failed,
    )
