"""Parquet files with a dataset card, for the Hugging Face Hub and `datasets`.

::

    <out>/README.md                                    the card: configs, licence, provenance
    <out>/steps/train-00000-of-00003.parquet           one row per step
    <out>/trajectories/train-00000-of-00001.parquet    one row per episode

The columns are `STEPS` and `TRAJECTORIES`; the card lists them. `observation`, `action_json`,
`extra`, `info` and `end` are JSON text as `plain` writes it: lists for arrays, objects with the key
`$` for what JSON lacks. A picture in them is replaced by `{"type": "image", "index": 0}`, its index
in the row's `images`. The screenshot, `url`, `title` and `axtree` have their own columns and are
not repeated.

Pictures are structs of bytes and path, with the schema metadata that makes `datasets` read them as
its `Image` feature; other readers see a struct. Needs the extra `parquet`, but not `datasets`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import orjson
import pydantic

import webtraj
from webtraj import errors
from webtraj.datasets import partition
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.base import MANIFEST, ExportReport, unequal
from webtraj.datasets.exporters.plain import (
    action_text,
    answer,
    end_fields,
    filled_fields,
    image_kind,
    is_blank,
    is_unicode,
    plain,
    to_json,
    unicode_text,
)
from webtraj.datasets.parquet import pyarrow
from webtraj.trajectory import EpisodeEnd, EpisodeTrajectory, StepRecord, reward_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CONFIGS",
    "STEPS",
    "TRAJECTORIES",
    "Column",
    "HuggingFaceExporter",
    "Kind",
    "RowWriter",
    "ShardWriter",
    "arrow_schema",
    "front_matter",
    "one_line",
]

Kind = str | list[Any] | dict[str, Any]
"""A column's type: "string", "int64", "float64", "bool" or "image"; `[kind]` for a list,
`{"name": kind, ...}` for a record."""


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    kind: Kind
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
    "images": Column(["image"], "Other pictures of the observation and the model's messages."),
    "observation": Column("string", "The rest of the observation, as JSON."),
    "thought": Column("string", "The reasoning given for the action."),
    "memory": Column("string", "What the agent chose to remember."),
    "model": Column("string", "The model that chose the action."),
    "reply": Column("string", "The text of its reply."),
    "prompt_token_ids": Column(["int64"], "The prompt's token ids, as the model saw them."),
    "completion_token_ids": Column(["int64"], "The sampled token ids."),
    "logprobs": Column(["float64"], "Natural-log probability of each of those."),
    "start_time": Column("float64", "When the action began, in seconds since the epoch (UTC)."),
    "end_time": Column("float64", "When the observation was there."),
    "extra": Column("string", "The rest of the step and the decision, as JSON."),
}
"""One row per observation. As in dm_env, the action is the one that led to it."""

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
    "finished": Column("bool", "Whether it ended by itself, and nothing broke."),
    "superseded": Column("bool", "Whether another try of its row counts in its place."),
    "num_steps": Column("int64", "Number of actions."),
    "total_reward": Column("float64", "Sum of the rewards; null if it was not scored."),
    "actions": Column(["string"], "The actions as text."),
    "rewards": Column(["float64"], "The reward for each."),
    "start_time": Column("float64", "When it began, in seconds since the epoch (UTC)."),
    "end_time": Column("float64", "When it ended."),
    "info": Column("string", "The rest of the episode's info, as JSON."),
    "end": Column("string", "The rest of its end, as JSON: error, action in flight, ..."),
}
"""One row per episode."""

_SEEN = ("url", "title", "axtree")
_TOKENS = ("prompt_token_ids", "completion_token_ids", "logprobs")


class RowWriter:
    """Makes the rows of one episode."""

    def __init__(self, episode: EpisodeTrajectory, ledger: base.Ledger) -> None:
        self._episode = episode
        self._note = functools.partial(ledger.note, episode.episode_id)
        self._superseded = episode.episode_id in ledger.superseded

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `STEPS`."""
        for step in self._episode.steps:
            yield self._step(step)

    def trajectory(self) -> dict[str, Any]:
        """Return the row of `TRAJECTORIES`."""
        episode, info = self._episode, self._episode.info
        acts = [step for step in episode.steps if not step.first]
        names = ("task", "goal", "site", "environment", "policy", "group_id")
        return {
            "episode_id": info.episode_id,
            **{name: self._text(getattr(info, name), name) for name in names},
            "seed": self._int64(info.seed, "info.seed"),
            "attempt": self._int64(info.attempt, "info.attempt"),
            "end_reason": episode.end_reason.name.lower(),
            "outcome": episode.outcome.name.lower(),
            "finished": episode.finished,
            "superseded": self._superseded,
            "num_steps": episode.num_steps,
            "total_reward": episode.total_reward,
            # What these cannot hold is noted with the steps.
            "actions": [
                unicode_text(text) if (text := action_text(step.action)) is not None else None
                for step in acts
            ],
            "rewards": [_reward(step.reward) for step in acts],
            "start_time": _float(episode.start_time),
            "end_time": _float(episode.end_time),
            "info": to_json(filled_fields(info, TRAJECTORIES)),
            "end": to_json(_end(episode.end)),
        }

    def _step(self, step: StepRecord) -> dict[str, Any]:
        images = _Images()
        decision = step.decision
        call = None if decision is None else answer(decision.model_calls)
        row: dict[str, Any] = {
            "episode_id": self._episode.episode_id,
            "step": step.index,
            "task": self._text(self._episode.info.task, "task"),
            "goal": self._text(self._episode.info.goal, "goal"),
            "is_first": step.first,
            "is_last": step.last,
            "action": self._text(action_text(step.action), "steps.action"),
            "action_json": to_json(step.action, images),
            "reward": self._reward(step.reward),
            "discount": _number(step.discount),
            **self._observation_row(step.observation, images),
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

    def _observation_row(self, observation: Any, images: _Images) -> dict[str, Any]:
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

    def _extra(self, step: StepRecord) -> dict[str, Any]:
        """Return the fields without a column."""
        extra: dict[str, Any] = {}
        for name in ("reward", "discount"):
            value = getattr(step, name)
            if value is not None and _number(value) is None:
                extra[name] = value
        if step.ignored_action is not None:
            extra["ignored_action"] = step.ignored_action
        if step.decision is not None:
            decision = step.decision
            extra["decision"] = filled_fields(decision, ("thought", "memory", "model_calls"))
            if plain(decision.action) == plain(step.action):
                extra["decision"].pop("action", None)
            extra["model_calls"] = [filled_fields(call) for call in decision.model_calls]
        return {name: value for name, value in extra.items() if not is_blank(value)}

    def _reward(self, reward: Any) -> float | None:
        if reward is not None and _number(reward) is None:
            self._note("steps.reward", "is not a number; its sum is the reward, and it is in extra")
        return _reward(reward)

    def _text(self, value: str | None, field: str) -> str | None:
        if value is None or is_unicode(value):
            return value
        self._note(field, "is no Unicode; question marks stand for what is not")
        return unicode_text(value)

    def _numbers(self, values: tuple[Any, ...], name: str) -> list[int] | list[float] | None:
        """Return token ids as integers, log-probabilities as floats; None if there are none."""
        is_float = name == "logprobs"
        sound = {int, float} if is_float else {int}
        if not all(type(v) in sound and (is_float or -(2**63) <= v < 2**63) for v in values):
            self._note(f"steps.{name}", "do not fit 64 bits; they are in extra")
            return None
        return [float(v) if is_float else v for v in values] or None

    def _int64(self, value: int | None, field: str) -> int | None:
        if value is None or -(2**63) <= value < 2**63:
            return value
        self._note(field, f"{value} is beyond 64 bits; it is null")
        return None


def _reward(reward: Any) -> float | None:
    if reward is None:
        return None
    number = _number(reward)
    return float(reward_value(reward)) if number is None else number


class _Images:
    """Moves pictures out of JSON data, each once."""

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


def _end(end: EpisodeEnd | None) -> dict[str, Any]:
    data = end_fields(end, ("in_flight_decision",))
    if end is not None and (decision := end.in_flight_decision) is not None:
        calls = [filled_fields(call) for call in decision.model_calls]
        told = filled_fields(decision, ("model_calls",))
        data["in_flight_decision"] = {**told, "model_calls": calls}
    return data


def _number(value: Any) -> float | None:
    """Return a value as a float, if it is one number."""
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
# Rows are written in groups of a few dozen megabytes, which bounds memory. When a file reaches its
# size limit, it is closed and the next one started. Final names are given at the end, when the
# number of files is known.

_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 5_000
_ROW_BYTES = 500
"""The approximate bytes of a row without its texts and pictures."""


class ShardWriter:
    """Writes the rows of one table."""

    def __init__(
        self, folder: Path, name: str, columns: dict[str, Column], shard_bytes: int
    ) -> None:
        """Initialize the writer.

        Args:
            folder: The folder for the files.
            name: The prefix of their names.
            columns: The table's columns.
            shard_bytes: The size at which the next file starts.

        Raises:
            MissingDependencyError: pyarrow is not installed.
        """
        self._pa, self._pq = pyarrow()
        folder.mkdir(exist_ok=True)
        self._folder, self._name, self._shard_bytes = folder, name, shard_bytes
        self._schema = arrow_schema(columns)
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
        """Add a row: a value for each column."""
        size = _ROW_BYTES + _size_of(row)
        if self._written + self._row_bytes + size > self._shard_bytes:
            self._end_shard()
        self._rows.append(row)
        self._row_bytes += size
        self.num_rows += 1
        if self._row_bytes >= _GROUP_BYTES or len(self._rows) >= _GROUP_ROWS:
            self._end_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        """Complete and rename the files; after an error, only close them."""
        if exc is not None:
            if self._writer is not None:
                self._writer.close()
            return
        if self._rows or self._writer is not None or not self._paths:
            self._end_shard()
        for i, path in enumerate(self._paths):
            name = f"{self._name}-{i:05}-of-{len(self._paths):05}.parquet"
            self._paths[i] = path.rename(self._folder / name)

    def check(self) -> None:
        """Read all files back and compare them with what was written.

        Raises:
            StorageError: They differ.
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
        # Count uncompressed bytes, the upper limit of the file size: pictures do not compress.
        self._written += self._row_bytes
        self._rows, self._row_bytes = [], 0


def arrow_schema(columns: dict[str, Column]) -> pa.Schema:
    """Return a table's schema, with the metadata that `datasets` reads."""
    import pyarrow as pa

    features = {name: _feature(column.kind) for name, column in columns.items()}
    metadata = {"huggingface": orjson.dumps({"info": {"features": features}})}
    fields = [(name, _arrow_type(column.kind)) for name, column in columns.items()]
    return pa.schema(fields, metadata=metadata)


def _arrow_type(kind: Kind) -> pa.DataType:
    import pyarrow as pa

    match kind:
        case [inner]:
            return pa.list_(pa.field("element", _arrow_type(inner)))  # As Parquet calls it.
        case dict():
            return pa.struct([(name, _arrow_type(inner)) for name, inner in kind.items()])
        case "image":
            return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.type_for_alias(kind)


def _feature(kind: Kind) -> Any:
    """Return a type in the notation of `datasets` that old and new versions read."""
    match kind:
        case [dict(inner)]:  # As a Sequence, it would be read as a record of lists.
            return [_feature(inner)]
        case [inner]:
            return {"feature": _feature(inner), "_type": "Sequence"}
        case dict():
            return {name: _feature(inner) for name, inner in kind.items()}
        case "image":
            return {"_type": "Image"}
    return {"dtype": kind, "_type": "Value"}


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


# The dataset card: README.md with the metadata for the Hub and `datasets`.

_SIZES = (
    (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)  # fmt: skip


def front_matter(
    title: str,
    license_id: str,
    tag: str,
    rows: int,
    files: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Return the lines of a card's metadata.

    Args:
        title: The dataset's title.
        license_id: The licence's identifier on the Hub.
        tag: A tag for the contents.
        rows: The number of rows.
        files: The file name pattern by config and split. The first of several configs is the
            default.
    """
    size = next((name for limit, name in _SIZES if rows < limit), "n>10M")
    lines = ["---", f"pretty_name: {_quote(title)}", f"license: {license_id}", "tags:"]
    lines += [f"- {name}" for name in ("web-agents", tag, "webtraj")]
    lines += ["size_categories:", f"- {size}", "configs:"]
    for i, (config, splits) in enumerate(files.items()):
        lines += [f"- config_name: {config}"]
        lines += ["  default: true"] if i == 0 and len(files) > 1 else []
        lines += ["  data_files:"]
        for split, path in splits.items():
            lines += [f"  - split: {split}", f"    path: {_quote(path)}"]
    return [*lines, "---"]


def card(
    title: str,
    license_id: str,
    configs: Mapping[str, Mapping[str, Column]],
    counts: Mapping[str, Mapping[str, int]],
    report: ExportReport,
) -> str:
    """Return the text of the card.

    Args:
        title: The dataset's title.
        license_id: The licence's identifier on the Hub.
        configs: The columns of each table.
        counts: The rows of each table, by split.
        report: What was exported.
    """
    files = {
        config: {split: f"{config}/{split}-*.parquet" for split in splits}
        for config, splits in counts.items()
    }
    lines = front_matter(title, license_id, "trajectories", sum(counts["steps"].values()), files)
    lines += ["", f"# {one_line(title)}", "", *_about(counts, report)]
    for config, columns in configs.items():
        lines += ["", f"## `{config}`", "", "| column | type | what it is |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {_name_type(c.kind)} | {c.meaning} |" for name, c in columns.items()
        ]
    lines += ["", "## How it was made", "", *_describe_origin(report)]
    return "\n".join(lines) + "\n"


def _about(counts: Mapping[str, Mapping[str, int]], report: ExportReport) -> list[str]:
    ends = Counter(item.end_reason.name.lower() for item in report.written)
    outcomes = Counter(item.outcome.name.lower() for item in report.written)
    steps = sum(counts["steps"].values())
    return [
        f"Recorded episodes of web agents: {len(report.written)} episodes, {steps} steps.",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'steps = load_dataset("<this dataset>", "steps")',
        'trajectories = load_dataset("<this dataset>", "trajectories")',
        "```",
        "",
        "| split | episodes | steps |",
        "|---|---|---|",
        *(
            f"| {split} | {rows} | {counts['steps'][split]} |"
            for split, rows in counts["trajectories"].items()
        ),
        "",
        f"Ends: {_format_counts(ends)}. Outcomes: {_format_counts(outcomes)}.",
        "",
        "A step's action is the one that led to its observation. Episodes that are not `finished`",
        "stopped in the middle; an outcome other than `success` and `failure` says nothing of the",
        "agent.",
    ]


def _describe_origin(report: ExportReport) -> list[str]:
    lines = [
        f"Exported by webtraj {webtraj.__version__} (`webtraj export --format huggingface`).",
        f"`{MANIFEST}` names every episode and the options.",
    ]
    if report.left_out:
        lines += ["", f"{len(report.left_out)} episodes were left out:", ""]
        whys = Counter(item.why for item in report.left_out)
        lines += [f"- {one_line(why)} ({count})" for why, count in sorted(whys.items())]
    if report.notes:
        lines += ["", "Values that are not as they were recorded:", ""]
        notes = Counter((note.field, note.why) for note in report.notes)
        lines += [
            f"- `{one_line(field)}` of {count} episodes {one_line(why)}."
            for (field, why), count in sorted(notes.items())
        ]
    return lines


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _quote(text: str) -> str:
    """Return a text quoted for YAML, as JSON."""
    return orjson.dumps(unicode_text(text)).decode()


def _name_type(kind: Kind) -> str:
    """Return a type in the card's notation.

    >>> _name_type([{"role": "string", "content": ["int64"]}])
    '[{role: string, content: [int64]}]'
    """
    return str(kind).replace("'", "")


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(unicode_text(text).split())


CONFIGS = {"steps": STEPS, "trajectories": TRAJECTORIES}
_SPLIT_NAME = re.compile(r"\w+(\.\w+)*")  # The rule of `datasets`.
_LICENSE = re.compile(r"[a-z0-9.-]{1,64}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class HuggingFaceExporter:
    """Writes Parquet files and a card."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    splits: str = ""
    """Shares or conditions by name, separated by `;`: `train=0.9;test=0.1`. Default: all episodes
    in `train`. Episodes that match no split are left out."""
    together: str = "episode"
    """For shares: what stays in one split: episode, task, site or group."""
    seed: int = 0
    """For shares: another seed gives another split."""
    license: str = "unknown"
    """The licence's identifier on the Hub: `mit`, `cc-by-4.0`, ..."""
    title: str = ""
    """The card's title. Default: the folder's name."""
    shard_mb: Annotated[int, pydantic.Field(ge=1, le=480)] = 400
    """The approximate size of a file, in megabytes."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        if not _LICENSE.fullmatch(self.license):
            raise errors.InvalidInputError(
                f"The licence {self.license!r:.80} is not a valid identifier; expected one of the "
                "Hub's, such as mit, apache-2.0 or cc-by-4.0."
            )
        split_of, names = self._assign_splits(job)
        with contextlib.ExitStack() as stack:
            writers = {
                (config, name): stack.enter_context(
                    ShardWriter(job.folder / config, name, columns, self.shard_mb << 20)
                )
                for config, columns in CONFIGS.items()
                for name in names
            }
            for episode in job.episodes:
                split = split_of.get(episode.episode_id)
                if split is None:
                    job.ledger.leave_out(episode.episode_id, "it belongs to none of the splits")
                    continue
                rows = RowWriter(episode, job.ledger)
                for row in rows.steps():
                    writers["steps", split].add(row)
                writers["trajectories", split].add(rows.trajectory())
                job.ledger.wrote(episode)
        counts: dict[str, dict[str, int]] = {config: {} for config in CONFIGS}
        for (config, split), writer in writers.items():
            writer.check()
            counts[config][split] = writer.num_rows
        readme = card(
            self.title or job.name, self.license, CONFIGS, counts, job.ledger.report("huggingface")
        )
        (job.folder / "README.md").write_text(readme, encoding="utf-8")

    def _assign_splits(self, job: base.Job) -> tuple[Mapping[str, str], list[str]]:
        """Return the split of each episode, and the names of all splits."""
        summaries = job.episodes.summaries
        if not self.splits:
            return dict.fromkeys(summaries, "train"), ["train"]
        parts: dict[str, float | str] = {}
        for item in self.splits.split(";"):
            name, found, what = (part.strip() for part in item.partition("="))
            if not found or name in parts or not _SPLIT_NAME.fullmatch(name):
                raise errors.InvalidInputError(
                    f"The split {item!r:.100} is invalid or given twice; expected name=share or "
                    "name=condition, such as train=0.9;test=0.1."
                )
            parts[name] = _share(what)
        assigned = partition.assign(
            summaries.values(),
            parts,
            together=self.together,  # type: ignore[arg-type]  # `assign` checks it.
            seed=self.seed,
        )
        return {i: name for name, ids in assigned.items() for i in ids}, list(parts)


def _share(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
