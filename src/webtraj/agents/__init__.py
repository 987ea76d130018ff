"""Agents, which choose actions. `base` has the protocol; agents know no environment class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.agents.base import Actor as Actor
    from webtraj.agents.base import Agent as Agent
    from webtraj.agents.base import as_agent as as_agent
    from webtraj.agents.catalog import register as register
    from webtraj.agents.model import ModelAgent as ModelAgent
    from webtraj.agents.oracle import OracleAgent as OracleAgent
    from webtraj.agents.random import RandomAgent as RandomAgent
    from webtraj.agents.replay import ReplayAgent as ReplayAgent
    from webtraj.agents.scripted import ScriptedAgent as ScriptedAgent

_HOMES = {
    "Actor": "base",
    "Agent": "base",
    "ModelAgent": "model",
    "OracleAgent": "oracle",
    "RandomAgent": "random",
    "ReplayAgent": "replay",
    "ScriptedAgent": "scripted",
    "as_agent": "base",
    "register": "catalog",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
