"""From nests of any values to columns of one type each, for formats of arrays.

A nest of mappings becomes columns named by paths: `observation/last_action/box`. What a column
holds is found out by going through all values first (`Fit`). Its kinds:

* `number`: numbers and arrays of them, of one dtype; of one shape, or of one number of dimensions.
* `text`: strings; actions in webtraj's dialect.
* `bytes`: encoded pictures and other bytes.
* `json`: all else, and what is of several kinds in turn, as JSON text (see `plain`).

Numbers of several dtypes become one that holds all of them exactly; if there is none they are JSON.
An empty mapping leaves no trace. In names, `/`, `:`, `%` and names of dots are written as `%2F`.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj.datasets.exporters.plain import action_text, is_unicode, to_json, unicode_text
from webtraj.environments.actions import Action

if TYPE_CHECKING:
    from gymnasium import spaces

__all__ = ["Column", "Fit", "Kind", "Nest", "Pictures", "flatten", "space_text"]

Kind = Literal["number", "text", "bytes", "json"]
_EXACT = 2**53
"""Up to here every integer is a float64."""


def flatten(value: Any, path: str) -> dict[str, Any]:
    """Returns the leaves of a nest by their paths; None is no leaf.

    >>> flatten({"a": {"b": 1, "c": None}, "d/e": 2}, "observation")
    {'observation/a/b': 1, 'observation/d%2Fe': 2}
    """
    return dict(_leaves(value, path))


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """What a column holds."""

    name: str
    kind: Kind
    dtype: np.dtype[Any] | None = None
    """Of numbers."""
    shape: tuple[int, ...] | None = None
    """Of each number or array; None if they differ."""
    optional: bool = False
    """Whether some steps have no value."""
    low: float | None = None
    high: float | None = None
    """The least and the greatest number, both if all are integers without dimensions."""

    def render(self, value: Any) -> Any:
        """Returns a leaf as the column holds it: an array, a text, or bytes."""
        match self.kind:
            case "number":
                return np.asarray(value, self.dtype).reshape(np.shape(value))
            case "text":
                return _text(value)
            case "bytes":
                return bytes(value)
        return to_json(value)


class Fit:
    """Finds out what columns hold what they are shown."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._rows: dict[str, int] = {}

    def see(self, group: str, value: Any) -> None:
        """Shows one step's value of a group of columns, such as `observation`."""
        self._rows[group] = self._rows.get(group, 0) + 1
        for name, leaf in flatten(value, group).items():
            self._seen.setdefault(name, _Seen(group)).see(leaf)

    def columns(self) -> dict[str, Column]:
        """Returns the columns by name, in the order of their names."""
        return {
            name: seen.column(name, self._rows[seen.group])
            for name, seen in sorted(self._seen.items())
        }


class _Seen:
    """What was seen of one column."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._count = 0
        self._kinds: set[Kind] = set()
        self._dtypes: set[np.dtype[Any]] = set()
        self._shapes: set[tuple[int, ...]] = set()
        self._largest = 0
        self._bounds: tuple[int, int] | None = None

    def see(self, leaf: Any) -> None:
        self._count += 1
        kind = _kind(leaf)
        self._kinds.add(kind)
        if kind == "number":
            self._see_number(np.asarray(leaf), neutral=_is_empty_list(leaf))

    def column(self, name: str, rows: int) -> Column:
        optional = self._count < rows
        kind: Kind = next(iter(self._kinds)) if len(self._kinds) == 1 else "json"
        ndims = {len(shape) for shape in self._shapes}
        dtype = self._dtype()
        if kind == "number" and (dtype is None or len(ndims) > 1):
            kind = "json"
        if kind != "number":
            return Column(name, kind, optional=optional)
        low, high = self._bounds or (None, None)
        return Column(
            name,
            kind,
            dtype=dtype,
            shape=next(iter(self._shapes)) if len(self._shapes) == 1 else None,
            optional=optional,
            low=low,
            high=high,
        )

    def _see_number(self, array: NDArray[Any], *, neutral: bool) -> None:
        # Few shapes are enough to know that they differ.
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

    def _dtype(self) -> np.dtype[Any] | None:
        """Returns the dtype that holds all numbers exactly; None if there is none."""
        if not self._dtypes:
            return np.dtype(np.float64)
        dtype = np.result_type(*self._dtypes)
        kinds = {dtype.kind for dtype in self._dtypes}
        if dtype.kind == "f" and kinds & set("iu") and self._largest > _EXACT:
            return None
        return dtype


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{_escaped(key)}")
    elif value is not None:
        yield path, value


def _escaped(key: str) -> str:
    for char in "%/:\0":
        key = key.replace(char, f"%{ord(char):02X}")
    key = key.encode("utf-8", "backslashreplace").decode()
    return key.replace(".", "%2E") if not key.strip(".") else key


def _kind(leaf: Any) -> Kind:
    if isinstance(leaf, (str, Action)):
        return "text"
    if isinstance(leaf, (bytes, bytearray, memoryview)):
        return "bytes"
    if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)) or _is_number_list(leaf):
        array = np.asarray(leaf)
        if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
            return "number"
    return "json"


def _is_number_list(leaf: Any) -> bool:
    return type(leaf) in (list, tuple) and all(type(item) in (int, float, bool) for item in leaf)


def _is_empty_list(leaf: Any) -> bool:
    return type(leaf) in (list, tuple) and not leaf


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else action_text(value) or ""


# Columns as Gymnasium's spaces, and values that follow them.
#
# * Numbers of one shape: `Box`, unbounded; an action that is one integer: `Discrete`, from the
#   least to the greatest that was seen.
# * Text, and JSON for what is neither number nor text: `Text`, of the characters and the length
#   that were seen. Arrays whose shapes differ are JSON too.
# * Pictures that are all of one size and mode: `Box` of uint8 pixels; other bytes: `Text` of
#   base64.
# * Mappings: `Dict`, nested as the values were. A value that some steps lack has a dummy there,
#   and a `Box` of bool beside it, `<name>:present`. What is a value in one step and a mapping in
#   another is called `%value` in the mapping.

Tell = Callable[[str, str], None]
_MODES = ("L", "RGB", "RGBA")
_BASE64 = string.ascii_letters + string.digits + "+/="
_NO_NULL = "\N{SYMBOL FOR NULL}"


class Pictures:
    """Finds out which columns of bytes are pictures of one size and mode."""

    def __init__(self, *, pixels: bool) -> None:
        self._pixels = pixels
        self._kinds: dict[str, set[Any]] = {}

    def see(self, group: str, value: Any) -> None:
        """Shows one step's value of a group of columns."""
        if not self._pixels:
            return
        for name, leaf in flatten(value, group).items():
            if isinstance(leaf, (bytes, bytearray, memoryview)):
                self._kinds.setdefault(name, set()).add(_picture_kind(bytes(leaf)))

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a column's pictures as arrays; None if they are not of one."""
        kinds = self._kinds.get(name, set()) - {()}
        if len(kinds) != 1 or None in kinds:
            return None
        ((mode, (width, height)),) = kinds
        return (height, width) if mode == "L" else (height, width, len(mode))

    def lacks_some(self, name: str) -> bool:
        """Returns whether some of the bytes are none, as of a step that no picture was made of."""
        return () in self._kinds.get(name, set())


class Nest:
    """The columns of one group, as one space."""

    def __init__(self, group: str, columns: dict[str, Column], pictures: Pictures) -> None:
        self._group = group
        names = [name for name in columns if name == group or name.startswith(f"{group}/")]
        self._leaves = {name: _leaf(columns[name], pictures, group) for name in names}
        self._paths = {name: self._path(name) for name in names}

    def space(self) -> Any:
        """Returns the space of all values so far."""
        from gymnasium import spaces

        if list(self._paths.values()) == [()]:
            (leaf,) = self._leaves.values()
            if not leaf.optional:
                return leaf.space()
        made: dict[str, Any] = {}
        for name, leaf in self._leaves.items():
            _put(made, self._place(name), leaf.space())
            if leaf.optional:
                _put(made, self._place(name, ":present"), spaces.Box(0, 1, (), bool))
        return _dict_space(made)

    def values(self, rows: Sequence[Any], tell: Tell) -> Any:
        """Returns the values of all rows, nested as the space is, a list or an array a leaf."""
        flat = [flatten(row, self._group) for row in rows]
        if list(self._paths.values()) == [()]:
            ((name, leaf),) = self._leaves.items()
            if not leaf.optional:
                return leaf.values([row.get(name) for row in flat], lambda why: tell(name, why))
        made: dict[str, Any] = {}
        for name, leaf in self._leaves.items():
            column = [row.get(name) for row in flat]
            told = _teller(tell, name)
            _put(made, self._place(name), leaf.values(column, told))
            if leaf.optional:
                there = np.array([leaf.has(value) for value in column])
                _put(made, self._place(name, ":present"), there)
        return made

    def _path(self, name: str) -> tuple[str, ...]:
        """Returns a column's keys in the nest; none for the group itself."""
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

    def __init__(self, column: Column) -> None:
        self.column = column
        self.optional = column.optional

    def has(self, value: Any) -> bool:
        """Returns whether a step has a value of its own."""
        return value is not None

    def space(self) -> Any:
        """Returns the space."""
        raise NotImplementedError

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        """Returns the values as Minari takes them."""
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
    def __init__(self, column: Column, shape: tuple[int, ...], lacks_some: bool) -> None:
        super().__init__(column)
        self._shape = shape
        self.optional = column.optional or lacks_some

    def has(self, value: Any) -> bool:
        return bool(value)

    def space(self) -> Any:
        from gymnasium import spaces

        return spaces.Box(0, 255, self._shape, np.uint8)

    def values(self, column: list[Any], tell: Callable[[str], None]) -> Any:
        from PIL import Image

        pixels = np.zeros((len(column), *self._shape), np.uint8)
        for i, value in enumerate(column):
            if value:
                with Image.open(io.BytesIO(value)) as image:
                    pixels[i] = np.asarray(image)
        return pixels


class _Texts(_Leaf):
    """Text, as which all else goes too."""

    def __init__(self, column: Column) -> None:
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
            return base64.b64encode(value).decode()
        if self.column.kind == "number":  # Of shapes that differ.
            return to_json(value)
        text = str(self.column.render(value))
        if "\0" in text or not is_unicode(text):
            tell("has characters that HDF5 lacks; others stand for them")
            text = unicode_text(text).replace("\0", _NO_NULL)
        return text


def space_text(space: spaces.Space[Any]) -> str:
    """Returns a space as Minari writes it."""
    from minari.serialization import serialize_space

    return str(serialize_space(space))


def _leaf(column: Column, pictures: Pictures, group: str) -> _Leaf:
    shape = pictures.shape(column.name) if column.kind == "bytes" else None
    if shape is not None:
        return _Pixels(column, shape, pictures.lacks_some(column.name))
    if column.kind == "number" and column.shape is not None and 0 not in column.shape:
        return _Choice(column) if group == "action" and _is_choice(column) else _Numbers(column)
    return _Texts(column)


def _is_choice(column: Column) -> bool:
    """Returns whether a column is one integer, of which not too many are possible."""
    whole = column.dtype is not None and column.dtype.kind in "iu" and column.shape == ()
    if not whole or column.low is None or column.high is None or column.optional:
        return False
    return column.dtype == np.int64 and column.high - min(column.low, 0) < 2**31


def _picture_kind(data: bytes) -> Any:
    """Returns a picture's mode and size; () for no bytes at all; None if it is no picture."""
    if not data:
        return ()
    try:
        from PIL import Image

        with Image.open(io.BytesIO(data)) as image:
            return (image.mode, image.size) if image.mode in _MODES else None
    except (ImportError, OSError, ValueError, SyntaxError):
        return None


def _put(nest: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *outer, last = path
    for key in outer:
        nest = nest.setdefault(key, {})
    nest[last] = value


def _dict_space(nest: dict[str, Any]) -> spaces.Dict:
    from gymnasium import spaces

    made = {k: _dict_space(v) if isinstance(v, dict) else v for k, v in nest.items()}
    return spaces.Dict(made)


def _teller(tell: Tell, name: str) -> Callable[[str], None]:
    return lambda why: tell(name.replace("/", "."), why)
