"""The applications' presets, `apps/NAME/all`, `apps/NAME/TASK`, ..., as the registry finds them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import webtraj
from webtraj_apps.names import TEMPLATES, subsets

if TYPE_CHECKING:
    from webtraj_apps.app import App

__all__ = ["register_app", "register_presets"]

_FACTORY = "webtraj_apps.environment:AppEnvironment"


def register_presets() -> None:
    """Register the presets of webtraj's own applications."""
    _register_templates(TEMPLATES)


def register_app(app: App, *, tasks: str) -> None:
    """Add an application of your own, with its presets `apps/NAME/all`, `apps/NAME/TASK`, ...

    Args:
        app: The application.
        tasks: The module of its templates, whose names start with the application's.

    Raises:
        InvalidInputError: The name is taken.
    """
    from webtraj_apps import app as app_lib
    from webtraj_apps import tasks as tasks_lib

    app_lib.add_app(app)
    importlib.import_module(tasks)
    _register_templates(tasks_lib.registered(app.name), of=f"{app.name}/")


def _register_templates(templates: Mapping[str, tuple[int, str]], *, of: str = "") -> None:
    """Register templates, and the sets of them whose names begin with `of`."""
    for template, (level, split) in templates.items():
        webtraj.register(
            f"apps/{template}",
            _FACTORY,
            description=f"A task of level {level} in real applications, of the split {split!r}.",
            tasks=(template,),
            uses_browser=True,
        )
    for subset, members in subsets(templates).items():
        if subset.startswith(of):
            webtraj.register(
                f"apps/{subset}",
                _FACTORY,
                description=f"The tasks {subset!r} in real applications, one after the other.",
                tasks=members,
                uses_browser=True,
            )
