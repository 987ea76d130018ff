"""Samples in the files that trainers read.

* `base` says what a format is; `registry` names them; each other module is one format, or what
  formats share: `conversations`, `markers`, `pictures`, `lengths`, `weighting`, `pairs`.
* `running` writes an export whole or not at all, and reads it back; `manifest` says what it is of.
* `selections` exports what a replay buffer holds; `preferences` finds pairs in it.
* `reading` reads exports back.
"""

from webtraj.training.export.base import ExportReport, LeftOut, Row, SampleFormat
from webtraj.training.export.registry import FORMATS, make_format
from webtraj.training.export.running import export_samples
from webtraj.training.export.selections import export_selection

__all__ = [
    "FORMATS",
    "ExportReport",
    "LeftOut",
    "Row",
    "SampleFormat",
    "export_samples",
    "export_selection",
    "make_format",
]
