"""webtraj's presets as Gymnasium environments, registered when this module is imported.

The preset `miniwob/click-test` is `webtraj/miniwob.click-test-v0`: Gymnasium allows one `/`, so the
preset's own become dots.

    import gymnasium
    import webtraj_integrations.gymnasium

    env = gymnasium.make("webtraj/miniwob.click-test-v0", seed=0)

Arguments go to `webtraj.make`; `trajectory_collector` records every episode.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from webtraj import errors, registry

try:
    from gymnasium.envs import registration
except ImportError as error:
    raise errors.missing_dependency(
        "webtraj_integrations.gymnasium needs Gymnasium", "gymnasium"
    ) from error

from webtraj.environments import bridges
from webtraj.environments.gymnasium import GymnasiumEnvironment

__all__ = ["gymnasium_id", "make_preset", "register_presets"]

_VERSION = 0
"""Of all ids. A preset that comes to mean another task gets another name."""


def gymnasium_id(preset: str) -> str:
    """Return the id of a preset.

    >>> gymnasium_id("miniwob/click-test")
    'webtraj/miniwob.click-test-v0'
    """
    return f"webtraj/{preset.replace('/', '.')}-v{_VERSION}"


class _PresetEnvironment(GymnasiumEnvironment):
    """An environment whose `spec` leaves out the collector, since Gymnasium copies specs."""

    _spec: registration.EnvSpec | None = None

    @property
    def spec(self) -> registration.EnvSpec | None:
        return self._spec

    @spec.setter
    def spec(self, spec: registration.EnvSpec | None) -> None:
        if spec is not None:
            kept = {k: v for k, v in spec.kwargs.items() if k != "trajectory_collector"}
            spec = dataclasses.replace(spec, kwargs=kept)
        self._spec = spec


def make_preset(*, preset: str, **kwargs: Any) -> GymnasiumEnvironment:
    """Make a preset's environment. Gymnasium calls this for `gymnasium.make`.

    Args:
        preset: The preset.
        **kwargs: The arguments of `webtraj.make`.
    """
    return _PresetEnvironment(bridges.as_sync(registry.make(preset, **kwargs)))


def register_presets() -> None:
    """Register every preset that is not yet registered, such as one of your own."""
    for preset in registry.info():
        name = gymnasium_id(preset.name)
        if name not in registration.registry:
            registration.register(
                name, f"{__name__}:{make_preset.__name__}", kwargs={"preset": preset.name}
            )


register_presets()
