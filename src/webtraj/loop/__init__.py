"""The loop: a policy plays, what it played is trained on, the better policy plays again.

* `configuration`: what a loop is told, YAML and `key=value`, and the placeholders in its commands.
* `phases`: each phase of an iteration as data: a command, what it promises, what it waits for;
  `building`: which command it is.
* `places`: where everything lies; `state`: what was done, on disk.
* `engine`: runs the phases; `running`: one child process; `holding`: the lock that it holds.
* `servers`: the policy's server; `publishing`: the model that is the latest.
* `metrics`: what came of it, and its pictures.

The loop knows phases as commands, and imports neither torch nor a browser. Importing this loads no
module of it: each is loaded when something of it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj.loop.configuration import LoopConfig as LoopConfig
    from webtraj.loop.configuration import load_loop_config as load_loop_config
    from webtraj.loop.engine import LoopResult as LoopResult
    from webtraj.loop.engine import run as run
    from webtraj.loop.phases import LoopObserver as LoopObserver
    from webtraj.loop.phases import PhaseFailedError as PhaseFailedError

_HOMES = {
    "LoopConfig": "configuration",
    "LoopObserver": "phases",
    "LoopResult": "engine",
    "PhaseFailedError": "phases",
    "load_loop_config": "configuration",
    "run": "engine",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'webtraj.loop' has no attribute {name!r}")
    return getattr(importlib.import_module(f"webtraj.loop.{_HOMES[name]}"), name)
