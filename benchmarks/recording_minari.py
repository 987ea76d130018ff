"""The peer half of `recording.py`: Minari's DataCollector over the same steps.

Runs in a virtual environment of its own. Prints one JSON object on its last line.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import gymnasium
import minari
import numpy as np

STEPS, LENGTH = int(sys.argv[1]), int(sys.argv[2])
SCREENSHOT, TEXT = int(sys.argv[3]), int(sys.argv[4])


class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        screenshot=gymnasium.spaces.Box(0, 255, (SCREENSHOT,), np.uint8),
        axtree=gymnasium.spaces.Text(TEXT, min_length=TEXT, charset="0123456789abcdef"),
    )
    action_space = gymnasium.spaces.Discrete(1000)

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._seen = [
            {
                "screenshot": rng.integers(0, 256, SCREENSHOT, np.uint8),
                "axtree": rng.bytes(TEXT // 2).hex(),
            }
            for _ in range(STEPS)
        ]
        self._t = 0

    def reset(self, *, seed=None, options=None):
        return self._seen[self._t % STEPS], {}

    def step(self, action):
        self._t += 1
        return self._seen[self._t % STEPS], 0.0, self._t % LENGTH == 0, False, {}


def main() -> None:
    figures = {"version": minari.__version__}
    for data_format in ("hdf5", "arrow"):
        with tempfile.TemporaryDirectory() as folder:
            import os

            os.environ["MINARI_DATASETS_PATH"] = folder
            env = minari.DataCollector(Env(), data_format=data_format)
            wall, cpu = time.perf_counter(), time.process_time()
            env.reset()
            for action in range(STEPS):
                if env.step(action % 1000)[2]:
                    env.reset()
            env.create_dataset(dataset_id="bench/recording-v0")
            env.close()
            figures[data_format] = {
                "wall": (time.perf_counter() - wall) / STEPS,
                "cpu": (time.process_time() - cpu) / STEPS,
            }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
