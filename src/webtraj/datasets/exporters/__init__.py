"""Episodes in the formats that other tools read.

`export_dataset` writes the episodes of a dataset to a new folder or bucket. Each format has a
module (see `base`), and a line in `FORMATS`:

* `atif`: the Agent Trajectory Interchange Format, a JSON file an episode.
* `minari`: a dataset that `minari.load_dataset` loads.
* `huggingface`: Parquet files with a dataset card, for `datasets`, pandas, DuckDB, ...
* `html`: a page an episode, to look at in a browser, without a server.
"""

from webtraj.datasets.exporters.base import (
    FORMATS,
    MANIFEST,
    ExportReport,
    Format,
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
    "Format",
    "LeftOut",
    "Note",
    "Transform",
    "export_dataset",
    "read_manifest",
]
