"""Environments: contract (`base`), recorder (`collecting_environment`), bridges and browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.environments.base import DescribesEpisode as DescribesEpisode
    from webtraj.environments.base import Environment as Environment
    from webtraj.environments.base import JudgesEpisode as JudgesEpisode
    from webtraj.environments.base import Redacts as Redacts
    from webtraj.environments.base import Seeded as Seeded
    from webtraj.environments.bridges import as_async as as_async
    from webtraj.environments.bridges import as_sync as as_sync
    from webtraj.environments.browser.environment import BrowserEnvironment as BrowserEnvironment
    from webtraj.environments.browser.tasks import Verdict as Verdict
    from webtraj.environments.browser.tasks import WebTask as WebTask
    from webtraj.environments.collecting_environment import (
        TrajectoryCollectingEnvironment as TrajectoryCollectingEnvironment,
    )
    from webtraj.environments.gymnasium import from_gymnasium as from_gymnasium
    from webtraj.environments.gymnasium import to_gymnasium as to_gymnasium
    from webtraj.environments.miniwob.environment import MiniwobEnvironment as MiniwobEnvironment

_HOMES = {
    "BrowserEnvironment": "browser.environment",
    "DescribesEpisode": "base",
    "Environment": "base",
    "JudgesEpisode": "base",
    "MiniwobEnvironment": "miniwob.environment",
    "Redacts": "base",
    "Seeded": "base",
    "TrajectoryCollectingEnvironment": "collecting_environment",
    "Verdict": "browser.tasks",
    "WebTask": "browser.tasks",
    "as_async": "bridges",
    "as_sync": "bridges",
    "from_gymnasium": "gymnasium",
    "to_gymnasium": "gymnasium",
}

__all__ = [*sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
