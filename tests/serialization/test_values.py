"""Values to JSON and back: what is written is read, and what is hostile is refused."""

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import hashlib
import types
import uuid
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.store.blobs import Blob
from webtraj.store.decoding import decode
from webtraj.store.encoding import dumps
from webtraj.store.foreign import ReprOnly
from webtraj.store.values import TAG, OpaqueRecord, record_type
from webtraj.testing.strategies import arrays, same, values


class Bytes:
    """A blob store in memory."""

    def __init__(self):
        self.kept = {}

    def put(self, data, ext):
        blob = Blob(hashlib.sha256(data).hexdigest(), ext, len(data))
        self.kept[blob] = data
        return blob

    def load(self, blob, *, text):
        data = self.kept[blob]
        return data.decode("utf-8", "surrogatepass") if text else data

    def read(self, blob):
        return self.kept[blob]


def round_trip(value, blobs=None):
    line, unwritable = dumps(value, blobs)
    return decode(orjson.loads(line), blobs), unwritable


def assert_kept(value, blobs=None):
    back, unwritable = round_trip(value, blobs)
    assert unwritable == []
    assert same(back, value), back


# Reading gives what was written.


@given(values())
@settings(deadline=None, max_examples=50)
def test_reading_gives_what_was_written(value):
    assert_kept(value)


@given(arrays())
@settings(deadline=None, max_examples=50)
def test_arrays_of_all_kinds_are_kept(array):
    assert_kept(array)


@given(values())
@settings(deadline=None, max_examples=50)
def test_what_was_read_is_written_as_it_was(value):
    line, _ = dumps(value)
    assert dumps(decode(orjson.loads(line)))[0] == line


KEPT = {
    "minus zero": -0.0,
    "not a number": float("nan"),
    "infinities": [float("inf"), float("-inf")],
    "the bounds of 64 bits": [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1],
    "a huge integer": 7**500,
    "a lone surrogate": {"\ud800": ["\udfff", {"deep": "\ud800"}]},
    "a dollar key": {"$": "ndarray", "v": 1},
    "a dollar key with no value": {"$": None},
    "keys of any kind": {1: "a", None: "b", (1, 2): "c", b"x": "d", 1.5: "e"},
    "an empty of each": [{}, [], (), set(), frozenset(), "", b""],
    "a datetime": datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC),
    "a naive datetime": datetime.datetime(2026, 11, 20, 12, 0, 0, 7),
    "a 0-d array": np.array(3.5),
    "a 0-d object array": np.array(None, dtype=object),
    "an array in Fortran order": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "a slice with a stride": np.arange(20)[::-3],
    "a big-endian array": np.arange(3, dtype=">i4"),
    "an array of text": np.array(["a", "bcd", ""]),
    "an array of dates": np.array(["2026-11-20", "NaT"], dtype="datetime64[D]"),
    "a structured array": np.array([(1, 2.5)], dtype=[("x", "<i2"), ("y", "<f8")]),
    "a padded structure": np.zeros(2, np.dtype([("x", "u1"), ("y", "<f8")], align=True)),
    "structures in structures": np.zeros(2, [("x", [("y", ">f4", (2, 3)), ("z", "U5")])]),
    "a structured scalar": np.array([(1, 2.5)], dtype=[("x", "<i2"), ("y", "<f8")])[0],
    "elements of no size": np.zeros((2, 3), dtype="V0"),
    "dates and times": [
        datetime.date(2026, 11, 20),
        datetime.time(12, 30, tzinfo=datetime.UTC),
        datetime.timedelta(days=-1, microseconds=7),
    ],
    "decimals": [decimal.Decimal("0.10"), decimal.Decimal("-Infinity")],
    "a uuid": uuid.UUID(int=7),
    "ranges": [range(3), range(10**30, 0, -7)],
    "pure paths": [PurePosixPath("/runs/\udcff"), PureWindowsPath(r"C:\runs\x")],
    "a value of which only the repr is kept": ReprOnly("a.B", "<B \ud800>", "too large"),
    "an object array": np.array([{"a": np.arange(2)}, None], dtype=object),
    "text that ends in zeros": np.str_("a\0\0"),
    "bytes that end in zeros": np.bytes_(b"a\0\0"),
    "half a float": np.float16(0.1),
    "a long double": np.longdouble(1) / 3,
}


@each("value", KEPT.values())
def test_corner_cases_are_kept(value):
    assert_kept(value)


@each("blobs", [None, Bytes()])
@each(
    "value",
    [b"\xff\xd8\xff" * 2000, "text " * 2000, "\ud800" * 5000, np.arange(5000.0), "x" * 5000],
)
def test_long_values_are_kept_inline_or_as_blobs(value, blobs):
    line, _ = dumps(value, blobs)
    assert (len(line) < 1000) is (blobs is not None)
    assert_kept(value, blobs)


WRAPPERS = {
    "lists": lambda value: [value],
    "tuples": lambda value: (value,),
    "dicts": lambda value: {"a": value},
    "dicts with other keys": lambda value: {1: value},
    "object arrays": lambda value: object_array(value),
}


def object_array(value):
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = value
    return array


@each("wrap", WRAPPERS.values())
@each("depth", [59, 60, 61, 150, 235])
def test_deep_nests_are_kept(wrap, depth):
    value = "bottom"
    for _ in range(depth):
        value = wrap(value)
    line, unwritable = dumps(value)
    assert unwritable == []
    assert dumps(decode(orjson.loads(line)))[0] == line
    assert line.count(b"bottom") == 1


# Classes.


@record_type("test-values/point")
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: object = None


@record_type("test-values/colour")
class Colour(enum.Enum):
    RED = "r"
    BLUE = (0, 0, 1)


@record_type("test-values/rights")
class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Stranger:
    x: int
    tags: tuple = ()


class Pair(NamedTuple):
    left: object
    right: object


@pytest.mark.parametrize(
    "value",
    [Point(1, {"p": Point(2)}), [Colour.RED, Colour.BLUE], Rights.READ, Rights.READ | Rights.WRITE],
    ids=repr,
)
def test_registered_classes_come_back_as_themselves(value):
    assert_kept(value)


def test_a_class_of_another_name_comes_back_opaque_with_its_fields():
    back, unwritable = round_trip({"stranger": Stranger(1, ("a", "b"))})
    assert unwritable == []
    assert back["stranger"].type_name.endswith("test_values.Stranger")
    assert back["stranger"].fields == {"x": 1, "tags": ("a", "b")}


def test_an_opaque_record_is_written_as_what_it_stands_for():
    line, _ = dumps(Stranger(1))
    assert dumps(decode(orjson.loads(line)))[0] == line


def test_named_tuples_come_back_as_named_tuples():
    back, _ = round_trip(Pair(1, (2,)))
    assert back == Pair(1, (2,))
    assert (back.left, type(back).__name__) == (1, "Pair")


def test_fields_that_a_class_does_not_know_are_left_aside():
    line, _ = dumps(Point(1))
    assert decode(orjson.loads(line.replace(b'"x":1', b'"x":1,"z":3'))) == Point(1)


@pytest.mark.parametrize(
    "value",
    [
        {Stranger(1): "a", Stranger(2): "b"},
        {Stranger(1), Stranger(2), "c"},
        {frozenset({Stranger(1)}): 1},
        {types.SimpleNamespace: 1, Stranger: 2},
    ],
    ids=["dict", "set", "frozenset in dict", "classes"],
)
def test_keys_of_unknown_classes_can_be_read(value):
    back, _ = round_trip(value)
    assert len(back) == len(value)


def test_keys_that_become_equal_come_back_as_items():
    clash = {Second.ONE: "member", 1: "number"}
    assert round_trip(clash)[0] == OpaqueRecord("dict", {"items": [(1, "member"), (1, "number")]})


class Second(enum.Enum):
    ONE = 1


# What cannot be kept.


class Hostile:
    def __repr__(self):
        raise RuntimeError("no")


class Broken(collections.abc.Mapping):
    def __getitem__(self, key):
        raise RuntimeError("no")

    def __iter__(self):
        return iter("ab")

    def __len__(self):
        return 2


def itself():
    loop = []
    loop.append({"me": loop})
    return loop


def too_deep():
    value = 0
    for _ in range(3000):
        value = [value]
    return value


UNWRITABLE = {
    "an object": (object(), "builtins.object"),
    "a function": (itself, "builtins.function"),
    "an object without a repr": (Hostile(), "Hostile"),
    "a mapping that raises": (Broken(), "Broken, which raised RuntimeError"),
    "what contains itself": (itself(), "[0].me: builtins.list, contains itself"),
    "too deep": (too_deep(), "nested more than"),
    "a generator": ((number for number in range(3)), "builtins.generator"),
    "an exception": (ValueError("x"), "builtins.ValueError"),
    "a structure with objects": (np.zeros(1, [("o", "O")]), "dtype"),
}


@each(("value", "said"), UNWRITABLE.values())
def test_what_cannot_be_kept_is_named_and_costs_nothing_else(value, said):
    back, unwritable = round_trip({"good": [1, np.arange(2)], "bad": value, "text": "\ud800"})
    assert len(unwritable) == 1
    assert unwritable[0].startswith(".bad")
    assert said in unwritable[0]
    assert same(back["good"], [1, np.arange(2)])
    assert back["text"] == "\ud800"
    assert set(back) == {"good", "bad", "text"}


def test_a_value_met_twice_is_no_loop():
    twice = [1]
    assert_kept([twice, {"again": twice}, (twice, twice)])


def test_a_blob_store_that_fails_is_not_the_value_s_fault():
    class Full(Bytes):
        def put(self, data, ext):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        dumps({"a": Point(1, b"x" * 5000)}, Full())


# What is hostile is refused, and in no other way than as corrupt.

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_TAGS = [
    "float", "int", "complex", "str", "bytes", "blob", "text", "tuple", "set", "frozenset", "dict",
    "ndarray", "scalar", "datetime", "enum", "record", "namedtuple", "nested", "unwritable", "date",
    "time", "timedelta", "decimal", "uuid", "range", "path", "?",
]  # fmt: skip
_HOSTILE = st.fixed_dictionaries(
    {TAG: st.sampled_from(_TAGS) | _JSON},
    optional={
        "v": _JSON | st.sampled_from(["AAAA", "nan", "0x1", "[1]", {TAG: "bytes", "v": "AAAA"}]),
        "dtype": _JSON
        | st.sampled_from(["object", "O", "<f4", "|i1", "<f2", "U0", "|V0", "f4,O", "(2,", "<M8"]),
        "shape": st.lists(st.integers(-3, 2**62), max_size=3) | _JSON,
        "type": st.sampled_from(["test-values/point", "test-values/colour", "action/x"]) | _JSON,
        "fields": st.dictionaries(st.text(), _JSON, max_size=2) | _JSON,
        "member": st.sampled_from(["RED"]) | _JSON,
        "flavour": st.sampled_from(["posix", "windows"]) | _JSON,
        "repr": _JSON,
        "sha256": _JSON,
        "ext": _JSON,
        "size": _JSON,
    },
)


@given(_HOSTILE | st.lists(_HOSTILE, max_size=2))
@settings(deadline=None, max_examples=150)
@example({TAG: "scalar", "dtype": "|i1", "v": 300})
@example({TAG: "scalar", "dtype": "<f8", "v": {TAG: "bytes", "v": ""}})
@example({TAG: "ndarray", "dtype": "|V0", "shape": [2**62, 2**62], "v": {TAG: "bytes", "v": ""}})
def test_hostile_data_is_decoded_or_refused_as_corrupt(data):
    with contextlib.suppress(errors.CorruptDataError):
        decode(data, Bytes())


REFUSED = {
    "an unknown tag": {TAG: "pickle", "v": "gASVAA=="},
    "no tag": {TAG: None},
    "a tag of another type": {TAG: ["ndarray"]},
    "a number that is none": {TAG: "float", "v": "one"},
    "a missing field": {TAG: "tuple"},
    "bytes that are not base64": {TAG: "bytes", "v": "***"},
    "a dtype of objects": {TAG: "ndarray", "dtype": "|O", "shape": [1], "v": {}},
    "a dtype in a sentence": {TAG: "ndarray", "dtype": "f4,O", "shape": [], "v": {}},
    "a negative shape": {
        TAG: "ndarray", "dtype": "<f4", "shape": [-1], "v": {TAG: "bytes", "v": "AAAAAA=="},
    },
    "a huge shape": {
        TAG: "ndarray", "dtype": "<f4", "shape": [2**40], "v": {TAG: "bytes", "v": "AAAAAA=="},
    },
    "a huge element": {TAG: "ndarray", "dtype": "|V9999999999", "shape": [], "v": {}},
    "objects that do not fill the shape": {
        TAG: "ndarray", "dtype": "object", "shape": [2**40], "v": [1],
    },
    "an array in a bad nest": {TAG: "nested", "v": "[1"},
    "a blob with no store": {TAG: "blob", "sha256": "00", "ext": "bin", "size": 1},
    "pairs that are none": {TAG: "dict", "v": [[1, 2, 3]]},
}  # fmt: skip


@each("data", REFUSED.values())
def test_corrupt_data_is_refused(data):
    with pytest.raises(errors.CorruptDataError):
        decode({"deep": [data]})


def test_json_that_is_too_deep_is_refused():
    data = 0
    for _ in range(5000):
        data = [data]
    with pytest.raises(errors.CorruptDataError):
        decode(data)


@each("values", [
        list(range(100)),
        [2**64 - 1, -(2**63)] * 50,
        [2**64] * 100,
        [-(2**63) - 1] * 100,
        [0.1] * 100,
        [1e308] * 100,
        [float("inf"), float("-inf")] * 50,
        [True] * 100,
        [1, 2.0] * 50,
        [1, None] * 50,
    ])  # fmt: skip
@each("kind", [list, tuple])
def test_long_rows_of_numbers_come_back(values, kind):
    back, _ = round_trip(kind(values))
    assert back == kind(values)
    assert list(map(type, back)) == list(map(type, values))
