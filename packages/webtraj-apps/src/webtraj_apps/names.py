"""Applications and their templates by name, before either is imported.

Installed packages offer applications through the entry-point group `webtraj.apps`, webtraj-apps
among them. An entry point maps a name to an `App`, such as `shop = "webtraj_apps.shop:APP"`; the
module `tasks` beside it has the templates, whose names begin with the application's. An entry point
that names only a module has templates over several applications. A program adds applications by
`register_app`.

A file `names.txt` beside the module lists its templates with level and split, so that listing the
presets is cheap; `scripts/names.py` writes ours. Without it the templates are imported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from webtraj import errors, registry

if TYPE_CHECKING:
    from webtraj_apps.app import App
    from webtraj_apps.tasks import Template

__all__ = [
    "ENTRY_POINT_GROUP",
    "NAMES",
    "Source",
    "TEMPLATES",
    "add",
    "find",
    "find_installed",
    "list_registered",
    "sources",
    "subsets",
]

ENTRY_POINT_GROUP: Final = "webtraj.apps"
"""The entry-point group."""

NAMES: Final = "names.txt"
"""The file that lists the templates of a source."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An application with its templates, or templates over several applications."""

    name: str
    """The name, with which its templates begin."""
    tasks: str
    """The module of its templates."""
    app: Callable[[], App] | None = None
    """Return the application; None for templates over several."""
    package: str = ""
    """The package that offers it; empty if a program added it."""

    @property
    def is_ours(self) -> bool:
        """Whether it belongs to the benchmark, whose task sets are the same on every machine."""
        return self.tasks.startswith(f"{__package__}.")

    def load_app(self) -> App:
        """Import the application.

        Raises:
            WebtrajError: It cannot be imported, or has another name.
        """
        assert self.app is not None, f"{self.name} has no application."
        with self._importing():
            app = self.app()
            if app.name != self.name:
                raise ValueError(f"its name is {app.name!r}")
        return app

    def load_tasks(self) -> None:
        """Import the templates.

        Raises:
            WebtrajError: They cannot be imported.
        """
        with self._importing():
            import_module(self.tasks)

    def templates(self) -> Mapping[str, tuple[int, str]]:
        """Return the level and split of its templates, by name.

        Raises:
            WebtrajError: They are not listed, and cannot be imported.
        """
        with self._importing():
            spec = importlib.util.find_spec(self.tasks.rpartition(".")[0] or self.tasks)
            file = Path(spec.origin).with_name(NAMES) if spec and spec.origin else None
            if file and file.exists():
                rows = map(str.split, file.read_text("utf-8").splitlines())
                return {name: (int(level), split) for name, level, split in rows}
        self.load_tasks()
        return list_registered(self.name)

    @contextlib.contextmanager
    def _importing(self) -> Iterator[None]:
        try:
            yield
        except errors.WebtrajError:
            raise
        except Exception as error:  # Whatever the package does.
            raise errors.InvalidInputError(
                f"Cannot load the application {self.name!r}"
                f"{self.package and f' of the package {self.package}'}: "
                f"{type(error).__name__}: {error}"
            ) from error


TEMPLATES: Final[dict[str, Template]] = {}
"""The templates of the modules that are imported, by name."""


def list_registered(app: str) -> dict[str, tuple[int, str]]:
    """Return the level and split of an application's imported templates, by name."""
    return {
        name: (one.level, one.split)
        for name, one in TEMPLATES.items()
        if name.startswith(f"{app}/")
    }


_added: dict[str, Source] = {}
"""What programs have added, by name."""


def add(source: Source) -> None:
    """Add an application.

    Raises:
        InvalidInputError: The name is taken.
    """
    if source.name in find_installed() or source.name in _added:
        raise errors.InvalidInputError(f"There is an application {source.name!r} already.")
    _added[source.name] = source


@functools.cache
def find_installed() -> Mapping[str, Source]:
    """Return what installed packages offer, by name; webtraj-apps' own first.

    If two packages offer the same name, the first one counts.
    """
    offered = [
        Source(
            name=one.name,
            tasks=f"{one.module}.tasks",
            app=one.load if one.attr else None,
            package=one.dist.name if one.dist else "",
        )
        for one in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    ]
    found: dict[str, Source] = {}
    for one in sorted(offered, key=lambda one: (not one.is_ours, one.app is None, one.name)):
        found.setdefault(one.name, one)
    return found


def sources() -> Mapping[str, Source]:
    """Return all applications, and templates over several, by name."""
    registry.names()  # The presets of a package may add an application when they are loaded.
    return {**find_installed(), **_added}


def find(name: str) -> Source | None:
    """Return what has this name; None if nothing does."""
    return find_installed().get(name) or sources().get(name)


def subsets(templates: Mapping[str, tuple[int, str]]) -> dict[str, tuple[str, ...]]:
    """Return the sets of templates that are presets, by name: `shop/all`, `shop/test`, `test`."""
    found: dict[str, list[str]] = {}
    for name, (level, split) in templates.items():
        app = name.partition("/")[0]
        for subset in ("all", split, f"level-{level}"):
            found.setdefault(f"{app}/{subset}", []).append(name)
            found.setdefault(subset, []).append(name)
    return {name: tuple(members) for name, members in found.items()}
