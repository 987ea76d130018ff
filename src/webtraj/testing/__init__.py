"""Testing tools for projects that build on webtraj.

* `EnvironmentContract` checks an environment against the environment contract.
* `assert_ended`, `assert_no_open_episode`, `assert_valid_trajectory` check recorded episodes.
* `fakes` holds small environments, `faults` injects failures, `strategies` makes arbitrary
  trajectories for hypothesis.
* `model_server` holds a fake model server: real HTTP with scripted replies and faults.
* `plugin` is a pytest plugin with fixtures; pytest loads it automatically.

Everything is imported on first use, so the plugin does not slow down test runs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj.testing.assertions import assert_ended as assert_ended
    from webtraj.testing.assertions import assert_no_open_episode as assert_no_open_episode
    from webtraj.testing.assertions import assert_valid_trajectory as assert_valid_trajectory
    from webtraj.testing.contract import EnvironmentContract as EnvironmentContract

_HOMES = {
    "EnvironmentContract": "contract",
    "assert_ended": "assertions",
    "assert_no_open_episode": "assertions",
    "assert_valid_trajectory": "assertions",
}
_SUBMODULES = frozenset({"assertions", "contract", "fakes", "faults", "model_server", "strategies"})

__all__ = [*sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"webtraj.testing.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'webtraj.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"webtraj.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
