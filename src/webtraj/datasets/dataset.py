"""Datasets: the sealed episodes of a folder or bucket, readable while collectors still write.

Opening a dataset reads only its index; in a bucket, many index files at once. In a folder it also
lists the episode files, so an episode whose index line is missing (its writer died, or is about to
write the line) is still found. Listing a bucket takes a second per few thousand files, so there
such episodes are found only with `complete=True`, or if there is no index at all. `webtraj
recover` writes the missing lines.
"""

from __future__ import annotations

import ast
import enum
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import (
    DatasetPlace,
    Place,
    index_names,
    map_in_order,
    open_place,
)
from webtraj.datasets.progress import count_items
from webtraj.shown import as_html
from webtraj.store import encoding, records
from webtraj.store.blobs import BlobSink, BlobSource, LazyBlobs
from webtraj.store.decoding import Budget
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary, merge, parse_index_file, summarize
from webtraj.store.journal import warn
from webtraj.store.layout import (
    INDEX,
    SCHEMA_VERSION,
    check_episode_id,
    episode_key,
    is_episode_id,
)
from webtraj.store.storage import FolderStorage, Storage
from webtraj.store.tries import find_superseded

__all__ = [
    "Blobs",
    "Dataset",
    "IndexTail",
    "decode_episode",
    "encode_episode",
    "open_dataset",
    "parse_condition",
    "summarize_file",
    "add_unindexed",
]

# Conditions on episodes, as users write them. They are parsed, never run as code.
#
# A condition is an expression over the fields of `webtraj.store.index.EpisodeSummary`::
#
#     outcome == 'success' and num_steps <= 10
#     task in ('miniwob/click-test', 'miniwob/choose-list') or site != ''
#     'login' in goal and not (total_reward < 0.5)
#
# It supports comparisons, `in`, `and`, `or`, `not`, parentheses, strings, numbers, `None`, `True`
# and `False`. Outcomes and end reasons are written as their names in lower case. A field that is
# None, such as the reward of an episode that was not scored, is neither above nor below a number.

_LONGEST = 2000
_FIELDS = EpisodeSummary.__struct_fields__
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_Value = Callable[[EpisodeSummary], Any]
_NAMED: dict[str, tuple[str, ...]] = {
    "outcome": tuple(name.lower() for name in trajectory_lib.Outcome.__members__),
    "end_reason": tuple(name.lower() for name in trajectory_lib.EndReason.__members__),
}


def parse_condition(text: str) -> Callable[[EpisodeSummary], bool]:
    """Return a predicate that tests whether an episode meets a condition.

    >>> met = parse_condition("num_steps > 3 and task == 'a'")
    >>> met(EpisodeSummary(episode_id="e1", task="a", num_steps=4))
    True

    Raises:
        InvalidInputError: `text` is not a condition, or compares values that cannot be compared.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST} characters")
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else error
        raise errors.InvalidInputError(
            f"Invalid condition {text!r:.200}: {why}. Expected comparisons such as "
            f"outcome == 'success' and num_steps <= 10, joined by and, or, not. The fields: "
            f"{', '.join(_FIELDS)}."
        ) from error

    def meets(summary: EpisodeSummary) -> bool:
        try:
            return bool(value(summary))
        except (TypeError, RecursionError) as error:
            raise errors.InvalidInputError(
                f"The condition {text!r:.200} cannot be evaluated for episode "
                f"{summary.episode_id!r}: {error}."
            ) from error

    return meets


def _value(node: ast.expr) -> _Value:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [_value(value) for value in values]
            return lambda summary: all(part(summary) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=values):
            parts = [_value(value) for value in values]
            return lambda summary: any(part(summary) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _value(operand)
            return lambda summary: not inner(summary)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return lambda summary: -number
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            _check_comparison([left, *comparators], ops)
            return _comparison([left, *comparators], ops)
        case ast.Name(id=name) if name in _FIELDS:
            return lambda summary: _plain(getattr(summary, name))
        case ast.Name(id=name):
            raise ValueError(f"there is no field {name!r}")
        case ast.Constant(value=str() | int() | float() | None as constant):
            return lambda summary: constant
        case ast.Tuple(elts=items) | ast.List(elts=items):
            parts = [_value(item) for item in items]
            return lambda summary: tuple(part(summary) for part in parts)
    raise ValueError(f"a {type(node).__name__} is not allowed")


def _check_comparison(operands: list[ast.expr], ops: list[ast.cmpop]) -> None:
    """Refuse comparisons that never hold: by identity, or with an unknown name."""
    is_none = isinstance(operands[-1], ast.Constant) and operands[-1].value is None
    if isinstance(ops[0], (ast.Is, ast.IsNot)) and not (len(ops) == 1 and is_none):
        raise ValueError("`is` compares with None alone; write == or !=")
    fields = [node.id for node in operands if isinstance(node, ast.Name) and node.id in _NAMED]
    is_part = isinstance(operands[-1], ast.Name) and isinstance(ops[-1], (ast.In, ast.NotIn))
    if not fields or is_part:  # Such as 'error' in outcome.
        return
    known = _NAMED[fields[0]]
    for operand in operands:
        for node in operand.elts if isinstance(operand, (ast.Tuple, ast.List)) else [operand]:
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and value not in known:
                raise ValueError(f"there is no {fields[0]} {value!r:.60}, only {', '.join(known)}")


def _comparison(operands: list[ast.expr], ops: list[ast.cmpop]) -> _Value:
    ordered = all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in ops)
    values = [
        _number(one) if ordered and isinstance(one, ast.Name) else _value(one) for one in operands
    ]
    compare = [_COMPARISONS[type(op)] for op in ops]

    def holds_between(summary: EpisodeSummary) -> bool:
        found = [value(summary) for value in values]
        pairs = zip(compare, found, found[1:], strict=False)
        return all(holds(one, other) for holds, one, other in pairs)

    return holds_between


def _number(field: ast.Name) -> _Value:
    value = _value(field)
    return lambda summary: _or_nan(value(summary))


def _or_nan(value: Any) -> Any:
    return math.nan if value is None else value


def _plain(value: Any) -> Any:
    return value.name.lower() if isinstance(value, enum.Enum) else value


# Decode one sealed episode, and encode a trajectory as an episode's data.


def decode_episode(
    episode: dict[str, Any], blobs: BlobSource | None, *, where: str = "", size: int = 0
) -> trajectory_lib.EpisodeTrajectory:
    """Return the trajectory encoded in an episode's data.

    Args:
        episode: The episode's data.
        blobs: Source of the blobs that it refers to.
        where: Name of its file in error messages.
        size: Bytes of its file; the decoding memory limit is proportional to it.

    Raises:
        CorruptDataError: The data does not follow the format, needs too much memory, or refers to
            a missing blob.
    """
    budget = Budget(where or "A stored episode", size)
    found = records.decode_record(trajectory_lib.EpisodeTrajectory, episode, blobs, budget)
    if not is_episode_id(found.episode_id):  # The id becomes a file name.
        raise errors.CorruptDataError(
            f"{budget.where!r} holds an episode with the id {found.episode_id!r:.200}, which "
            "cannot be a file name."
        )
    return found


def encode_episode(trajectory: trajectory_lib.EpisodeTrajectory, blobs: BlobSink) -> dict[str, Any]:
    """Return the data of a trajectory, as a collector would have written it.

    Raises:
        InvalidInputError: The trajectory has no end, or a field that is not a record where one is
            needed.
        InvalidEpisodeIdError: Its id cannot name a file.
    """

    def data_of(name: str, value: Any, cls: type = object) -> Any:
        if not isinstance(value, cls):
            raise encoding.wrong(name, value, f"one of webtraj's {cls.__name__}")
        content, kept_as_repr = encoding.dumps_fields({name: value}, blobs)
        warn(kept_as_repr)
        return orjson.loads(content)[name]

    info = data_of("info", trajectory.info, trajectory_lib.EpisodeInfo)
    check_episode_id(trajectory.episode_id)
    if trajectory.end is None:
        raise errors.InvalidInputError(
            f"The episode {trajectory.episode_id!r} has no end. Give it an EpisodeEnd that says "
            "how it ended."
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "info": info,
        "start_time": data_of("start_time", trajectory.start_time),
        "end_time": data_of("end_time", trajectory.end_time),
        "steps": [
            data_of(f"steps[{i}]", step, trajectory_lib.StepRecord)
            for i, step in enumerate(trajectory.steps)
        ],
        "end": data_of("end", trajectory.end, trajectory_lib.EpisodeEnd),
    }


def summarize_file(place: DatasetPlace, episode_id: str, format_name: str) -> EpisodeSummary:
    """Return an episode's summary, computed from its file.

    Raises:
        CorruptDataError: The file is missing, is not an episode, or its id differs from its name.
        UnsupportedSchemaError: A newer webtraj wrote it.
        StorageError: It cannot be read.
    """
    content = place.read_episode(episode_id, format_name)
    where = episode_key(episode_id, format_name)
    stored = format_named(format_name).decode(content, where)
    blobs = stored.blobs or place.blobs_of(episode_id)
    summary = summarize(stored.data, content, blobs, format_name)
    if summary.episode_id != episode_id:
        raise errors.CorruptDataError(
            f"{where!r} holds the episode {summary.episode_id!r}: the file was copied or renamed."
        )
    return summary


# Following a dataset's index: each line is read once, and nothing is locked.
#
# Index files are append-only, and a bucket only ever gains new ones, so nothing is read twice. If
# files disappear (a rebuild), everything is read again.
# A reader must not disturb a writer: locking a file, even for a moment, would make it look as if
# a writer had it open.

_WORKERS = 16


class IndexTail:
    """Reads the new lines of an index. Not safe to share between threads.

    Args:
        storage: The dataset's storage.
        about: Text that a line must contain to be parsed, such as a run id. Default: every line.
    """

    def __init__(self, storage: Storage, about: str = "") -> None:
        self._storage = storage
        self._marker = about.encode()
        self._read: dict[str, int] = {}
        self._begun = False

    def read(self) -> tuple[bool, list[EpisodeSummary]]:
        """Return whether the reading started over, and the summaries since the last call.

        If it started over (the first call, or after a rebuild), these are all summaries.

        Raises:
            StorageError: The index cannot be read.
            UnsupportedSchemaError: A newer webtraj wrote it.
        """
        for _ in range(3):
            before, begun = dict(self._read), self._begun
            self._begun = False  # True again once everything is read; after an error, start over.
            self._read = before if begun else {}
            try:
                contents = dict(self._new())
            except (FileNotFoundError, errors.StorageMissingError):  # A rebuild removed it.
                continue
            if begun and any(self._read.get(name, -1) < size for name, size in before.items()):
                continue
            found = {name: parse_index_file(content) for name, content in contents.items()}
            self._begun = True
            return not begun, list(merge(found).values())
        return False, []  # It changes faster than it can be read; the next call catches up.

    def forget(self) -> None:
        """Make the next call start over."""
        self._begun = False

    def files(self) -> list[Path]:
        """Return the paths of the index files; empty for a bucket."""
        if not isinstance(self._storage, FolderStorage):
            return []
        return [self._storage.root / INDEX / name for name in index_names(self._storage)]

    def _new(self) -> Iterator[tuple[str, bytes]]:
        """Yield the new whole lines of each file."""
        names = index_names(self._storage)
        self._read = {name: self._read[name] for name in names if name in self._read}
        known = dict(self._read)
        contents = map_in_order(
            lambda name: self._storage.read_appended(INDEX + name, known.get(name, 0)),
            names,
            workers=_WORKERS if self._storage.is_remote else 1,
        )
        for name, content in zip(names, contents, strict=True):
            if content is None:  # The file was replaced.
                self._read[name] = -1
                return
            self._read[name] = known.get(name, 0) + len(content)
            if content:
                yield name, self._mine(content)

    def _mine(self, content: bytes) -> bytes:
        """Return the lines that may match `about`. Only these are parsed."""
        if not self._marker:
            return content
        return b"".join(line for line in content.splitlines(keepends=True) if self._marker in line)


Blobs = Literal["eager", "lazy"]
_ID = operator.attrgetter("episode_id")
_Enum = TypeVar("_Enum", trajectory_lib.EndReason, trajectory_lib.Outcome)
_EPISODES_AHEAD = 4


def open_dataset(
    place: Place,
    *,
    blobs: Blobs = "eager",
    storage_options: Mapping[str, Any] | None = None,
    blob_cache: Place | None = None,
    complete: bool = False,
) -> Dataset:
    """Open a dataset, also while a collector is writing it.

    Args:
        place: The dataset's folder or URL: `s3://bucket/prefix`, `gs://`, `az://`, ...
        blobs: The form of long bytes and texts. "eager": the recorded values. "lazy":
            `webtraj.store.blobs.LazyBlob` objects, which read the value on demand.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        blob_cache: Bucket only: a folder that caches blobs for other processes and later runs.
        complete: Bucket only: also look for episodes that the index lacks.

    Raises:
        NotADatasetError: There is no dataset at `place`.
        UnsupportedSchemaError: A newer webtraj wrote it.
        InvalidInputError: `blobs` is invalid, or `place` is a URL of an unknown kind.
        StorageError: The bucket cannot be read.
    """
    if blobs not in ("eager", "lazy"):
        raise errors.InvalidInputError(f"Unknown blobs={blobs!r}; expected 'eager' or 'lazy'.")
    opened = open_place(place, storage_options, blob_cache=blob_cache)
    return Dataset(opened, (), blobs).refresh(complete=complete)


class Dataset:
    """A sequence of sealed episodes, ordered by start time.

    `len(dataset)`, `dataset[0]`, `dataset[-1]`, `dataset["<episode id>"]` and iteration load one
    episode at a time; iterating over a bucket reads the next few ahead. `summaries` and `filter`
    read no episodes. Episodes sealed after opening appear after `refresh`.
    """

    def __init__(
        self,
        place: DatasetPlace,
        summaries: Iterable[EpisodeSummary],
        blobs: Blobs,
        judgements: Judgements | None = None,
        superseded: frozenset[str] | None = None,
    ) -> None:
        self._place = place
        self._blobs: Blobs = blobs
        self._summaries = tuple(summaries)
        self._judgements = judgements
        self._superseded = superseded

    @functools.cached_property
    def _by_id(self) -> dict[str, EpisodeSummary]:
        return dict(zip(map(_ID, self._summaries), self._summaries, strict=True))

    @property
    def path(self) -> Path:
        """The dataset's folder.

        Raises:
            InvalidInputError: The dataset is in a bucket; use `url`.
        """
        if self._place.layout is None:
            raise errors.InvalidInputError(
                f"The dataset {self.url!r} is in a bucket and has no path. Use its `url` instead."
            )
        return self._place.layout.root

    @property
    def url(self) -> str:
        """The dataset's folder path, or its URL without credentials."""
        return self._place.url

    @property
    def place(self) -> DatasetPlace:
        """The dataset's location."""
        return self._place

    @property
    def summaries(self) -> Sequence[EpisodeSummary]:
        """The summaries of the episodes, in the dataset's order."""
        return self._summaries

    @property
    def judgements(self) -> Judgements:
        """The judgements beside the episodes, as of when the dataset was opened or refreshed."""
        if self._judgements is None:
            self._judgements = _read_judgements(self._place)
        return self._judgements

    @property
    def superseded(self) -> frozenset[str]:
        """The ids of superseded episodes: another try of the same row counts instead.

        For a part of a dataset, these are the ids of the whole. See `webtraj.store.tries`.
        """
        if self._superseded is None:
            self._superseded = find_superseded(self._summaries)
        return self._superseded

    @property
    def episode_ids(self) -> Sequence[str]:
        """The ids of the episodes, in the dataset's order."""
        return tuple(self._by_id)

    @property
    def open_episodes(self) -> Sequence[str]:
        """The ids of episodes that are being recorded or wait for recovery.

        Always empty for a bucket: open episodes are in the collectors' spools.
        """
        return tuple(sorted(self._place.open_episodes() - self._by_id.keys()))

    def __len__(self) -> int:
        return len(self._summaries)

    def __contains__(self, episode_id: object) -> bool:
        return episode_id in self._by_id

    def __iter__(self) -> Iterator[trajectory_lib.EpisodeTrajectory]:
        return self._place.map(self._load, self._by_id, workers=_EPISODES_AHEAD)

    @overload
    def __getitem__(self, key: int | str) -> trajectory_lib.EpisodeTrajectory: ...
    @overload
    def __getitem__(self, key: slice) -> Dataset: ...

    def __getitem__(self, key: int | str | slice) -> trajectory_lib.EpisodeTrajectory | Dataset:
        """Return an episode by position or id, or a dataset for a slice.

        Raises:
            UnknownEpisodeError: There is no episode with that id.
            IndexError: There is no episode at that position.
            CorruptDataError: The episode or one of its blobs is missing, damaged, or differs from
                the index.
            StorageError: The bucket cannot be read.
        """
        if isinstance(key, slice):
            return self._part(self._summaries[key], self._blobs, self._judgements)
        if isinstance(key, str):
            if key not in self._by_id:
                raise errors.UnknownEpisodeError(
                    f"No sealed episode {key!r} in {self.url!r} (it has {len(self)})."
                )
            return self._load(key)
        return self._load(self._summaries[key].episode_id)

    @property
    def counting(self) -> Dataset:
        """The episodes that no other try of their row supersedes."""
        gone = self.superseded
        return self.filter(lambda one: one.episode_id not in gone) if gone else self

    def filter(
        self,
        predicate: Callable[[EpisodeSummary], bool] | None = None,
        *,
        task: str | None = None,
        site: str | None = None,
        policy: str | None = None,
        outcome: trajectory_lib.Outcome | str | None = None,
        end_reason: trajectory_lib.EndReason | str | None = None,
        min_reward: float | None = None,
        max_reward: float | None = None,
    ) -> Dataset:
        """Return a dataset of the episodes that meet all conditions. Reads no episodes.

        Args:
            predicate: Any condition on a summary.
            task: The task's exact name.
            site: The site's exact name.
            policy: The policy's exact name.
            outcome: An `Outcome` or its name, in upper or lower case.
            end_reason: An `EndReason` or its name, in upper or lower case.
            min_reward: The lowest total reward.
            max_reward: The highest total reward.

        Raises:
            InvalidInputError: There is no outcome or end reason of that name.
        """
        wanted_outcome = _member(trajectory_lib.Outcome, outcome)
        wanted_reason = _member(trajectory_lib.EndReason, end_reason)

        def meets(summary: EpisodeSummary) -> bool:
            return (
                (task is None or summary.task == task)
                and (site is None or summary.site == site)
                and (policy is None or summary.policy == policy)
                and (wanted_outcome is None or summary.outcome == wanted_outcome)
                and (wanted_reason is None or summary.end_reason == wanted_reason)
                and (min_reward is None or _or_nan(summary.total_reward) >= min_reward)
                and (max_reward is None or _or_nan(summary.total_reward) <= max_reward)
                and (predicate is None or predicate(summary))
            )

        kept = filter(meets, self._summaries)
        return self._part(kept, self._blobs, self._judgements)

    def of(self, summaries: Sequence[EpisodeSummary], *, blobs: Blobs | None = None) -> Dataset:
        """Return a dataset of some of these episodes.

        Args:
            summaries: Their summaries, in the order wanted.
            blobs: As for `open_dataset`. Default: as in this dataset.
        """
        judgements = self.judgements.part(summary.episode_id for summary in summaries)
        return self._part(summaries, blobs or self._blobs, judgements)

    def as_recorded(self) -> Dataset:
        """Return the dataset without the judgements beside its episodes.

        Raises:
            StorageError: The index cannot be read.
        """
        if not self.judgements.episode_ids:
            return self
        none = Judgements(self._place)
        known = {one.episode_id: one for one in none.summarize(_read_summaries(self._place))}
        recorded = (known.get(summary.episode_id, summary) for summary in self._summaries)
        return self._part(recorded, self._blobs, none)

    def refresh(self, *, complete: bool = False) -> Dataset:
        """Return the whole dataset as it is now, without filters.

        Args:
            complete: Bucket only: also look for episodes that the index lacks.

        Raises:
            StorageError: The bucket cannot be read.
        """
        judgements = _read_judgements(self._place)
        recorded = _read_summaries(self._place, complete=complete)
        return Dataset(self._place, judgements.summarize(recorded), self._blobs, judgements)

    def to_parquet(self, target: Place, *, storage_options: Mapping[str, Any] | None = None) -> int:
        """Write `summaries` as a Parquet file, one row per episode, and return the row count.

        Args:
            target: The file's path or URL.
            storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

        Raises:
            MissingDependencyError: pyarrow is not installed.
            StorageError: The file cannot be written.
        """
        from webtraj.datasets.parquet import write_parquet

        return write_parquet(
            self._summaries, target, superseded=self.superseded, storage_options=storage_options
        )

    def episode_rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row of plain values for each episode; see `webtraj.datasets.tables`."""
        from webtraj.datasets import tables

        return (tables.episode_row(summary, self.superseded) for summary in self._summaries)

    def to_pandas(self, rows: Literal["episodes", "steps"] = "episodes") -> Any:
        """Return a pandas DataFrame with a row for each episode, or for each step.

        Args:
            rows: "episodes" reads the index alone, and has the fields of its summaries as columns;
                "steps" reads every episode, and has the columns of
                `webtraj.datasets.tables.STEP_COLUMNS`.

        Raises:
            MissingDependencyError: pandas is not installed.
            InvalidInputError: `rows` is neither.
            CorruptDataError: An episode is damaged; only with "steps".
            StorageError: The bucket cannot be read.
        """
        from webtraj.datasets import tables

        if rows == "episodes":
            return tables.to_frame(self.episode_rows(), list(tables.episode_columns()))
        if rows == "steps":
            whole = self.of(self._summaries, blobs="eager")
            return tables.to_frame(tables.step_rows(whole), tables.STEP_COLUMNS)
        raise errors.InvalidInputError(f"rows={rows!r:.60}: expected 'episodes' or 'steps'.")

    def _part(
        self,
        summaries: Iterable[EpisodeSummary],
        blobs: Blobs,
        judgements: Judgements | None,
    ) -> Dataset:
        return Dataset(self._place, summaries, blobs, judgements, self.superseded)

    def __repr__(self) -> str:
        return f"<Dataset {self.url!r:.300}: {len(self)} episodes>"

    def _repr_html_(self) -> str:
        rows = [
            (
                summary.episode_id,
                (summary.task or summary.goal)[:100],
                summary.policy[:100],
                summary.num_steps,
                "" if summary.total_reward is None else f"{summary.total_reward:g}",
                summary.outcome,
            )
            for summary in self._summaries[:50]
        ]
        columns = ("episode", "task", "policy", "steps", "reward", "outcome")
        return as_html(repr(self), columns, rows, total=len(self))

    def _load(self, episode_id: str) -> trajectory_lib.EpisodeTrajectory:
        summary = self._by_id[episode_id]
        format_name = summary.format
        content = self._place.read_episode(episode_id, format_name, sha256=summary.sha256)
        where = f"{self.url}: {episode_id}"
        stored = format_named(format_name).decode(content, where)
        beside = self._place.blobs_of(episode_id)
        source: BlobSource = stored.blobs or beside
        source = LazyBlobs(source) if self._blobs == "lazy" else source.read_ahead(stored.data)
        found = decode_episode(stored.data, source, where=where, size=len(content))
        if found.episode_id != episode_id:
            raise errors.CorruptDataError(
                f"{where!r} holds the episode {found.episode_id!r}: the file was copied or renamed."
            )
        if found.end is None:
            raise errors.CorruptDataError(f"{where!r} holds an episode without an end.")
        blobs = LazyBlobs(self._place.blobs) if self._blobs == "lazy" else self._place.blobs
        return self.judgements.apply(found, blobs=blobs)


def _read_judgements(place: DatasetPlace) -> Judgements:
    judgements = Judgements(place)
    judgements.refresh()
    return judgements


def _read_summaries(place: DatasetPlace, *, complete: bool = False) -> list[EpisodeSummary]:
    """Return the summaries of all sealed episodes, ordered by start time."""
    return add_unindexed(place, merge(place.read_index()), complete=complete)


def add_unindexed(
    place: DatasetPlace, indexed: Mapping[str, EpisodeSummary], *, complete: bool = False
) -> list[EpisodeSummary]:
    """Return the indexed summaries and those of unindexed files, ordered by start time.

    Args:
        place: The dataset.
        indexed: The summaries in its index, by episode id.
        complete: Also look for unindexed files in a bucket that has an index.

    Raises:
        StorageError: The files cannot be listed or read.
    """
    summaries = list(indexed.values())
    if complete or not place.is_remote or not indexed:
        stored = place.sealed_episodes(f"{one.episode_id}.{one.format}" for one in summaries)
        lost = [episode_id for episode_id in stored if episode_id not in indexed]
        if lost:
            find = functools.partial(_summarize, place, stored)
            found = map_in_order(find, lost, workers=_WORKERS)
            summaries += count_items(
                found, "Reading episodes", len(lost), size=lambda one: one.size
            )
    summaries.sort(key=_ID)
    summaries.sort(key=lambda summary: summary.start_time or 0)
    return summaries


def _summarize(place: DatasetPlace, stored: Mapping[str, str], episode_id: str) -> EpisodeSummary:
    format_name = stored[episode_id]
    try:
        return summarize_file(place, episode_id, format_name)
    except errors.DatasetError:  # `verify` reports it.
        size = place.storage.size(episode_key(episode_id, format_name)) or 0
        return EpisodeSummary(episode_id=episode_id, format=format_name, size=size)


def _member(enum_class: type[_Enum], name: _Enum | str | None) -> _Enum | None:
    if name is None or isinstance(name, enum_class):
        return name
    member = enum_class.__members__.get(str(name).upper())
    if member is None:
        from webtraj.settings.named import nearest

        known = [member.lower() for member in enum_class.__members__]
        what = (
            "end reason" if enum_class is trajectory_lib.EndReason else enum_class.__name__.lower()
        )
        raise errors.InvalidInputError(
            f"No {what} {name!r}. {nearest(str(name), known)}Expected one of {', '.join(known)}."
        )
    return member
