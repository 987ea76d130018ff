"""ATIF v1.8, the Agent Trajectory Interchange Format: a JSON file an episode.

::

    <out>/<episode id>.json
    <out>/images/<sha256>.jpg      pictures, each once, named by paths beside the file
    <out>/blobs/<sha256>.bin       other bytes, likewise

An episode is: its system prompt, if the first model call has one; a step of the user with the goal
and FIRST's observation; an agent step for each step after it, with the action as its tool call, and
the observation that it led to. What an observation holds is in the step's `extra`, by name; its
pictures are in `observation.results` as well. Reward and discount are in `extra` too.

The root's `extra` has `task`, `seed`, `site`, `environment`, `reward` (the total), `end_reason`,
`outcome`, and under `webtraj` everything else that is known of the episode.

`webtraj import --from atif` reads it back. The same are then: the number of steps and their types;
actions of webtraj's own, and texts in its dialect; rewards, discounts and end; thoughts; of a
step's last model call the model, the text, token ids, logprobs and counts; pictures; observations
after FIRST as plain JSON; times to a microsecond. FIRST's observation comes back as a message. An
action that is no web action comes back as the call `act`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import orjson
import pydantic

import webtraj
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import atif_models, base
from webtraj.datasets.exporters.atif_steps import StepWriter, Tell
from webtraj.datasets.exporters.files_beside import FilesBeside
from webtraj.datasets.exporters.plain import is_blank, plain, unicode_text

__all__ = ["AtifExporter"]

_IN_EXTRA = ("task", "seed", "site", "environment")
_PLACED = ("goal", "policy", *_IN_EXTRA)
_TOTALS = ("prompt_tokens", "completion_tokens", "cached_tokens")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtifExporter:
    """Writes ATIF."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    messages: bool = True
    """Whether the messages sent to models, and their raw replies, are kept in `metrics.extra`."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        files = FilesBeside(job.folder)
        for episode in job.episodes:
            tell = _Teller(job.ledger, episode.episode_id)
            data = _trajectory(episode, StepWriter(files, tell, self.messages), tell)
            name = f"{episode.episode_id}.json"
            path = job.folder / name
            path.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
            _check(orjson.loads(path.read_bytes()), data, name, files)
            job.ledger.wrote(episode)


class _Teller:
    def __init__(self, ledger: base.Ledger, episode_id: str) -> None:
        self._ledger = ledger
        self._episode_id = episode_id

    def __call__(self, field: str, why: str) -> None:
        self._ledger.note(self._episode_id, field, why)


def _trajectory(
    episode: trajectory_lib.EpisodeTrajectory, writer: StepWriter, tell: Tell
) -> dict[str, Any]:
    steps = writer.steps(episode)
    info, end = episode.info, episode.end
    model = next((step["model_name"] for step in steps if "model_name" in step), None)
    totals = _totals(step.get("metrics", {}) for step in steps)
    reason = episode.end_reason.name.lower()
    finished = episode.terminated or episode.truncated
    return _without_none(
        {
            "schema_version": atif_models.SCHEMA_VERSION,
            "session_id": info.episode_id,
            "trajectory_id": info.episode_id,
            "agent": _without_none(
                {
                    "name": unicode_text(info.policy) or "unknown",
                    "version": info.versions.get(info.policy, "unknown"),
                    "model_name": model,
                }
            ),
            "steps": [{"step_id": i + 1, **step} for i, step in enumerate(steps)],
            "notes": None if finished else f"The episode did not come to its end: {reason}.",
            "final_metrics": {**totals, "total_steps": len(steps)},
            "extra": {
                **{name: plain(getattr(info, name)) for name in _IN_EXTRA},
                **_total_reward(episode),
                "end_reason": reason,
                "outcome": episode.outcome.name.lower(),
                "webtraj": {
                    "version": webtraj.__version__,
                    "info": _fields(info, writer, without=_PLACED),
                    "end": None if end is None else _end(end, writer),
                    "start_time": plain(episode.start_time),
                    "end_time": plain(episode.end_time),
                },
            },
        }
    )


def _total_reward(episode: trajectory_lib.EpisodeTrajectory) -> dict[str, Any]:
    """Returns the sum of the rewards, if there are any: a reader might take it for one."""
    if all(step.reward is None for step in episode.steps):
        return {}
    return {"reward": plain(episode.total_reward)}


def _end(end: trajectory_lib.EpisodeEnd, writer: StepWriter) -> dict[str, Any]:
    data = _fields(end, writer, without=("reason", "outcome", "error", "phase"))
    if end.phase is not None:
        data["phase"] = end.phase.value
    if end.error is not None:
        data["error"] = _fields(end.error, writer)
    return data


def _fields(record: Any, writer: StepWriter, without: Iterable[str] = ()) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(record) if field.name not in without]
    values = {name: getattr(record, name) for name in names}
    return {name: writer.plain(value) for name, value in values.items() if not is_blank(value)}


def _totals(metrics: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    found = {f"total_{name}": 0 for name in _TOTALS}
    seen = set()
    for item in metrics:
        for name in _TOTALS:
            if name in item:
                found[f"total_{name}"] += item[name]
                seen.add(f"total_{name}")
    return {name: total for name, total in found.items() if name in seen}


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}


def _check(found: Any, data: Mapping[str, Any], name: str, files: FilesBeside) -> None:
    """Checks a file that was read back.

    Raises:
        StorageError: It is not what was written, or not ATIF.
    """
    if found != data:
        raise base.unequal(name, "content")
    try:
        trajectory = atif_models.check(found)
    except pydantic.ValidationError as error:
        raise errors.StorageError(
            f"{name!r} does not follow {atif_models.SCHEMA_VERSION}: {error!s:.500}. Nothing was "
            "exported. Please report this."
        ) from error
    for step in trajectory.steps:
        results = step.observation.results if step.observation else []
        for part in [*_parts(step.message), *(p for r in results for p in _parts(r.content))]:
            if part.source is not None and part.source.path not in files:
                raise base.unequal(part.source.path, "a picture")


def _parts(content: Any) -> list[atif_models.ContentPart]:
    return content if isinstance(content, list) else []
