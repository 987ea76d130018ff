"""The replay buffer: from datasets of many iterations to the samples that a model is trained on.

* `buffer`: `ReplayBuffer`, which reads datasets and draws; `selection`: what was drawn.
* `cutting`: one decision of an episode as a sample; `recorded`: its messages, read back;
  `rendering`: prompts for what an oracle decided.
* `filters`: what is left out, for which reasons; `leaks`: what must be.
* `weights`: how likely a sample is to be drawn, or how much it counts; `drawing`, `splits`.
* `report`: all of that in numbers.
* `sources`, `scanning`, `filling`, `columns`, `loading`, `digests`: how it is held.
"""

from webtraj.training.replay.buffer import ReplayBuffer
from webtraj.training.replay.cutting import Rendered, Renderer, sample_of, samples_of
from webtraj.training.replay.filters import Filters, Reason
from webtraj.training.replay.leaks import HeldOut, LeakError, check_parts
from webtraj.training.replay.rendering import AgentRenderer
from webtraj.training.replay.report import ReplayReport
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
