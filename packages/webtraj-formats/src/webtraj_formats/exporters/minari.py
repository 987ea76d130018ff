"""A Minari dataset, for `minari.load_dataset`.

::

    <out>/data/metadata.json      Minari's metadata, including the spaces
    <out>/data/main_data.hdf5     the episodes

`out` is the dataset's own folder: `MINARI_DATASETS_PATH=runs` and `out="runs/click-v0"` give the
dataset `click-v0`. In Minari an episode has one observation more than actions; episodes without
actions, or with steps that could not be recorded, are left out. A termination stays a termination.
A truncation, or anything else that stopped the episode midway, becomes a truncation, and the
episode's metadata say which of both (`end_reason`, `outcome`).

The spaces are made to fit the data. Infos hold, for each observation, the `discount`, the times,
and `agent/...` of the action that led to it; texts in infos come back as bytes. Needs the extra
`minari`.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.plain import (
    action_text,
    answer,
    is_blank,
    is_unicode,
    to_json,
    unicode_text,
)
from webtraj.environments.actions import Action
from webtraj.trajectory import EpisodeTrajectory, StepRecord, reward_value

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["MinariExporter"]

# From nested values to columns of one type each.
#
# Nested mappings become columns named by paths: `observation/last_action/box`. A first pass over
# all values (`_Seen`) determines each column's kind:
#
# * `number`: numbers and arrays, of one dtype, and one shape or number of dimensions.
# * `text`: strings; actions as webtraj's action text.
# * `bytes`: encoded pictures and other bytes.
# * `json`: everything else, including values of mixed kinds, as JSON text (see `plain`).
#
# Numbers of several dtypes are stored in one that holds all of them exactly, or else as JSON. Empty
# mappings are lost. In names, `/`, `:`, `%` and the dots of all-dot names are escaped, as `%2F`.

_Kind = Literal["number", "text", "bytes", "json"]
_EXACT = 2**53
"""Up to here, float64 holds every integer exactly."""


def _flatten(value: Any, path: str) -> dict[str, Any]:
    """Return the leaves of a nested value by path, without None.

    >>> _flatten({"a": {"b": 1, "c": None}, "d/e": 2}, "observation")
    {'observation/a/b': 1, 'observation/d%2Fe': 2}
    """
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        leaves: dict[str, Any] = {}
        for key, item in value.items():
            leaves |= _flatten(item, f"{path}/{_escape(key)}")
        return leaves
    return {} if value is None else {path: value}


class _Seen:
    """The values seen in one column, summarized."""

    def __init__(self, pixels: bool) -> None:
        self._pixels = pixels
        self._pictures: set[Any] = set()
        self._count = 0
        self._kinds: set[_Kind] = set()
        self._dtypes: set[np.dtype[Any]] = set()
        self._shapes: set[tuple[int, ...]] = set()
        self._largest = 0
        self._bounds: tuple[int, int] | None = None

    def see(self, leaf: Any) -> None:
        self._count += 1
        kind = _kind(leaf)
        self._kinds.add(kind)
        if kind == "number":
            self._see_number(np.asarray(leaf), neutral=type(leaf) in (list, tuple) and not leaf)
        elif kind == "bytes" and self._pixels:
            self._pictures.add(_picture_kind(bytes(leaf)))

    def leaf(self, rows: int, *, is_action: bool) -> _Leaf:
        """Return the column that fits the values, at most one per row."""
        optional = self._count < rows
        kind: _Kind = next(iter(self._kinds)) if len(self._kinds) == 1 else "json"
        if kind == "bytes" and (pixels := self._picture_shape()) is not None:
            # Some values may be empty, as for a step without a screenshot.
            return _Pixels(optional or () in self._pictures, pixels)
        dtype = self._dtype() if kind == "number" else None
        if dtype is not None and self._has_one_shape():
            (shape,) = self._shapes
            if is_action and not optional and shape == () and dtype == np.int64 and self._bounds:
                low, high = min(0, self._bounds[0]), self._bounds[1]
                if high - low < 2**31:
                    return _Choice(optional, shape, dtype, low, high)
            return _Numbers(optional, shape, dtype)
        return _Texts(optional, kind, damaged=_DAMAGED in self._pictures)

    def _see_number(self, array: NDArray[Any], *, neutral: bool) -> None:
        # A few shapes are enough to show that they differ.
        if len(self._shapes) < 64:
            self._shapes.add(array.shape)
        if neutral:
            return
        self._dtypes.add(array.dtype.newbyteorder("="))
        if array.dtype.kind in "iu" and array.size:
            low, high = int(array.min()), int(array.max())
            self._largest = max(self._largest, abs(low), abs(high))
            if array.shape == ():
                old = self._bounds or (low, high)
                self._bounds = min(low, old[0]), max(high, old[1])

    def _has_one_shape(self) -> bool:
        return len(self._shapes) == 1 and all(0 not in shape for shape in self._shapes)

    def _picture_shape(self) -> tuple[int, ...] | None:
        """Return the pictures' common array shape; None if they have none."""
        kinds = self._pictures - {()}
        if len(kinds) != 1 or kinds & {None, _DAMAGED}:
            return None
        ((mode, (width, height)),) = kinds
        return (height, width) if mode == "L" else (height, width, len(mode))

    def _dtype(self) -> np.dtype[Any] | None:
        """Return the dtype that holds all numbers exactly; None if there is none."""
        if not self._dtypes:
            return np.dtype(np.float64)
        dtype = np.result_type(*self._dtypes)
        kinds = {dtype.kind for dtype in self._dtypes}
        if dtype.kind == "f" and kinds & set("iu") and self._largest > _EXACT:
            return None
        return dtype


def _escape(key: str) -> str:
    for char in "%/:\0":
        key = key.replace(char, f"%{ord(char):02X}")
    key = key.encode("utf-8", "backslashreplace").decode()
    return key.replace(".", "%2E") if not key.strip(".") else key


def _kind(leaf: Any) -> _Kind:
    if isinstance(leaf, (str, Action)):
        return "text"
    if isinstance(leaf, (bytes, bytearray, memoryview)):
        return "bytes"
    if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)) or _is_number_list(leaf):
        array = np.asarray(leaf)
        if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and not _rounds(leaf, array):
            return "number"
    return "json"


def _is_number_list(leaf: Any) -> bool:
    return type(leaf) in (list, tuple) and all(type(item) in (int, float, bool) for item in leaf)


def _rounds(leaf: Any, array: NDArray[Any]) -> bool:
    """Return whether a list of numbers holds integers that an array of floats would round."""
    return (
        type(leaf) in (list, tuple)
        and array.dtype.kind == "f"
        and any(type(item) is int and abs(item) > _EXACT for item in leaf)
    )


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else action_text(value) or ""


# Columns as Gymnasium spaces, and the values that fit them.
#
# * Numbers of one shape: `Box`, unbounded. An action that is one integer: `Discrete`, from the
#   smallest to the largest value seen.
# * Text, and JSON: `Text`, with the characters and the length seen. Arrays of differing shapes are
#   JSON too.
# * Pictures of one size and mode: `Box` of uint8 pixels. Other bytes, and all pictures if one of
#   them cannot be decoded: `Text` of base64.
# * Mappings: `Dict`, nested like the values. If some steps lack a value, they get a dummy, and a
#   bool `Box` named `<name>:present` tells them apart. A key that holds a value in one step and a
#   mapping in another stores the value under `%value` in the mapping.

_Tell = Callable[[str, str], None]
_MODES = ("L", "RGB", "RGBA")
_DAMAGED = "damaged"
_BASE64 = string.ascii_letters + string.digits + "+/="
_NO_NULL = "\N{SYMBOL FOR NULL}"


class _Group:
    """The columns of one group, such as `observation`, combined into one space."""

    def __init__(self, name: str, *, pixels: bool) -> None:
        """Initialize the group; `pixels` allows pictures to become pixel arrays."""
        self._name = name
        self._pixels = pixels
        self._seen: dict[str, _Seen] = {}
        self._rows = 0
        self._leaves: dict[str, _Leaf] = {}

    def see(self, value: Any) -> None:
        """Take in one step's value."""
        self._rows += 1
        for name, leaf in _flatten(value, self._name).items():
            self._seen.setdefault(name, _Seen(self._pixels)).see(leaf)

    def fit(self) -> None:
        """Choose columns that fit the values seen."""
        is_action = self._name == "action"
        self._leaves = {
            name: seen.leaf(self._rows, is_action=is_action)
            for name, seen in sorted(self._seen.items())
        }

    def space(self) -> Any:
        """Return the space of all values so far."""
        from gymnasium import spaces

        made = self._nest(
            lambda name, leaf: leaf.space(), lambda name, leaf: spaces.Box(0, 1, (), bool)
        )
        return _dict_space(made) if isinstance(made, dict) else made

    def values(self, rows: Sequence[Any], tell: _Tell) -> Any:
        """Return the values of all rows, nested like the space; each leaf is a list or an array."""
        flat = [_flatten(row, self._name) for row in rows]

        def values_of(name: str, leaf: _Leaf) -> Any:
            told = functools.partial(tell, name.replace("/", "."))
            return leaf.values([row.get(name) for row in flat], told)

        return self._nest(
            values_of, lambda name, leaf: np.array([leaf.has(row.get(name)) for row in flat])
        )

    def _nest(self, of: Callable[[str, _Leaf], Any], presence: Callable[[str, _Leaf], Any]) -> Any:
        """Return something of each column, nested as the values are."""
        made: dict[str, Any] = {}
        for name, leaf in self._leaves.items():
            path = self._path(name, leaf)
            if not path:
                return of(name, leaf)
            *outer, last = path
            _put(made, path, of(name, leaf))
            if leaf.optional:
                _put(made, (*outer, f"{last}:present"), presence(name, leaf))
        return made

    def _path(self, name: str, leaf: _Leaf) -> tuple[str, ...]:
        """Return a column's keys; empty if it is the whole group, with a value in each step."""
        inner = name[len(self._name) + 1 :]
        if name == self._name and len(self._leaves) == 1:
            return ("%value",) if leaf.optional else ()
        keys = tuple(key or "%" for key in inner.split("/")) if name != self._name else ()
        shared = any(other.startswith(f"{name}/") for other in self._leaves)
        return (*keys, "%value") if shared or not keys else keys


@dataclasses.dataclass
class _Leaf:
    """One column."""

    optional: bool
    """Whether some steps have no value."""

    def has(self, value: Any) -> bool:
        """Return whether a step has a value of its own."""
        return value is not None

    def space(self) -> Any:
        """Return the space."""
        raise NotImplementedError

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        """Return the values in the form that Minari expects."""
        raise NotImplementedError


@dataclasses.dataclass
class _Numbers(_Leaf):
    """Numbers, or arrays of the same shape, in a dtype that holds them all."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def space(self) -> Any:
        from gymnasium import spaces

        if self.dtype.kind == "f":
            return spaces.Box(-np.inf, np.inf, self.shape, self.dtype)
        if self.dtype.kind == "b":
            return spaces.Box(0, 1, self.shape, self.dtype)
        limits = np.iinfo(self.dtype)
        return spaces.Box(limits.min, limits.max, self.shape, self.dtype)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        dummy = np.zeros(self.shape, self.dtype)
        return np.stack([dummy if v is None else np.asarray(v, self.dtype) for v in column])


@dataclasses.dataclass
class _Choice(_Numbers):
    """One integer of a limited range."""

    low: int
    high: int

    def space(self) -> Any:
        from gymnasium import spaces

        return spaces.Discrete(self.high - self.low + 1, start=self.low)


@dataclasses.dataclass
class _Pixels(_Leaf):
    """Pictures of one size and mode, as arrays of this shape."""

    shape: tuple[int, ...]

    def has(self, value: Any) -> bool:
        return bool(value)

    def space(self) -> Any:
        from gymnasium import spaces

        return spaces.Box(0, 255, self.shape, np.uint8)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        from PIL import Image

        pixels = np.zeros((len(column), *self.shape), np.uint8)
        for i, value in enumerate(column):
            if value:
                with Image.open(io.BytesIO(value)) as image:
                    pixels[i] = np.asarray(image)
        return pixels


@dataclasses.dataclass
class _Texts(_Leaf):
    """Text, and everything that is stored as text."""

    kind: _Kind
    damaged: bool
    """For bytes: whether there are pictures that cannot be decoded, so that all stay encoded."""
    longest: int = 0
    characters: set[str] = dataclasses.field(default_factory=set)

    def space(self) -> Any:
        from gymnasium import spaces

        characters = _BASE64 if self.kind == "bytes" else "".join(sorted(self.characters))
        return spaces.Text(self.longest, min_length=0, charset=characters)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        texts = ["" if value is None else self._text(value, tell) for value in column]
        self.longest = max([self.longest, *map(len, texts)])
        if self.kind != "bytes":  # Those of base64 are known.
            self.characters.update(*texts)
        return texts

    def _text(self, value: Any, tell: Callable[[str], None]) -> str:
        if self.kind == "bytes":
            if self.damaged and _picture_kind(bytes(value)) == _DAMAGED:
                tell("is a picture that cannot be decoded; all of them are base64")
            return base64.b64encode(value).decode()
        text = _text(value) if self.kind == "text" else to_json(value)
        if "\0" in text or not is_unicode(text):
            tell("has characters that HDF5 lacks; others stand for them")
            text = unicode_text(text).replace("\0", _NO_NULL)
        return text


def _picture_kind(data: bytes) -> Any:
    """Return a picture's mode and size.

    Returns:
        () for empty bytes, `_DAMAGED` for a picture that cannot be decoded, None for anything else.
    """
    if not data:
        return ()
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        return None
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return (image.mode, image.size) if image.mode in _MODES else None
    except UnidentifiedImageError:
        return None
    except Exception:  # Decoders of damaged data may raise anything.
        return _DAMAGED


def _put(nest: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *outer, last = path
    for key in outer:
        nest = nest.setdefault(key, {})
    nest[last] = value


def _dict_space(nest: dict[str, Any]) -> spaces.Dict:
    from gymnasium import spaces

    made = {k: _dict_space(v) if isinstance(v, dict) else v for k, v in nest.items()}
    return spaces.Dict(made)


# The agent columns: the thought, the reply and its tokens.

_CALL_FIELDS = (
    "model", "policy_version", "prompt_token_ids", "completion_token_ids", "logprobs",
)  # fmt: skip
_UNPLACED = (
    "provider", "messages", "sampling", "response", "finish_reason", "usage", "start_time",
    "latency", "error", "failed_attempts",
)  # fmt: skip


_NO_COLUMN = "has no column; left out"
_OTHER_REPLIES = "only the reply that was acted on has columns; the others are left out"


def _agent_values(step: StepRecord) -> dict[str, Any]:
    """Return the `agent/...` values of the action that led to a step."""
    decision = step.decision
    if decision is None:
        return {}
    values: dict[str, Any] = {
        "thought": decision.thought,
        "memory": decision.memory,
        "parse_error": decision.parse_error,
    }
    call = answer(decision.model_calls)
    if call is not None:
        values["reply"] = call.text
        values.update({name: getattr(call, name) for name in _CALL_FIELDS})
    return {name: value for name, value in values.items() if not is_blank(value)}


def _note_left_out(episode: EpisodeTrajectory, tell: _Tell) -> None:
    """Record which decision and step fields have no column."""
    for step in episode.steps:
        if step.ignored_action is not None:
            tell("steps.ignored_action", _NO_COLUMN)
        if step.decision is None:
            continue
        if step.decision.metadata:
            tell("steps.decision.metadata", _NO_COLUMN)
        calls = step.decision.model_calls
        call = answer(calls)
        for _ in range(len(calls) - (call is not None)):
            tell("steps.decision.model_calls", _OTHER_REPLIES)
        for name in _UNPLACED if call is not None else ():
            if not is_blank(getattr(call, name)):
                tell(f"steps.decision.model_calls.{name}", _NO_COLUMN)


def _number(value: Any, field: str, tell: _Tell) -> float:
    """Return a reward or discount as one number; NaN for None."""
    if value is None:
        return float("nan")
    item = value.item() if getattr(value, "shape", None) == () else value
    if type(item) not in (int, float, bool):
        tell(field, "is not a single number; its sum stands for it")
    return reward_value(value)


_ID = re.compile(r"([-_\w]+/)*[-_\w]+-v[0-9]+")
_INFO = ("episode_id", "task", "goal", "site", "environment", "policy", "group_id")
_LONGEST = 8_000
"""Characters of the longest text in an episode's metadata: HDF5 allows 64 KB for all."""
_NO_ACTIONS = "Minari keeps transitions, and it has none"
_GAP = "Minari keeps whole episodes, and its step {} could not be recorded"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinariExporter:
    """Writes a Minari dataset."""

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ("minari", "gymnasium", "h5py", "numpy", "pillow")

    id: str = ""
    """The dataset's id: `web/click-v0`. Default: the folder's name."""
    images: Literal["pixels", "encoded"] = "pixels"
    """Pictures of one size as pixel arrays, without loss; or all pictures as base64."""
    description: str = "Recorded by webtraj."
    """Minari's description of the dataset."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        dataset_id = self._dataset_id(job.name)
        storage_class = _storage_class()
        from gymnasium import spaces

        groups = {
            name: _Group(name, pixels=self.images == "pixels")
            for name in ("observation", "action", "agent")
        }
        for episode in job.episodes:
            if episode.num_steps == 0:
                job.ledger.leave_out(episode.episode_id, _NO_ACTIONS)
                continue
            if episode.lost_step is not None:
                job.ledger.leave_out(episode.episode_id, _GAP.format(episode.lost_step))
                continue
            for step in episode.steps:
                groups["observation"].see(step.observation)
                groups["agent"].see(_agent_values(step))
            for step in episode.steps[1:]:
                groups["action"].see(step.action)
        for group in groups.values():
            group.fit()
        data = job.folder / "data"
        # The text spaces are known only at the end. Until then, use a small space: Minari rewrites
        # its metadata for each episode, and a pixel space has a bound per pixel.
        storage = storage_class.new(
            data,
            observation_space=spaces.Discrete(1),
            action_space=spaces.Discrete(1),
            data_format="hdf5",
            jpeg_encoding=False,  # Keeps pixels exact.
        )
        storage.update_metadata(
            {
                "dataset_id": dataset_id,
                "minari_version": importlib.metadata.version("minari"),
                "description": self.description,
            }
        )
        storage.update_episodes([])  # Creates the file even if there are no episodes.
        digests: list[str] = []
        for episode in job.episodes:
            tell = functools.partial(job.ledger.note, episode.episode_id)
            buffer = _buffer(len(digests), episode, groups, tell)
            storage.update_episodes([buffer])
            metadata = _metadata(episode, tell)
            storage.update_episode_metadata([metadata], [len(digests)])
            digests.append(_digest(buffer))
            _note_left_out(episode, tell)
            job.ledger.wrote(episode)
        _set_spaces(data / "metadata.json", groups)
        storage.update_metadata({"dataset_size": storage.get_size()})
        _check(data, digests)

    def _dataset_id(self, name: str) -> str:
        dataset_id = self.id or name
        if not _ID.fullmatch(dataset_id):
            raise errors.InvalidInputError(
                f"Invalid Minari dataset id {dataset_id!r:.100}; expected letters, digits, - "
                "and _, and a version, such as 'click-test-v0'. Rename the folder."
            )
        if dataset_id.rpartition("/")[2] != name:
            raise errors.InvalidInputError(
                f"The id of a Minari dataset must match its folder: {dataset_id!r:.100} cannot be "
                f"written to a folder named {name!r:.100}."
            )
        return dataset_id


def _storage_class() -> Any:
    try:
        import h5py  # noqa: F401  (Minari imports it only later.)
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise errors.missing_dependency(
            f"Minari datasets need minari ({error})", "minari", package="webtraj-formats"
        ) from error
    return MinariStorage


def _buffer(
    index: int,
    episode: EpisodeTrajectory,
    groups: dict[str, _Group],
    tell: _Tell,
) -> Any:
    from minari.data_collector import EpisodeBuffer

    def of_step(field: str, why: str) -> None:
        tell(f"steps.{field}", why)

    steps = episode.steps
    acts = steps[1:]
    if steps[0].action is not None:
        tell("steps.action", "led to the episode's first observation, and has no place")
    if not (episode.terminated or episode.truncated):
        reason = episode.end_reason.name.lower()
        tell("end", f"it stopped in the middle ({reason}); for Minari it is a truncation")
    ended = np.array([False] * (len(acts) - 1) + [True])
    seed = episode.info.seed
    if seed is not None and not 0 <= seed < 2**63:
        tell("info.seed", f"{seed} is beyond 63 bits; left out")
        seed = None
    numbers = {
        name: [_number(getattr(step, name), f"steps.{name}", tell) for step in acts]
        for name in ("reward", "discount")
    }
    agent = groups["agent"].values([_agent_values(step) for step in steps], of_step)
    return EpisodeBuffer(
        id=index,
        seed=seed,
        observations=groups["observation"].values([step.observation for step in steps], of_step),
        actions=groups["action"].values([step.action for step in acts], of_step),
        rewards=np.array(numbers["reward"], float),
        terminations=ended & episode.terminated,
        truncations=ended & (not episode.terminated),
        infos={
            "discount": np.array([np.nan, *numbers["discount"]]),
            "start_time": _times([step.start_time for step in steps]),
            "end_time": _times([step.end_time for step in steps]),
            **({"agent": agent} if agent else {}),
        },
    )


def _times(times: list[float | None]) -> Any:
    return np.array([np.nan if time is None else time for time in times], float)


def _metadata(episode: EpisodeTrajectory, tell: _Tell) -> dict[str, Any]:
    """Return an episode's metadata, within the limits of HDF5."""
    info = episode.info
    texts = {
        **{name: getattr(info, name) for name in _INFO},
        "versions": to_json(info.versions),
        "metadata": to_json(info.metadata),
        "end": to_json("" if episode.end is None else episode.end.detail),
        "error": "" if episode.end is None or not episode.end.error else episode.end.error.message,
    }
    found: dict[str, Any] = {
        "end_reason": episode.end_reason.name.lower(),
        "outcome": episode.outcome.name.lower(),
        "attempt": info.attempt,
    }
    for name, text in texts.items():
        sound = unicode_text(text).replace("\0", _NO_NULL)
        if len(sound) > _LONGEST:
            tell(f"info.{name}", f"is longer than {_LONGEST} characters; left out")
            continue
        if sound != text:
            tell(f"info.{name}", "has characters that HDF5 lacks")
        found[name] = sound
    return found


def _set_spaces(path: Path, groups: dict[str, _Group]) -> None:
    from minari.serialization import serialize_space

    metadata = json.loads(path.read_bytes())
    for name in ("observation", "action"):
        metadata[f"{name}_space"] = serialize_space(groups[name].space())
    path.write_text(json.dumps(metadata))


def _check(data: Path, digests: list[str]) -> None:
    """Load the dataset with Minari and compare it with what was written.

    Raises:
        StorageError: They differ.
    """
    import minari

    dataset = minari.MinariDataset(data)
    if dataset.total_episodes != len(digests):
        raise base.unequal(str(data.name), "a number of episodes")
    for episode, digest in zip(dataset, digests, strict=True):
        if _digest(episode) != digest:
            raise base.unequal(str(data.name), f"episode {episode.id}")


def _digest(episode: Any) -> str:
    """Return a hash of an episode's values as Minari reads them."""
    total = hashlib.sha256()
    for name in ("observations", "actions", "rewards", "terminations", "truncations"):
        _count(getattr(episode, name), total)
    return total.hexdigest()


def _count(values: Any, total: Any) -> None:
    if isinstance(values, dict):
        for key in sorted(values):
            total.update(repr(key).encode())
            _count(values[key], total)
    elif isinstance(values, list):
        total.update(json.dumps(values).encode())
    else:
        array = np.asarray(values)
        total.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
