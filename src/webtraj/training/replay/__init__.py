"""The replay buffer: turns datasets of many iterations into training samples.

* `buffer`: `ReplayBuffer`, which reads datasets; a `Selection` of its samples; its report.
* `scanner`, `filler`: reading datasets into rows; `weights`: rows, weights and drawing.
* `filters`: what is left out and why, and what is held out.
* `cutter`: one decision of an episode as a sample; `renderer`: prompts for an oracle's decisions.
"""

from webtraj.training.replay.buffer import Parts, ReplayBuffer, ReplayReport, Selection
from webtraj.training.replay.cutter import Rendered, Renderer, sample_of, samples_of
from webtraj.training.replay.filters import Filters, HeldOut, LeakError, Reason, check_parts
from webtraj.training.replay.renderer import AgentRenderer

__all__ = [
    "AgentRenderer",
    "Filters",
    "HeldOut",
    "LeakError",
    "Parts",
    "Reason",
    "Rendered",
    "Renderer",
    "ReplayBuffer",
    "ReplayReport",
    "Selection",
    "check_parts",
    "sample_of",
    "samples_of",
]
