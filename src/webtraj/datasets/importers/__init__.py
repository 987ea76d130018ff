"""Import episodes that other systems recorded.

`import_episodes` detects the format of a file or folder, and adds its episodes to a dataset. Each
system has a module with a function `read`, which yields its episodes (see `base`).

`orby`, Protobuf files of Orby's collector, is built in. Packages add systems through the
entry-point group `webtraj.importers`; `webtraj-formats` adds AgentLab, WebGym, MiniWoB++'s
demonstrations and ATIF.
"""

from webtraj.datasets.importers.base import (
    Found,
    ImportReport,
    Limits,
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
    "Limits",
    "Problem",
    "Skipped",
    "Source",
    "detect",
    "import_episodes",
    "iterations_of",
    "read_episodes",
    "system_names",
]
