"""Judge a recorded rollout, after all episodes are played.

The verdicts are stored beside the episodes (`webtraj.judging.judged`); the run's metrics are
measured again, and the sites that refused the agent are noted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.judging.base import PARALLEL
from webtraj.runs.run import Run, tries_of
from webtraj.runs.spec import When
from webtraj.store.places import open_storage
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset
    from webtraj.judging.base import Judge
    from webtraj.judging.judged import Judged
    from webtraj.rollouts.samplers import Blocklist
    from webtraj.runs.plan import PlannedEpisode

__all__ = ["judge_rollout"]


async def judge_rollout(
    out: str | os.PathLike[str],
    run_id: str,
    judge: Judge,
    *,
    plan: Sequence[PlannedEpisode] | None = None,
    when: When = "unknown",
    parallel: int = PARALLEL,
    storage_options: Mapping[str, Any] | None = None,
    blocklist: Blocklist | None = None,
    observer: Callable[[int, int], None] | None = None,
) -> Judged:
    """Judge the unjudged episodes of a rollout's dataset.

    Errors are returned, not raised. The recorded episodes never change.

    Args:
        out: The recorded dataset. All its episodes are judged, of every run.
        run_id: The run whose outcomes, metrics and refusing sites to report.
        judge: The judge. It is left open.
        plan: The run's plan; read from the dataset by default.
        when: As for `judge_dataset`.
        parallel: As for `judge_dataset`.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        blocklist: Receives the sites of episodes judged BLOCKED, each once.
        observer: Called with the number of judged episodes and their total, as judging proceeds.

    Returns:
        The outcomes of the run's episodes.

    Raises:
        InvalidInputError: An argument is invalid.
    """
    from webtraj.judging.judged import Judged, check_judging, judge_dataset

    checked = check_judging(judge, when=when, parallel=parallel)
    place = os.fspath(out)
    try:
        judged = await judge_dataset(
            place,
            checked,
            when=when,
            parallel=parallel,
            storage_options=storage_options,
            observer=observer,
        )
        outcomes = await asyncio.to_thread(_settle, place, run_id, plan, storage_options, blocklist)
    except errors.NotADatasetError:  # No episode was recorded.
        return Judged(place=place, judge=checked.name, outcomes={})
    except (errors.WebtrajError, OSError) as error:
        return Judged(place=place, judge=checked.name, outcomes={}, stopped=str(error))
    return dataclasses.replace(judged, place=place, outcomes=outcomes)


def _settle(
    out: str,
    run_id: str,
    plan: Sequence[PlannedEpisode] | None,
    storage_options: Mapping[str, Any] | None,
    blocklist: Blocklist | None,
) -> dict[str, Outcome]:
    """Write the metrics and blocked sites of judged episodes, and return their outcomes."""
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics import measure, write_metrics

    dataset: Dataset = open_dataset(out, storage_options=storage_options)
    run = Run(open_storage(out, storage_options), run_id)
    plan = run.read_plan() if plan is None else plan
    tries = list(tries_of(run, plan, dataset.summaries))
    if blocklist is not None:
        known = blocklist.episode_ids()
        for planned, _, summary in tries:
            site, episode_id = planned.spec.site, summary.episode_id
            if summary.outcome is Outcome.BLOCKED and site and episode_id not in known:
                blocklist.add(site, task=summary.task, episode_id=episode_id, at=summary.end_time)
    if tries:
        write_metrics(run, measure(dataset, run=run_id))
    return {summary.episode_id: summary.outcome for _, _, summary in tries}
