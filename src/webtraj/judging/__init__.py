"""Judges give verdicts on recorded episodes.

`base` defines the protocol, and `judged` judges a dataset. Each other module or folder holds one
kind of judge, or measures judges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.judging.base import Judge as Judge
    from webtraj.judging.base import is_judgeable as is_judgeable
    from webtraj.judging.base import with_judgement as with_judgement
    from webtraj.judging.catalog import register as register
    from webtraj.judging.judged import Judged as Judged
    from webtraj.judging.judged import judge_dataset as judge_dataset

_HOMES = {
    "Judge": "base",
    "Judged": "judged",
    "is_judgeable": "base",
    "judge_dataset": "judged",
    "register": "catalog",
    "with_judgement": "base",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
