"""The loop: run a policy, train it on its episodes, and run the trained policy.

* `configuration`: a loop's settings, and the placeholders in commands. `config_file`: reads
  and checks them, from YAML and `key=value`.
* `phases`: each phase of an iteration as data: a command, its outputs, what it waits for.
  `commands`: the command of each phase. `groups`: what policy-gradient training needs of rollouts.
* `places`: the paths of a loop. `state`: what has been done, on disk.
* `engine`: runs the phases. `process`: one child process. `lock_holder`: the lock that it holds.
* `servers`: the policy's server. `model_link`: makes a model the latest.
* `metrics`: the metrics of each iteration, and their plot.

The loop runs phases as commands, and imports neither torch nor a browser. Importing this package
loads none of its modules; each is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj._homes import face

if TYPE_CHECKING:
    from webtraj.loop.config_file import load_loop_config as load_loop_config
    from webtraj.loop.configuration import LoopConfig as LoopConfig
    from webtraj.loop.engine import LoopResult as LoopResult
    from webtraj.loop.engine import run as run
    from webtraj.loop.phases import LoopObserver as LoopObserver
    from webtraj.loop.phases import PhaseFailedError as PhaseFailedError

_HOMES = {
    "LoopConfig": "configuration",
    "LoopObserver": "phases",
    "LoopResult": "engine",
    "PhaseFailedError": "phases",
    "load_loop_config": "config_file",
    "run": "engine",
}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = face("webtraj.loop", _HOMES)
