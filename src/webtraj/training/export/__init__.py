"""Samples in the files that trainers read.

* `base` says what a format is; `running` names them, writes an export whole or not at all, and
  reads it back.
* `sharegpt`, `openai`, `trl`, `tokens` and `pointing` are formats; `conversations`, `pictures` and
  `lengths` are what they share.
* `preferences` finds pairs in a replay buffer, and exports what one holds.
"""

from webtraj.training.export.base import ExportReport, LeftOut, Row, SampleFormat
from webtraj.training.export.preferences import export_selection
from webtraj.training.export.running import FORMATS, export_samples, make_format, read_export

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
