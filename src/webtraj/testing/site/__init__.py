"""The fixture site: a web shop and forum on 127.0.0.1, and seeded tasks judged by its state.

`FixtureEnvironment` plays the tasks; `FixtureSite` is the site alone, for tests of anything that
drives a browser; `tasks` lists the tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.testing.site.environment import (
        FixtureEnvironment as FixtureEnvironment,
    )
    from webtraj.testing.site.site import FixtureSite as FixtureSite

__all__ = ["FixtureEnvironment", "FixtureSite"]

# Lazily, so that the names of the tasks can be had without a server or a browser.
_HOMES = {"FixtureEnvironment": "environment", "FixtureSite": "site"}

__getattr__, __dir__ = _homes.face(__name__, _HOMES)
