"""Processing: makes new datasets from recorded ones, step by step, without changing the originals.

`base` defines steps, `steps/` holds the built-in ones, `pipeline` runs them over a dataset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.processing.base import Changed as Changed
    from webtraj.processing.base import Drop as Drop
    from webtraj.processing.base import OrderedStep as OrderedStep
    from webtraj.processing.base import Step as Step
    from webtraj.processing.pipeline import Pipeline as Pipeline
    from webtraj.processing.pipeline import process as process
    from webtraj.processing.registry import make_step as make_step
    from webtraj.processing.registry import step as step

_HOMES = {
    "Changed": "base",
    "Drop": "base",
    "OrderedStep": "base",
    "Pipeline": "pipeline",
    "Step": "base",
    "make_step": "registry",
    "process": "pipeline",
    "step": "registry",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
