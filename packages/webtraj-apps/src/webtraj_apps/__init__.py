"""Real applications as environments: installed once, copied for each episode, judged by state.

`await find_app("shop").world(seed=3)` is an isolated copy of the shop, and
`webtraj.make("apps/shop/all")` an environment of its tasks. `webtraj apps install` installs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj_apps.app import App as App
    from webtraj_apps.app import Meanwhile as Meanwhile
    from webtraj_apps.app import World as World
    from webtraj_apps.app import find_app as find_app
    from webtraj_apps.environment import AppEnvironment as AppEnvironment
    from webtraj_apps.presets import register_app as register_app
    from webtraj_apps.tasks import Fault as Fault

_HOMES = {
    "App": "app",
    "AppEnvironment": "environment",
    "Fault": "tasks",
    "Meanwhile": "app",
    "World": "app",
    "find_app": "app",
    "register_app": "presets",
}

__all__ = [*sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
