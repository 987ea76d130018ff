"""Load a rollout's configuration: a file and the files that it builds on.

As in Hydra, a file may start with the names of files to build on. Later ones win, and `_self_`
marks the place of the file's own values::

    defaults:
      - rollout
      - _self_
    env_config:
      server_size: 32

`webtraj.settings.configuration` describes everything else in files.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.runs.spec import RunSpec
from webtraj.settings import configuration

if TYPE_CHECKING:
    from webtraj.rollouts.configuration.rollout import RolloutConfig

__all__ = ["Configuration", "configuration_text", "load_configuration"]

_SELF = "_self_"
_DEFAULTS = "defaults"
_PACKAGE = "webtraj.rollouts.configuration"


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """A validated configuration."""

    values: RolloutConfig | RunSpec
    """The values, with defaults for the rest."""
    data: Mapping[str, Any]
    """The whole configuration, from which it can be loaded again. References to other values and
    to the environment are unresolved, and literal secrets are removed."""


def load_configuration(
    name: str,
    overrides: Iterable[str] = (),
    *,
    config_dir: str | os.PathLike[str] | None = None,
) -> Configuration:
    """Load a configuration by name.

    Args:
        name: A file's name without `.yaml`, in `config_dir` or among those that ship with webtraj.
        overrides: Items of `key=value`, with a dotted key and a YAML value, such as
            `env_config.server_size=8`. Hydra's leading `+` is accepted and ignored.
        config_dir: A folder of your own files, which may build on those that ship.

    Raises:
        InvalidInputError: The file does not exist or is not YAML; an override is malformed; or a
            key is unknown, or its value is missing or invalid.
        MissingDependencyError: OmegaConf is not installed.
    """
    data, model = _read(name, overrides, config_dir)
    return Configuration(
        configuration.checked(data, model, name), configuration.without_secrets(data)
    )


def configuration_text(
    name: str,
    overrides: Iterable[str] = (),
    *,
    config_dir: str | os.PathLike[str] | None = None,
) -> str:
    """Return a configuration as YAML. A value that must still be given is `???`.

    Args:
        name: As for `load_configuration`.
        overrides: Likewise.
        config_dir: Likewise.

    Raises:
        InvalidInputError: See `load_configuration`.
        MissingDependencyError: OmegaConf is not installed.
    """
    data, model = _read(name, overrides, config_dir)
    if configuration.MISSING in dict(configuration.flattened(data)).values():
        configuration.check_names(data, model, name)
    else:
        configuration.checked(data, model, name)
    return configuration.to_yaml(data)


def _read(
    name: str, overrides: Iterable[str], config_dir: str | os.PathLike[str] | None
) -> tuple[dict[str, Any], type[RolloutConfig] | type[RunSpec]]:
    """Return a configuration's values and its model."""
    from webtraj.rollouts.configuration.rollout import CrawlConfig, RolloutConfig

    kinds: Mapping[str, type[RolloutConfig] | type[RunSpec]] = {
        "rollout": RolloutConfig, "crawl": CrawlConfig, "run": RunSpec,
    }  # fmt: skip
    configuration.require()
    composed = _compose(name, config_dir, ())
    data = configuration.with_overrides(composed, overrides, example="env_config.server_size=8")
    kind = data.get("kind", "rollout")
    model = kinds.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise errors.InvalidInputError(f"kind is {kind!r:.60}; expected one of {', '.join(kinds)}.")
    return data, model


def _compose(
    name: str, config_dir: str | os.PathLike[str] | None, within: tuple[str, ...]
) -> dict[str, Any]:
    """Return a file merged with those that it builds on. `within`: the files that include it."""
    if name in within:
        raise errors.InvalidInputError(
            f"Configurations must not build on each other in a circle: "
            f"{' -> '.join((*within, name))}."
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
            f"`defaults` of the configuration {name!r} must be a list of configuration names and "
            f"_self_; got {bases!r:.100}. Hydra's config groups are not supported."
        )
    return bases
