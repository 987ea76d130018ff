"""What must hold after episodes under fire: every rule yields what breaks it."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rollout_child import RUN_ID, SHARES, how_many

import webtraj
from webtraj import EndReason, Outcome
from webtraj.datasets.verification import verify
from webtraj.runs.plan import plan_from_bytes
from webtraj.runs.run import Run
from webtraj.store.places import open_storage

if TYPE_CHECKING:
    from rollout_soak import Play, RolloutSoak

_FINISHED = (EndReason.TERMINATED, EndReason.TRUNCATED)
_CUT_SHORT = (EndReason.CRASHED, EndReason.CANCELLED)
_JUDGED = (Outcome.SUCCESS, Outcome.FAILURE)

_ERRORS = {
    # What a page fails with while its browser is killed depends on what is noticed first.
    Outcome.ENV_ERROR: (
        "webtraj.errors.BrowserCrashedError",
        "webtraj.errors.BrowserTimeoutError",
        "webtraj.errors.PageLoadError",
        "webtraj.errors.BrowserError",
    ),
    Outcome.TIMEOUT: ("webtraj.errors.EpisodeTimeoutError",),
    Outcome.MODEL_ERROR: ("webtraj.errors.ModelUnavailableError",),
}
"""What each outcome that is no verdict may be for."""


def audit(soak: RolloutSoak) -> Iterator[str]:
    """Yields a sentence for each thing that does not hold."""
    plans = {name: (play.folder / f"runs/{RUN_ID}/plan.jsonl").read_bytes()
             for name, play in soak.plays.items()}  # fmt: skip
    if len(set(plans.values())) != 1:
        yield "the plays have different plans"
        return
    plan = plan_from_bytes(plans["calm"], "calm")
    if len(plan) != soak.episodes:
        yield f"{soak.episodes} episodes were to be planned, not {len(plan)}"
    calm = {row["row"]: row for row in soak.plays["calm"].rows}
    for play in soak.plays.values():
        problems = [*_rows(play, calm, len(plan)), *_record(play, len(plan))]
        yield from (f"{play.name}: {problem}" for problem in problems)
    yield from _faults(soak)


def _rows(play: Play, calm: dict[int, dict[str, Any]], planned: int) -> Iterator[str]:
    """In the end each row has one typed outcome: the one that it has when nothing fails."""
    rows = [row["row"] for row in play.rows]
    if rows != list(range(planned)):
        yield f"{planned} rows were planned, and {len(rows)} are told of in the end"
    if play.told_twice:
        yield f"told more than once: {play.told_twice}"
    for told in play.told.values():
        verdict = told["outcome"] in ("SUCCESS", "FAILURE")
        if verdict is not (told["end"] in ("TERMINATED", "TRUNCATED")):
            yield f"an end and an outcome that do not go together: {told}"
        if verdict is not (told["reward"] is not None):
            yield f"a reward for what has no verdict, or none for what has: {told}"
    for row in play.rows:
        if row["reward"] is None:
            yield f"given up in the end, with a retry policy that should get over it: {row}"
        elif any(row[what] != calm[row["row"]][what]
                 for what in ("task", "seed", "end", "outcome", "reward", "steps")):  # fmt: skip
            yield f"{row} would have ended as {calm[row['row']]}"


def _record(play: Play, planned: int) -> Iterator[str]:
    """The dataset has every try, each row finished once, and what was cut short."""
    report = verify(play.folder)
    yield from (f"{problem.where} {problem.what}" for problem in report.problems)
    if report.problems:
        return  # It may not even be readable.
    dataset = webtraj.open_dataset(play.folder)
    yield from (f"{episode} is open" for episode in dataset.open_episodes)
    run = Run(open_storage(play.folder), RUN_ID)
    tries: dict[int, dict[int, EndReason]] = collections.defaultdict(dict)
    for summary in dataset.summaries:
        place = run.place_of(summary.episode_id)
        if place is None:
            yield f"{summary.episode_id} is no episode of this run"
        else:
            tries[place[0]][place[1]] = summary.end_reason
    if sorted(tries) != list(range(planned)):
        yield f"the dataset has {len(tries)} of {planned} rows"
    for row, ends in tries.items():
        if sorted(ends) != list(range(len(ends))):
            yield f"row {row} lacks a try: {sorted(ends)}"
        if [number for number, end in ends.items() if end in _FINISHED] != [max(ends)]:
            yield f"row {row} was not finished once, by its last try: {ends}"
    for trajectory in dataset:
        yield from _one_record(play, trajectory)
    kept = set(dataset.episode_ids)
    yield from (f"{episode} was told of, and is lost" for episode in play.told.keys() - kept)
    yield from (f"{episode} was begun, and is lost" for episode in play.cut.keys() - kept)


def _one_record(play: Play, trajectory: webtraj.EpisodeTrajectory) -> Iterator[str]:
    episode, end = trajectory.episode_id, trajectory.end
    assert end is not None
    if end.reason in _FINISHED:
        if end.outcome not in _JUDGED:
            yield f"{episode} ended by itself as {end.outcome.name}"
    elif end.reason is EndReason.ERRORED:
        error = end.error.type if end.error else ""
        if error not in _ERRORS.get(end.outcome, ()):
            yield f"{episode} is {end.outcome.name} for {error}"
    elif end.reason not in _CUT_SHORT or end.outcome in _JUDGED:
        yield f"{episode} ended as {end.reason.name}, {end.outcome.name}"
    if end.violations or end.recording_errors:
        yield f"{episode}: {end.violations} {end.recording_errors}"
    if [step.index for step in trajectory.steps] != list(range(len(trajectory.steps))):
        yield f"{episode} has a gap"
    if any(step.decision is None or not step.decision.model_calls for step in trajectory.steps[1:]):
        yield f"{episode} lacks a decision"
    told = play.told.get(episode)
    if told is not None and (told["end"], told["steps"]) != (end.reason.name, trajectory.num_steps):
        yield f"{episode} is on record as {end.reason.name} with {trajectory.num_steps}: {told}"
    cut = play.cut.get(episode)
    if cut is None and end.reason is EndReason.CRASHED:
        yield f"{episode} crashed, and nobody had killed it"
    if cut is not None and len(trajectory.steps) != cut.steps:
        yield f"{episode} had {cut.steps} steps when it was killed, and has {len(trajectory.steps)}"
    if cut is not None and cut.ended is (end.reason is EndReason.CRASHED):
        yield f"{episode} is {end.reason.name}; its end {'had' if cut.ended else 'had not'} come"


def _faults(soak: RolloutSoak) -> Iterator[str]:
    """The faults have come, and the kills found something to kill: calm seas prove nothing."""
    storm, killed = soak.plays["storm"], soak.plays["killed"]
    for name in SHARES:
        if storm.faults[name] < (due := how_many(name, soak.episodes)):
            yield f"storm: {name}: {storm.faults[name]} times, not {due}"
    for play in (storm, killed):
        for name in ("kill a browser", "model: outage", "model: error 500"):
            if not play.faults[name]:
                yield f"{play.name}: {name}: never: {dict(play.faults)}"
    if killed.kills != soak.kills or not killed.cut:
        yield f"killed {killed.kills} times, with {len(killed.cut)} episodes open"
