"""From no model to one that clicks: what a small model needs that is trained from nothing.

* `decisions`: what an episode's steps would have been asked by, as pointing prompts.
* `model`: a tokenizer made of what pages say, and a small standard decoder that vLLM serves.

`webtraj.training.export.pointing` writes the prompts as rows for `webtraj train`.

No part of it knows a task, its answer, or what the pages of a benchmark are like. What there is to
learn from is what was recorded: episodes that succeeded, and what others did without meaning to
(`webtraj.processing`, hindsight).
"""

from webtraj.training.scratch.decisions import Decided, PointingRenderer, decisions_of
from webtraj.training.scratch.model import make_model

__all__ = [
    "Decided",
    "PointingRenderer",
    "decisions_of",
    "make_model",
]
