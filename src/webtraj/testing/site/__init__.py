"""The fixture site: a web shop and forum on 127.0.0.1, and seeded tasks judged by its state.

`FixtureEnvironment` plays the tasks; `FixtureSite` is the site alone, for tests of anything that
drives a browser; `tasks` lists the tasks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webtraj.testing.site.environment import (
        FixtureEnvironment as FixtureEnvironment,
    )
    from webtraj.testing.site.site import FixtureSite as FixtureSite

__all__ = ["FixtureEnvironment", "FixtureSite"]

_HOMES = {"FixtureEnvironment": "environment", "FixtureSite": "site"}


def __getattr__(name: str) -> Any:
    # Lazily, so that the names of the tasks can be had without a server or a browser.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
