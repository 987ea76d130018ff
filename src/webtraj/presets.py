"""The presets that ship with webtraj. Registering them imports no browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from webtraj import registry

if TYPE_CHECKING:
    from webtraj.environments.base import Environment

__all__ = ["register_presets"]


def register_presets() -> None:
    """Registers every preset that ships. The registry calls it, once, when it is first used."""
    from webtraj.environments.miniwob.tasks import SUBSETS, TASKS

    for task in TASKS:
        registry.register(
            f"miniwob/{task}",
            _make_miniwob,
            description=f"The MiniWoB++ page {task}.",
            tasks=(task,),
            uses_browser=True,
        )
    for subset, tasks in SUBSETS.items():
        registry.register(
            f"miniwob/{subset}",
            _make_miniwob,
            description=f"The MiniWoB++ pages of the subset {subset!r}, one after the other.",
            tasks=tuple(tasks),
            uses_browser=True,
        )


def _make_miniwob(tasks: Sequence[str], **options: Any) -> Environment:
    from webtraj.environments.miniwob import MiniwobEnvironment

    return MiniwobEnvironment(tasks, **options)
