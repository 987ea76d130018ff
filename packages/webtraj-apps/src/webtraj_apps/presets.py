"""The presets of applications and widgets, as the registry finds them.

`apps/NAME/all`, `apps/NAME/TASK`, ... are those of applications; `widgets/NAME` and the sets
`widgets/all`, `widgets/train` and `widgets/test` those of widgets.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import webtraj
from webtraj import errors, registry
from webtraj_apps import names
from webtraj_apps.widgets import libraries

if TYPE_CHECKING:
    from webtraj_apps.app import App

__all__ = ["register_app", "register_presets"]

_FACTORY = "webtraj_apps.environment:AppEnvironment"
_WIDGETS = "webtraj_apps.widgets.environment:WidgetEnvironment"


def register_presets() -> None:
    """Register the presets of all installed applications.

    The sets over all applications, such as `apps/test`, are those of webtraj-apps alone, so that
    their tasks are the same everywhere.
    """
    benchmark: dict[str, tuple[int, str]] = {}
    for source in names.find_installed().values():
        try:
            templates = source.templates()
        except errors.WebtrajError as error:  # One package must not stop the others.
            warnings.warn(str(error), registry.PresetPluginWarning, stacklevel=2)
            continue
        if source.is_ours:
            benchmark |= templates
        else:
            _register_templates(templates, of=f"{source.name}/")
    _register_templates(benchmark)
    _register_widgets()


def _register_widgets() -> None:
    """Register the widgets and their sets. All widgets of a library are in one split."""
    sets: dict[str, list[str]] = {}
    for name in libraries.widget_names():
        row = libraries.load_table()[libraries.library_of(name)]
        for subset in ("all", row["split"]):
            sets.setdefault(subset, []).append(name)
        webtraj.register(
            f"{libraries.NAME}/{name}",
            _WIDGETS,
            description=f"A widget of {row['package']} {row['version']}.",
            tasks=(name,),
            uses_browser=True,
        )
    for subset, members in sets.items():
        webtraj.register(
            f"{libraries.NAME}/{subset}",
            _WIDGETS,
            description=f"The widgets {subset!r} of UI libraries, one after the other.",
            tasks=members,
            uses_browser=True,
        )


def register_app(app: App, *, tasks: str) -> None:
    """Add an application of this program, with its presets `apps/NAME/all`, `apps/NAME/TASK`, ...

    An installed package offers its applications by the entry-point group `webtraj.apps` instead.

    Args:
        app: The application.
        tasks: The module of its templates, whose names start with the application's.

    Raises:
        InvalidInputError: The name is taken, or the templates cannot be imported.
    """
    source = names.Source(name=app.name, tasks=tasks, app=lambda: app)
    names.add(source)
    _register_templates(source.templates(), of=f"{app.name}/")


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
    for subset, members in names.subsets(templates).items():
        if subset.startswith(of):
            webtraj.register(
                f"apps/{subset}",
                _FACTORY,
                description=f"The tasks {subset!r} in real applications, one after the other.",
                tasks=members,
                uses_browser=True,
            )
