"""A training run as a file or a command line gives it: YAML, and `key=value` on top."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.rollouts.configuration import checking, loading
from webtraj.training.sft.settings import SftSettings

__all__ = ["TrainConfig", "load_train_config"]


class TrainConfig(SftSettings):
    """Settings, with what is trained on and where the result goes."""

    data: list[str]
    """Files of samples, as `webtraj.training.preparing.rows` reads them, or folders of exports."""
    eval_data: list[str] | None = None
    """What to measure the loss on, likewise. If not given, the split `val` of the exports among
    `data`; `[]` is nothing."""
    publish: str | None = None
    """The folder in which the trained model is put, as `model.pt`, when all is done."""


def load_train_config(
    path: Path | None, overrides: Iterable[str] = (), given: dict[str, Any] | None = None
) -> TrainConfig:
    """Returns a configuration.

    Args:
        path: A YAML file. References such as `${oc.env:HOME}` are followed.
        overrides: `key=value` each, the value YAML: `lora.rank=8`.
        given: Values that go before all others.

    Raises:
        InvalidInputError: The file cannot be read, or a key is unknown, missing or wrong.
        MissingDependencyError: OmegaConf is not installed, and there is something to read.
    """
    name = "train" if path is None else str(path)
    data: dict[str, Any] = {}
    if path is not None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InvalidInputError(
                f"The configuration {name!r} cannot be read: {errors.reason(error)}; "
                "expected a YAML file."
            ) from error
        data = _parsed(text, f"The configuration {name!r}")
    for override in overrides:
        data = loading.merged(data, _override(override))
    data = loading.merged(data, given or {})
    checking.check_names(data, TrainConfig, name)
    _check_needed(data, name)
    return checking.validate(data, TrainConfig, name)


def _check_needed(data: dict[str, Any], name: str) -> None:
    missing = [key for key in ("model", "data", "output") if key not in data]
    if missing:
        flags = ", ".join(f"--{key}" for key in missing)
        raise errors.InvalidInputError(
            f"The configuration {name!r} does not say {', '.join(missing)}; give {flags}, or the "
            "same in a YAML file, --config train.yaml."
        )


def _override(text: str) -> dict[str, Any]:
    key, separator, value = text.partition("=")
    names = key.split(".")
    if not separator or not all(name.isidentifier() for name in names):
        raise errors.InvalidInputError(
            f"{text!r:.200} is no override; expected key=value, such as learning_rate=1e-4."
        )
    nested = _parsed(f"value: {value}", f"The override {text!r:.200}")["value"]
    for name in reversed(names):
        nested = {name: nested}
    assert isinstance(nested, dict)
    return nested


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException
    except ImportError as error:
        raise errors.missing_dependency("Configurations need OmegaConf", "config") from error
    tree = OmegaConf.create(loading.parse(text, what))
    try:
        resolved = OmegaConf.to_container(tree, resolve=True)
    except OmegaConfBaseException as error:
        raise errors.InvalidInputError(
            f"{what} has a reference that leads nowhere: {str(error).partition(chr(10))[0]}"
        ) from error
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}
