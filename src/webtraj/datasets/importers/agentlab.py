"""Experiment folders of BrowserGym and AgentLab, and studies of them.

Record k of an experiment holds the observation shown at k, the action chosen at k, and the reward
that came *with* observation k: what action k-1 led to. So record 0 is FIRST, and step k takes its
action from record k-1. The last record has no action; an episode that was cut short by the agent
has its end on the record of the action that was none.

Rewards are as recorded, and the outcome is told from them only if the environment terminated the
episode: a success has earned 1 or more. What ended without that says how in its `EpisodeEnd`:
an environment that raised (a record without observation), an agent that raised (a record without
action), a run that was interrupted, or one that left no summary, as of a process that died.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers import agentlab_records, base
from webtraj.datasets.importers.agentlab_names import STEP_NAMES
from webtraj.datasets.importers.agentlab_records import Record
from webtraj.datasets.importers.base import Found, Problem, Skipped, Source
from webtraj.datasets.importers.restricted_pickle import read_pickle
from webtraj.store.values import OpaqueRecord

__all__ = ["read", "recognises"]

SYSTEM = "agentlab"

_STEP = re.compile(r"step_([0-9]{1,9})\.pkl\.gz")
_FOLDER = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2}_(.+)_on_(.+)_(-?[0-9]+)(_[0-9]+)?"
)
_PICTURE = "screenshot{kind}_step_{number}.{ext}"
_INTERRUPTED = ("Early termination??", "Last step in episode was not terminated or truncated.")
_ERROR = re.compile(r"(?:[^\n]*\n)?(?P<type>[A-Za-z_][\w.]*):\n(?P<message>.*)", re.DOTALL)


def recognises(path: Path) -> bool:
    """Returns whether a folder is an experiment, or holds some."""
    return path.is_dir() and next(_experiments(path, []), None) is not None


def read(source: Source) -> Iterator[Found]:
    """Yields the episodes of all experiments below a folder."""
    if not source.path.is_dir():
        raise errors.InvalidInputError(
            f"{str(source.path)!r} is no folder; name an experiment's folder, or one that holds "
            "experiments."
        )
    superseded: list[Path] = []
    for folder in _experiments(source.path, superseded):
        yield from _Experiment(source, folder).read()
    for folder in superseded:
        where = base.relative(source.root, folder)
        yield Skipped(where, "its name begins with '_' or '.': it was run again")


def _experiments(path: Path, superseded: list[Path]) -> Iterator[Path]:
    if (path / "exp_args.pkl").is_file() or (path / "step_0.pkl.gz").is_file():
        yield path
        return
    try:
        folders = sorted(item for item in path.iterdir() if item.is_dir())
    except PermissionError:
        return
    for folder in folders:
        if folder.name.startswith(("_", ".")):
            superseded += [folder] if (folder / "exp_args.pkl").is_file() else []
        elif not folder.is_symlink():
            yield from _experiments(folder, superseded)


class _Experiment:
    """One experiment's folder, on its way to an episode."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._where = base.relative(source.root, folder)
        self._problems: list[Problem] = []
        self._content: dict[str, bytes] = {}

    def read(self) -> Iterator[Found]:
        """Yields what the folder holds."""
        names = sorted(path.name for path in self._folder.iterdir() if path.is_file())
        for name in names:
            if _is_read(name):
                self._keep(name)
        sha256 = base.digest(
            *(part for item in sorted(self._content.items()) for part in _of(item))
        )
        identity = base.episode_id(SYSTEM, sha256)
        if known := self._source.already(identity, self._where):
            yield known
            return
        summary, arguments = self._summary(), self._arguments()
        records = self._records()
        if not records and "summary_info.json" not in self._content:
            yield from self._problems
            if not self._problems:
                yield Skipped(self._where, "it was prepared, but never ran")
            return
        left = [name for name in names if name not in self._content]
        more: dict[str, Any] = {"files_left": left} if left else {}
        imported = base.provenance(SYSTEM, self._where, sha256, **more)
        info = self._info(identity, arguments, summary, records, imported)
        end = self._end(summary, records)
        unreadable = [str(problem.error) for problem in self._problems]
        yield agentlab_records.to_trajectory(info, records, end, unreadable)
        yield from self._problems

    def _keep(self, name: str) -> None:
        try:
            self._content[name] = self._source.read(self._folder / name)
        except errors.WebtrajError as error:
            self._complain(name, error)

    def _complain(self, name: str, error: errors.WebtrajError) -> None:
        where = name if self._where == "." else f"{self._where}/{name}"
        self._problems.append(Problem(where, error))

    def _unpickled(self, name: str, *, any_name: bool = False) -> Any:
        if name not in self._content:
            return None
        limits = self._source.limits
        try:
            content = self._content[name]
            if name.endswith(".gz"):
                content = base.gunzip(content, name, limits.file_bytes)
            names = STEP_NAMES | frozenset(self._source.allow_classes)
            return read_pickle(content, name, names=names, any_name=any_name, limits=limits)
        except errors.WebtrajError as error:
            self._complain(name, error)
            return None

    def _summary(self) -> Mapping[str, Any] | None:
        """Returns the summary; None if there is none that can be read."""
        content = self._content.get("summary_info.json", b"")
        if not content.strip():  # Made, but never filled.
            return None
        try:
            summary = json.loads(content)
        except (ValueError, RecursionError) as error:
            summary = error
        if isinstance(summary, dict):
            return summary
        self._complain(
            "summary_info.json",
            errors.CorruptDataError(f"summary_info.json is no object: {summary}"),
        )
        return None

    def _arguments(self) -> Mapping[str, Any]:
        """Returns the experiment's arguments; what they do not tell, the folder's name may."""
        match = _FOLDER.fullmatch(self._folder.name)
        named: dict[str, Any] = {}
        if match is not None:
            named = {
                "agent_args": OpaqueRecord("", {"agent_name": match[1]}),
                "env_args": OpaqueRecord("", {"task_name": match[2], "task_seed": int(match[3])}),
            }
        return {**named, **_fields(self._unpickled("exp_args.pkl", any_name=True))}

    def _records(self) -> list[Record]:
        """Returns the records in order; those that cannot be read are missing."""
        numbers = sorted(int(m[1]) for name in self._content if (m := _STEP.fullmatch(name)))
        goal = self._unpickled("goal_object.pkl.gz") if numbers else None
        records = []
        for number in numbers:
            name = f"step_{number}.pkl.gz"
            step = self._unpickled(name)
            if isinstance(step, OpaqueRecord) and step.type_name.endswith(".StepInfo"):
                records.append(Record(number, step.fields, self._pictures(number), goal))
            elif step is not None:
                self._complain(
                    name, errors.CorruptDataError(f"{name!r} holds no StepInfo, as a step should.")
                )
        wanted = range(numbers[-1] + 1) if numbers else ()
        for number in sorted(set(wanted) - set(numbers)):
            name = f"step_{number}.pkl.gz"
            self._complain(name, errors.CorruptDataError(f"{name!r} is missing among the steps."))
        return records

    def _pictures(self, number: int) -> dict[str, bytes]:
        found = {}
        for key, kind in (("screenshot", ""), ("screenshot_som", "_som")):
            for ext in ("png", "jpg"):
                name = _PICTURE.format(kind=kind, number=number, ext=ext)
                picture = self._content.get(name)
                if picture is None or key in found:
                    continue
                if base.is_image(picture):
                    found[key] = picture
                else:
                    self._complain(name, errors.CorruptDataError(f"{name!r} is no picture."))
        return found

    def _info(
        self,
        identity: str,
        arguments: Mapping[str, Any],
        summary: Mapping[str, Any] | None,
        records: list[Record],
        imported: dict[str, Any],
    ) -> trajectory_lib.EpisodeInfo:
        environment = _fields(arguments.get("env_args"))
        seed = environment.get("task_seed")
        first = records[0].observation if records else None
        metadata = {
            "imported": imported,
            "arguments": dict(arguments),
            "steps": [record.results() for record in records],
        }
        return trajectory_lib.EpisodeInfo(
            episode_id=identity,
            task=base.text_of(environment.get("task_name")),
            goal=_goal(first),
            seed=seed if type(seed) is int else None,
            environment="browsergym",
            versions=self._versions(),
            policy=base.text_of(_fields(arguments.get("agent_args")).get("agent_name")),
            metadata=metadata if summary is None else {**metadata, "summary": dict(summary)},
        )

    def _versions(self) -> dict[str, str]:
        lines = self._content.get("package_versions.txt", b"").decode(errors="replace").splitlines()
        pairs = (line.strip().partition("==") for line in lines)
        return {name: version for name, found, version in pairs if found}

    def _end(
        self, summary: Mapping[str, Any] | None, records: list[Record]
    ) -> trajectory_lib.EpisodeEnd:
        reason, outcome = trajectory_lib.EndReason, trajectory_lib.Outcome
        last = records[-1] if records else None
        known = summary or {}
        if last is not None and last.terminated:
            whole = len(records) == last.number + 1
            total = sum(record.reward for record in records[1:]) if whole else None
            return trajectory_lib.EpisodeEnd(reason=reason.TERMINATED, outcome=_outcome(total))
        if last is not None and last.truncated:
            detail = "the agent gave no action" if last.has_stats else ""
            return trajectory_lib.EpisodeEnd(reason=reason.TRUNCATED, detail=detail)
        in_flight = records[-2] if last is not None and last.empty and len(records) > 1 else None
        flight: dict[str, Any] = {} if in_flight is None else in_flight.in_flight()
        if known.get("terminated") or known.get("truncated"):
            error = errors.CorruptDataError(f"{self._where!r} has no record of its last step.")
            self._problems.append(Problem(self._where, error))
            total = known.get("cum_reward") if known.get("terminated") else None
            ended = reason.TERMINATED if known.get("terminated") else reason.TRUNCATED
            return trajectory_lib.EpisodeEnd(reason=ended, outcome=_outcome(total))
        said = base.text_of(known.get("err_msg"))
        if said.rstrip().endswith(_INTERRUPTED):
            return trajectory_lib.EpisodeEnd(reason=reason.CANCELLED, detail=said, **flight)
        if said:
            in_environment = last is None or last.empty
            return trajectory_lib.EpisodeEnd(
                reason=reason.ERRORED,
                phase=trajectory_lib.Phase.STEP if in_flight else None,
                error=_error(said, base.text_of(known.get("stack_trace"))),
                outcome=outcome.ENV_ERROR if in_environment else outcome.AGENT_ERROR,
                **flight,
            )
        detail = "its summary says nothing of an end" if known else (
            "there is no summary: its process died, or was still running"
        )  # fmt: skip
        closed = reason.CLOSED if known else reason.CRASHED
        return trajectory_lib.EpisodeEnd(reason=closed, detail=detail, **flight)


def _is_read(name: str) -> bool:
    known = ("exp_args.pkl", "goal_object.pkl.gz", "summary_info.json", "package_versions.txt")
    picture = name.startswith("screenshot_") and name.endswith((".png", ".jpg"))
    return name in known or picture or _STEP.fullmatch(name) is not None


def _of(item: tuple[str, bytes]) -> tuple[bytes, bytes]:
    return item[0].encode(errors="surrogateescape"), item[1]


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, OpaqueRecord):
        return value.fields
    return value if isinstance(value, Mapping) else {}


def _goal(observation: Any) -> str:
    if not isinstance(observation, Mapping):
        return ""
    parts = observation.get("goal_object")
    texts = [
        base.text_of(part.get("text"))
        for part in (parts if isinstance(parts, (list, tuple)) else ())
        if isinstance(part, Mapping)
    ]
    # The older field has a warning instead, if the goal has pictures.
    return "\n".join(filter(None, texts)) or base.text_of(observation.get("goal"))


def _outcome(total: Any) -> trajectory_lib.Outcome:
    earned = base.number(total)
    if earned is None:
        return trajectory_lib.Outcome.UNKNOWN
    return trajectory_lib.Outcome.SUCCESS if earned >= 1 else trajectory_lib.Outcome.FAILURE


def _error(said: str, traceback: str) -> trajectory_lib.ErrorInfo:
    match = _ERROR.fullmatch(said)
    if match is None:
        return trajectory_lib.ErrorInfo(type="Exception", message=said, traceback=traceback)
    return trajectory_lib.ErrorInfo(
        type=match["type"], message=match["message"], traceback=traceback
    )
