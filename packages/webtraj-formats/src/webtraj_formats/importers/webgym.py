"""WebGym's trajectory files.

They are named `iteration0.pt`, `iteration5_rank_0.pt`, `train_trajectories.pt.iteration1`, ...

A file holds `{"trajectories": [[step, ...], ...], "metadata": {...}}`. A step holds the observation
shown, the action chosen there, and a `Reward` that is meaningful only in the last step. The result
of the last action is not in the file, so the observation of LAST is empty.

A reward of 0 stands for a failed task, but also for a failed judge, a dead browser, or a task that
was not graded yet. The importer tells them apart by what WebGym writes next to the reward, and by
nothing else: only graded episodes get a reward. An answer whose judge failed is a JUDGE_ERROR, an
episode without an answer is truncated, and error steps end it as ENV_ERROR or TIMEOUT.

Actions are read from the model's replies. What WebGym did with a reply that it could not read (it
waits, or clicks in the middle) is kept as the decision's `executed`. Screenshots are separate
files; missing ones are counted.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.datasets.importers.base import Found, Skipped, Source, relative
from webtraj.environments.actions import InvalidAction
from webtraj.environments.actions.dialects import make_dialect
from webtraj.store import encoding
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)
from webtraj_formats.importers.torch_files import is_torch_file, read_torch_file

__all__ = ["CLASS_NAMES", "End", "end_of", "read", "recognises"]

# How a trajectory ended, as far as WebGym's own fields say.

# Written by WebGym if no judge was called.
_IN_PROGRESS = "Task in progress"
_PENDING = -1
_JUDGE_FAILED = ("Async evaluation failed:", "Reward calculation failed:")
_MOST = 2**63
_FAILED = "Task failed:"
_ERROR_KEYS = ("invalid_step", "invalid_url", "error")
_OUT_OF_TIME = ("TIMEOUT", "GRACE_PERIOD_INCOMPLETE", "INCOMPLETE")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A trajectory's end, outcome and reward."""

    reason: EndReason
    outcome: Outcome = Outcome.UNKNOWN
    reward: float | None = None
    """The grade; None if it was not graded, or if the grade does not judge the agent."""
    detail: str = ""
    error: ErrorInfo | None = None
    dummies: int = 0
    """The number of final steps that only report a failure."""

    @property
    def ended(self) -> bool:
        """Whether the episode terminated or was truncated, rather than failed."""
        return self.reason in (EndReason.TERMINATED, EndReason.TRUNCATED)

    def to_record(self, action: Any, decision: Decision | None) -> EpisodeEnd:
        """Return the `EpisodeEnd`, given the last action."""
        flight: dict[str, Any] = {}
        if not self.ended and decision is not None:
            flight = {
                "action_in_flight": True,
                "in_flight_action": action,
                "in_flight_decision": decision,
            }
        return EpisodeEnd(
            reason=self.reason,
            outcome=self.outcome,
            detail=self.detail,
            error=self.error,
            **flight,
        )


def end_of(steps: list[Mapping[str, Any]]) -> End:
    """Return the end of a trajectory with at least one step."""
    dummies = _dummies(steps)
    if dummies:
        return _failed_end(steps[-1], dummies)
    last = steps[-1]
    graded = base.fields_of(last, "reward")
    said = base.text_of(graded, "evaluation")
    answered = _key_of(last) == "answer"
    reason = EndReason.TERMINATED if answered else EndReason.TRUNCATED
    if graded.get("is_blocked") is True:
        return End(reason=reason, outcome=Outcome.BLOCKED, detail=said)
    if said.startswith(_JUDGE_FAILED):
        return End(reason=reason, outcome=Outcome.JUDGE_ERROR, detail=said)
    value = base.number(graded.get("reward"))
    if value == _PENDING:
        return End(reason=reason, detail="it had not been graded yet")
    if said == _IN_PROGRESS or value is None:
        return End(reason=reason, detail=_describe_ungraded(last, len(steps)))
    return End(reason=reason, outcome=base.outcome_of(value), reward=value, detail=said)


def _dummies(steps: list[Mapping[str, Any]]) -> int:
    count = 0
    for step in reversed(steps):
        said = base.text_of(step, "reward", "evaluation")
        failed = "error_type" in step or said.startswith(_FAILED)
        if not failed and _key_of(step) not in _ERROR_KEYS:
            break
        count += 1
    return count


def _failed_end(step: Mapping[str, Any], dummies: int) -> End:
    kind = base.text_of(step, "error_type")
    said = base.text_of(step, "reward", "evaluation")
    more = base.text_of(step, "action", "action", "arguments", "error")
    message = base.text_of(step, "error_message") or more or said
    return End(
        reason=EndReason.ERRORED,
        outcome=Outcome.TIMEOUT if kind in _OUT_OF_TIME else Outcome.ENV_ERROR,
        detail=said,
        error=ErrorInfo(type=kind or "ERROR", message=message),
        dummies=dummies,
    )


def _key_of(step: Mapping[str, Any]) -> str:
    return base.text_of(step, "action", "action", "key")


def _describe_ungraded(last: Mapping[str, Any], count: int) -> str:
    limit = base.fields_of(last, "observation", "task").get("max_steps")
    if isinstance(limit, int) and count >= limit:
        return f"it took all of its {limit} steps without an answer, and was not graded"
    return "it ended without an answer, and was not graded"


SYSTEM = "webgym"
CLASS_NAMES = frozenset(
    f"webgym.data.components.{name}"
    for name in ("Action", "Observation", "Response", "Reward", "Task")
)
"""The classes allowed in a trajectory file."""

VIEWPORT = (1280, 768)
"""WebGym's viewport, to which its coordinates from 0 to 1000 are scaled."""

_FILE = re.compile(r".*\.pt(\.iteration[0-9]+)?(_rank_[0-9]+)?(\.checkpoint)?")
_ITERATION = re.compile(r"(?:^|[^a-z])iteration_?([0-9]{1,9})(?![0-9])")
_LONGEST_START = 64


def recognises(path: Path) -> bool:
    """Return whether a file is a torch file, or a folder holds such files."""
    source = Source(path=path)
    return any(_is_torch(file) for file in source.files(_is_wanted))


def read(source: Source) -> Iterator[Found]:
    """Yield the episodes of a trajectory file, or of all files in a folder."""
    seen: set[str] = set()
    return source.each(_is_wanted, lambda path, where: _File(source, path, where).read(seen))


def iterations_of(path: Path) -> dict[tuple[Literal["train", "test"], int], list[str]]:
    """Return the files in a folder by split and iteration, which their names contain."""
    source = Source(path=path)
    found: dict[tuple[Literal["train", "test"], int], list[str]] = {}
    for file in source.files(_is_wanted):
        iteration = _ITERATION.search(file.name)
        if iteration is None:
            return {}
        split: Literal["train", "test"] = "test" if file.name.startswith("test") else "train"
        found.setdefault((split, int(iteration[1])), []).append(relative(source.root, file))
    return found


def _is_wanted(name: str) -> bool:
    return _FILE.fullmatch(name) is not None


def _is_torch(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return is_torch_file(file.read(_LONGEST_START))
    except OSError:
        return False


class _File:
    """One trajectory file."""

    def __init__(self, source: Source, path: Path, where: str) -> None:
        content = source.read(path)
        names = CLASS_NAMES | frozenset(source.allow_classes)
        data = read_torch_file(content, where, names=names, limits=source.limits)
        # Checkpoints without metadata are just the list.
        whole = data if isinstance(data, dict) else {"trajectories": data}
        trajectories, metadata = whole.get("trajectories"), whole.get("metadata")
        if not isinstance(trajectories, list):
            raise errors.CorruptDataError(
                f"{where!r} is not a WebGym file: it has no list of trajectories."
            )
        self._trajectories = trajectories
        self._metadata = metadata if isinstance(metadata, dict) else {}
        self._source = source
        self._path = path
        self._where = where
        self._sha256 = base.digest(content)
        iteration = _ITERATION.search(path.name)
        named = int(iteration[1]) if iteration else None
        self._iteration = self._metadata.get("iteration", named)
        self._missing = 0

    def read(self, seen: set[str]) -> Iterator[Found]:
        """Yield the file's episodes, except those already seen in another file."""
        for i, steps in enumerate(self._trajectories):
            where = f"{self._where}[{i}]"
            if base.is_nothing(steps):
                yield Skipped(where, "it is empty")
                continue
            try:
                # The same episode may be in a checkpoint, in one rank's file and in the final file.
                content, _ = encoding.dumps([self._iteration, steps])
                identity = base.episode_id(SYSTEM, base.digest(content))
                if identity in seen:
                    yield Skipped(where, "another file holds it too", identity)
                elif known := self._source.already(identity, where):
                    yield known
                else:
                    missing = self._missing
                    episode = self._trajectory(identity, i, _check_steps(steps, where))
                    whole = self._missing == missing
                    yield self._source.place(episode, where, whole=whole)
                seen.add(identity)
            except base.UNREADABLE as error:
                yield base.problem(where, error)
        if self._missing:
            yield Skipped(
                self._where,
                f"{self._missing} of its screenshots were not found; import it again with --images "
                "and their folder",
            )

    def _trajectory(
        self, identity: str, index: int, steps: list[Mapping[str, Any]]
    ) -> EpisodeTrajectory:
        end = end_of(steps)
        imported = base.provenance(SYSTEM, self._where, self._sha256, index=index)
        info = self._info(identity, steps, imported, end)
        shown = steps[: len(steps) - end.dummies]
        records = [self._record(i, shown, end) for i in range(len(shown))]
        action, decision = self._read_decision(shown[-1]) if shown else (None, None)
        if shown and end.ended:
            records.append(
                StepRecord(
                    index=len(records),
                    step_type=StepType.LAST,
                    observation={},
                    action=action,
                    reward=end.reward,
                    discount=0.0 if end.reason is EndReason.TERMINATED else 1.0,
                    decision=decision,
                )
            )
        return EpisodeTrajectory(info, tuple(records), end.to_record(action, decision))

    def _info(
        self,
        identity: str,
        steps: list[Mapping[str, Any]],
        imported: dict[str, Any],
        end: End,
    ) -> EpisodeInfo:
        task = base.fields_of(steps[0], "observation", "task")
        number = task.get("task_id")
        name = base.text_of(task, "task_name")
        metadata: dict[str, Any] = {
            "imported": imported,
            "task": dict(task),
            "webgym": {**self._metadata, "iteration": self._iteration},
            "rewards": [base.fields_of(step, "reward") for step in steps],
        }
        extra = [_rest(step) for step in steps]
        if any(extra):
            metadata["steps"] = extra
        if end.dummies:
            metadata["dummies"] = [dict(step) for step in steps[-end.dummies :]]
        return EpisodeInfo(
            episode_id=identity,
            task=f"webgym/{number}"
            if (isinstance(number, str) and number) or (type(number) is int and abs(number) < _MOST)
            else "webgym",
            goal=name,
            site=base.text_of(task, "website"),
            environment="webgym",
            policy=base.text_of(self._metadata, "solution_model"),
            metadata=metadata,
        )

    def _record(self, index: int, steps: list[Mapping[str, Any]], end: End) -> StepRecord:
        observation = self._observation(steps[index])
        if not index:
            return StepRecord(0, StepType.FIRST, observation)
        action, decision = self._read_decision(steps[index - 1])
        # Rewards come only at the end; earlier steps have 0, or none without a grade.
        reward = None if end.reward is None else 0.0
        return StepRecord(index, StepType.MID, observation, action, reward, 1.0, decision=decision)

    def _observation(self, step: Mapping[str, Any]) -> dict[str, Any]:
        fields = base.fields_of(step, "observation")
        page = base.fields_of(fields, "page_metadata")
        path = base.text_of(fields, "image_path")
        observation = {
            "url": page.get("url", ""),
            "title": page.get("title", ""),
            "axtree": fields.get("ac_tree"),
            "image_path": path,
        }
        picture = self._picture(path) if path else None
        return observation if picture is None else {**observation, "screenshot": picture}

    def _picture(self, path: str) -> bytes | None:
        """Return a screenshot's bytes. If it is not found, count it and return None.

        The path is from the machine that ran the rollout, and cannot be trusted. So only its last
        parts are used, within the folders where WebGym or the user puts screenshots, and only
        pictures are accepted.
        """
        parts = [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]
        ends = [] if ".." in parts else [Path(*parts[-n:]) for n in (3, 2, 1) if len(parts) >= n]
        folders = [self._source.images, self._path.parent, self._path.parent.parent]
        for folder in filter(None, folders):
            for end in ends:
                found = folder / end
                try:
                    if found.is_file() and found.resolve().is_relative_to(folder.resolve()):
                        data = found.read_bytes()
                        if base.is_image(data):
                            return data
                except (OSError, ValueError):  # A name that is too long, or a file of others.
                    continue
        self._missing += 1
        return None

    def _read_decision(self, step: Mapping[str, Any]) -> tuple[Any, Decision | None]:
        """Return the action chosen at a step, and the decision behind it."""
        response = base.fields_of(step, "response")
        executed = base.fields_of(step, "action")
        if not response:
            return None, None
        reply = base.text_of(response, "raw_response")
        tokens = base.fields_of(response, "answering_tokens")
        action = _parse(reply)
        call = ModelCall(
            model=base.text_of(self._metadata, "solution_model"),
            messages=_messages(base.text_of(response, "raw_prompt")),
            text=reply,
        )
        decision = Decision(
            action=action,
            thought=base.text_of(tokens, "thinking") or base.text_of(tokens, "thought"),
            memory=base.text_of(tokens, "memory"),
            parse_error=action.reason if isinstance(action, InvalidAction) else "",
            model_calls=(call,),
            metadata={"executed": executed, "answering_tokens": tokens},
        )
        return action, decision


def _check_steps(steps: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise errors.CorruptDataError(f"{where!r} is not a trajectory: it is not a list of steps.")
    if not all(isinstance(step.get("observation"), OpaqueRecord) for step in steps):
        raise errors.CorruptDataError(f"{where!r} has a step without an observation.")
    return steps


def _rest(step: Mapping[str, Any]) -> dict[str, Any]:
    known = ("observation", "action", "response", "reward")
    return {key: value for key, value in step.items() if key not in known}


def _parse(reply: str) -> Any:
    by_coordinates = make_dialect("webgym", VIEWPORT).parse(reply)
    if not isinstance(by_coordinates, InvalidAction):
        return by_coordinates
    by_marks = make_dialect("webgym_marks", VIEWPORT).parse(reply)
    return by_coordinates if isinstance(by_marks, InvalidAction) else by_marks


def _messages(prompt: str) -> tuple[Any, ...]:
    if not prompt:
        return ()
    try:
        messages = json.loads(prompt)
    except (ValueError, RecursionError):
        messages = None
    return tuple(messages) if isinstance(messages, list) else (prompt,)
