"""The templates by name, with level and split, apart from the templates themselves.

So listing the presets is cheap. `scripts/names.py` writes `names.txt`; a test compares it
with the templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["TEMPLATES", "subsets"]

_ROWS = (
    line.split() for line in Path(__file__).with_name("names.txt").read_text("utf-8").splitlines()
)

TEMPLATES: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {name: (int(level), split) for name, level, split in _ROWS}
)
"""Level and split of each template, by name."""


def subsets(templates: Mapping[str, tuple[int, str]]) -> dict[str, tuple[str, ...]]:
    """Return the sets of templates that are presets, by name: `shop/all`, `shop/test`, `test`."""
    found: dict[str, list[str]] = {}
    for name, (level, split) in templates.items():
        app = name.partition("/")[0]
        for subset in ("all", split, f"level-{level}"):
            found.setdefault(f"{app}/{subset}", []).append(name)
            found.setdefault(subset, []).append(name)
    return {name: tuple(members) for name, members in found.items()}
