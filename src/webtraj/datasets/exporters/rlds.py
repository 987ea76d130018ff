"""Arrays in the manner of RLDS: steps of observation, action, reward and discount, in order.

::

    <out>/index.json            the columns, the files, and what is known of each episode
    <out>/steps-00000.npz       arrays of the steps of some episodes, one episode after the other

Alignment is RLDS's: a step holds an observation, the action that was taken on it, and the reward
and discount that followed. In an episode's last step (`is_last`) action, reward, discount and
`agent/...` are dummies. `is_terminal` tells a termination from a truncation and from an episode
that stopped in the middle; such an episode is `invalid` in the index if it crashed, was cancelled
or raised.

The arrays of a file are named by the columns (see `columns`), and have a row a step:

* numbers of one shape: `[steps, *shape]`;
* text of up to 256 characters: numpy's fixed strings;
* all else: its values one after the other, text as UTF-8 (`surrogatepass`), with
  `<name>:offsets` `[steps + 1]`, and for arrays `<name>:shape` `[steps, dimensions]`;
* where some steps have no value, `<name>:present`; they hold a dummy.

`reward` and `discount` are float64, NaN where there was none. Nothing is pickled. `rlds_reader`
reads it with numpy alone.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import orjson
import pydantic

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.agent_values import agent_values, note_left_out, number
from webtraj.datasets.exporters.columns import Column, Fit, flatten
from webtraj.datasets.exporters.plain import action_text, plain
from webtraj.datasets.exporters.rlds_arrays import ColumnBuffer, layout_of, write_npz
from webtraj.trajectory import EndReason

__all__ = ["RldsExporter"]

INDEX = "index.json"
VERSION = 1
_INVALID = (EndReason.ERRORED, EndReason.CANCELLED, EndReason.CRASHED, EndReason.UNKNOWN)
_FLAGS = ("is_first", "is_last", "is_terminal")
_INFO = (
    "episode_id", "task", "goal", "site", "seed", "environment", "policy", "group_id", "attempt",
    "versions", "metadata",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class RldsExporter:
    """Writes RLDS steps as .npz files."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)

    shard_mb: Annotated[int, pydantic.Field(ge=1, le=4096)] = 64
    """Megabytes of arrays in a file, about: the next episode begins another one."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        fit = Fit()
        for episode in job.episodes:
            for step in episode.steps:
                fit.see("observation", step.observation)
                fit.see("time", _times(step))
            for step in episode.steps[1:]:
                fit.see("action", step.action)
                fit.see("agent", agent_values(step))
        columns = fit.columns()
        shards = _Shards(job.folder, columns, self.shard_mb << 20)
        episodes = []
        for episode in job.episodes:
            start = shards.add(episode, job.ledger)
            episodes.append(
                {
                    "shard": shards.count,
                    "start": start,
                    "stop": start + len(episode.steps),
                    **_about(episode),
                }
            )
            note_left_out(episode, job.ledger)
            job.ledger.wrote(episode)
            shards.end_episode()
        shards.end()
        index = {
            "webtraj_rlds": VERSION,
            "columns": {name: layout_of(column) for name, column in columns.items()},
            "shards": shards.files,
            "episodes": episodes,
        }
        path = job.folder / INDEX
        path.write_bytes(orjson.dumps(index, option=orjson.OPT_INDENT_2))
        if orjson.loads(path.read_bytes()) != index:
            raise base.unequal(INDEX, "content")


class _Shards:
    """Collects the steps of episodes, and writes files of them."""

    def __init__(self, folder: Path, columns: dict[str, Column], limit: int) -> None:
        self._folder = folder
        self._columns = columns
        self._limit = limit
        self.files: list[dict[str, Any]] = []
        self._begin()

    @property
    def count(self) -> int:
        """Number of files so far: the index of the one under way."""
        return len(self.files)

    def add(self, episode: trajectory_lib.EpisodeTrajectory, ledger: base.Ledger) -> int:
        """Adds an episode's steps; returns the index of the first in the file."""
        start = self._num_steps
        steps = episode.steps
        if steps and steps[0].action is not None:
            why = "led to the episode's first observation; it has no step to stand in"
            ledger.note(episode.episode_id, "steps.action", why)
        for i, step in enumerate(steps):
            after = steps[i + 1] if i + 1 < len(steps) else None
            values = flatten(step.observation, "observation") | flatten(_times(step), "time")
            if after is not None:
                values |= flatten(after.action, "action")
                values |= flatten(agent_values(after), "agent")
            for name, buffer in self._buffers.items():
                buffer.add(values.get(name))
            self._flags["is_first"].append(i == 0)
            self._flags["is_last"].append(after is None)
            self._flags["is_terminal"].append(after is None and episode.terminated)
            for name, numbers in self._numbers.items():
                value = 0.0
                if after is not None:
                    value = number(getattr(after, name), f"steps.{name}", episode, ledger)
                numbers.append(value)
        self._num_steps += len(steps)
        self._num_episodes += 1
        return start

    def end_episode(self) -> None:
        """Writes the file if it is large enough."""
        if sum(buffer.size for buffer in self._buffers.values()) >= self._limit:
            self.end()

    def end(self) -> None:
        """Writes the file, if it would hold anything."""
        if not self._num_episodes:
            return
        name = f"steps-{self.count:05}.npz"
        arrays: dict[str, Any] = {
            **{name: np.array(flags, bool) for name, flags in self._flags.items()},
            **{name: np.array(numbers, float) for name, numbers in self._numbers.items()},
        }
        for buffer in self._buffers.values():
            arrays.update(buffer.arrays())
        write_npz(self._folder / name, arrays)
        self.files.append({"file": name, "steps": self._num_steps, "episodes": self._num_episodes})
        self._begin()

    def _begin(self) -> None:
        self._buffers = {name: ColumnBuffer(column) for name, column in self._columns.items()}
        self._flags: dict[str, list[bool]] = {name: [] for name in _FLAGS}
        self._numbers: dict[str, list[float]] = {"reward": [], "discount": []}
        self._num_steps = self._num_episodes = 0


def _times(step: trajectory_lib.StepRecord) -> dict[str, Any]:
    return {"start": step.start_time, "end": step.end_time}


def _about(episode: trajectory_lib.EpisodeTrajectory) -> dict[str, Any]:
    """Returns what the index says of an episode."""
    end = episode.end
    about = {
        **{name: plain(getattr(episode.info, name)) for name in _INFO},
        "end_reason": episode.end_reason.name.lower(),
        "outcome": episode.outcome.name.lower(),
        "invalid": episode.end_reason in _INVALID,
        "start_time": plain(episode.start_time),
        "end_time": plain(episode.end_time),
    }
    if end is not None:
        about["detail"] = plain(end.detail)
        about["error"] = None if end.error is None else plain(end.error.message)
        about["action_in_flight"] = (
            plain(action_text(end.in_flight_action)) if end.action_in_flight else None
        )
    return about
