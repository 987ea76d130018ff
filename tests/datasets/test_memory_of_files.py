"""No small file takes much memory or time: each is read in a process that may not have much."""

import gzip
import hashlib
import shutil
from pathlib import Path

import numpy as np
import orjson
import pytest

from confined import GIB, read_confined
from rows import each
from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.store import decoding

GOLDEN = Path(__file__).parents[1] / "golden" / "v1-json"
VERIFY_AND_READ = """
print([problem.what for problem in verification.verify(where).problems])
for episode in dataset.open_dataset(where):
    print(episode.episode_id, episode.total_reward)
"""
MODULES = ("webtraj.datasets.verification", "webtraj.datasets.dataset")


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
    said, memory = read_confined(VERIFY_AND_READ, MODULES, place)
    assert "golden-1-won 1.0" in said  # All of it is there: the copies share their bytes.
    assert memory < GIB


def test_gunzip_refuses_a_bomb():
    with pytest.raises(errors.CorruptDataError, match="decompresses to more than"):
        base.gunzip(gzip.compress(bytes(100 << 20)), "x.gz", 4 << 30)
