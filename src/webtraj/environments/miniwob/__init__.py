"""MiniWoB++: 125 small web tasks with real rewards, offline, from the `miniwob` package.

`MiniwobEnvironment` runs them; `tasks` lists them; `oracles` has scripted solutions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj.environments.miniwob.environment import MiniwobEnvironment as MiniwobEnvironment

__all__ = ["MiniwobEnvironment"]


def __getattr__(name: str) -> Any:
    # Lazy, so that task names are available without loading the browser environment.
    if name == "MiniwobEnvironment":
        from webtraj.environments.miniwob.environment import MiniwobEnvironment

        return MiniwobEnvironment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
