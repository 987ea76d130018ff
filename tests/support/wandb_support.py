"""Weights & Biases for tests, offline: an interpreter that has it, and what its files say.

webtraj's own environment does without it, so what uses it runs in an interpreter of `.venv-wandb`
(made by `make test-peers`) or of `WEBTRAJ_WANDB_PYTHON`, beside webtraj's packages. By itself,
`wandb_support.py FOLDER` prints what is in that folder's files.
"""

import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_BLOCK, _HEADER = 32768, 7
_FULL, _LAST = 1, 4

_RUN = """
import runpy, socket, sys
ours, *sys.argv = {arguments!r}
# Its own packages first; ours for what webtraj needs.
sys.path += ours
connect = socket.socket.connect
def no_network(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
        raise AssertionError(f"it wants to connect to {{address}}")
    return connect(self, address)
socket.socket.connect = no_network
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def python_with_wandb():
    """Returns an interpreter that has wandb; None if there is none."""
    if importlib.util.find_spec("wandb") is not None:
        return sys.executable
    # Only the same version can load our compiled packages.
    name = "python{}.{}".format(*sys.version_info)
    other = Path(os.environ.get("WEBTRAJ_WANDB_PYTHON", ROOT / ".venv-wandb" / "bin" / name))
    return str(other) if other.exists() else None


needs_wandb = pytest.mark.skipif(
    python_with_wandb() is None,
    reason="needs wandb, or WEBTRAJ_WANDB_PYTHON, an interpreter that has it",
)


def run_with_wandb(home, script, *arguments):
    """Runs a script without a network, in that interpreter; returns what it prints."""
    ours = [str(ROOT / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
    code = _RUN.format(arguments=[ours, str(script), *map(str, arguments)])
    variables = {
        "HOME": str(home),
        "WANDB_SILENT": "true",
        "WANDB_CACHE_DIR": str(home / "cache"),
        "WANDB_CONFIG_DIR": str(home / "config"),
        "WANDB_DATA_DIR": str(home / "data"),
    }
    done = subprocess.run(
        [python_with_wandb(), "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def offline_runs(home, folder):
    """Returns what a folder's runs say, in the order in which they were begun.

    Each has `project`, `name` and `id`, and `points`, of which each maps names to values.
    """
    # W&B's own process has written all only when the one that logged has ended.
    return json.loads(run_with_wandb(home, __file__, folder).splitlines()[-1])


def _runs(folder):
    from wandb.proto import wandb_internal_pb2

    for path in sorted(Path(folder).glob("wandb/offline-run-*/*.wandb")):
        run = {"points": []}
        for data in _records(path.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.HasField("history"):
                items = record.history.item
                point = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
                run["points"].append({k: v for k, v in point.items() if not k.startswith("_")})
            elif record.HasField("run"):
                told = record.run
                run |= {"project": told.project, "name": told.display_name, "id": told.run_id}
        yield run


def _records(content):
    """Yields the records of a file in LevelDB's log format, which W&B's have behind 7 bytes."""
    position, record = 7, b""
    while position + _HEADER <= len(content):
        left = _BLOCK - position % _BLOCK
        if left < _HEADER:  # The rest of a block is filled up.
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        record += content[position + _HEADER : position + _HEADER + length]
        position += _HEADER + length
        if kind in (_FULL, _LAST):
            yield record
            record = b""


if __name__ == "__main__":
    print(json.dumps(list(_runs(sys.argv[1]))))
