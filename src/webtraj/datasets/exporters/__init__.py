"""Export episodes to the formats of other tools.

`export_dataset` writes the episodes of a dataset to a new folder or bucket. Each format is a
class (see `base`) with a line in `FORMATS`, or an entry point of the group `webtraj.exporters`:

* `huggingface`: Parquet files with a dataset card, for `datasets`, pandas, DuckDB, ...
* `html`: one page per episode, to view in a browser without a server.

`webtraj-formats` adds ATIF, HAR, Inspect, Minari, OpenTelemetry and Playwright scripts. `plain` and
`spans` hold what several formats share.
"""

from webtraj.datasets.exporters.base import (
    FORMATS,
    MANIFEST,
    ExportReport,
    LeftOut,
    Note,
    Transform,
    export_dataset,
    read_manifest,
)

__all__ = [
    "FORMATS",
    "MANIFEST",
    "ExportReport",
    "LeftOut",
    "Note",
    "Transform",
    "export_dataset",
    "read_manifest",
]
