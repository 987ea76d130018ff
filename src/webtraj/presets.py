"""The presets that ship with webtraj. Registering them imports no browser."""

from __future__ import annotations

from webtraj import registry

__all__ = ["register_presets"]

_MINIWOB = "webtraj.environments.miniwob:MiniwobEnvironment"
_FIXTURE_SITE = "webtraj.environments.fixture_site:FixtureEnvironment"


def register_presets() -> None:
    """Registers every preset that ships. The registry calls it, once, when it is first used."""
    from webtraj.environments.fixture_site.names import TASKS as SITE_TASKS
    from webtraj.environments.miniwob.tasks import SUBSETS, TASKS

    for task in TASKS:
        registry.register(
            f"miniwob/{task}",
            _MINIWOB,
            description=f"The MiniWoB++ page {task}.",
            tasks=(task,),
            uses_browser=True,
        )
    for subset, tasks in SUBSETS.items():
        registry.register(
            f"miniwob/{subset}",
            _MINIWOB,
            description=f"The MiniWoB++ pages of the subset {subset!r}, one after the other.",
            tasks=tasks,
            uses_browser=True,
        )
    registry.register(
        "miniwob/solved",
        _MINIWOB,
        description="The MiniWoB++ pages that the oracle agent can play.",
        tasks=_solved_miniwob,
        uses_browser=True,
    )
    for task in SITE_TASKS:
        registry.register(
            f"fixture/{task}",
            _FIXTURE_SITE,
            description=f"The task {task} of the fixture site.",
            tasks=(task,),
            uses_browser=True,
        )
    registry.register(
        "fixture/all",
        _FIXTURE_SITE,
        description="All tasks of the fixture site, one after the other.",
        tasks=SITE_TASKS,
        uses_browser=True,
    )
    registry.register(
        "web",
        "webtraj.environments.browser.web:make_web_environment",
        description="Any web site: make('web', task=WebTask(goal=..., start_url=...)).",
        uses_browser=True,
    )


def _solved_miniwob() -> tuple[str, ...]:
    from webtraj.environments.miniwob import oracles

    return oracles.solved_tasks()
