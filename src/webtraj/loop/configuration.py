"""A loop's configuration: a YAML file, and `key=value` on top."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.loop import placeholders
from webtraj.loop.sections import LoopConfig
from webtraj.rollouts.configuration import checking, loading
from webtraj.store.places import is_url

__all__ = ["check", "load_loop_config", "to_yaml"]

_MAX_BYTES = 1 << 20


def load_loop_config(
    path: str | os.PathLike[str] | None = None,
    overrides: Iterable[str] = (),
    given: Mapping[str, Any] | None = None,
) -> LoopConfig:
    """Returns a loop's configuration.

    Args:
        path: A YAML file. References such as `${out}` and `${oc.env:HOME}` are followed.
        overrides: `key=value` each, the key dotted, the value YAML: `iterations=5`.
        given: Values that go before all others.

    Raises:
        InvalidInputError: The file cannot be read; a key is unknown, missing or wrong, and the
            message names the nearest that is known.
        MissingDependencyError: OmegaConf is not installed, and there is something to read.
    """
    name = "loop" if path is None else os.fspath(path)
    data = {} if path is None else loading.parse(_text(Path(path)), f"The configuration {name!r}")
    for text in overrides:
        data = loading.merged(data, _override(text))
    data = loading.merged(data, given or {})
    checking.check_names(data, LoopConfig, name)
    loading.check_complete(data, name)
    return check(checking.validate(_resolved(data, name), LoopConfig, name))


def check(config: LoopConfig) -> LoopConfig:
    """Checks what a single key cannot tell: placeholders, and the folder.

    Raises:
        InvalidInputError: A placeholder is unknown, or `out` is a bucket.
    """
    if is_url(config.out):
        raise errors.InvalidInputError(
            f"out is {config.out!r}; expected a folder: a loop's state and models lie on a disk. "
            "`webtraj push` and publish.command send what is made elsewhere."
        )
    for key, value in (
        ("rollout", config.rollout), ("evaluation", config.evaluation), ("judge", config.judge),
        ("postprocess", config.postprocess), ("export", config.export), ("train", config.train),
        ("publish", config.publish), ("serve", config.serve),
    ):  # fmt: skip
        if value is not None:
            placeholders.check(value.model_dump(), key)
    for extra in config.extra:
        placeholders.check([extra.command, extra.outputs], f"extra.{extra.name}")
    return config


def to_yaml(config: LoopConfig) -> str:
    """Returns all of a configuration as YAML, defaults too. Secrets are left out."""
    return loading.to_yaml(config.model_dump(mode="json"))


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if len(content) > _MAX_BYTES:
            raise errors.InvalidInputError(
                f"The configuration {str(path)!r} has {len(content)} bytes; expected {_MAX_BYTES} "
                "at most."
            )
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(
            f"The configuration {str(path)!r} cannot be read: {errors.reason(error)}; "
            "expected a YAML file."
        ) from error


def _override(text: str) -> dict[str, Any]:
    key, separator, value = text.partition("=")
    names = key.split(".")
    if not separator or not all(name.isidentifier() for name in names):
        raise errors.InvalidInputError(
            f"{text!r:.200} is no override; expected key=value, such as iterations=5."
        )
    nested = loading.parse(f"value: {value}", f"The override {text!r:.200}")["value"]
    for name in reversed(names):
        nested = {name: nested}
    assert isinstance(nested, dict)
    return nested


def _resolved(data: Mapping[str, Any], name: str) -> Any:
    if not data:
        return {}
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.to_container(OmegaConf.create(dict(data)), resolve=True)
    except OmegaConfBaseException as error:
        raise errors.InvalidInputError(
            f"The configuration {name!r} has a reference that leads nowhere: "
            f"{str(error).partition(chr(10))[0]}"
        ) from error
