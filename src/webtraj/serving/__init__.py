"""Model servers: started, supervised, given new weights, ended without leaving anything behind.

* `server`: `ModelServer`, a server for as long as an `async with` block; `supervision`: kept alive.
* `vllm`: what to start, and how it leaves a GPU's memory to a trainer for a while; `interpreters`:
  the Python that has vLLM; `memory`: how much models need.
* `rolling`: new weights again and again, by one of three ways; `control`: what a server that runs
  can be told.
* `process`, `guard`: the operating system's side.
* `vllm_worker`: what vLLM's own processes load of ours.

Importing it loads neither vLLM nor torch: those live in the server's process alone.
"""

from webtraj.serving.process import RestartPolicy, ServerLaunch
from webtraj.serving.rolling import (
    Staleness,
    UpdateWay,
    VersionHistory,
    WeightUpdater,
    make_updater,
    prepare_launch,
)
from webtraj.serving.server import ModelServer
from webtraj.serving.vllm import VllmLaunch

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
