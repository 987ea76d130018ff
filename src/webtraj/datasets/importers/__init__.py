"""Episodes that other systems recorded, as webtraj's own.

`import_episodes` finds out what a file or folder holds, and adds its episodes to a dataset. Each
system has a module with a function `read`, which yields what it finds (see `base`).

* `agentlab`: experiment folders of BrowserGym and AgentLab.
* `webgym`: trajectory files of WebGym.
* `orby`: Protobuf files of Orby's collector.
* `miniwob-demos`: demonstrations of MiniWoB++.
* `atif`: the Agent Trajectory Interchange Format.
"""

from webtraj.datasets.importers.base import (
    SYSTEMS,
    Found,
    ImportReport,
    Problem,
    Skipped,
    Source,
    detect,
    import_episodes,
    read_episodes,
)

__all__ = [
    "SYSTEMS",
    "Found",
    "ImportReport",
    "Problem",
    "Skipped",
    "Source",
    "detect",
    "import_episodes",
    "read_episodes",
]
