"""Export episodes to the formats of other tools.

`export_dataset` writes the episodes of a dataset to a new folder or bucket. Each format is a
module (see `base`) and an entry point of the group `webtraj.exporters`, or is named by `register`:

* `atif`: the Agent Trajectory Interchange Format, one JSON file per episode.
* `minari`: a dataset for `minari.load_dataset`.
* `huggingface`: Parquet files with a dataset card, for `datasets`, pandas, DuckDB, ...
* `otel`: OpenTelemetry traces by the GenAI semantic conventions, one per episode.
* `inspect`: logs of the evaluation framework Inspect, one sample per episode.
* `playwright`: a Playwright script per episode, in Python or TypeScript, that runs without webtraj.
* `har`: the network traffic of each episode that was recorded with it.
* `html`: one page per episode, to view in a browser without a server.
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
    register,
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
    "register",
]
