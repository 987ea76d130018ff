"""Public names of a package, imported from its modules on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

__all__ = ["face"]


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

    hidden = {"TYPE_CHECKING", "annotations"}
    return find, lambda: sorted({*vars(sys.modules[package]), *homes, *modules} - hidden)
