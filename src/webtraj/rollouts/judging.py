"""Judge a recorded rollout into a dataset beside it, after all episodes are played.

::

    runs/clicks                              the recording, which never changes
    runs/clicks-judged                       the same episodes with the judge's verdicts
      runs/<run id>/metrics.json             the run's metrics by those verdicts

Judging is a pipeline of one step (`webtraj.processing`). After a crash it resumes, and running it
again judges episodes that were added meanwhile. If the judge was unavailable, the episode is not
written and waits for the next run. If the judge could not decide, its outcome is JUDGE_ERROR.
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
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.runs.run import Run
from webtraj.runs.spec import When
from webtraj.store.places import is_url, open_storage
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from webtraj.judging.base import Judge
    from webtraj.processing.ledger import ProcessingReport
    from webtraj.rollouts.results import RolloutSummary
    from webtraj.rollouts.sampling import Blocklist
    from webtraj.runs.plan import PlannedEpisode

__all__ = ["PARALLEL", "WHEN", "Judged", "When", "judge_rollout", "judged_place"]

WHEN: tuple[When, ...] = ("unknown", "always")
"""Which episodes to judge: those whose outcome the environment does not know, or all finished
ones."""

PARALLEL = 8
_POLL = 0.5
"""Seconds between checks for another judging process."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Result of judging a rollout."""

    place: str
    """Path or URL of the judged dataset."""
    judge: str
    """The judge's name."""
    outcomes: Mapping[str, Outcome]
    """Outcomes of the run's episodes after judging, by episode id."""
    report: ProcessingReport | None = None
    """Processing report on all episodes of the dataset; None if judging stopped early."""
    stopped: str = ""
    """Why judging stopped early; empty if it finished. Judging again resumes it."""

    @property
    def failures(self) -> Mapping[str, str]:
        """Errors of unjudged episodes, by id: mostly that the judge was unavailable."""
        found = () if self.report is None else self.report.failures
        return {failure.episode_id: failure.error for failure in found}

    @property
    def complete(self) -> bool:
        """Whether every episode was judged."""
        return not self.stopped and not self.failures

    def applied_to(self, summary: RolloutSummary) -> RolloutSummary:
        """Return the rollout's summary with the judge's outcomes."""
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
    """Judge the unjudged episodes of a rollout's dataset.

    Errors are returned, not raised: the recorded episodes stay intact whatever happens here.

    Args:
        out: The recorded dataset. All its episodes are judged, of every run.
        run_id: The run whose outcomes, metrics and refusing sites to report.
        judge: The judge. It is left open.
        plan: The run's plan; read from the dataset by default.
        to: Place of the judged dataset; `judged_place(out)` by default.
        when: "unknown" or "always"; see `WHEN`.
        parallel: How many episodes to judge at a time.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        blocklist: Receives the sites of episodes judged BLOCKED, each once.
        turn: A file to lock meanwhile, if several processes judge into one folder.
        observer: Called with the number of judged episodes and their total, as judging proceeds.

    Returns:
        The outcomes and a report.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    from webtraj.processing.pipeline import Pipeline, process
    from webtraj.processing.steps.judge import JudgeStep

    if when not in WHEN:
        raise errors.InvalidInputError(
            f"when={when!r:.60} is invalid; expected one of {', '.join(WHEN)}."
        )
    if parallel < 1:
        raise errors.InvalidInputError(f"parallel must be 1 or more; got {parallel}.")
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
        _logger.info("Judging %s stopped.", out, exc_info=True)
        stopped = str(error)
    try:
        outcomes = await asyncio.to_thread(_settle, run, plan, place, storage_options, blocklist)
    except (errors.WebtrajError, OSError) as error:
        outcomes, stopped = {}, stopped or str(error)
    return Judged(place=place, judge=judge.name, outcomes=outcomes, report=report, stopped=stopped)


def judged_place(out: str | os.PathLike[str]) -> str:
    """Return the default place of a judged dataset: beside the recorded one.

    >>> judged_place("runs/clicks/"), judged_place("s3://bucket/runs")
    ('runs/clicks-judged', 's3://bucket/runs-judged')

    Raises:
        InvalidInputError: No place exists beside a whole bucket or the root folder.
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
            f"No place for a judged dataset beside {place!r:.200}, which is a whole bucket or the "
            "root folder. Record to a folder, or to a prefix of a bucket: s3://bucket/runs."
        )
    return f"{path}-judged"


def _settle(
    run: Run,
    plan: Sequence[PlannedEpisode] | None,
    place: str,
    storage_options: Mapping[str, Any] | None,
    blocklist: Blocklist | None,
) -> dict[str, Outcome]:
    """Write the metrics and blocked sites of judged episodes, and return their outcomes."""
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics import measure, write_metrics

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
    """Hold the file's lock, after waiting until no other process has it."""
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
