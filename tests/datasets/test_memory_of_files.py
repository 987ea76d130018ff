"""No small file takes much memory or time: each is read in a process that may not have much."""

import gzip
import hashlib
import io
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import orjson
import pytest

from rows import each
from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.store import decoding
from webtraj_formats.importers.pickles import Limits, read_pickle

GOLDEN = Path(__file__).parents[1] / "golden" / "v1-json"
MEMORY = 1 << 30
READ = """
import resource, sys, pathlib
import webtraj.datasets.verification, webtraj_formats.importers.torch_files
import webtraj_formats.importers.pickles, webtraj.datasets.importers.base
import webtraj_formats.exporters.atif
from webtraj import errors
what, where = sys.argv[1], pathlib.Path(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]), int(sys.argv[3])))
try:
    if what == "dataset":
        found = webtraj.datasets.verification.verify(where).problems
        print([problem.what for problem in found])
        for episode in webtraj.open_dataset(where):
            print(episode.episode_id, episode.total_reward)
    elif what == "torch":
        webtraj_formats.importers.torch_files.read_torch_file(where.read_bytes(), "x.pt")
    else:
        content = where.read_bytes()
        if what == "gzip":
            content = webtraj.datasets.importers.base.gunzip(content, "x.gz", 4 << 30)
        webtraj_formats.importers.pickles.read_pickle(content, "x.pkl")
except errors.WebtrajError as error:
    print(type(error).__name__, error)
print("DONE", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def read_confined(what, where, memory=3 * MEMORY):
    """Reads a file in a process of its own; returns what it said, and its most memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", READ, what, str(where), str(memory)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    *said, last = done.stdout.splitlines()
    return "\n".join(said), int(last.removeprefix("DONE ")) * 1024


def with_value(folder, value):
    """Returns a dataset with one episode whose first observation holds a value."""
    shutil.copytree(GOLDEN, folder)
    path = folder / "episodes" / "golden-1-won.json"
    data = orjson.loads(path.read_bytes())
    data["steps"][0]["observation"] = {"x": value}
    path.write_bytes(orjson.dumps(data))
    shutil.rmtree(folder / "index")
    return folder


EMPTY = {"$": "bytes", "v": ""}
VALUES = {
    "empty rows": {"$": "ndarray", "shape": [40_000_000, 0], "dtype": "object", "v": []},
    "empty rows of numbers": {"$": "ndarray", "shape": [2**40, 0], "dtype": "<f8", "v": EMPTY},
    "empty texts": {"$": "ndarray", "shape": [2**34], "dtype": "<U0", "v": EMPTY},
    "a void of a size": {"$": "scalar", "dtype": "|V9", "v": 2**33},
    "no character": {
        "$": "ndarray", "shape": [1], "dtype": "<U1", "v": {"$": "bytes", "v": "/////w=="},
    },
    "keys of one hash": {
        "$": "dict",
        "v": [[{"$": "int", "v": hex(n * (2**61 - 1))}, 0] for n in range(1, 20_000)],
    },
    "a set of one hash": {
        "$": "set",
        "v": [{"$": "int", "v": hex(n * (2**61 - 1))} for n in range(1, 20_000)],
    },
}  # fmt: skip


@each("case", VALUES)
def test_a_value_that_asks_for_too_much_is_an_error_that_names_it(case):
    with pytest.raises(errors.CorruptDataError):
        decoding.decode(VALUES[case])


def test_one_blob_referred_to_many_times_is_read_once(tmp_path):
    raw = np.arange(500_000, dtype="<f8").tobytes()
    sha256 = hashlib.sha256(raw).hexdigest()
    blob = {"$": "blob", "sha256": sha256, "ext": "bin", "size": len(raw)}
    array = {"$": "ndarray", "dtype": "<f8", "shape": [500_000], "v": blob}
    place = with_value(tmp_path / "ds", [[array] * 500, [blob] * 5000])
    path = place / "blobs" / sha256[:2] / f"{sha256}.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw)
    said, memory = read_confined("dataset", place)
    assert "golden-1-won 1.0" in said  # All of it is there: the copies share their bytes.
    assert memory < MEMORY


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
    said, memory = read_confined("torch", tmp_path / "x.pt")
    assert "needs more than" in said
    assert memory < MEMORY


def shared(value, count):
    return pickle.dumps([value] * count, 4)


PICKLES = {
    "empty sets": b"\x80\x04](" + b"\x8f" * 10_000_000 + b"e.",
    "one text many times": shared("x" * 6000, 300_000),
}


@pytest.mark.parametrize("case", ["empty sets", "one text many times"])
def test_a_pickle_that_asks_for_too_much_is_refused(case, tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(PICKLES[case]))
    said, memory = read_confined("gzip", tmp_path / "x.gz")
    assert "needs more than" in said
    assert memory < 1.5 * MEMORY


def test_gunzip_refuses_a_bomb():
    with pytest.raises(errors.CorruptDataError, match="decompresses to more than"):
        base.gunzip(gzip.compress(bytes(100 << 20)), "x.gz", 4 << 30)


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
