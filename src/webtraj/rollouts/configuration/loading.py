"""Loading a configuration: a file, the files that it builds on, and `key=value` on top.

A file is YAML, read by OmegaConf. It may begin with the names of others that it builds on, as
Hydra's do; later ones win, and `_self_` says where the file's own values come::

    defaults:
      - rollout
      - _self_
    env_config:
      server_size: 32

A value may refer to others by `${save_path}` or `${env_config.server_size}`, and to the environment
by `${oc.env:NAME}`; `???` stands for a value that has to be given. Nothing in a file or an override
is ever executed: tags that would make Python objects are refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from webtraj import credentials, errors
from webtraj.rollouts.configuration import checking
from webtraj.rollouts.configuration.crawl import CrawlConfig
from webtraj.rollouts.configuration.rollout import RolloutConfig

__all__ = [
    "Configuration",
    "check_complete",
    "config_names",
    "flattened",
    "load_configuration",
    "merged",
    "parse",
    "to_yaml",
    "without_secrets",
]

_SELF = "_self_"
_DEFAULTS = "defaults"
_MISSING = "???"
_SECRET_OPTIONS = frozenset({"secrets", "headers", "access_key_id"})
"""Options all of whose values are secret, beside those whose name tells it."""
_SPACE = re.compile(r"\s")
_REFERENCE = re.compile(r"\$\{[^${}]+\}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
_MAX_BYTES = 1 << 20

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
    names = {name.removesuffix(".yaml") for name in _packaged()}
    if config_dir is not None:
        names |= {path.stem for path in Path(config_dir).glob("*.yaml")}
    return tuple(sorted(names))


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
    _require()
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    composed = _compose(name, Path(config_dir) if config_dir is not None else None, ())
    for text in overrides:
        composed = merged(composed, _override(text))
    kind = composed.get("kind", "rollout")
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise errors.InvalidInputError(
            f"kind is {kind!r:.60}; expected one of {', '.join(_KINDS)}."
        )
    checking.check_names(composed, model, name)
    check_complete(composed, name)
    tree = OmegaConf.create(composed)
    try:
        values = OmegaConf.to_container(tree, resolve=True)
    except OmegaConfBaseException as error:
        raise errors.InvalidInputError(
            f"The configuration {name!r} has a reference that leads nowhere: "
            f"{str(error).partition(chr(10))[0]}"
        ) from error
    return Configuration(checking.validate(values, model, name), to_yaml(composed))


def check_complete(data: Mapping[str, Any], name: str) -> None:
    """Checks that no value is left to be given.

    Raises:
        InvalidInputError: One is.
    """
    if missing := sorted(_missing(data)):
        raise errors.InvalidInputError(
            f"The configuration {name!r} needs values for {', '.join(missing)}: give "
            + " ".join(f"{key}=..." for key in missing)
        )


def to_yaml(data: Mapping[str, Any]) -> str:
    """Returns a composed configuration as YAML. Secrets that it holds are left out."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(without_secrets(data)))


def _require() -> None:
    try:
        import omegaconf  # noqa: F401
    except ImportError as error:
        raise errors.missing_dependency("Configurations need OmegaConf", "config") from error


def _compose(name: str, config_dir: Path | None, within: tuple[str, ...]) -> dict[str, Any]:
    """Returns a file merged with those that it builds on. `within`: the files that ask for it."""
    if name in within:
        raise errors.InvalidInputError(
            f"Configurations build on each other in a circle: {' -> '.join((*within, name))}."
        )
    text = _text(name, config_dir)
    data = parse(text, f"The configuration {name!r}")
    bases = data.pop(_DEFAULTS, None)
    names = [_SELF] if bases is None else _bases(bases, name)
    composed: dict[str, Any] = {}
    for base in names if _SELF in names else [*names, _SELF]:
        part = data if base == _SELF else _compose(base, config_dir, (*within, name))
        composed = merged(composed, part)
    return composed


def _bases(bases: Any, name: str) -> list[str]:
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise errors.InvalidInputError(
            f"`defaults` of the configuration {name!r} is a list of names of other configurations, "
            f"and _self_; got {bases!r:.100}. Hydra's groups are not known here."
        )
    return bases


def _text(name: str, config_dir: Path | None) -> str:
    if not _NAME.fullmatch(name):
        raise errors.InvalidInputError(
            f"{name!r:.120} names no configuration; expected a file's name without .yaml, and its "
            "folder as config_dir (--config-dir)."
        )
    places: list[Any] = [] if config_dir is None else [config_dir / f"{name}.yaml"]
    packaged = resources.files(__package__).joinpath("files", f"{name}.yaml")
    for place in (*places, packaged):
        if place.is_file():
            content = place.read_bytes()
            if len(content) > _MAX_BYTES:
                raise errors.InvalidInputError(
                    f"The configuration {str(place)!r} has {len(content)} bytes; expected "
                    f"{_MAX_BYTES} at most."
                )
            try:
                return str(content.decode())
            except UnicodeDecodeError as error:
                raise errors.InvalidInputError(
                    f"The configuration {str(place)!r} is no UTF-8 text: {error}."
                ) from error
    known = config_names(config_dir)
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
    where = f" in {str(config_dir)!r} or" if config_dir is not None else ""
    raise errors.InvalidInputError(
        f"There is no configuration {name!r}{where} among those that ship. {hint}Choose one of: "
        f"{', '.join(known)}."
    )


def _packaged() -> Sequence[str]:
    folder = resources.files(__package__).joinpath("files")
    return [entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml")]


def parse(text: str, what: str) -> dict[str, Any]:
    """Returns what a YAML text holds, references as they are.

    Raises:
        InvalidInputError: It cannot be read, or holds no mapping.
    """
    from omegaconf import OmegaConf

    with _readable(what):
        data = OmegaConf.create(text) if text.strip() else OmegaConf.create()
        plain = OmegaConf.to_container(data)
    if not isinstance(plain, dict):
        raise errors.InvalidInputError(f"{what} is no mapping of keys to values.")
    return _checked(plain, what)


def _override(text: str) -> dict[str, Any]:
    from omegaconf import OmegaConf

    key, separator, _ = text.partition("=")
    name = key.lstrip("+")
    if key.startswith("~"):
        raise errors.InvalidInputError(
            f"{text!r:.200}: keys are not deleted; give {key.lstrip('~')}=null for none."
        )
    if not separator or not _KEY.fullmatch(name):
        raise errors.InvalidInputError(
            f"{text!r:.200} is no override; expected key=value, such as env_config.server_size=8."
        )
    what = f"The override {text!r:.200}"
    with _readable(what):
        data = OmegaConf.to_container(OmegaConf.from_dotlist([text[len(key) - len(name) :]]))
    assert isinstance(data, dict)
    return _checked(data, what)


@contextlib.contextmanager
def _readable(what: str) -> Iterator[None]:
    import yaml  # type: ignore[import-untyped]
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except (yaml.YAMLError, OmegaConfBaseException, ValueError, RecursionError) as error:
        raise errors.InvalidInputError(
            f"{what} cannot be read as YAML: {' '.join(str(error).split())}"
        ) from error


def _checked(data: Mapping[Any, Any], what: str) -> dict[str, Any]:
    if strange := [key for key in data if not isinstance(key, str)]:
        raise errors.InvalidInputError(f"{what} has the key {strange[0]!r}; expected a name.")
    return dict(data)


def flattened(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of nested mappings by their dotted keys.

    >>> dict(flattened({"a": {"b": 1}, "c": 2}))
    {'a.b': 1, 'c': 2}
    """
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Returns both: mappings are merged, any other value of the second takes the first's place."""
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merged(before, value)
        both[key] = value
    return both


def without_secrets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a configuration in which secrets have to be given again, but for references."""
    return {key: _without_secrets(value, key) for key, value in data.items()}


def _without_secrets(data: Any, key: str) -> Any:
    if isinstance(data, Mapping):
        inside = key in _SECRET_OPTIONS
        return {
            name: _without_secrets(value, key if inside else name) for name, value in data.items()
        }
    if isinstance(data, list | tuple):  # A list cannot be given again in part.
        kept = [_without_secrets(item, key) for item in data]
        return _MISSING if _MISSING in kept else kept
    return _MISSING if _holds_secret(data, key) else data


def _holds_secret(data: Any, key: str) -> bool:
    if data is None or isinstance(data, bool):
        return False
    if key in _SECRET_OPTIONS or credentials.is_secret_name(key):
        return not (isinstance(data, str) and _REFERENCE.fullmatch(data))
    # A URL or a key, not running text such as a goal.
    return isinstance(data, str) and not _SPACE.search(data) and any(credentials.find_secrets(data))


def _missing(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in data.items():
        if value == _MISSING:
            yield f"{prefix}{key}"
        elif isinstance(value, Mapping):
            yield from _missing(value, f"{prefix}{key}.")
