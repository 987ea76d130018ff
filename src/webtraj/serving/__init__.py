"""Model servers: started, supervised, given new weights, ended without leaving anything behind.

* `server`: `ModelServer`, a server for as long as an `async with` block.
* `launch`, `vllm`: what to start; `interpreters`: the Python that has vLLM.
* `rolling`: new weights again and again, by one of three ways; `weights`: what is given to a server
  that runs; `control`: what such a server can be told; `staleness`: how old a call's weights are.
* `resting`: leaving a GPU's memory to a trainer for a while; `memory`: how much models need.
* `supervision`, `restarts`: keeping it alive; `logs`: what it says.
* `process`, `guard`, `ports`: the operating system's side.
* `vllm_worker`: what vLLM's own processes load of ours.

Importing it loads neither vLLM nor torch: those live in the server's process alone.
"""

from webtraj.serving.launch import ServerLaunch
from webtraj.serving.restarts import RestartPolicy
from webtraj.serving.rolling import UpdateWay, WeightUpdater, make_updater, prepare_launch
from webtraj.serving.server import ModelServer
from webtraj.serving.staleness import Staleness, VersionHistory
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
