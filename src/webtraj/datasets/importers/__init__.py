"""Import episodes that other systems recorded.

`import_episodes` detects the format of a file or folder, and adds its episodes to a dataset. Each
system has a module with a function `read`, which yields its episodes (see `base`).

* `agentlab`: experiment folders of BrowserGym and AgentLab.
* `webgym`: trajectory files of WebGym.
* `orby`: Protobuf files of Orby's collector.
* `miniwob-demos`: demonstrations of MiniWoB++.
* `atif`: the Agent Trajectory Interchange Format.
"""

from webtraj.datasets.importers.base import (
    Found,
    ImportReport,
    Problem,
    Skipped,
    Source,
    detect,
    import_episodes,
    iterations_of,
    read_episodes,
    system_names,
)

__all__ = [
    "Found",
    "ImportReport",
    "Problem",
    "Skipped",
    "Source",
    "detect",
    "import_episodes",
    "iterations_of",
    "read_episodes",
    "system_names",
]
