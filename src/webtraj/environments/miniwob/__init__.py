"""MiniWoB++: 125 small web tasks with real rewards, offline, from the `miniwob` package.

`MiniwobEnvironment` runs them; `tasks` lists them; `oracles` has scripted solutions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.environments.miniwob.environment import MiniwobEnvironment as MiniwobEnvironment

__all__ = ["MiniwobEnvironment"]

# Lazy, so that task names are available without loading the browser environment.
__getattr__, __dir__ = _homes.face(__name__, {"MiniwobEnvironment": "environment"})
