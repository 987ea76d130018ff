"""Presets that installed packages offer."""

from __future__ import annotations

import importlib.metadata
import warnings

__all__ = ["ENTRY_POINT_GROUP", "PresetPluginWarning", "load_plugins"]

ENTRY_POINT_GROUP = "webtraj.presets"
"""The entry-point group; an entry point names a function without arguments that registers."""


class PresetPluginWarning(UserWarning):
    """An installed package offers presets that could not be loaded."""


def load_plugins() -> None:
    """Has every installed package register its presets. One that cannot is a warning."""
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        _load_plugin(entry_point)


def _load_plugin(entry_point: importlib.metadata.EntryPoint) -> None:
    try:
        entry_point.load()()
    except Exception as error:  # A stranger's code: whatever it raises must not stop the rest.
        package = entry_point.dist.name if entry_point.dist else "an unknown package"
        warnings.warn(
            f"The presets that {package} offers ({entry_point.name} = {entry_point.value}) could "
            f"not be loaded: {type(error).__name__}: {error}",
            PresetPluginWarning,
            stacklevel=2,
        )
