"""Training a small model from scratch.

* `decisions`: the steps of an episode as pointing prompts.
* `model`: a tokenizer trained on page texts, and a small standard decoder that vLLM serves.

`webtraj.training.export.pointing` writes the prompts as rows for `webtraj train`.

Nothing here knows the tasks, answers or pages of a benchmark. The model learns from recorded
episodes only: from successes, and from relabelled failures (`webtraj.processing`, hindsight).
"""

from webtraj.training.scratch.decisions import (
    Decided,
    PointingRenderer,
    Reach,
    decisions_of,
    reach_of,
)
from webtraj.training.scratch.model import make_model

__all__ = [
    "Decided",
    "PointingRenderer",
    "Reach",
    "decisions_of",
    "make_model",
    "reach_of",
]
