"""Entry points: what installed packages add to webtraj by name.

Built-in names cannot be replaced. If another package offers one of webtraj's own names, this is
logged and the name keeps its meaning, even if the package of webtraj that has the name is not
installed. This module imports nothing heavy.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors

if TYPE_CHECKING:
    import importlib.metadata

__all__ = ["EXTRAS", "OURS", "check_free", "entry_points"]

_LOGGER = logging.getLogger(__name__)

EXTRAS: dict[str, dict[str, str]] = {
    "webtraj.commands": {
        "apps": "apps", "mcp": "integrations", "openenv": "integrations", "otel": "integrations",
    },
    "webtraj.presets": {"apps": "apps", "widgets": "apps"},
    "webtraj.exporters": dict.fromkeys(
        ("atif", "har", "inspect", "minari", "otel", "playwright"), "formats"
    ),
    "webtraj.importers": dict.fromkeys(("agentlab", "atif", "miniwob-demos", "webgym"), "formats"),
}  # fmt: skip
"""The extra of webtraj that installs the package of a name, by entry-point group."""

OURS = ("webtraj", "webtraj-apps", "webtraj-formats", "webtraj-integrations")
"""The distributions whose names are built in."""


def entry_points(
    group: str, builtin: Collection[str] = ()
) -> Mapping[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by name; webtraj's own come first.

    They are read once per process, and again when `sys.path` changes, because reading them takes
    longer than most commands.

    Args:
        group: The group.
        builtin: Names of webtraj that are not entry points.
    """
    return _of_group(tuple(sys.path), group, frozenset(builtin))


def check_free(group: str, name: str, builtin: Collection[str] = ()) -> None:
    """Check that a name is not built in.

    Raises:
        InvalidInputError: The name is built in.
    """
    if name in _builtin(tuple(sys.path), group, frozenset(builtin)):
        raise errors.InvalidInputError(
            f"{name!r:.60} is a built-in name of {group}; choose another name."
        )


@functools.lru_cache(maxsize=1)
def _all(path: tuple[str, ...]) -> Any:  # Python 3.11 has another type than later ones.
    import importlib.metadata

    return importlib.metadata.entry_points()


@functools.cache
def _builtin(path: tuple[str, ...], group: str, builtin: frozenset[str]) -> frozenset[str]:
    own = {one.name for one in _all(path).select(group=group) if _package(one) in OURS}
    return builtin | own | EXTRAS.get(group, {}).keys()


@functools.cache
def _of_group(
    path: tuple[str, ...], group: str, builtin: frozenset[str]
) -> Mapping[str, importlib.metadata.EntryPoint]:
    found: dict[str, importlib.metadata.EntryPoint] = {}
    taken = _builtin(path, group, builtin)
    points = _all(path).select(group=group)
    for one in sorted(points, key=lambda one: _package(one) not in OURS):
        if one.name in taken and _package(one) not in OURS:
            _LOGGER.warning(
                "The package %s offers %r in %s, which is a built-in name: ignored. It must choose "
                "another name.",
                _package(one),
                one.name,
                group,
            )
        else:
            found.setdefault(one.name, one)
    return found


def _package(entry_point: importlib.metadata.EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else "unknown"
