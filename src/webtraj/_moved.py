"""The former homes of public modules: each still imports, and warns.

A module that has moved needs one line here, not a file of its own.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

__all__ = ["install"]

_HOMES = {
    "webtraj.environments.browser.policies": "webtraj.environments.browser.access",
    "webtraj.formats": "webtraj.store.formats",
    "webtraj.formats.protobuf": "webtraj.store.protobuf",
    "webtraj.formats.protobuf.orby": "webtraj.store.protobuf.orby",
    "webtraj.serialization": "webtraj.store",
    "webtraj.serialization.dtypes": "webtraj.store.values",
    "webtraj.serialization.values": "webtraj.store.values",
    "webtraj.storage": "webtraj.store",
    "webtraj.storage.bucket": "webtraj.store.bucket",
    "webtraj.store.folder": "webtraj.store.places",
    "webtraj.store.storage": "webtraj.store.places",
    "webtraj.collectors.index": "webtraj.store.index",
    "webtraj.collectors.json": "webtraj.collectors.local",
    "webtraj.collectors.journaling": "webtraj.collectors.local",
    "webtraj.collectors.object_store": "webtraj.collectors.bucket",
    "webtraj.collectors.protobuf": "webtraj.collectors.local",
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds former modules. Asked first: an empty folder left behind would count as a package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a former module's name; None for any other."""
        del path, target
        if fullname not in _HOMES:
            return None
        is_package = any(name.startswith(f"{fullname}.") for name in _HOMES)
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def exec_module(self, module: types.ModuleType) -> None:
        """Give the module the names of the one that took its place; each use warns."""
        former, home = module.__name__, _HOMES[module.__name__]

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
    """Make former modules importable. Idempotent."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
