"""Reading YAML and JSON files in which nothing is left to chance: no key twice, no aliases."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from webtraj import errors

__all__ = ["read_data"]


def read_data(path: str | os.PathLike[str], *, what: str, max_size: int) -> Any:
    """Returns the data of a `.json`, `.yaml` or `.yml` file.

    Args:
        path: The file.
        what: What it should hold, for errors.
        max_size: The most bytes that it may have.

    Raises:
        InvalidInputError: It cannot be read, or a mapping in it has a key twice.
        MissingDependencyError: It is YAML, and PyYAML is not installed.
    """
    name = os.fspath(path)
    if not name.endswith((".json", ".yaml", ".yml")):
        raise errors.InvalidInputError(
            f"{name!r} is no file of {what}; expected one that ends in .json, .yaml or .yml."
        )
    if not Path(name).is_file():
        raise errors.InvalidInputError(
            f"There is no file {name!r} of {what}. Name one that ends in .json, .yaml or .yml."
        )
    try:
        with Path(name).open("rb") as file:
            content = file.read(max_size + 1)
        if len(content) > max_size:
            raise ValueError(f"it has more than {max_size} bytes")
        text = content.decode()
        return _of_json(text) if name.endswith(".json") else _of_yaml(text, name)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.InvalidInputError(
            f"{name!r} cannot be read as {what}: {' '.join(str(error).split())}."
        ) from error


def _of_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_mapping)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"a mapping has the key {twice!r:.80} twice")
    return made


def _of_yaml(text: str, name: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise errors.missing_dependency(
            f"Reading {name!r} as YAML needs PyYAML (JSON does not)", "config"
        ) from error

    class StrictLoader(yaml.SafeLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases are not taken; write it out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            _mapping([(str(key), None) for key in keys])
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
