"""Pickles as data: what was pickled comes back, and nothing in a file is ever loaded or run."""

import contextlib
import copyreg
import datetime
import enum
import pathlib
import pickle
import struct
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.datasets.importers import Limits, base
from webtraj.store.values import OpaqueRecord
from webtraj_formats.importers.pickles import read_pickle

SMALL = Limits(file_bytes=1 << 20, expanded=10_000, depth=50)


class Plain:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 1, [2]


class Message(dict):
    pass


class Color(enum.Enum):
    RED = "red"


HERE = f"{__name__}."
NAMES = {f"{HERE}{cls.__name__}" for cls in (Plain, Slotted, Message, Color)}

DATA = {
    "None": None,
    "numbers": [True, False, 0, -1, 2**70, -(2**70), 1.5, 1e300, 2 + 3j, 255, 65536],
    "text": ["", "a", "ä€😀", "x" * 300, "\n\\'\"", "\udc80"],
    "bytes": [b"", b"a", bytes(range(256)), b"x" * 70_000],
    "containers": {"a": [1, (2, 3), {4}, frozenset([5])], (1, "b"): (), 3: {}},
    "a path": [str(pathlib.PurePosixPath("/a/b"))],
    "a date": datetime.datetime(2026, 11, 20, 16, 30, 1, 25),
}
ARRAYS = {
    "floats": np.arange(6, dtype=np.float32).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "big-endian": np.arange(4, dtype=">i4"),
    "picture": np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3),
    "bools": np.array([True, False]),
    "text": np.array(["ab", "c"]),
    "bytes": np.array([b"ab", b"c"]),
    "complex": np.array([1 + 2j]),
    "empty": np.empty((0, 3)),
    "no dimension": np.array(7),
    "objects": np.array([None, "a", 3], dtype=object),
    "scalar": np.float64(1.5),
}
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@each("protocol", PROTOCOLS)
@each("value", DATA.values())
def test_plain_data_come_back(value, protocol):
    found = read_pickle(pickle.dumps(value, protocol), "f")
    assert found == value
    assert repr(found) == repr(value) or isinstance(value, (set, dict))


@each("protocol", PROTOCOLS)
@each("value", ARRAYS.values())
def test_arrays_come_back(value, protocol):
    found = read_pickle(pickle.dumps(value, protocol), "f")
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert found.tolist() == value.tolist()


@each("protocol", PROTOCOLS)
def test_objects_are_their_class_name_and_fields(protocol):
    inner = Plain(x=1)
    found = read_pickle(pickle.dumps(Plain(a=inner, b=[inner]), protocol), "f", names=NAMES)
    assert found.type_name == f"{HERE}Plain"
    assert found.fields == {"a": OpaqueRecord(f"{HERE}Plain", {"x": 1}), "b": [found.fields["a"]]}
    assert found.fields["a"] is found.fields["b"][0]


@pytest.mark.parametrize("protocol", PROTOCOLS[2:])
def test_objects_with_slots_dicts_by_another_name_and_enums(protocol):
    message = Message(role="user", content="hi")
    found = read_pickle(pickle.dumps([Slotted(), message, Color.RED], protocol), "f", names=NAMES)
    assert found[0].fields == {"a": 1, "b": [2]}
    assert found[1] == {"role": "user", "content": "hi"}
    assert found[2].type_name == f"{HERE}Color"
    assert found[2].fields["arguments"] == ("red",)


STATES = (b"}X\x06\x00\x00\x00appendK\x01s", b"N}X\x06\x00\x00\x00appendK\x01s\x86")


@each("state", STATES)
@each("name", ["builtins\nobject", "collections\ndeque", "numpy\ndtype"])
def test_the_state_of_a_class_cannot_be_set(name, state):
    content = b"\x80\x02c" + name.encode() + b"\n" + state + b"b."
    with pytest.raises(errors.CorruptDataError, match="'f' is not a readable pickle"):
        read_pickle(content, "f", any_name=True)


def test_registered_extensions_are_not_reached():
    copyreg.add_extension("os", "system", 0x7F)
    try:
        with pytest.raises(errors.CorruptDataError, match="extension code 127"):
            read_pickle(b"\x80\x02\x82\x7f(X\x02\x00\x00\x00idtR.", "f", any_name=True)
    finally:
        copyreg.remove_extension("os", "system", 0x7F)


class Reduced:
    """Pickles as a call of anything."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def reducing(function, *args):
    return pickle.dumps(Reduced(function, args))


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def canary(folder):
    return str(folder / "canary")


def hostile(folder):
    """Returns hostile pickles by name. Those that would do something make the file `canary`."""
    touch = f"touch {canary(folder)}"
    write = f"open({canary(folder)!r}, 'w')"
    import os
    import subprocess

    system = b"cposix\nsystem\n"
    array = pickle.dumps(np.arange(3), 2)
    scalar_dtype = pickle.dumps(np.dtype("i8"), 2)[2:-1]
    return {
        "os.system": reducing(os.system, touch),
        "os.system in protocol 0": b"cos\nsystem\n(S'" + touch.encode() + b"'\ntR.",
        "subprocess": reducing(subprocess.call, ["touch", canary(folder)]),
        "eval": reducing(eval, write),
        "exec": reducing(exec, write),
        "open": reducing(open, canary(folder), "w"),
        "__import__": reducing(__import__, "antigravity"),
        "getattr": b"c__builtin__\ngetattr\n(cos\n__dict__\nS'system'\ntR.",
        "getattr chain": b"\x80\x04cbuiltins\ngetattr\n(cbuiltins\n__import__\nX\x01\x00\x00\x00xtR(tR.",  # noqa: E501
        "a dotted name": b"\x80\x04\x8c\x02os\x8c\x0epath.os.system\x93.",
        "runpy": b"crunpy\n_run_code\n(S'x'\n}tR.",
        "pip": b"cpip\nmain\n(]S'install'\natR.",
        "ctypes": b"cctypes\nCDLL\n(S'libc.so.6'\ntR.",
        "copyreg.add_extension": b"\x80\x04ccopyreg\nadd_extension\n(X\x01\x00\x00\x00aX\x01\x00\x00\x00bK\x01tR.",  # noqa: E501
        "copyreg.__newobj__": b"\x80\x02ccopyreg\n__newobj__\n(cos\nsystem\ntR.",
        "an extension code": b"\x80\x02\x82\x01.",
        "the old INST": b"(S'" + touch.encode() + b"'\nios\nsystem\n.",
        "the old OBJ": b"(" + system + b"S'" + touch.encode() + b"'\no.",
        "a persistent id": b"\x80\x02" + text(b"id") + b"Q.",
        "a persistent id in protocol 0": b"Pid\n.",
        "a buffer from outside": b"\x80\x05\x97.",
        "functools.partial": b"cfunctools\npartial\n(cos\nsystem\nS'" + touch.encode() + b"'\ntR(tR.",  # noqa: E501
        "operator.attrgetter": b"coperator\nattrgetter\n(S'system'\ntR(cos\npath\ntR.",
        "a class that is not listed": pickle.dumps(Plain(a=1)),
        "numpy's own loader": b"cnumpy\nload\n(S'x'\ntR.",
        "numpy.ndarray called": b"\x80\x02cnumpy\nndarray\n(K\x01tR.",
        "an array of a class": b"\x80\x02cnumpy._core.multiarray\n_reconstruct\n(cos\nsystem\n(K\x00tC\x01btR.",  # noqa: E501
        "an array whose objects call": b"\x80\x02"
        + array[2 : array.index(b"R") + 1]
        + b"(K\x01(K\x01tcnumpy\ndtype\n(X\x02\x00\x00\x00O8\x89\x88tR\x89]cos\nsystem\n(S'"
        + touch.encode()
        + b"'\ntRatb.",
        "an array with too few bytes": array.replace(b"K\x03\x85", b"K\x09\x85"),
        "an array of a petabyte": array.replace(b"K\x03\x85", b"\x8a\x07" + b"\xff" * 6 + b"\x7f\x85"),  # noqa: E501
        "an array of negative size": array.replace(b"K\x03\x85", b"J\xff\xff\xff\xff\x85"),
        "a structured dtype": pickle.dumps(np.zeros(2, "i4,f8")),
        "a dtype of any text": b"\x80\x02cnumpy\ndtype\n(" + text(b"f8,(99999999,)f8") + b"\x89\x88tR.",  # noqa: E501
        "a scalar with too few bytes": b"\x80\x02cnumpy._core.multiarray\nscalar\n("
        + scalar_dtype + b"C\x01atR.",
        "state for a dict": b"\x80\x02}}" + text(b"a") + b"K\x01sb.",
        "state for a name": b"\x80\x02ccollections\nOrderedDict\n}" + text(b"x") + b"K\x01sb.",
        "a call of text": b"\x80\x02" + text(b"abc") + b"(tR.",
        "a call of an object": b"\x80\x02cbuiltins\nobject\n)\x81)R.",
        "a call with no tuple": b"\x80\x02cbuiltins\nset\nK\x01R.",
        "bytes of a size": b"\x80\x02cbuiltins\nbytearray\n(\x8a\x05\x00\x00\x00\x00\x7ftR.",
        "bytes of another codec": b"\x80\x02c_codecs\nencode\n(" + text(b"a") + text(b"zlib_codec") + b"tR.",  # noqa: E501
        "a huge BINBYTES": b"\x80\x03B\xff\xff\xff\x7fabc.",
        "a huge BINBYTES8": b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"abc.",
        "a huge BINUNICODE8": b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b"abc.",
        "a huge BYTEARRAY8": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"abc.",
        "a huge LONG4": b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
        "a negative LONG4": b"\x80\x02\x8b\xff\xff\xff\xff\x01.",
        "a long number in text": b"L" + b"9" * 20_000 + b"L\n.",
        "a huge frame that is not there": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"h\x00.",
        "a memo that is not there": b"\x80\x04h\x07.",
        "a memo of a mark": b"\x80\x04(q\x00.",
        "laughs": b"\x80\x04]q\x00" + text(b"lol") + b"a"
        + b"".join(b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 9 + b"eq" + bytes([i + 1]) for i in range(20))  # noqa: E501
        + b".",
        "a list in itself": b"\x80\x04]q\x00h\x00a.",
        "an object in itself": b"\x80\x04cbuiltins\nobject\n)\x81q\x00}" + text(b"me") + b"h\x00sb.",  # noqa: E501
        "very deep": b"\x80\x04" + b"]" * 3_000 + b"a" * 2_999 + b".",
        "very many operations": b"\x80\x04" + b"N0" * 20_000 + b"N.",
        "an unhashable key": b"\x80\x04}]K\x01s.",
        "a key that is an object": b"\x80\x04}cbuiltins\nobject\n)\x81K\x01s.",
        "items for a list": b"\x80\x04]K\x01K\x02s.",
        "an odd number of items": b"\x80\x04}(K\x01u.",
        "no STOP": b"\x80\x04N",
        "an empty stack": b"\x80\x04.",
        "a mark at the end": b"\x80\x04(.",
        "an unknown operation": b"\x80\x04\xffN.",
        "a newer protocol": b"\x80\x09N.",
        "nothing": b"",
        "no pickle": b"PK\x03\x04 or something",
    }  # fmt: skip


CASES = sorted(hostile(pathlib.Path("/nowhere")))


@each("case", CASES)
@each("any_name", [False, True])
def test_a_hostile_pickle_does_nothing(case, any_name, tmp_path):
    content = hostile(tmp_path)[case]
    modules = set(sys.modules)
    try:
        found = read_pickle(content, "evil.pkl", any_name=any_name, limits=SMALL)
    except errors.CorruptDataError as error:
        said = str(error)
    else:
        said = "evil.pkl"
        # Only with any name, and then it is data; or it did nothing, many times.
        assert any_name or case == "very many operations"
        assert isinstance(found, (OpaqueRecord, type(None), np.ndarray))
    assert "evil.pkl" in said
    assert len(said) < 1000
    assert list(tmp_path.iterdir()) == []
    assert set(sys.modules) == modules


NAMED = {
    "os.system": "'posix.system'",
    "os.system in protocol 0": "'os.system'",
    "eval": "'builtins.eval'",
    "functools.partial": "'functools.partial'",
    "copyreg.add_extension": "'copyreg.add_extension'",
    "numpy's own loader": "'numpy.load'",
    "a class that is not listed": f"'{HERE}Plain'",
    "an extension code": "extension code 1",
    "the old INST": "'os.system'",
    "a persistent id": "persistent ids",
    "a call of text": "'str' object is not callable",
    "laughs": "more than 10,000 values",
    "a list in itself": "contains itself",
    "very deep": "more than 50 levels deep",
    "an array of a petabyte": "bytes has",
}


@each("case", sorted(NAMED))
def test_the_error_names_what_was_refused(case, tmp_path):
    with pytest.raises(errors.CorruptDataError) as caught:
        read_pickle(hostile(tmp_path)[case], "evil.pkl", limits=SMALL)
    assert NAMED[case] in str(caught.value)


def test_containers_that_are_begun_without_end_are_refused():
    with pytest.raises(errors.CorruptDataError, match="'f' is not a readable pickle"):
        read_pickle(b"\x80\x04" + b"(" * 1_000_000, "f")


def test_a_file_that_is_too_large_is_refused():
    with pytest.raises(errors.CorruptDataError, match="has 2,000 bytes, over the limit of 1,000"):
        read_pickle(bytes(2000), "f", limits=Limits(file_bytes=1000))


def test_a_gzip_bomb_is_refused(tmp_path):
    import gzip

    bomb = gzip.compress(bytes(50 << 20))
    assert len(bomb) < 100_000
    with pytest.raises(errors.CorruptDataError, match="more than 1,000,000 bytes"):
        base.gunzip(bomb, "bomb.gz", 1_000_000)
    for broken in (bomb[:1000], b"no gzip", b""):
        with pytest.raises(errors.CorruptDataError, match="not a readable gzip file"):
            base.gunzip(broken, "bomb.gz", 1 << 30)


SEEDS = [
    pickle.dumps([Plain(a=np.arange(3), b={"c": (1, b"x" * 300)}), Message(role="a")], protocol)
    for protocol in PROTOCOLS
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SEEDS), st.data())
def test_a_changed_pickle_is_read_or_refused(content, data):
    mutable = bytearray(content)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(mutable) - 1))
        if data.draw(st.booleans()):
            mutable[at] = data.draw(st.integers(0, 255))
        else:
            del mutable[at : at + data.draw(st.integers(1, 4))]
    for any_name in (False, True):
        with contextlib.suppress(errors.CorruptDataError):
            read_pickle(bytes(mutable), "f", names=NAMES, any_name=any_name, limits=SMALL)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    with contextlib.suppress(errors.CorruptDataError):
        read_pickle(b"\x80\x04" + content, "f", any_name=True, limits=SMALL)
