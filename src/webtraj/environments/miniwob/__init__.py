"""MiniWoB++: 125 small web tasks with real rewards, offline, from the `miniwob` package.

`MiniwobEnvironment` plays them; `tasks` names them; `oracles` solves them by script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj.environments.miniwob.environment import MiniwobEnvironment as MiniwobEnvironment

__all__ = ["MiniwobEnvironment"]


def __getattr__(name: str) -> Any:
    # Lazily, so that the names of the tasks can be had without the browser environment.
    if name == "MiniwobEnvironment":
        from webtraj.environments.miniwob.environment import MiniwobEnvironment

        return MiniwobEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
