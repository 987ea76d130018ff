"""A Minari dataset, for `minari.load_dataset`.

::

    <out>/data/metadata.json      Minari's metadata, including the spaces
    <out>/data/main_data.hdf5     the episodes

`out` is the dataset's own folder: `MINARI_DATASETS_PATH=runs` and `out="runs/click-v0"` give the
dataset `click-v0`. In Minari an episode has one observation more than actions; episodes without
actions, or with steps that could not be recorded, are left out. A termination stays a termination.
A truncation, or anything that stopped the episode midway, becomes a truncation, and the episode's
metadata say which (`end_reason`, `outcome`).

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
from webtraj.datasets.exporters.base import Ledger
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
# all values (`_Fit`) determines each column's kind:
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
            leaves |= _flatten(item, f"{path}/{_escaped(key)}")
        return leaves
    return {} if value is None else {path: value}


@dataclasses.dataclass(frozen=True, slots=True)
class _Column:
    """The type of a column."""

    name: str
    kind: _Kind
    dtype: np.dtype[Any] | None = None
    """The dtype of numbers."""
    shape: tuple[int, ...] | None = None
    """The shape of each number or array; None if they differ."""
    optional: bool = False
    """Whether some steps have no value."""
    low: float | None = None
    high: float | None = None
    """The smallest and largest number, if all are integer scalars."""
    pixels: tuple[int, ...] | None = None
    """For bytes: the array shape of the pictures, if all have the same size and mode."""
    damaged: bool = False
    """For bytes: whether there are pictures that cannot be decoded, so that all stay encoded."""

    def render(self, value: Any) -> Any:
        """Return a leaf as the column stores it: an array, a text, or bytes."""
        match self.kind:
            case "number":
                return np.asarray(value, self.dtype).reshape(np.shape(value))
            case "text":
                return _text(value)
            case "bytes":
                return bytes(value)
        return to_json(value)


class _Fit:
    """Determines the columns that fit a set of values."""

    def __init__(self, *, pixels: bool) -> None:
        """Initialize the fit; `pixels` allows pictures to become pixel arrays."""
        self._pixels = pixels
        self._seen: dict[str, _Seen] = {}
        self._rows: dict[str, int] = {}

    def see(self, group: str, value: Any) -> None:
        """Take in one step's value of a group of columns, such as `observation`."""
        self._rows[group] = self._rows.get(group, 0) + 1
        for name, leaf in _flatten(value, group).items():
            self._seen.setdefault(name, _Seen(group, self._pixels)).see(leaf)

    def columns(self) -> dict[str, _Column]:
        """Return the columns by name, sorted by name."""
        return {
            name: seen.column(name, self._rows[seen.group])
            for name, seen in sorted(self._seen.items())
        }


class _Seen:
    """The values seen in one column, summarized."""

    def __init__(self, group: str, pixels: bool) -> None:
        self.group = group
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

    def column(self, name: str, rows: int) -> _Column:
        optional = self._count < rows
        kind: _Kind = next(iter(self._kinds)) if len(self._kinds) == 1 else "json"
        ndims = {len(shape) for shape in self._shapes}
        dtype = self._dtype()
        if kind == "number" and (dtype is None or len(ndims) > 1):
            kind = "json"
        if kind == "bytes" and (pixels := self._picture_shape()) is not None:
            # Some values may be empty, as for a step without a screenshot.
            return _Column(name, kind, optional=optional or () in self._pictures, pixels=pixels)
        if kind != "number":
            return _Column(name, kind, optional=optional, damaged=_DAMAGED in self._pictures)
        low, high = self._bounds or (None, None)
        return _Column(
            name,
            kind,
            dtype=dtype,
            shape=next(iter(self._shapes)) if len(self._shapes) == 1 else None,
            optional=optional,
            low=low,
            high=high,
        )

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


def _escaped(key: str) -> str:
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
    """Return whether a list of numbers holds integers that are rounded in its array of floats."""
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


class _Nest:
    """The columns of one group, combined into one space."""

    def __init__(self, group: str, columns: dict[str, _Column]) -> None:
        self._group = group
        names = [name for name in columns if name == group or name.startswith(f"{group}/")]
        self._leaves = {name: _leaf(columns[name], group) for name in names}
        self._paths = {name: self._path(name) for name in names}

    def space(self) -> Any:
        """Return the space of all values so far."""
        from gymnasium import spaces

        if list(self._paths.values()) == [()]:
            (leaf,) = self._leaves.values()
            if not leaf.column.optional:
                return leaf.space()
        made: dict[str, Any] = {}
        for name, leaf in self._leaves.items():
            _put(made, self._place(name), leaf.space())
            if leaf.column.optional:
                _put(made, self._place(name, ":present"), spaces.Box(0, 1, (), bool))
        return _dict_space(made)

    def values(self, rows: Sequence[Any], tell: _Tell) -> Any:
        """Return the values of all rows, nested like the space; each leaf is a list or an array."""
        flat = [_flatten(row, self._group) for row in rows]
        if list(self._paths.values()) == [()]:
            ((name, leaf),) = self._leaves.items()
            if not leaf.column.optional:
                return leaf.values([row.get(name) for row in flat], functools.partial(tell, name))
        made: dict[str, Any] = {}
        for name, leaf in self._leaves.items():
            column = [row.get(name) for row in flat]
            told = functools.partial(tell, name.replace("/", "."))
            _put(made, self._place(name), leaf.values(column, told))
            if leaf.column.optional:
                there = np.array([leaf.has(value) for value in column])
                _put(made, self._place(name, ":present"), there)
        return made

    def _path(self, name: str) -> tuple[str, ...]:
        """Return a column's keys in the nest; empty for the group itself."""
        inner = name[len(self._group) + 1 :]
        if name == self._group and len(self._leaves) == 1:
            return ()
        keys = tuple(key or "%" for key in inner.split("/")) if name != self._group else ()
        shared = any(other.startswith(f"{name}/") for other in self._leaves)
        return (*keys, "%value") if shared or not keys else keys

    def _place(self, name: str, end: str = "") -> tuple[str, ...]:
        *outer, last = self._paths[name] or ("%value",)
        return (*outer, last + end)


class _Leaf:
    """One column."""

    def __init__(self, column: _Column) -> None:
        self.column = column

    def has(self, value: Any) -> bool:
        """Return whether a step has a value of its own."""
        return value is not None

    def space(self) -> Any:
        """Return the space."""
        raise NotImplementedError

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        """Return the values in the form that Minari expects."""
        raise NotImplementedError


class _Numbers(_Leaf):
    def space(self) -> Any:
        from gymnasium import spaces

        column = self.column
        assert column.dtype is not None
        assert column.shape is not None
        if column.dtype.kind == "f":
            low, high = -np.inf, np.inf
        elif column.dtype.kind == "b":
            low, high = 0, 1
        else:
            limits = np.iinfo(column.dtype)
            low, high = limits.min, limits.max
        return spaces.Box(low, high, column.shape, column.dtype)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        dummy = np.zeros(self.column.shape or (), self.column.dtype)
        return np.stack([dummy if v is None else self.column.render(v) for v in column])


class _Choice(_Numbers):
    def space(self) -> Any:
        from gymnasium import spaces

        assert self.column.low is not None
        assert self.column.high is not None
        low = min(0, int(self.column.low))
        return spaces.Discrete(int(self.column.high) - low + 1, start=low)


class _Pixels(_Leaf):
    def has(self, value: Any) -> bool:
        return bool(value)

    def space(self) -> Any:
        from gymnasium import spaces

        return spaces.Box(0, 255, self.column.pixels, np.uint8)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        from PIL import Image

        assert self.column.pixels is not None
        pixels = np.zeros((len(column), *self.column.pixels), np.uint8)
        for i, value in enumerate(column):
            if value:
                with Image.open(io.BytesIO(value)) as image:
                    pixels[i] = np.asarray(image)
        return pixels


class _Texts(_Leaf):
    """Text, and everything that is stored as text."""

    def __init__(self, column: _Column) -> None:
        super().__init__(column)
        self._longest = 0
        self._characters: set[str] = set()

    def space(self) -> Any:
        from gymnasium import spaces

        characters = "".join(sorted(self._characters))
        if self.column.kind == "bytes":
            characters = _BASE64
        return spaces.Text(self._longest, min_length=0, charset=characters)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        texts = ["" if value is None else self._text(value, tell) for value in column]
        for text in texts:
            self._longest = max(self._longest, len(text))
            if self.column.kind != "bytes":
                self._characters.update(text)
        return texts

    def _text(self, value: Any, tell: Callable[[str], None]) -> str:
        if self.column.kind == "bytes":
            if self.column.damaged and _picture_kind(bytes(value)) == _DAMAGED:
                tell("is a picture that cannot be decoded; all of them are base64")
            return base64.b64encode(value).decode()
        if self.column.kind == "number":  # Arrays of differing shapes.
            return to_json(value)
        text = str(self.column.render(value))
        if "\0" in text or not is_unicode(text):
            tell("has characters that HDF5 lacks; others stand for them")
            text = unicode_text(text).replace("\0", _NO_NULL)
        return text


def _leaf(column: _Column, group: str) -> _Leaf:
    if column.pixels is not None:
        return _Pixels(column)
    if column.kind == "number" and column.shape is not None and 0 not in column.shape:
        return _Choice(column) if group == "action" and _is_choice(column) else _Numbers(column)
    return _Texts(column)


def _is_choice(column: _Column) -> bool:
    """Return whether a column is one integer with a limited range."""
    whole = column.dtype is not None and column.dtype.kind in "iu" and column.shape == ()
    if not whole or column.low is None or column.high is None or column.optional:
        return False
    return column.dtype == np.int64 and column.high - min(column.low, 0) < 2**31


def _picture_kind(data: bytes) -> Any:
    """Return a picture's mode and size.

    Returns:
        () for empty bytes, `_DAMAGED` if it cannot be decoded, None if it is not a picture.
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
    "latency", "error",
)  # fmt: skip


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


def _note_left_out(episode: EpisodeTrajectory, ledger: Ledger) -> None:
    """Record which decision and step fields have no column."""
    for step in episode.steps:
        decision = step.decision
        if step.ignored_action is not None:
            ledger.note(episode.episode_id, "steps.ignored_action", "has no column; left out")
        if decision is None:
            continue
        if decision.metadata:
            ledger.note(episode.episode_id, "steps.decision.metadata", "has no column; left out")
        if len(decision.model_calls) > 1:
            why = "only the reply that was acted on has columns; the others are left out"
            count = len(decision.model_calls) - 1
            ledger.note(episode.episode_id, "steps.decision.model_calls", why, count)
        call = answer(decision.model_calls)
        for name in _UNPLACED if call is not None else ():
            if not is_blank(getattr(call, name)):
                where = f"steps.decision.model_calls.{name}"
                ledger.note(episode.episode_id, where, "has no column; left out")


def _number(value: Any, field: str, episode: EpisodeTrajectory, ledger: Ledger) -> float:
    """Return a reward or discount as one number; NaN for None."""
    if value is None:
        return float("nan")
    item = value.item() if getattr(value, "shape", None) == () else value
    if type(item) not in (int, float, bool):
        ledger.note(episode.episode_id, field, "is no single number; its sum stands for it")
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

        fit = _Fit(pixels=self.images == "pixels")
        for episode in job.episodes:
            if episode.num_steps == 0:
                job.ledger.leave_out(episode.episode_id, _NO_ACTIONS)
                continue
            if episode.lost_step is not None:
                job.ledger.leave_out(episode.episode_id, _GAP.format(episode.lost_step))
                continue
            for step in episode.steps:
                fit.see("observation", step.observation)
                fit.see("agent", _agent_values(step))
            for step in episode.steps[1:]:
                fit.see("action", step.action)
        columns = fit.columns()
        nests = {name: _Nest(name, columns) for name in ("observation", "action", "agent")}
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
            buffer = _buffer(len(digests), episode, nests, job.ledger)
            storage.update_episodes([buffer])
            metadata = _metadata(episode, job.ledger)
            storage.update_episode_metadata([metadata], [len(digests)])
            digests.append(_digest(buffer))
            _note_left_out(episode, job.ledger)
            job.ledger.wrote(episode)
        _set_spaces(data / "metadata.json", nests)
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
            f"Minari datasets need minari ({error})", "minari"
        ) from error
    return MinariStorage


def _buffer(
    index: int,
    episode: EpisodeTrajectory,
    nests: dict[str, _Nest],
    ledger: base.Ledger,
) -> Any:
    from minari.data_collector import EpisodeBuffer

    def tell(field: str, why: str) -> None:
        ledger.note(episode.episode_id, f"steps.{field}", why)

    steps = episode.steps
    acts = steps[1:]
    if steps[0].action is not None:
        tell("action", "led to the episode's first observation, and has no place")
    if not (episode.terminated or episode.truncated):
        reason = episode.end_reason.name.lower()
        why = f"it stopped in the middle ({reason}); for Minari it is a truncation"
        ledger.note(episode.episode_id, "end", why)
    ended = np.array([False] * (len(acts) - 1) + [True])
    seed = episode.info.seed
    if seed is not None and not 0 <= seed < 2**63:
        ledger.note(episode.episode_id, "info.seed", f"{seed} is beyond 63 bits; left out")
        seed = None
    numbers = {
        name: [_number(getattr(step, name), f"steps.{name}", episode, ledger) for step in acts]
        for name in ("reward", "discount")
    }
    agent = nests["agent"].values([_agent_values(step) for step in steps], tell)
    return EpisodeBuffer(
        id=index,
        seed=seed,
        observations=nests["observation"].values([step.observation for step in steps], tell),
        actions=nests["action"].values([step.action for step in acts], tell),
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


def _metadata(episode: EpisodeTrajectory, ledger: base.Ledger) -> dict[str, Any]:
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
        sound = unicode_text(text).replace("\0", "\N{SYMBOL FOR NULL}")
        if len(sound) > _LONGEST:
            why = f"is longer than {_LONGEST} characters; left out"
            ledger.note(episode.episode_id, f"info.{name}", why)
            continue
        if sound != text:
            ledger.note(episode.episode_id, f"info.{name}", "has characters that HDF5 lacks")
        found[name] = sound
    return found


def _set_spaces(path: Path, nests: dict[str, _Nest]) -> None:
    from minari.serialization import serialize_space

    metadata = json.loads(path.read_bytes())
    for name in ("observation", "action"):
        metadata[f"{name}_space"] = serialize_space(nests[name].space())
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
