"""The templates by name, with level and split, apart from the templates themselves.

Listing the presets is cheap so. A test compares it with the templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["TEMPLATES", "subsets"]

TEMPLATES: Final[Mapping[str, tuple[int, str]]] = MappingProxyType({})


def subsets(templates: Mapping[str, tuple[int, str]]) -> dict[str, tuple[str, ...]]:
    """Return the sets of templates that are presets, by name: `shop/all`, `shop/test`, `test`."""
    found: dict[str, list[str]] = {}
    for name, (level, split) in templates.items():
        app = name.partition("/")[0]
        for subset in ("all", split, f"level-{level}"):
            found.setdefault(f"{app}/{subset}", []).append(name)
            found.setdefault(subset, []).append(name)
    return {name: tuple(members) for name, members in found.items()}
