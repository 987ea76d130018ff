"""Judging what a rollout has recorded: into a dataset beside it, when all is played.

::

    runs/clicks                              what was recorded, which is never changed
    runs/clicks-judged                       the same episodes, with what the judge says of them
      runs/<run id>/metrics.json             the run's metrics by that

It is a pipeline of one step (`webtraj.processing`): after a death it goes on where it was, and
episodes that came meanwhile are judged when it runs again. An episode whose judge was away is not
written: it waits for the next run. One that the judge could not decide is a JUDGE_ERROR.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from webtraj import errors
from webtraj.rollouts.runs import Run
from webtraj.store.places import is_url, open_storage
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from webtraj.judging.base import Judge
    from webtraj.processing.ledger import ProcessingReport
    from webtraj.rollouts.plan import PlannedEpisode
    from webtraj.rollouts.results import RolloutSummary
    from webtraj.rollouts.sampling import Blocklist

__all__ = ["PARALLEL", "WHEN", "Judged", "When", "judge_rollout", "judged_place"]

When = Literal["unknown", "always"]
WHEN: tuple[When, ...] = ("unknown", "always")
"""Which episodes a judge is asked about: those whose outcome the environment does not know, or
all that ended by themselves."""

PARALLEL = 8
_POLL = 0.5
"""Seconds between two looks whether another process still judges."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a judge made of a rollout."""

    place: str
    """The judged dataset."""
    judge: str
    """What the judge calls itself."""
    outcomes: Mapping[str, Outcome]
    """The outcomes of the run's episodes by id, as they are there."""
    report: ProcessingReport | None = None
    """What came of all episodes of the dataset; None if the judging did not come to its end."""
    stopped: str = ""
    """Why it did not; empty if it did. To judge again goes on with it."""

    @property
    def failures(self) -> Mapping[str, str]:
        """Why some episodes could not be judged, by id: the judge was away, mostly."""
        found = () if self.report is None else self.report.failures
        return {failure.episode_id: failure.error for failure in found}

    @property
    def complete(self) -> bool:
        """Whether nothing is left to judge."""
        return not self.stopped and not self.failures

    def applied_to(self, summary: RolloutSummary) -> RolloutSummary:
        """Returns a rollout's summary with the outcomes that the judge found."""
        return dataclasses.replace(
            summary,
            results=tuple(
                dataclasses.replace(
                    result, outcome=self.outcomes.get(result.episode_id, result.outcome)
                )
                for result in summary.results
            ),
        )


async def judge_rollout(
    out: str | os.PathLike[str],
    run_id: str,
    judge: Judge,
    *,
    plan: Sequence[PlannedEpisode] | None = None,
    to: str | None = None,
    when: When = "unknown",
    parallel: int = PARALLEL,
    storage_options: Mapping[str, Any] | None = None,
    blocklist: Blocklist | None = None,
    turn: Path | None = None,
    observer: Callable[[int, int], None] | None = None,
) -> Judged:
    """Judges the episodes of a rollout's dataset that have not been judged yet.

    What goes wrong is in what is returned, not raised: the recorded episodes are there whatever
    becomes of the judging.

    Args:
        out: The recorded dataset. All of its episodes are judged, whichever run they are of.
        run_id: The run that is told of: its outcomes, metrics, and sites that refused the agent.
        judge: Who judges. It is left open.
        plan: The run's plan; by default it is read.
        to: Where the judged dataset goes; by default `judged_place(out)`.
        when: "unknown" or "always"; see `WHEN`.
        parallel: How many episodes are judged at a time.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        blocklist: Takes the sites of episodes that were found to be BLOCKED, each once.
        turn: A file to lock meanwhile, for several processes that judge into one folder.
        observer: Is called with how many are judged, and of how many, as it goes on.

    Returns:
        What came of it.

    Raises:
        InvalidInputError: An argument is wrong.
    """
    from webtraj.processing.pipeline import Pipeline, process
    from webtraj.processing.steps.judge import JudgeStep

    if when not in WHEN:
        raise errors.InvalidInputError(
            f"Which episodes are judged is {when!r:.60}; expected one of {', '.join(WHEN)}."
        )
    if parallel < 1:
        raise errors.InvalidInputError(f"Judging needs parallel=1 or more; got {parallel}.")
    run = Run(open_storage(out, storage_options), run_id)
    place = to or judged_place(out)
    step = JudgeStep(judge=judge, only_unknown=when == "unknown")
    report, stopped = None, ""
    try:
        async with _own_turn(turn):
            report = await process(
                out,
                place,
                Pipeline((step,)),
                parallel=parallel,
                read_options=storage_options,
                write_options=storage_options,
                observer=observer,
            )
    except (errors.WebtrajError, OSError) as error:
        _logger.info("The judging of %s stopped.", out, exc_info=True)
        stopped = str(error)
    try:
        outcomes = await asyncio.to_thread(_settle, run, plan, place, storage_options, blocklist)
    except (errors.WebtrajError, OSError) as error:
        outcomes, stopped = {}, stopped or str(error)
    return Judged(place=place, judge=judge.name, outcomes=outcomes, report=report, stopped=stopped)


def judged_place(out: str | os.PathLike[str]) -> str:
    """Returns where the judged dataset of a recorded one is by default: beside it.

    >>> judged_place("runs/clicks/"), judged_place("s3://bucket/runs")
    ('runs/clicks-judged', 's3://bucket/runs-judged')

    Raises:
        InvalidInputError: There is no place beside it: it is a whole bucket, or the root.
    """
    place = os.fspath(out)
    if not is_url(place):
        path = os.path.normpath(place)
        if Path(path).name in ("", ".", ".."):
            path = str(Path(path).resolve())
        beside = Path(path).name != ""
    else:
        path = place.rstrip("/")
        _, _, rest = path.partition("://")
        beside = "/" in rest.rstrip("/")
    if not beside:
        raise errors.InvalidInputError(
            f"There is no place for a judged dataset beside {place!r:.200}. Record to a folder, or "
            "to a prefix of a bucket: s3://bucket/runs."
        )
    return f"{path}-judged"


def _settle(
    run: Run,
    plan: Sequence[PlannedEpisode] | None,
    place: str,
    storage_options: Mapping[str, Any] | None,
    blocklist: Blocklist | None,
) -> dict[str, Outcome]:
    """Writes down what follows from the judged episodes of a run, and returns their outcomes."""
    from webtraj.datasets.dataset import open_dataset
    from webtraj.rollouts.metrics import measure, write_metrics

    try:
        dataset = open_dataset(place, storage_options=storage_options)
    except errors.NotADatasetError:
        return {}
    plan = run.read_plan() if plan is None else plan
    rows = {
        summary.episode_id: (found[0], summary)
        for summary in dataset.summaries
        if (found := run.place_of(summary.episode_id)) is not None and found[0] < len(plan)
    }
    if blocklist is not None:
        known = blocklist.episode_ids()
        for episode_id, (row, summary) in rows.items():
            site = plan[row].spec.site
            if summary.outcome is Outcome.BLOCKED and site and episode_id not in known:
                blocklist.add(site, task=summary.task, episode_id=episode_id, at=summary.end_time)
    if rows:
        report = measure(dataset, run=run.run_id, plans=run.storage)
        write_metrics(Run(dataset.place.storage, run.run_id), report)
    return {episode_id: summary.outcome for episode_id, (_, summary) in rows.items()}


@contextlib.asynccontextmanager
async def _own_turn(path: Path | None) -> AsyncIterator[None]:
    """Waits until no other process has the file's lock, and holds it."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL)
        yield
    finally:
        os.close(descriptor)
