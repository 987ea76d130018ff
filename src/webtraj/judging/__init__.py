"""Judges give verdicts on recorded episodes.

`base` defines the protocol. Each other module or folder holds one kind of judge, or measures
judges.
"""

from webtraj.judging.base import Judge, is_judgeable, with_judgement

__all__ = ["Judge", "is_judgeable", "with_judgement"]
