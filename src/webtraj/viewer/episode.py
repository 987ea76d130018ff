"""An episode as plain JSON data: what the page shows, with a server or without.

All of the episode is in it. Its texts are what pages, agents and models said: data, which the page
shows as text. `steps`, `calls` and `values` make the parts.
"""

from __future__ import annotations

from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.viewer.calls import call_data, decision_data
from webtraj.viewer.steps import action_data, step_data
from webtraj.viewer.values import BlobUrl, Values, number

__all__ = ["BlobUrl", "episode_data"]


def episode_data(trajectory: trajectory_lib.EpisodeTrajectory, blob_url: BlobUrl) -> dict[str, Any]:
    """Returns an episode as JSON data that orjson writes.

    Pictures and other bytes are named by URL. What cannot be read of them is in `problems`, and the
    rest is there. Times are seconds since the epoch; points and boxes are CSS pixels of the
    viewport, whose size is a step's `viewport` where that is known.

    >>> from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory
    >>> data = episode_data(EpisodeTrajectory(EpisodeInfo(task="t")), lambda data: "")
    >>> data["info"]["task"], data["end"], data["steps"]
    ('t', None, [])

    Args:
        trajectory: The episode; its blobs may be lazy, and it may still be open.
        blob_url: Gives the URL of bytes; empty where they have none.
    """
    values = Values(blob_url)
    seconds = None
    if trajectory.start_time is not None and trajectory.end_time is not None:
        seconds = number(max(trajectory.end_time - trajectory.start_time, 0.0))
    data = {
        "id": values.text(trajectory.episode_id),
        "info": _info(values, trajectory.info),
        "end": _end(values, trajectory.end),
        "judgements": [_judgement(values, found) for found in _judgements(trajectory)],
        "derivation": values.data([_record(done) for done in trajectory.info.derivation]),
        "total_reward": number(trajectory.total_reward),
        "num_steps": trajectory.num_steps,
        "start_time": number(trajectory.start_time),
        "end_time": number(trajectory.end_time),
        "seconds": seconds,
        "steps": [step_data(values, step) for step in trajectory.steps],
    }
    return {**data, "problems": values.problems}


def _judgements(
    trajectory: trajectory_lib.EpisodeTrajectory,
) -> tuple[trajectory_lib.Judgement, ...]:
    return () if trajectory.end is None else trajectory.end.judgements


def _record(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


def _info(values: Values, info: trajectory_lib.EpisodeInfo) -> dict[str, Any]:
    return {
        "task": values.text(info.task),
        "goal": values.text(info.goal),
        "site": values.text(info.site),
        "seed": values.data(info.seed),
        "environment": values.text(info.environment),
        "versions": values.data(info.versions),
        "policy": values.text(info.policy),
        "group": values.text(info.group_id),
        "attempt": values.data(info.attempt),
        "links": {
            name: values.text(link)
            for name, link in (("parent", info.parent_episode_id), ("retry_of", info.retry_of))
            if link
        },
        "metadata": values.data(info.metadata),
    }


def _end(values: Values, end: trajectory_lib.EpisodeEnd | None) -> dict[str, Any] | None:
    if end is None:
        return None
    error = end.error
    in_flight = action_data(values, end.in_flight_action) if end.action_in_flight else None
    return {
        "reason": end.reason.name.lower(),
        "phase": None if end.phase is None else end.phase.value,
        "detail": values.text(end.detail),
        "outcome": end.outcome.name.lower(),
        "error": None
        if error is None
        else {
            "type": values.text(error.type),
            "message": values.text(error.message),
            "traceback": values.text(error.traceback),
        },
        "action_in_flight": end.action_in_flight,
        "in_flight_action": in_flight,
        "in_flight_decision": decision_data(values, end.in_flight_decision),
        "violations": values.data(end.violations),
        "recording_errors": values.data(end.recording_errors),
    }


def _judgement(values: Values, found: trajectory_lib.Judgement) -> dict[str, Any]:
    return {
        "judge": values.text(found.judge),
        "version": values.text(found.version),
        "outcome": found.outcome.name.lower(),
        "reward": number(found.reward),
        "reason": values.text(found.reason),
        "evidence": values.data(found.findings),
        "time": number(found.time),
        "calls": [call_data(values, call) for call in found.model_calls],
    }
