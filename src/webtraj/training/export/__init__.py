"""Exports of samples in the files that trainers read.

* `base` defines a format; `export_folder` lists the formats, and writes and reads exports.
* `sharegpt`, `openai`, `trl` and `tokens` are formats; they share `conversations`, `pictures` and
  `lengths`.
* `preferences` finds pairs in a replay buffer, and exports its samples.
"""

from webtraj.training.export.base import ExportReport, LeftOut, Row, SampleFormat
from webtraj.training.export.export_folder import FORMATS, export_samples, make_format, read_export
from webtraj.training.export.preferences import export_selection

__all__ = [
    "FORMATS",
    "ExportReport",
    "LeftOut",
    "Row",
    "SampleFormat",
    "export_samples",
    "export_selection",
    "make_format",
    "read_export",
]
