"""Loading a rollout's configuration: a file, and the files that it builds on.

A file may begin with the names of others that it builds on, as Hydra's do; later ones win, and
`_self_` says where the file's own values come::

    defaults:
      - rollout
      - _self_
    env_config:
      server_size: 32

What else stands in files is told in `webtraj.configuration`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from webtraj import configuration, errors
from webtraj.rollouts.configuration.rollout import CrawlConfig, RolloutConfig

__all__ = ["Configuration", "config_names", "load_configuration"]

_SELF = "_self_"
_DEFAULTS = "defaults"
_PACKAGE = "webtraj.rollouts.configuration"

_KINDS: Mapping[str, type[RolloutConfig] | type[CrawlConfig]] = {
    "rollout": RolloutConfig,
    "crawl": CrawlConfig,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration that has been checked."""

    values: RolloutConfig | CrawlConfig
    """Its values, those that were not given at their defaults."""
    source: str
    """All of it as YAML, with references to other values and the environment as they were written:
    a file that gives the same configuration. Secrets that were written out are left out of it."""


def config_names(config_dir: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Returns the names of the configurations that ship with webtraj, and of those in a folder."""
    own = () if config_dir is None else (path.stem for path in Path(config_dir).glob("*.yaml"))
    return tuple(sorted({*configuration.shipped(_PACKAGE), *own}))


def load_configuration(
    name: str,
    overrides: Iterable[str] = (),
    *,
    config_dir: str | os.PathLike[str] | None = None,
) -> Configuration:
    """Loads a configuration by name.

    Args:
        name: A file's name without `.yaml`: one of `config_dir`, or else one that ships with
            webtraj.
        overrides: `key=value` each, the key dotted, the value YAML: `env_config.server_size=8`. A
            leading `+`, as Hydra has it for keys that a file does not name, makes no difference.
        config_dir: A folder of files of one's own, which may build on those that ship.

    Raises:
        InvalidInputError: There is no such file, or it is no YAML; an override is none; a key is
            unknown, has no value or a wrong one.
        MissingDependencyError: OmegaConf is not installed.
    """
    configuration.require()
    data = configuration.with_overrides(
        _compose(name, config_dir, ()), overrides, example="env_config.server_size=8"
    )
    kind = data.get("kind", "rollout")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise errors.InvalidInputError(
            f"kind is {kind!r:.60}; expected one of {', '.join(_KINDS)}."
        )
    return Configuration(configuration.checked(data, model, name), configuration.to_yaml(data))


def _compose(
    name: str, config_dir: str | os.PathLike[str] | None, within: tuple[str, ...]
) -> dict[str, Any]:
    """Returns a file merged with those that it builds on. `within`: the files that ask for it."""
    if name in within:
        raise errors.InvalidInputError(
            f"Configurations build on each other in a circle: {' -> '.join((*within, name))}."
        )
    data = configuration.read_named(name, config_dir=config_dir, package=_PACKAGE)
    bases = data.pop(_DEFAULTS, None)
    names = [_SELF] if bases is None else _bases(bases, name)
    composed: dict[str, Any] = {}
    for base in names if _SELF in names else [*names, _SELF]:
        part = data if base == _SELF else _compose(base, config_dir, (*within, name))
        composed = configuration.merged(composed, part)
    return composed


def _bases(bases: Any, name: str) -> list[str]:
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise errors.InvalidInputError(
            f"`defaults` of the configuration {name!r} is a list of names of other configurations, "
            f"and _self_; got {bases!r:.100}. Hydra's groups are not known here."
        )
    return bases
