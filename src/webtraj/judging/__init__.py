"""Judges: what recorded episodes were worth.

`base` says what a judge is; each other module or folder is one kind of judge, or what judges are
measured by.
"""

from webtraj.judging.base import Judge, is_judgeable, with_judgement

__all__ = ["Judge", "is_judgeable", "with_judgement"]
