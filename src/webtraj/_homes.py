"""Where public names live, and where they used to live.

`face` imports a package's names on first use. A moved module can still be imported, with a warning;
it needs one line here, not a file of its own.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

__all__ = ["face", "install"]

_MOVED = {
    "webtraj.environments.browser.policies": "webtraj.environments.browser.access",
    "webtraj.formats": "webtraj.store.layout",
    "webtraj.formats.protobuf": "webtraj.store.protobuf",
    "webtraj.formats.protobuf.orby": "webtraj.store.protobuf.orby",
    "webtraj.serialization": "webtraj.store",
    "webtraj.serialization.dtypes": "webtraj.store.values",
    "webtraj.serialization.values": "webtraj.store.values",
    "webtraj.storage": "webtraj.store",
    "webtraj.storage.bucket": "webtraj.store.bucket",
    "webtraj.collectors.index": "webtraj.store.index",
    "webtraj.collectors.json": "webtraj.collectors.local",
    "webtraj.collectors.journaling": "webtraj.collectors.local",
    "webtraj.collectors.object_store": "webtraj.collectors.bucket",
    "webtraj.collectors.protobuf": "webtraj.collectors.local",
    "webtraj.training.replay.report": "webtraj.training.replay.buffer",
    "webtraj.training.replay.selection": "webtraj.training.replay.buffer",
    "webtraj.training.export.reading": "webtraj.training.export",
    "webtraj.training.sft.rows": "webtraj.training.rows",
    "webtraj.asking": "webtraj.structured_output",
    "webtraj.rollouts.tasks": "webtraj.tasks",
    "webtraj.datasets.exporters.running": "webtraj.datasets.exporters.base",
    "webtraj.environments.browser.aria": "webtraj.environments.browser.observation",
    "webtraj.environments.browser.changes": "webtraj.environments.browser.observation",
    "webtraj.environments.browser.driver": "webtraj.environments.browser.processes",
    "webtraj.environments.browser.frames": "webtraj.environments.browser.page_script",
    "webtraj.environments.browser.operations": "webtraj.environments.browser.lease",
    "webtraj.environments.browser.screenshot": "webtraj.environments.browser.observer",
    "webtraj.environments.tracking": "webtraj.environments.collecting",
    "webtraj.environments.fixture_site": "webtraj.testing.site",
    "webtraj.datasets.conditions": "webtraj.datasets.dataset",
    "webtraj.datasets.pushing": "webtraj.datasets.transfer",
    "webtraj.datasets.splitting": "webtraj.datasets.transfer",
    "webtraj.collectors.null": "webtraj.collectors.base",
    "webtraj.judging.labels": "webtraj.judging.quality",
    "webtraj.agents.models.markup": "webtraj.agents.models.messages",
    "webtraj.environments.gymnasium_export": "webtraj.environments.gymnasium",
    "webtraj.exploring.command": "webtraj.exploring.crawling",
    "webtraj.rates": "webtraj.metrics.rates",
    "webtraj.reporting": "webtraj.metrics",
    "webtraj.reporting.comparing": "webtraj.metrics.comparison",
    "webtraj.reporting.figures": "webtraj.metrics.figures",
    "webtraj.reporting.page": "webtraj.metrics.page",
    "webtraj.reporting.report": "webtraj.metrics.page",
    "webtraj.reporting.sources": "webtraj.metrics.comparison",
    "webtraj.rollouts.iterations": "webtraj.runs.iterations",
    "webtraj.rollouts.metrics": "webtraj.metrics",
    "webtraj.rollouts.metrics.crashes": "webtraj.metrics.facts",
    "webtraj.rollouts.metrics.facts": "webtraj.metrics.facts",
    "webtraj.rollouts.metrics.live": "webtraj.metrics.live",
    "webtraj.rollouts.metrics.measuring": "webtraj.metrics.measuring",
    "webtraj.rollouts.metrics.presenting": "webtraj.metrics.presenting",
    "webtraj.rollouts.metrics.report": "webtraj.metrics.measuring",
    "webtraj.rollouts.metrics.tally": "webtraj.metrics.tally",
    "webtraj.rollouts.plan": "webtraj.runs.plan",
    "webtraj.rollouts.runs": "webtraj.runs.run",
    "webtraj.monitor": "webtraj.view",
    "webtraj.monitor.screen": "webtraj.view.screen",
    "webtraj.monitor.status": "webtraj.view.status",
    "webtraj.monitor.tailing": "webtraj.view.journals",
    "webtraj.monitor.watching": "webtraj.view.monitor",
    "webtraj.viewer": "webtraj.view",
    "webtraj.viewer.app": "webtraj.view.app",
    "webtraj.viewer.episode": "webtraj.view.episode",
    "webtraj.viewer.gathering": "webtraj.view.gathering",
    "webtraj.viewer.iterations": "webtraj.view.iterations",
    "webtraj.viewer.labels": "webtraj.view.labels",
    "webtraj.viewer.page": "webtraj.view.page",
    "webtraj.viewer.source": "webtraj.view.source",
    "webtraj.viewer.table": "webtraj.view.table",
    "webtraj.viewer.values": "webtraj.view.values",
    "webtraj.viewer.viewer": "webtraj.view.viewer",
}


class _Finder:
    """Finds moved modules. Goes first: a leftover empty folder would count as a package.

    A finder and loader by its methods alone: `importlib.abc` takes 10 ms to import.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a moved module; None for any other."""
        del path, target
        if fullname not in _MOVED:
            return None
        is_package = any(name.startswith(f"{fullname}.") for name in _MOVED)
        return importlib.machinery.ModuleSpec(
            fullname,
            self,  # type: ignore[arg-type]
            is_package=is_package,
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave it to Python to make the module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the module the names of its replacement; each use warns."""
        former, home = module.__name__, _MOVED[module.__name__]

        def find(name: str) -> Any:
            value = getattr(importlib.import_module(home), name)
            if not name.startswith("__"):
                warnings.warn(
                    f"{former} has moved: import {name} from {home} instead.",
                    DeprecationWarning,
                    stacklevel=2,
                )
            return value

        module.__getattr__ = find  # type: ignore[method-assign]


def install() -> None:
    """Make moved modules importable. Idempotent."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def face(
    package: str, homes: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` (PEP 562).

    Args:
        package: The package's name.
        homes: The module of each public name, relative to the package.
        modules: Modules of the package that are imported when they are first used.
    """

    def find(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *homes, *modules})
