"""MiniWoB++'s demonstrations: what its recorder (`core/record.js`) writes, one JSON file each.

A file holds `{"taskName", "utterance", "reward", "rawReward", "states": [...]}`. The first state is
the page before anything was done; after it come two for each mouse or key event, one before the
page has handled it and one after, each with the whole DOM. `demo_events` makes actions of events
where one corresponds; the events themselves, and every DOM between, stay with the decision.

A step's reward is the raw one, 0 until the last step, as webtraj's own MiniWoB++ gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers import base, demo_events
from webtraj.datasets.importers.base import Found, Problem, Source
from webtraj.trajectory import EndReason, Outcome, StepType

__all__ = ["read", "recognises"]

SYSTEM = "miniwob-demos"

_LOOKED_AT = 20
_KNOWN = ("taskName", "utterance", "reward", "rawReward", "states", "fields")


def recognises(path: Path) -> bool:
    """Returns whether a file is a demonstration, or a folder holds some."""
    source = Source(path=path)
    for _, file in zip(range(_LOOKED_AT), source.files(_is_wanted), strict=False):
        try:
            _data(source, file, file.name)
        except errors.WebtrajError:
            continue
        return True
    return False


def read(source: Source) -> Iterator[Found]:
    """Yields the episodes of a file, or of all those below a folder."""
    for path in source.files(_is_wanted):
        where = base.relative(source.root, path)
        try:
            content, data = _data(source, path, where)
            sha256 = base.digest(content)
            identity = base.episode_id(SYSTEM, sha256)
            yield source.already(identity, where) or _trajectory(
                data, identity, base.provenance(SYSTEM, where, sha256)
            )
        except errors.WebtrajError as error:
            yield Problem(where, error)


def _is_wanted(name: str) -> bool:
    # The recorder puts an x to a name that is taken.
    return name.rstrip("x").endswith((".json", ".json.gz"))


def _data(source: Source, path: Path, where: str) -> tuple[bytes, dict[str, Any]]:
    """Returns a file's content, decompressed, and the demonstration in it."""
    content = source.read(path)
    if path.name.endswith(".gz"):
        content = base.gunzip(content, where, source.limits.file_bytes)
    try:
        data = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise errors.CorruptDataError(f"{where!r} is no JSON: {error}.") from error
    states = data.get("states") if isinstance(data, dict) else None
    named = isinstance(data, dict) and isinstance(data.get("taskName"), str)
    if not named or not isinstance(states, list) or not all(map(_is_state, states)):
        raise errors.CorruptDataError(
            f"{where!r} is no demonstration: it needs a taskName, and a list of states."
        )
    if not states:
        raise errors.CorruptDataError(f"{where!r} is a demonstration without states.")
    return content, data


def _is_state(state: Any) -> bool:
    return isinstance(state, dict) and isinstance(state.get("action"), (dict, type(None)))


def _trajectory(
    data: Mapping[str, Any], identity: str, imported: Mapping[str, Any]
) -> trajectory_lib.EpisodeTrajectory:
    states = data["states"]
    raw = data.get("rawReward", data.get("reward"))
    reward = base.number(raw)
    info = trajectory_lib.EpisodeInfo(
        episode_id=identity,
        task=f"miniwob/{data['taskName']}",
        goal=base.text_of(data.get("utterance")),
        environment="miniwob",
        policy="demonstrator",
        metadata={
            "imported": imported,
            "reward": data.get("reward"),
            "raw_reward": data.get("rawReward"),
            **{key: value for key, value in data.items() if key not in _KNOWN},
        },
    )
    steps = [trajectory_lib.StepRecord(0, StepType.FIRST, _observation(data, states[0]))]
    chunks = demo_events.chunks(states)
    for i, chunk in enumerate(chunks):
        is_last = i == len(chunks) - 1
        before = None if reward is None else 0.0
        steps.append(
            trajectory_lib.StepRecord(
                index=i + 1,
                step_type=StepType.LAST if is_last else StepType.MID,
                observation=_observation(data, states[chunk.last]),
                action=chunk.action,
                reward=reward if is_last else before,
                discount=0.0 if is_last else 1.0,
                decision=trajectory_lib.Decision(
                    action=chunk.action, metadata=_told(states, chunk)
                ),
            )
        )
    outcome = Outcome.UNKNOWN
    if reward is not None:
        outcome = Outcome.SUCCESS if reward >= 1 else Outcome.FAILURE
    # Of a demonstration without an action nobody saw the end.
    reason = EndReason.TERMINATED if chunks else EndReason.CLOSED
    end = trajectory_lib.EpisodeEnd(reason=reason, outcome=outcome)
    return trajectory_lib.EpisodeTrajectory(info, tuple(steps), end)


def _observation(data: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"fields": data["fields"]} if "fields" in data else {}
    return {
        "utterance": data.get("utterance"),
        **fields,
        "time": state.get("time"),
        "dom": state.get("dom"),
    }


def _told(states: list[dict[str, Any]], chunk: demo_events.Chunk) -> dict[str, Any]:
    """Returns the events behind an action, with every DOM but the observation's."""
    told = [dict(state) for state in states[chunk.first : chunk.last + 1]]
    told[-1].pop("dom", None)
    element = demo_events.target(states[chunk.first].get("dom"))
    return {"events": told, **({} if element is None else {"element": element})}
