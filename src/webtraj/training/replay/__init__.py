"""The replay buffer: from datasets of many iterations to training samples.

* `buffer`: `ReplayBuffer`, which reads datasets and draws samples, and its report in numbers.
* `selection`: the drawn samples.
* `scanning`, `filling`: reading datasets into rows; `weights`: rows, weights and drawing.
* `filters`: what is left out and why, and what is held out.
* `cutting`: one decision of an episode as a sample; `rendering`: prompts for an oracle's decisions.
"""

from webtraj.training.replay.buffer import ReplayBuffer, ReplayReport
from webtraj.training.replay.cutting import Rendered, Renderer, sample_of, samples_of
from webtraj.training.replay.filters import Filters, HeldOut, LeakError, Reason, check_parts
from webtraj.training.replay.rendering import AgentRenderer
from webtraj.training.replay.selection import Parts, Selection

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
