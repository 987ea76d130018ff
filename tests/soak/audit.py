"""What must hold after a soak: every rule yields what breaks it."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING

import webtraj
from webtraj import EndReason, Outcome
from webtraj.datasets.verification import verify

if TYPE_CHECKING:
    from soak import Soak

# Playwright leaves this future behind with each driver that dies; no caller can get at it.
_DRIVER_DIED = "Future exception was never retrieved: Exception: Connection closed while reading"

_PLAYWRIGHTS_OWN = "playwright/_impl/"  # Where the coroutine of its task is defined.

_PLACES = 16
_VICTIMS = {
    "kill a browser": _PLACES,
    "stop a browser": _PLACES,
    "kill the driver": _PLACES,
    "stop the driver": _PLACES,
    "kill a helper process": _PLACES,
    "stop a helper process": _PLACES,
    "kill a renderer": 2,  # Its page, and one that is opened from the same renderer's reserve.
    "stop a renderer": 2,
    "hang a page": 1,
    "flood a page's memory": 1,
    "cancel an episode": 0,
}
"""How many episodes a fault may cost at most."""

_TYPES = ("BrowserCrashedError", "BrowserTimeoutError")
_JUDGED = (Outcome.SUCCESS, Outcome.FAILURE)


def audit(soak: Soak) -> Iterator[str]:
    """Yields a sentence for each thing that does not hold."""
    yield from _results(soak)
    yield from _dataset(soak)
    yield from _machine(soak)


def _results(soak: Soak) -> Iterator[str]:
    """Each planned episode has one typed end; faults are nobody's failure; calm is calm."""
    for name, tally in soak.phases.items():
        planned = collections.Counter((p.task.split("/")[-1], p.seed) for p in tally.planned)
        ended = collections.Counter((r.task.split("/")[-1], r.seed) for r in tally.results)
        if planned != ended:
            yield f"{name}: planned and not ended {planned - ended}, or twice {ended - planned}"
        for result in tally.results:
            yield from _one_result(name, result)
    failed = sum(result.failed for result in soak.phases["storm"].results)
    excused = sum(_VICTIMS[fault] * count for fault, count in soak.faults.items())
    if failed > excused:
        yield f"storm: {failed} episodes failed, where the faults excuse {excused}"
    for name in ("warm-up", "calm"):
        for result in soak.phases[name].results:
            if result.outcome is not Outcome.SUCCESS:
                yield f"{name}: the oracle met {result}"


def _one_result(name: str, result: webtraj.rollouts.EpisodeResult) -> Iterator[str]:
    match result.end_reason:
        case EndReason.TERMINATED | EndReason.TRUNCATED:
            if result.outcome not in _JUDGED or result.total_reward is None:
                yield f"{name}: ended by itself, and has no verdict: {result}"
        case EndReason.CANCELLED:
            if result.outcome is not Outcome.CANCELLED or result.total_reward is not None:
                yield f"{name}: was cancelled, and has a verdict: {result}"
        case EndReason.ERRORED:
            if result.outcome is not Outcome.ENV_ERROR or result.total_reward is not None:
                yield f"{name}: a fault is taken for the agent's: {result}"
            if result.error.partition(":")[0] not in _TYPES:
                yield f"{name}: a fault has no type of its own: {result}"
        case _:
            yield f"{name}: no end for an episode of a rollout: {result}"


def _dataset(soak: Soak) -> Iterator[str]:
    """The dataset says the same as the results."""
    report = verify(soak.folder)
    yield from (f"dataset: {p.where} {p.what}" for p in report.problems)
    yield from (f"dataset: {episode} is still being written" for episode in report.being_written)
    if report.problems:
        return  # It may not even be readable.
    dataset = webtraj.open_dataset(soak.folder)
    yield from (f"dataset: {episode} is open" for episode in dataset.open_episodes)
    results = [result for tally in soak.phases.values() for result in tally.results]
    told = collections.Counter(
        (r.task, r.seed, r.attempt, r.end_reason, r.outcome, r.num_steps) for r in results
    )
    kept: collections.Counter[tuple[object, ...]] = collections.Counter()
    for trajectory in dataset:
        info = trajectory.info
        end = trajectory.end
        kept[
            info.task,
            info.seed,
            info.attempt,
            trajectory.end_reason,
            trajectory.outcome,
            trajectory.num_steps,
        ] += 1
        if [step.index for step in trajectory.steps] != list(range(len(trajectory.steps))):
            yield f"dataset: {info.episode_id} has a gap"
        if any(step.last for step in trajectory.steps[:-1]):
            yield f"dataset: {info.episode_id} goes on after its end"
        ended_by_itself = trajectory.terminated or trajectory.truncated
        if info.policy == "oracle" and ended_by_itself and trajectory.outcome != Outcome.SUCCESS:
            yield f"dataset: {info.episode_id}: the oracle failed, and nobody disturbed it"
        assert end is not None
        if end.violations or end.recording_errors:
            yield f"dataset: {info.episode_id}: {end.violations} {end.recording_errors}"
    for episode, count in (told - kept).items():
        yield f"dataset: lacks {count} of {episode}"
    for episode, count in (kept - told).items():
        yield f"dataset: has {count} too many of {episode}"
    ids = [result.episode_id for result in results if result.episode_id]
    if len(ids) != len(set(ids)) or not set(ids) <= set(dataset.episode_ids):
        yield "dataset: ids do not match the results'"


def _machine(soak: Soak) -> Iterator[str]:
    """Nothing grows with the number of faults, and nothing is left."""
    before, after = soak.censuses["warm-up"], soak.censuses["calm"]
    if after.total > before.total + 4:
        yield f"machine: {before.total} processes became {after.total}"
    for kind, allowed in {"rollout": 96, "driver": 200, "browsers": 500}.items():
        grown = after.private_mib[kind] - before.private_mib[kind]
        if grown > allowed:
            yield f"machine: the {kind} grew by {grown:.0f} MiB"
    if after.disk_mib > before.disk_mib + 50:
        yield f"machine: {before.disk_mib:.0f} MiB of temporary files became {after.disk_mib:.0f}"
    # Each connection that a browser keeps to the proxy is a file and a task: up to six for a host.
    kept = 6 * before.processes["browser"]
    for what, allowed in {"zombies": 4, "threads": 4, "files": 4 + kept, "tasks": 4 + kept}.items():
        if getattr(after, what) > getattr(before, what) + allowed:
            yield f"machine: {getattr(before, what)} {what} became {getattr(after, what)}"
    yield from (f"machine: {process} is left" for process in soak.left_over)
    for complaint in soak.complaints:
        if not (complaint.startswith(_DRIVER_DIED) or _PLAYWRIGHTS_OWN in complaint):
            yield f"event loop: {complaint}"
