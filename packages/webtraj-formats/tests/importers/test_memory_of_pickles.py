"""No small pickle takes much memory or time: each is read in a process that may not have much."""

import gzip
import io
import pickle
import struct
import sys
import zipfile

import pytest

from confined import GIB, read_confined
from webtraj import errors
from webtraj.datasets.importers import Limits
from webtraj_formats.importers.pickles import read_pickle

MODULES = (
    "webtraj.datasets.importers.base",
    "webtraj_formats.importers.pickles",
    "webtraj_formats.importers.torch_files",
)
READ_TORCH = 'torch_files.read_torch_file(where.read_bytes(), "x.pt")'
READ_GZIP = 'pickles.read_pickle(base.gunzip(where.read_bytes(), "x.gz", 4 << 30), "x.pkl")'


def torch_file(tensors):
    """Returns a file of torch.save in which many tensors share a storage of 32 MB of zeros."""
    count = 8 << 20
    storage = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ"
        + struct.pack("<i", count)
        + b"tQ"
    )
    tensor = (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x00J"
        + struct.pack("<i", count)
        + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\x80\x02](" + tensor * tensors + b"e.")
        archive.writestr("x/data/0", bytes(4 * count))
    return made.getvalue()


def test_tensors_over_one_storage_are_counted_each(tmp_path):
    (tmp_path / "x.pt").write_bytes(torch_file(150))
    said, memory = read_confined(READ_TORCH, MODULES, tmp_path / "x.pt")
    assert "needs more than" in said
    assert memory < GIB


def shared(value, count):
    return pickle.dumps([value] * count, 4)


PICKLES = {
    "empty sets": b"\x80\x04](" + b"\x8f" * 10_000_000 + b"e.",
    "one text many times": shared("x" * 6000, 300_000),
}


@pytest.mark.parametrize("case", ["empty sets", "one text many times"])
def test_a_pickle_that_asks_for_too_much_is_refused(case, tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(PICKLES[case]))
    said, memory = read_confined(READ_GZIP, MODULES, tmp_path / "x.gz")
    assert "needs more than" in said
    assert memory < 1.5 * GIB


def flood(keys):
    return b"\x80\x04}(" + b"".join(keys) + b"u."


def keys_of_one_hash(count):
    return [pickle.dumps(n * (2**61 - 1), 2)[2:-1] + b"N" for n in range(1, count)]


def test_keys_of_one_hash_are_refused():
    big = keys_of_one_hash(3000)
    with pytest.raises(errors.CorruptDataError, match="same hash"):
        read_pickle(flood(big), "x.pkl")
    one_by_one = b"\x80\x04}" + b"".join(key + b"s" for key in big) + b"."
    with pytest.raises(errors.CorruptDataError, match="same hash"):
        read_pickle(one_by_one, "x.pkl")


SHORT = Limits(seconds=1)


def test_what_takes_too_long_is_ended():
    with pytest.raises(errors.CorruptDataError, match=r"x\.pkl.* seconds of processor time"):
        read_pickle(flood(keys_of_one_hash(90_000)), "x.pkl", limits=SHORT)


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux limits a process's memory.")
@pytest.mark.parametrize("bomb", [b"]r\xff\xff\xff\x7f.", b"\x8e" + struct.pack("<Q", 2**40)])
def test_a_few_bytes_that_ask_for_gigabytes_are_refused(bomb):
    with pytest.raises(errors.CorruptDataError, match="needs more than 268,435,456 bytes"):
        read_pickle(b"\x80\x04" + bomb, "x.pkl")
