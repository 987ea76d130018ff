"""Exploring: turns rough descriptions of sites into concrete tasks with evidence.

* `curious`, `explorer`: explorers without and with a model.
* `seen`: an exploring episode, as proposers read it.
* `hindsight`, `model_proposer`: proposers without and with a model.
* `drafts`: the proposer protocol, and the checks that turn proposals into tasks.
* `proposals`: proposals for a dataset.
* `catalog`: the agent `explorer` and the proposers by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.exploring.curious import CuriousAgent as CuriousAgent
    from webtraj.exploring.drafts import Claim as Claim
    from webtraj.exploring.drafts import Draft as Draft
    from webtraj.exploring.drafts import Drafts as Drafts
    from webtraj.exploring.drafts import Proposer as Proposer
    from webtraj.exploring.drafts import Rejection as Rejection
    from webtraj.exploring.explorer import ExplorerAgent as ExplorerAgent
    from webtraj.exploring.hindsight import HindsightProposer as HindsightProposer
    from webtraj.exploring.model_proposer import ModelProposer as ModelProposer
    from webtraj.exploring.proposals import Proposed as Proposed
    from webtraj.exploring.proposals import propose as propose
    from webtraj.exploring.seen import Seen as Seen
    from webtraj.exploring.seen import Sight as Sight

_HOMES = {
    "Claim": "drafts",
    "CuriousAgent": "curious",
    "Draft": "drafts",
    "Drafts": "drafts",
    "ExplorerAgent": "explorer",
    "HindsightProposer": "hindsight",
    "ModelProposer": "model_proposer",
    "Proposed": "proposals",
    "Proposer": "drafts",
    "Rejection": "drafts",
    "Seen": "seen",
    "Sight": "seen",
    "propose": "proposals",
}

__all__ = [*sorted(_HOMES)]
# Lazily, so that reading proposals loads no agent, and no browser's modules.
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
