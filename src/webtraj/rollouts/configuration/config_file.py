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
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.rollouts.configuration.dialects import ORBY, WEBGYM, Dialect
from webtraj.runs.spec import RunSpec
from webtraj.settings import configuration

__all__ = ["Configuration", "configuration_text", "has_own_keys", "load_configuration"]

_SELF = "_self_"
_DEFAULTS = "defaults"
_PACKAGE = "webtraj.rollouts.configuration"


@dataclasses.dataclass(frozen=True, slots=True)
class Configuration:
    """A validated configuration."""

    spec: RunSpec
    """The settings that it means."""
    data: Mapping[str, Any]
    """The whole configuration, from which it can be loaded again. References to other values and
    to the environment are unresolved, and literal secrets are removed."""
    dialect: Dialect | None = None
    """The dialect of its keys; None for those of `RunSpec`."""


def load_configuration(
    config: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    *,
    config_dir: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Configuration:
    """Load a configuration.

    Args:
        config: A YAML file, or its name without `.yaml` if it is in `config_dir` or ships with
            webtraj.
        overrides: Items of `key=value`, with a dotted key and a YAML value, such as
            `env_config.server_size=8`. Hydra's leading `+` is accepted and ignored.
        config_dir: A folder of your own files, which may build on those that ship.
        flags: Values that override the file, and are overridden by `overrides`.

    Raises:
        InvalidInputError: The file does not exist or is not YAML; an override is malformed; or a
            key is unknown, or its value is missing or invalid.
        MissingDependencyError: OmegaConf is not installed.
    """
    data, dialect = _read(config, overrides, config_dir, flags)
    spec = _spec_of(data, dialect, os.fspath(config))
    return Configuration(spec, configuration.without_secrets(data), dialect)


def configuration_text(
    config: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    *,
    config_dir: str | os.PathLike[str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> str:
    """Return a configuration as YAML. A value that must still be given is `???`.

    The arguments and errors are those of `load_configuration`.
    """
    data, dialect = _read(config, overrides, config_dir, flags)
    if configuration.MISSING in dict(configuration.flatten(data)).values():
        _check_names(data, dialect, os.fspath(config))
    else:
        _spec_of(data, dialect, os.fspath(config))
    return configuration.to_yaml(data)


def has_own_keys(
    config: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    *,
    config_dir: str | os.PathLike[str] | None = None,
) -> bool:
    """Return whether a configuration has the keys of `RunSpec`, which are also the flags.

    The arguments and errors are those of `load_configuration`.
    """
    return _read(config, overrides, config_dir, None)[1] is None


def _read(
    config: str | os.PathLike[str],
    overrides: Iterable[str],
    config_dir: str | os.PathLike[str] | None,
    flags: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], Dialect | None]:
    """Return a configuration's values and its dialect."""
    kinds = {"rollout": WEBGYM, "crawl": ORBY, "run": None}
    configuration.require()
    data = configuration.merge_layers(
        _compose(config, config_dir, ()), flags or {}, overrides,
        example="env_config.server_size=8",
    )  # fmt: skip
    kind = data.get("kind", "rollout")
    if not isinstance(kind, str) or kind not in kinds:
        raise errors.InvalidInputError(f"kind is {kind!r:.60}; expected one of {', '.join(kinds)}.")
    return data, kinds[kind]


def _check_names(data: Mapping[str, Any], dialect: Dialect | None, name: str) -> None:
    if dialect is None:
        configuration.check_names(data, RunSpec, name)
    else:
        configuration.check_keys(data, tuple(dialect.table), name, dialect.refused)


def _spec_of(data: Mapping[str, Any], dialect: Dialect | None, name: str) -> RunSpec:
    if dialect is None:
        return configuration.check(data, RunSpec, name)
    _check_names(data, dialect, name)
    configuration.check_complete(data, name)
    try:
        values = dict(dialect.values(configuration.resolve(data, name)))
        fields = list(dialect.fields(values))
    except ValueError as error:
        if isinstance(error, errors.InvalidInputError):
            raise
        raise configuration.wrong(name, [str(error)]) from None
    spec, *_ = [
        configuration.validate(one, RunSpec, name, dialect.names(keys)) for one, keys in fields
    ]
    return spec


def _compose(
    config: str | os.PathLike[str],
    config_dir: str | os.PathLike[str] | None,
    within: tuple[str, ...],
) -> dict[str, Any]:
    """Return a file merged with those that it builds on. `within`: the files that include it."""
    name = os.fspath(config)
    if name in within:
        raise errors.InvalidInputError(
            f"Configurations must not build on each other in a circle: "
            f"{' -> '.join((*within, name))}."
        )
    data = configuration.read(config, package=_PACKAGE, config_dir=config_dir)
    if config_dir is None and not configuration.is_name(config):
        config_dir = Path(config).parent  # The files that it extends are in the same folder.
    bases = data.pop(_DEFAULTS, None)
    names = [_SELF] if bases is None else _bases(bases, name)
    composed: dict[str, Any] = {}
    for base in names if _SELF in names else [*names, _SELF]:
        part = data if base == _SELF else _compose(base, config_dir, (*within, name))
        composed = configuration.merge(composed, part)
    return composed


def _bases(bases: Any, name: str) -> list[str]:
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise errors.InvalidInputError(
            f"`defaults` of the configuration {name!r} must be a list of configuration names and "
            f"_self_; got {bases!r:.100}. Hydra's config groups are not supported."
        )
    return bases
