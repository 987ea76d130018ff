"""Read and check a loop's configuration: a YAML file, and `key=value` overrides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.loop.commands import check_phases
from webtraj.loop.configuration import PHASES, LoopConfig, check_placeholders
from webtraj.loop.groups import check_groups
from webtraj.settings import configuration
from webtraj.store.places import is_url

__all__ = ["check_loop", "load_loop_config"]

_PACKAGE = "webtraj.loop"
"""Package with the recipes, in its folder `files`."""


def load_loop_config(
    path: str | os.PathLike[str] | None = None,
    overrides: Iterable[str] = (),
    given: Mapping[str, Any] | None = None,
) -> LoopConfig:
    """Return a loop's configuration.

    Args:
        path: A YAML file, or the name of a recipe that ships, such as `one_gpu`. References such
            as `${out}` and `${oc.env:HOME}` are resolved.
        overrides: Items of `key=value`, with a dotted key and a YAML value, which override all
            others: `iterations=5`.
        given: Values that override the file.

    Raises:
        InvalidInputError: The file cannot be read, a recipe or key is unknown, or a value is
            missing or invalid. The message names the nearest known name.
        MissingDependencyError: OmegaConf is needed and not installed.
    """
    name = "loop" if path is None else os.fspath(path)
    file = {} if path is None else configuration.read(path, package=_PACKAGE)
    data = configuration.merge_layers(file, given or {}, overrides, example="iterations=5")
    return check_loop(configuration.check(data, LoopConfig, name))


def check_loop(config: LoopConfig) -> LoopConfig:
    """Check rules that span several keys: placeholders, the folder, names, groups.

    Raises:
        InvalidInputError: A placeholder, format, step or key of the trainer is unknown, `out` is a
            bucket, or a rollout does not fit the algorithm.
    """
    if is_url(config.out):
        raise errors.InvalidInputError(
            f"out is {config.out!r}; expected a folder, since a loop's state and models need a "
            "disk. To copy results elsewhere, use `webtraj push` and publish.command."
        )
    for key in ("first", *PHASES[:-1], "evaluation", "serve"):
        if (value := getattr(config, key)) is not None:
            check_placeholders(value.model_dump(), key)
    for extra in config.extra:
        check_placeholders([extra.command, extra.outputs], f"extra.{extra.name}")
    check_groups(config)
    check_phases(config)
    return config
