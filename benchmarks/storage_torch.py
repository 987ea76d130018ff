"""The peer half of `storage.py`: the same steps by `torch.save` and `torch.load`.

Runs in a virtual environment of its own. Reads pickled plain data, writes it as WebGym does, and
prints one JSON object on its last line.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path

import torch

source, target = Path(sys.argv[1]), Path(sys.argv[2])
data = pickle.loads(source.read_bytes())
started = time.perf_counter()
torch.save(data, target)
saved = time.perf_counter() - started
del data

loads = []
for _ in range(3):
    started = time.perf_counter()
    loaded = torch.load(target, weights_only=False)
    steps = sum(1 for trajectory in loaded["trajectories"] for _ in trajectory)
    loads.append(time.perf_counter() - started)
    del loaded

print(
    json.dumps(
        {
            "torch": torch.__version__,
            "save": saved,
            "load": min(loads),
            "steps": steps,
            "bytes": target.stat().st_size,
        }
    )
)
