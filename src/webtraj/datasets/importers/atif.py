"""ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.8: JSON files.

Each agent step becomes a step: its tool calls are the action, its observation, with the messages
that came until the next one, is what the action led to. What comes before the first agent step is
FIRST's observation::

    {"results": [...], "messages": [{"source", "message", ...}], "screenshot": b"..."}

One tool call that a dialect reads becomes that action; another stays `{"name", "arguments"}`,
several a list of those; a step without any that says something is a message to the user. Steps
that were copied from an earlier trajectory (`is_copied_context`) are messages: nobody acted.

ATIF itself has no rewards, ends or tasks. They are taken from these keys of `extra`, where they
are: at the root `task`, `seed`, `site`, `environment`, `reward`, `end_reason`, `outcome`,
`viewport` (two numbers); in a step `reward`, `discount`. All other extras of a step go into its
observation, those of the root into `EpisodeInfo.metadata`. Without an `end_reason` an episode is
CLOSED: nobody wrote down how it ended. Trajectories of subagents are episodes of their own, with
this one as parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers import atif_steps, base
from webtraj.datasets.importers.atif_steps import Pictures
from webtraj.datasets.importers.base import Found, Problem, Skipped, Source
from webtraj.trajectory import EndReason, Outcome, StepType

__all__ = ["read", "recognises"]

SYSTEM = "atif"
NEWEST = (1, 8)
"""The newest version that is read."""

_VERSION = re.compile(r"ATIF-v([0-9]{1,4})\.([0-9]{1,4})")
_LOOKED_AT = 20
_MAX_SUBAGENTS = 8
"""Levels of subagents of subagents."""
_TOLD = ("task", "seed", "site", "environment", "reward", "end_reason", "outcome", "viewport")
_PLACED = ("agent", "steps", "extra", "subagent_trajectories")


def recognises(path: Path) -> bool:
    """Returns whether a file says that it is ATIF, or a folder holds such files."""
    source = Source(path=path)
    for _, file in zip(range(_LOOKED_AT), source.files(_is_wanted), strict=False):
        try:
            _version(orjson.loads(source.read(file)), file.name)
        except errors.UnsupportedSchemaError:
            return True
        except (errors.WebtrajError, orjson.JSONDecodeError):
            continue
        return True
    return False


def read(source: Source) -> Iterator[Found]:
    """Yields the episodes of a file, or of all those below a folder."""
    for path in source.files(_is_wanted):
        where = base.relative(source.root, path)
        try:
            content = source.read(path)
            try:
                data = orjson.loads(content)
            except orjson.JSONDecodeError as error:
                raise errors.CorruptDataError(f"{where!r} is no JSON: {error}.") from error
        except errors.WebtrajError as error:
            yield Problem(where, error)
            continue
        pictures = Pictures(source, path.parent)
        yield from _read(source, data, where, (base.digest(content),), pictures)
        if pictures.missing:
            yield Skipped(where, f"{pictures.missing} pictures that it names are not beside it")


def _is_wanted(name: str) -> bool:
    return name.endswith(".json")


def _read(
    source: Source,
    data: Any,
    where: str,
    parts: tuple[str, ...],
    pictures: Pictures,
    parent: str = "",
) -> Iterator[Found]:
    """Yields the episode of one trajectory, and then those of its subagents."""
    sha256 = base.digest(*(part.encode() for part in parts)) if len(parts) > 1 else parts[0]
    identity = base.episode_id(SYSTEM, sha256)
    try:
        _version(data, where)
        imported = base.provenance(SYSTEM, where, parts[0], schema_version=data["schema_version"])
        yield source.already(identity, where) or _Trajectory(data, where, pictures).episode(
            identity, imported, parent
        )
    except errors.WebtrajError as error:
        yield Problem(where, error)
        return
    subagents = data.get("subagent_trajectories") or ()
    if subagents and len(parts) > _MAX_SUBAGENTS:
        yield Problem(where, errors.CorruptDataError(f"{where!r} has subagents too deep."))
        return
    for i, inner in enumerate(subagents if isinstance(subagents, list) else ()):
        below = f"{where}#{i}"
        yield from _read(source, inner, below, (*parts, str(i)), pictures, identity)


def _version(data: Any, where: str) -> None:
    """Checks that data are of a version that is read.

    Raises:
        CorruptDataError: They are not ATIF.
        UnsupportedSchemaError: They are of a newer version.
    """
    said = data.get("schema_version") if isinstance(data, dict) else None
    match = _VERSION.fullmatch(said) if isinstance(said, str) else None
    if match is None:
        raise errors.CorruptDataError(
            f"{where!r} is not ATIF: its schema_version is {said!r:.40}; expected ATIF-v1.8, "
            "or an older one."
        )
    if (int(match[1]), int(match[2])) > NEWEST:
        raise errors.UnsupportedSchemaError(
            f"{where!r} is {said}; this webtraj reads up to ATIF-v{NEWEST[0]}.{NEWEST[1]}. "
            "Install a newer one."
        )


class _Trajectory:
    """One trajectory on its way to an episode."""

    def __init__(self, data: Mapping[str, Any], where: str, pictures: Pictures) -> None:
        steps = data.get("steps")
        if not isinstance(steps, list) or not steps or not all(map(_is_step, steps)):
            raise errors.CorruptDataError(
                f"{where!r} has no list of steps, each of the source system, user or agent."
            )
        self._data = data
        self._steps: list[dict[str, Any]] = steps
        self._extra = atif_steps.mapping(data.get("extra"))
        agent = atif_steps.mapping(data.get("agent"))
        self._agent = agent
        self._reader = atif_steps.StepReader(
            pictures, base.text_of(agent.get("model_name")), self._extra.get("viewport")
        )

    def episode(
        self, identity: str, imported: Mapping[str, Any], parent: str
    ) -> trajectory_lib.EpisodeTrajectory:
        """Returns the episode."""
        before, turns = self._turns()
        reason, outcome = self._end()
        ended = reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
        times = [atif_steps.seconds(step.get("timestamp")) for step in self._steps]
        first = self._reader.observation({}, before)
        steps = [
            trajectory_lib.StepRecord(
                0, StepType.FIRST, first, end_time=atif_steps.last_time(before)
            )
        ]
        for i, (step, after) in enumerate(turns):
            is_last = i == len(turns) - 1 and ended
            told = atif_steps.told(step)
            discount = told.get("discount", 1.0)
            if is_last:  # What it says must agree with how the episode ended.
                discount = 0.0 if reason is EndReason.TERMINATED else discount or 1.0
            action, decision = self._reader.decided(step)
            steps.append(
                trajectory_lib.StepRecord(
                    index=i + 1,
                    step_type=StepType.LAST if is_last else StepType.MID,
                    observation=self._reader.observation(step, after),
                    action=action,
                    reward=told.get("reward"),
                    discount=discount,
                    end_time=atif_steps.last_time([step, *after]),
                    decision=decision,
                )
            )
        steps = self._with_total(steps)
        known = [time for time in times if time is not None]
        return trajectory_lib.EpisodeTrajectory(
            self._info(identity, imported, parent, before),
            tuple(steps),
            trajectory_lib.EpisodeEnd(
                reason=reason,
                outcome=outcome,
                detail="" if ended else "ATIF does not tell how it ended",
            ),
            start_time=min(known, default=None),
            end_time=max(known, default=None),
        )

    def _turns(
        self,
    ) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], list[dict[str, Any]]]]]:
        """Returns what came first, and each agent step with what came until the next."""
        before: list[dict[str, Any]] = []
        turns: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        for step in self._steps:
            if step["source"] == "agent" and step.get("is_copied_context") is not True:
                turns.append((step, []))
            else:
                (turns[-1][1] if turns else before).append(step)
        return before, turns

    def _end(self) -> tuple[EndReason, Outcome]:
        reason = EndReason.__members__.get(str(self._extra.get("end_reason")).upper())
        outcome = Outcome.__members__.get(str(self._extra.get("outcome")).upper())
        return reason or EndReason.CLOSED, outcome or Outcome.UNKNOWN

    def _with_total(
        self, steps: list[trajectory_lib.StepRecord]
    ) -> list[trajectory_lib.StepRecord]:
        """Returns the steps with the root's reward on the last, if no step has one of its own."""
        total = atif_steps.told(self._data).get("reward")
        if total is None or len(steps) < 2 or any(step.reward is not None for step in steps):
            return steps
        last = steps[-1]
        return [*steps[:-1], atif_steps.with_reward(last, total)]

    def _info(
        self,
        identity: str,
        imported: Mapping[str, Any],
        parent: str,
        before: list[dict[str, Any]],
    ) -> trajectory_lib.EpisodeInfo:
        seed = self._extra.get("seed")
        name, version = (base.text_of(self._agent.get(key)) for key in ("name", "version"))
        users = [step for step in before if step["source"] == "user"]
        rest = {key: value for key, value in self._data.items() if key not in _PLACED}
        return trajectory_lib.EpisodeInfo(
            episode_id=identity,
            task=base.text_of(self._extra.get("task")),
            goal=atif_steps.text(users[0].get("message")) if users else "",
            site=base.text_of(self._extra.get("site")),
            seed=seed if type(seed) is int else None,
            environment=base.text_of(self._extra.get("environment")),
            versions={name: version} if name and version else {},
            policy=name,
            parent_episode_id=parent,
            metadata={
                "imported": imported,
                "agent": dict(self._agent),
                "atif": rest,
                **{key: value for key, value in self._extra.items() if key not in _TOLD},
            },
        )


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and step.get("source") in ("system", "user", "agent")
