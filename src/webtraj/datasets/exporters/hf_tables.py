"""The columns of the Parquet files, and the rows of an episode.

`observation`, `action_json`, `extra`, `info`, `end` are JSON text in the manner of `plain`: lists
for arrays, objects with the key `$` for what JSON lacks. Where a picture was in it stands
`{"type": "image", "index": 0}`: its place in the row's `images`. The screenshot has a column of its
own, and is not repeated; neither are `url`, `title` and `axtree`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.base import unequal
from webtraj.datasets.exporters.plain import (
    action_text,
    image_kind,
    is_blank,
    is_unicode,
    plain,
    to_json,
    unicode_text,
)
from webtraj.datasets.parquet import pyarrow
from webtraj.trajectory import reward_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "RowWriter", "STEPS", "ShardWriter", "TRAJECTORIES"]


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    kind: str
    """string, int64, float64, bool, image; `[kind]` for a list of it, `{name: kind, ...}` for a
    record."""
    meaning: str


STEPS: dict[str, Column] = {
    "episode_id": Column("string", "The episode."),
    "step": Column("int64", "Position in the episode, from 0."),
    "task": Column("string", "The task's name."),
    "goal": Column("string", "What was to be done, in words."),
    "is_first": Column("bool", "Whether the step begins its episode: it has no action."),
    "is_last": Column("bool", "Whether the environment ended the episode with it."),
    "action": Column("string", "The action that led to the observation, as text."),
    "action_json": Column("string", "The same as JSON."),
    "reward": Column("float64", "The reward for it; null if there was none."),
    "discount": Column("float64", "The discount: 0 if the episode terminated."),
    "url": Column("string", "Address of the page that was seen then."),
    "title": Column("string", "Its title."),
    "axtree": Column("string", "The page as text, with a ref for each element."),
    "screenshot": Column("image", "The page as a picture."),
    "images": Column("[image]", "Other pictures of the observation and the model's messages."),
    "observation": Column("string", "All else of the observation, as JSON."),
    "thought": Column("string", "The reasoning given for the action."),
    "memory": Column("string", "What the agent chose to remember."),
    "model": Column("string", "The model that chose the action."),
    "reply": Column("string", "The text of its reply."),
    "prompt_token_ids": Column("[int64]", "The prompt's token ids, as the model saw them."),
    "completion_token_ids": Column("[int64]", "The sampled token ids."),
    "logprobs": Column("[float64]", "Natural-log probability of each of those."),
    "start_time": Column("float64", "When the action began, in seconds since the epoch (UTC)."),
    "end_time": Column("float64", "When the observation was there."),
    "extra": Column("string", "All else of the step and the decision, as JSON."),
}
"""A row for each observation. dm_env's alignment: the action is the one that led to it."""

TRAJECTORIES: dict[str, Column] = {
    "episode_id": Column("string", "The episode."),
    "task": Column("string", "The task's name, the same for all attempts at it."),
    "goal": Column("string", "What was to be done, in words."),
    "site": Column("string", "The web site."),
    "environment": Column("string", "The environment."),
    "policy": Column("string", "Who acted."),
    "seed": Column("int64", "The seed of the environment."),
    "group_id": Column("string", "Shared by attempts that are compared with each other."),
    "attempt": Column("int64", "Number of the attempt in its group, from 0."),
    "end_reason": Column("string", "Why the record ends: terminated, truncated, crashed, ..."),
    "outcome": Column("string", "What it was worth; only success and failure carry a reward."),
    "finished": Column("bool", "Whether it terminated or was truncated."),
    "num_steps": Column("int64", "Number of actions."),
    "total_reward": Column("float64", "Sum of the rewards; null if there was none."),
    "actions": Column("[string]", "The actions as text."),
    "rewards": Column("[float64]", "The reward for each."),
    "start_time": Column("float64", "When it began, in seconds since the epoch (UTC)."),
    "end_time": Column("float64", "When it ended."),
    "info": Column("string", "All else that is known of the episode, as JSON."),
    "end": Column("string", "All else of its end, as JSON: error, action in flight, ..."),
}
"""A row for each episode."""

_SEEN = ("url", "title", "axtree")
_TOKENS = ("prompt_token_ids", "completion_token_ids", "logprobs")


class RowWriter:
    """Makes the rows of one episode."""

    def __init__(self, episode: trajectory_lib.EpisodeTrajectory, ledger: base.Ledger) -> None:
        self._episode = episode
        self._ledger = ledger

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yields the rows of `STEPS`."""
        for step in self._episode.steps:
            yield self._step(step)

    def trajectory(self) -> dict[str, Any]:
        """Returns the row of `TRAJECTORIES`."""
        episode, info = self._episode, self._episode.info
        acts = [step for step in episode.steps if not step.first]
        rewarded = any(step.reward is not None for step in acts)
        names = ("task", "goal", "site", "environment", "policy", "group_id")
        return {
            "episode_id": info.episode_id,
            **{name: self._text(getattr(info, name), name) for name in names},
            "seed": self._int64(info.seed, "info.seed"),
            "attempt": self._int64(info.attempt, "info.attempt"),
            "end_reason": episode.end_reason.name.lower(),
            "outcome": episode.outcome.name.lower(),
            "finished": episode.terminated or episode.truncated,
            "num_steps": episode.num_steps,
            "total_reward": episode.total_reward if rewarded else None,
            "actions": [self._text(action_text(step.action), "steps.action") for step in acts],
            "rewards": [self._reward(step) for step in acts],
            "start_time": _float(episode.start_time),
            "end_time": _float(episode.end_time),
            "info": to_json(_rest(info, (*TRAJECTORIES,))),
            "end": to_json(_end(episode.end)),
        }

    def _step(self, step: trajectory_lib.StepRecord) -> dict[str, Any]:
        images = _Images()
        decision = step.decision
        calls = () if decision is None else decision.model_calls
        # The reply that was acted on is the last one that came.
        call = next((call for call in reversed(calls) if not call.error), None)
        row: dict[str, Any] = {
            "episode_id": self._episode.episode_id,
            "step": step.index,
            "task": self._text(self._episode.info.task, "task"),
            "goal": self._text(self._episode.info.goal, "goal"),
            "is_first": step.first,
            "is_last": step.last,
            "action": self._text(action_text(step.action), "steps.action"),
            "action_json": to_json(step.action, images),
            "reward": self._reward(step),
            "discount": _number(step.discount),
            **self._observed(step.observation, images),
            "thought": self._text(decision.thought if decision else None, "steps.thought"),
            "memory": self._text(decision.memory if decision else None, "steps.memory"),
            "model": self._text(call.model if call else None, "steps.model"),
            "reply": self._text(call.text if call else None, "steps.reply"),
            **{name: self._numbers(getattr(call, name), name) for name in _TOKENS if call},
            "start_time": _float(step.start_time),
            "end_time": _float(step.end_time),
            "extra": to_json(self._extra(step), images),
        }
        return {**dict.fromkeys(STEPS), **row, "images": images.found}

    def _observed(self, observation: Any, images: _Images) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys((*_SEEN, "screenshot"))
        rest = observation
        if isinstance(observation, Mapping):
            rest = dict(observation)
            for name in _SEEN:
                value = rest.get(name)
                if type(value) is str and is_unicode(value):
                    row[name] = rest.pop(name)
            shot = rest.get("screenshot")
            if isinstance(shot, bytes) and (kind := image_kind(shot)):
                name = f"{self._episode.episode_id}-{_hash(shot)}.{kind[0]}"
                row["screenshot"] = {"bytes": rest.pop("screenshot"), "path": name}
        return {**row, "observation": to_json(rest, images)}

    def _extra(self, step: trajectory_lib.StepRecord) -> dict[str, Any]:
        """Returns what has no column of its own."""
        extra: dict[str, Any] = {}
        for name in ("reward", "discount"):
            value = getattr(step, name)
            if value is not None and _number(value) is None:
                extra[name] = value
        if step.ignored_action is not None:
            extra["ignored_action"] = step.ignored_action
        if step.decision is not None:
            decision = step.decision
            extra["decision"] = _rest(decision, ("thought", "memory", "model_calls"))
            if plain(decision.action) == plain(step.action):
                extra["decision"].pop("action", None)
            extra["model_calls"] = [_rest(call, ()) for call in decision.model_calls]
        return {name: value for name, value in extra.items() if not is_blank(value)}

    def _reward(self, step: trajectory_lib.StepRecord) -> float | None:
        if step.reward is None:
            return None
        number = _number(step.reward)
        if number is not None:
            return number
        why = "is no number; its sum is the reward, and it is in extra"
        self._ledger.note(self._episode.episode_id, "steps.reward", why)
        return float(reward_value(step.reward))

    def _text(self, value: str | None, field: str) -> str | None:
        if value is None or is_unicode(value):
            return value
        why = "is no Unicode; question marks stand for what is not"
        self._ledger.note(self._episode.episode_id, field, why)
        return unicode_text(value)

    def _numbers(self, values: tuple[Any, ...], name: str) -> list[int] | list[float] | None:
        """Returns token ids as integers, log probabilities as floats; None if there are none."""
        if name == "logprobs":
            sound = all(type(value) in (int, float) for value in values)
        else:
            sound = all(type(value) is int and -(2**63) <= value < 2**63 for value in values)
        if not sound:
            why = "are no numbers of 64 bits; they are in extra"
            self._ledger.note(self._episode.episode_id, f"steps.{name}", why)
            return None
        return [float(v) if name == "logprobs" else v for v in values] or None

    def _int64(self, value: int | None, field: str) -> int | None:
        if value is None or -(2**63) <= value < 2**63:
            return value
        why = f"{value} is beyond 64 bits; it is null"
        self._ledger.note(self._episode.episode_id, field, why)
        return None


class _Images:
    """Takes the pictures out of JSON data, each once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}

    def __call__(self, data: bytes) -> Any:
        kind = image_kind(data)
        if kind is None:
            return plain(data)
        sha256 = _hash(data)
        if sha256 not in self._index:
            self._index[sha256] = len(self.found)
            self.found.append({"bytes": data, "path": f"{sha256}.{kind[0]}"})
        return {"type": "image", "index": self._index[sha256]}


def _rest(record: Any, placed: tuple[str, ...]) -> dict[str, Any]:
    """Returns the fields of a record that have a value, and no place elsewhere."""
    names = [field.name for field in dataclasses.fields(record) if field.name not in placed]
    values = {name: getattr(record, name) for name in names}
    return {name: value for name, value in values.items() if not is_blank(value)}


def _end(end: trajectory_lib.EpisodeEnd | None) -> dict[str, Any]:
    if end is None:
        return {}
    data = _rest(end, ("reason", "outcome", "error", "phase", "in_flight_decision"))
    if end.phase is not None:
        data["phase"] = end.phase.value
    if end.error is not None:
        data["error"] = _rest(end.error, ())
    if end.in_flight_decision is not None:
        data["in_flight_decision"] = _rest(end.in_flight_decision, ("model_calls",))
        calls = end.in_flight_decision.model_calls
        data["in_flight_decision"]["model_calls"] = [_rest(call, ()) for call in calls]
    return data


def _number(value: Any) -> float | None:
    """Returns a value as a float, if it is one number."""
    item = value.item() if getattr(value, "shape", None) == () else value
    try:
        return float(item) if type(item) in (int, float, bool) else None
    except OverflowError:  # An integer that no float can hold.
        return None


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Parquet files of limited size: `train-00000-of-00003.parquet`, with `datasets`' own metadata.
#
# Rows are written in groups of a few dozen megabytes, so that no more is ever in memory. A file
# that has reached its size is closed, and the next one begun; what they are called is known at the
# end, when they are counted.

_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 5_000
_ROW_BYTES = 500
"""What a row takes beside its texts and pictures, about."""


class ShardWriter:
    """Writes the rows of one table."""

    def __init__(
        self, folder: Path, name: str, columns: dict[str, Column], shard_bytes: int
    ) -> None:
        """Initializes the writer.

        Args:
            folder: Where the files go.
            name: How their names begin.
            columns: The table's columns.
            shard_bytes: The size from which another file is begun.

        Raises:
            MissingDependencyError: pyarrow is not installed.
        """
        self._pa, self._pq = pyarrow()
        folder.mkdir(exist_ok=True)
        self._folder, self._name, self._shard_bytes = folder, name, shard_bytes
        self._schema = _schema(columns)
        self._rows: list[dict[str, Any]] = []
        self._row_bytes = 0
        self._paths: list[Path] = []
        self._digests: list[str] = []
        self._writer: Any = None
        self._digest: Any = None
        self._written = 0
        self.num_rows = 0
        """Rows so far."""

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row: a value for each column."""
        size = _size(row)
        if self._written + self._row_bytes + size > self._shard_bytes:
            self._end_shard()
        self._rows.append(row)
        self._row_bytes += size
        self.num_rows += 1
        if self._row_bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._end_group()

    def close(self, *, failed: bool = False) -> None:
        """Completes the files and gives them their names; if it has `failed`, only closes them."""
        if failed:
            if self._writer is not None:
                self._writer.close()
            return
        if self._rows or self._writer is not None or not self._paths:
            self._end_shard()
        for i, path in enumerate(self._paths):
            name = f"{self._name}-{i:05}-of-{len(self._paths):05}.parquet"
            self._paths[i] = path.rename(self._folder / name)

    def check(self) -> None:
        """Reads all files, and compares them with what was written.

        Raises:
            StorageError: They are not the same.
        """
        for path, expected in zip(self._paths, self._digests, strict=True):
            digest = hashlib.sha256()
            with self._pq.ParquetFile(path) as file:
                found = file.schema_arrow
                if not found.equals(self._schema) or found.metadata != self._schema.metadata:
                    raise unequal(path.name, "a schema")
                for i in range(file.num_row_groups):
                    for row in file.read_row_group(i).to_pylist():
                        _count(row, digest)
            if digest.hexdigest() != expected:
                raise unequal(path.name, "a row")

    def _end_shard(self) -> None:
        if self.num_rows and not self._rows and self._writer is None:
            return
        self._end_group()
        self._writer.close()
        self._digests.append(self._digest.hexdigest())
        self._writer, self._written = None, 0

    def _end_group(self) -> None:
        if self._writer is None:
            path = self._folder / f"{self._name}.{len(self._paths)}.tmp"
            self._writer = self._pq.ParquetWriter(path, self._schema, compression="zstd")
            self._digest = hashlib.sha256()
            self._paths.append(path)
        table = self._pa.Table.from_pylist(self._rows, schema=self._schema)
        if self._rows:
            self._writer.write_table(table)
        for row in self._rows:
            _count({column: row[column] for column in self._schema.names}, self._digest)
        # Pictures do not get smaller; counted are the bytes that a file may have at most.
        self._written += self._row_bytes
        self._rows, self._row_bytes = [], 0


def _schema(columns: dict[str, Column]) -> pa.Schema:
    import pyarrow as pa

    features = {name: _feature(column.kind) for name, column in columns.items()}
    metadata = {"huggingface": orjson.dumps({"info": {"features": features}})}
    fields = [(name, _arrow_type(column.kind)) for name, column in columns.items()]
    return pa.schema(fields, metadata=metadata)


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    if kind.startswith("["):
        return pa.list_(pa.field("element", _arrow_type(kind[1:-1])))  # As Parquet calls it.
    if kind == "image":
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if kind.startswith("{"):
        return pa.struct([(name, _arrow_type(inner)) for name, inner in _fields(kind)])
    return {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
    }[kind]


def _feature(kind: str) -> dict[str, Any] | list[Any]:
    """Returns a type as `datasets` writes it: in the way that old and new versions read."""
    if kind.startswith("[{"):  # A sequence of records would be read as a record of sequences.
        return [_feature(kind[1:-1])]
    if kind.startswith("["):
        return {"feature": _feature(kind[1:-1]), "_type": "Sequence"}
    if kind.startswith("{"):
        return {name: _feature(inner) for name, inner in _fields(kind)}
    if kind == "image":
        return {"_type": "Image"}
    return {"dtype": kind, "_type": "Value"}


def _fields(kind: str) -> list[tuple[str, str]]:
    """Returns names and kinds of a record's fields.

    >>> _fields("{role: string, content: [{type: string, text: string}]}")
    [('role', 'string'), ('content', '[{type: string, text: string}]')]
    """
    parts, depth = [""], 0
    for char in kind[1:-1]:
        depth += (char in "[{") - (char in "]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    pairs = (part.partition(":") for part in parts)
    return [(name.strip(), inner.strip()) for name, _, inner in pairs]


def _size(row: dict[str, Any]) -> int:
    return _ROW_BYTES + sum(map(_size_of, row.values()))


def _size_of(value: Any) -> int:
    match value:
        case bytes():
            return len(value)
        case str():
            return len(value) * 4 if not value.isascii() else len(value)
        case list():
            return sum(map(_size_of, value))
        case dict():
            return sum(map(_size_of, value.values()))
    return 8


def _count(row: dict[str, Any], digest: Any) -> None:
    digest.update(orjson.dumps(row, default=lambda data: hashlib.sha256(data).hexdigest()))
