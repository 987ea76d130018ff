"""Model servers: start and supervise them, update their weights, and stop them cleanly.

* `server`: `ModelServer`, which keeps a server alive for the length of an `async with` block.
* `vllm`: how to start vLLM, and how it lends a GPU's memory to a trainer. `interpreters`: the
  Python that has vLLM. `memory`: how much memory models need.
* `weight_updater`: repeated weight updates, in one of three ways. `control`: requests that change a
  running server.
* `process`, `guard`: operating system processes.
* `vllm_worker`: our code that vLLM's own processes load.

Importing this package loads neither vLLM nor torch, which run only in the server's process.
"""

from webtraj.serving.process import RestartPolicy, ServerLaunch
from webtraj.serving.server import ModelServer
from webtraj.serving.vllm import VllmLaunch
from webtraj.serving.weight_updater import (
    Staleness,
    UpdateWay,
    VersionHistory,
    WeightUpdater,
    make_updater,
    prepare_launch,
)

__all__ = [
    "ModelServer",
    "RestartPolicy",
    "ServerLaunch",
    "Staleness",
    "UpdateWay",
    "VersionHistory",
    "VllmLaunch",
    "WeightUpdater",
    "make_updater",
    "prepare_launch",
]
