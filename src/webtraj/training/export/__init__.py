"""Samples in the files that trainers read.

`base` says what a format is, `running` writes an export whole or not at all and reads it back; each
other module is one format, or one thing that formats share.
"""

from webtraj.training.export.base import ExportReport, LeftOut, Row, SampleFormat
from webtraj.training.export.registry import FORMATS, make_format
from webtraj.training.export.running import export_samples

__all__ = [
    "FORMATS",
    "ExportReport",
    "LeftOut",
    "Row",
    "SampleFormat",
    "export_samples",
    "make_format",
]
