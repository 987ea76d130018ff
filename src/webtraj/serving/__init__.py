"""Model servers: started, supervised, given new weights, ended without leaving anything behind.

* `server`: `ModelServer`, a server for as long as an `async with` block.
* `launch`, `vllm`: what to start; `interpreters`: the Python that has vLLM.
* `weights`: which weights a server answers with, and giving it others.
* `process`, `guard`, `ports`: the operating system's side; `restarts`: how often; `logs`: the end.

Importing it loads neither vLLM nor torch: those live in the server's process alone.
"""

from webtraj.serving.launch import ServerLaunch
from webtraj.serving.restarts import RestartPolicy
from webtraj.serving.server import ModelServer
from webtraj.serving.vllm import VllmLaunch

__all__ = ["ModelServer", "RestartPolicy", "ServerLaunch", "VllmLaunch"]
