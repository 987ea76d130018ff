"""What torch.save writes, read without torch."""

import contextlib
import io
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.datasets.importers import Limits
from webtraj_formats.importers.torch_files import is_torch_file, read_torch_file

DATA = Path(__file__).parent / "data" / "torch"
FILES = ("tensors.pt", "tensors.legacy.pt")
SMALL = Limits(file_bytes=1 << 20, expanded=100_000, depth=50)


@pytest.mark.parametrize("name", FILES)
def test_tensors_become_arrays(name):
    content = (DATA / name).read_bytes()
    assert is_torch_file(content[:64])
    found = read_torch_file(content, name)
    expected = {
        "floats": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "half": np.array([1.5, -2.0], np.float32),
        "bools": np.array([True, False]),
        "shared": np.array([1, 2]),
        "base": np.arange(4),
        "scalar": np.array(3),
    }
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert found[key].dtype == array.dtype
        assert found[key].shape == array.shape
        assert found[key].tolist() == array.tolist()
    assert "torch" not in sys.modules


def archive(pickled, storages=None, **files):
    """Returns a file as torch.save writes it, of a given data.pkl."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as target:
        if pickled is not None:
            target.writestr("archive/data.pkl", pickled)
        for key, data in {**(storages or {}), **files}.items():
            target.writestr(f"archive/{key}", data)
    return made.getvalue()


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def tensor(count=4, offset=0, size=(4,), stride=(1,), kind=b"FloatStorage", key=b"0"):
    """Returns the pickle of a tensor."""
    number = lambda value: b"\x8a\x08" + struct.pack("<q", value)  # noqa: E731
    numbers = lambda values: b"(" + b"".join(map(number, values)) + b"t"  # noqa: E731
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(("
        + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(key) + text(b"cpu") + number(count)
        + b"tQ" + number(offset) + numbers(size) + numbers(stride) + b"\x89}tR."
    )  # fmt: skip


GOOD = archive(tensor(), {"data/0": np.arange(4, dtype="<f4").tobytes()})


FOUR = {"data/0": bytes(16)}
BROKEN = {
    "no torch file": (b"something else", "not a zip archive and does not start"),
    "no data.pkl": (archive(None, {"a": b"b"}), "expected one data.pkl, found 0"),
    "a cut archive": (GOOD[: len(GOOD) // 2], "not a readable zip archive"),
    "a storage that is missing": (archive(tensor()), "'0' is missing"),
    "a storage of another size": (archive(tensor(), {"data/0": bytes(7)}), "has the wrong size"),
    "a size beyond the storage": (archive(tensor(size=(5,)), FOUR), "beyond its storage"),
    "an offset beyond the storage": (archive(tensor(offset=1), FOUR), "beyond its storage"),
    "a stride beyond the storage": (archive(tensor(stride=(2,)), FOUR), "beyond its storage"),
    "a stride of nothing": (archive(tensor(size=(2**30,), stride=(0,)), FOUR), "beyond its"),
    "a negative stride": (archive(tensor(stride=(-1,)), FOUR), "invalid sizes"),
    "a huge size": (archive(tensor(size=(2**60,)), FOUR), "invalid sizes"),
    "more strides than sizes": (archive(tensor(stride=(1, 1)), FOUR), "has no valid storage"),
    "another kind of storage": (archive(tensor(kind=b"QInt8Storage"), FOUR), "torch.QInt8Storage"),
    "a forbidden name": (archive(b"\x80\x02cposix\nsystem\n" + text(b"id") + b"\x85R."), "system"),
    "a path for a key": (archive(tensor(key=b"../../etc/passwd")), "is missing"),
    "another byte order": (archive(tensor(), FOUR, byteorder=b"big"), "byte order"),
    "another persistent id": (archive(b"\x80\x02" + text(b"x") + b"Q."), "persistent id"),
}


@each("case", BROKEN)
def test_broken_files_are_refused(case):
    content, said = BROKEN[case]
    with pytest.raises(errors.CorruptDataError) as caught:
        read_torch_file(content, "evil.pt", limits=SMALL)
    assert said in str(caught.value)
    assert "evil.pt" in str(caught.value)


def test_a_zip_bomb_is_refused():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("archive/data.pkl", bytes(40 << 20))
    assert len(made.getvalue()) < 100_000
    with pytest.raises(errors.CorruptDataError, match="more than the limit of 1,048,576"):
        read_torch_file(made.getvalue(), "bomb.pt", limits=SMALL)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_changed_file_is_read_or_refused(name, data):
    mutable = bytearray((DATA / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(mutable) - 1))
        if data.draw(st.booleans()):
            mutable[at] = data.draw(st.integers(0, 255))
        else:
            del mutable[at : at + data.draw(st.integers(1, 40))]
    with contextlib.suppress(errors.CorruptDataError):
        read_torch_file(bytes(mutable), "f", limits=SMALL)
