"""The loop: a policy plays, what it played is trained on, the better policy plays again.

* `configuration`: what a loop is told, YAML and `key=value`; `sections`: its keys.
* `phases`: each phase of an iteration as data: a command, what it promises, how it goes on;
  `building`: which command it is.
* `schedule`: which phases there are, in which order, and what waits for what.
* `places`: where everything lies; `placeholders`: its names in commands of a user's own.
* `beginning`: whose folder it is; `engine`: runs the phases; `running`: one child process;
  `holding`: the lock that it holds; `observer`: who looks on.
* `state`: what was done, on disk; `outputs`: what phases promise, and what it is known by.
* `servers`: the policy's server; `publishing`: the model that is the latest.
* `following`: what follows from a phase that is done; `metrics`, `plots`, `wandb`: what came of it.

The loop knows phases as commands, and imports neither torch nor a browser. Importing this loads no
module of it: each is loaded when something of it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj.loop.configuration import load_loop_config as load_loop_config
    from webtraj.loop.engine import LoopResult as LoopResult
    from webtraj.loop.engine import run as run
    from webtraj.loop.failures import PhaseFailedError as PhaseFailedError
    from webtraj.loop.observer import LoopObserver as LoopObserver
    from webtraj.loop.sections import LoopConfig as LoopConfig

_HOMES = {
    "LoopConfig": "sections",
    "LoopObserver": "observer",
    "LoopResult": "engine",
    "PhaseFailedError": "failures",
    "load_loop_config": "configuration",
    "run": "engine",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'webtraj.loop' has no attribute {name!r}")
    return getattr(importlib.import_module(f"webtraj.loop.{_HOMES[name]}"), name)
