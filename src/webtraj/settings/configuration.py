"""Configurations: YAML files plus `key=value` overrides, checked against a typed model.

Rollouts, loops, training, updates and pipelines all use this module. A value may refer to others by
`${save_path}` or `${env_config.server_size}`, and to the environment by `${oc.env:NAME}`; `???`
marks a value that must be given. Nothing in a file or an override is ever executed: YAML tags that
create Python objects are refused.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self, TypeVar

import pydantic

from webtraj import errors
from webtraj.settings import credentials
from webtraj.settings.named import nearest

__all__ = [
    "COMMAND_LINE",
    "MISSING",
    "Section",
    "check_complete",
    "check_keys",
    "check_names",
    "check",
    "escape",
    "flatten",
    "is_name",
    "keys_of",
    "merge_layers",
    "merge",
    "of_command",
    "override",
    "parse",
    "read",
    "read_file",
    "require",
    "resolve",
    "list_shipped",
    "to_yaml",
    "validate",
    "with_overrides",
    "without_secrets",
    "wrong",
]

MISSING = "???"
"""Stands for a value that must be given."""
_SECRET_OPTIONS = frozenset({"secrets", "headers", "access_key_id"})
"""Options whose values are all secret, beside those whose names say so."""
_SPACE = re.compile(r"\s")
_REFERENCE = re.compile(r"\$\{[^${}]+\}")
_OPENING = re.compile(r"(\\*)\$\{")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PATH = re.compile(r"[a-z_]+(\.[a-z_]+)+")
_KEY = re.compile(r"[A-Za-z_]\w*(\.\w[\w-]*)*", re.ASCII)
_MAX_BYTES = 1 << 20
_MAX_PROBLEMS = 5

_Model = TypeVar("_Model", bound=pydantic.BaseModel)

# From files and overrides to data.


def require() -> None:
    """Check that OmegaConf is installed.

    Raises:
        MissingDependencyError: OmegaConf is not installed.
    """
    try:
        import omegaconf  # noqa: F401
    except ImportError as error:
        raise errors.missing_dependency("Configurations need OmegaConf", "config") from error


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a YAML file, references unresolved.

    Raises:
        InvalidInputError: The file cannot be read, or is not a mapping.
        MissingDependencyError: OmegaConf is not installed.
    """
    return _read(Path(path))


def is_name(config: str | os.PathLike[str]) -> bool:
    """Return whether a text is the name of a configuration, not a file."""
    path = Path(config)
    return path.name == os.fspath(config) and path.suffix != ".yaml" and not path.is_file()


def read(
    config: str | os.PathLike[str],
    *,
    package: str,
    config_dir: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Return the contents of a configuration, references unresolved.

    Args:
        config: A YAML file; or a name, with or without `.yaml` if there is a `config_dir`.
        package: The package whose folder `files` has the built-in ones.
        config_dir: A folder of the user's own files, searched first.

    Raises:
        InvalidInputError: The file does not exist, cannot be read, or is not a mapping.
        MissingDependencyError: OmegaConf is not installed.
    """
    if config_dir is None and not is_name(config):
        return read_file(config)
    name = os.fspath(config)
    if not _NAME.fullmatch(name):
        raise errors.InvalidInputError(
            f"Invalid configuration name {name!r:.120}: expected a file's name, such as my or "
            "my.yaml. Give its folder as config_dir (--config-dir)."
        )
    if config_dir is not None and not Path(config_dir).is_dir():
        raise errors.InvalidInputError(
            f"There is no folder {os.fspath(config_dir)!r:.200} (--config-dir); expected a folder "
            "of .yaml files."
        )
    name = name.removesuffix(".yaml")
    places: list[Any] = [] if config_dir is None else [Path(config_dir) / f"{name}.yaml"]
    for place in (*places, resources.files(package).joinpath("files", f"{name}.yaml")):
        if place.is_file():
            return _read(place, name)
    known = list_shipped(package)
    if config_dir is not None:
        known = sorted({*known, *(path.stem for path in Path(config_dir).glob("*.yaml"))})
    where = f" in {str(config_dir)!r} or" if config_dir is not None else ""
    raise errors.InvalidInputError(
        f"No configuration {name!r}{where} among the built-in ones. {nearest(name, known)}"
        f"Choose one of: {', '.join(known)}."
    )


def list_shipped(package: str) -> list[str]:
    """Return the names of a package's built-in configurations."""
    entries = resources.files(package).joinpath("files").iterdir()
    return sorted(e.name.removesuffix(".yaml") for e in entries if e.name.endswith(".yaml"))


def _read(place: Any, name: str = "") -> dict[str, Any]:
    """Return the contents of a file, which may be inside an archive."""
    try:
        content = place.read_bytes()
        if len(content) > _MAX_BYTES:
            raise errors.InvalidInputError(
                f"The configuration {str(place)!r} has {len(content)} bytes; expected at most "
                f"{_MAX_BYTES}."
            )
        text = content.decode()
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(
            f"The configuration {str(place)!r} is not UTF-8 text: {error}."
        ) from error
    except OSError as error:
        raise errors.InvalidInputError(
            f"The configuration {str(place)!r} cannot be read: {errors.reason(error)}; expected a "
            "YAML file."
        ) from error
    return parse(text, f"The configuration {name or str(place)!r}")


def parse(text: str, what: str) -> dict[str, Any]:
    """Return the contents of a YAML text, references unresolved.

    Raises:
        InvalidInputError: The text cannot be read, or is not a mapping.
    """
    require()
    from omegaconf import OmegaConf

    with _readable(what):
        data = OmegaConf.create(text) if text.strip() else OmegaConf.create()
        plain = OmegaConf.to_container(data)
    if not isinstance(plain, dict):
        raise errors.InvalidInputError(f"{what} is not a mapping of keys to values.")
    return _check_names(plain, what)


def merge_layers(
    file: Mapping[str, Any],
    flags: Mapping[str, Any],
    overrides: Iterable[str],
    *,
    example: str,
) -> dict[str, Any]:
    """Return the settings of a command. A flag overrides the file; `key=value` overrides both.

    Args:
        file: The file's contents, references unresolved.
        flags: The values of flags. References in their texts are not resolved.
        overrides: See `with_overrides`. They may refer to flags.
        example: See `with_overrides`.

    Raises:
        InvalidInputError: An override is malformed.
        MissingDependencyError: There are overrides, and OmegaConf is not installed.
    """
    return with_overrides(merge(file, escape(flags)), overrides, example=example)


def with_overrides(
    data: Mapping[str, Any], overrides: Iterable[str], *, example: str
) -> dict[str, Any]:
    """Return a configuration with `key=value` overrides applied in order.

    Args:
        data: The configuration.
        overrides: Items of `key=value`, with a dotted key and a YAML value. A leading `+`, as in
            Hydra, is accepted and ignored.
        example: A valid override, for error messages.

    Raises:
        InvalidInputError: An override is malformed.
        MissingDependencyError: There are overrides, and OmegaConf is not installed.
    """
    both = dict(data)
    for text in overrides:
        both = merge(both, override(text, example=example))
    return both


def override(text: str, *, example: str) -> dict[str, Any]:
    """Return one `key=value` as nested data; see `with_overrides`."""
    require()
    from omegaconf import OmegaConf

    key, separator, _ = text.partition("=")
    name = key.lstrip("+")
    if key.startswith("~"):
        raise errors.InvalidInputError(
            f"{text!r:.200}: keys cannot be deleted. To unset one, give {key.lstrip('~')}=null."
        )
    if not separator or not _KEY.fullmatch(name):
        raise errors.InvalidInputError(
            f"{text!r:.200} is not an override: expected key=value, such as {example}."
        )
    what = f"The override {text!r:.200}"
    with _readable(what):
        data = OmegaConf.to_container(OmegaConf.from_dotlist([text[len(key) - len(name) :]]))
    assert isinstance(data, dict)
    return _check_names(data, what)


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


def _check_names(data: Mapping[Any, Any], what: str) -> dict[str, Any]:
    if strange := [key for key in data if not isinstance(key, str)]:
        raise errors.InvalidInputError(f"{what} has the key {strange[0]!r}; expected a name.")
    return dict(data)


def flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings under their dotted keys.

    >>> dict(flatten({"a": {"b": 1}, "c": 2}))
    {'a.b': 1, 'c': 2}
    """
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two values. Mappings are merged by key; of other values, `second` wins."""
    both = dict(first)
    for key, value in second.items():
        before = both.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merge(before, value)
        both[key] = value
    return both


# From data to a checked model.


class Section(pydantic.BaseModel):
    """Base of all parts of a configuration. Unknown keys are refused; values are not converted."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what a repr shows: all fields, secrets hidden."""
        for name, value in super().__repr_args__():
            yield name, credentials.conceal_data(value, name or "")

    __str__ = pydantic.BaseModel.__repr__

    @pydantic.model_validator(mode="after")
    def _fits_into_records(self) -> Self:
        """Refuse numbers that no record can hold."""
        for name in self.model_fields_set:
            if _has_huge(getattr(self, name)):
                raise ValueError(f"{name}: must be a number from -2^63 to 2^63 - 1")
        return self


def _has_huge(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_huge, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_huge, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def check(data: Mapping[str, Any], model: type[_Model], name: str) -> _Model:
    """Return data as a configuration, after checking that keys are known and values are valid.

    Args:
        data: The data; references in it are resolved.
        model: The configuration's class.
        name: The configuration's name in errors.

    Raises:
        InvalidInputError: A check fails, or a reference has no target.
    """
    check_names(data, model, name)
    check_complete(data, name)
    return validate(resolve(data, name), model, name)


def resolve(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a configuration with its references resolved.

    Raises:
        InvalidInputError: A reference has no target.
    """
    if not data:
        return {}
    require()
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        followed = OmegaConf.to_container(OmegaConf.create(dict(data)), resolve=True)
    except OmegaConfBaseException as error:
        raise errors.InvalidInputError(
            f"{_where(name)} has a reference without a target: {str(error).partition(chr(10))[0]}"
        ) from error
    assert isinstance(followed, dict)
    return {str(key): value for key, value in followed.items()}


def of_command(
    model: type[_Model], flags: Mapping[str, Any], overrides: Sequence[str], *, example: str
) -> _Model:
    """Return the checked settings of a command without a file; see `merge_layers`.

    Raises:
        InvalidInputError: A key is unknown, or a value is wrong.
        MissingDependencyError: There are overrides, and OmegaConf is not installed.
    """
    if not overrides:
        return validate(flags, model, COMMAND_LINE)
    return check(merge_layers({}, flags, overrides, example=example), model, COMMAND_LINE)


def escape(data: Any) -> Any:
    r"""Return plain data with each `${` escaped, so that a configuration takes it literally.

    >>> escape({"instruction": "costs ${x}"})
    {'instruction': 'costs \\${x}'}
    """
    if isinstance(data, Mapping):
        return {key: escape(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [escape(item) for item in data]
    return _OPENING.sub(r"\1\1\\${", data) if isinstance(data, str) else data


def check_complete(data: Mapping[str, Any], name: str) -> None:
    """Check that all required values are given.

    Raises:
        InvalidInputError: A value is missing.
    """
    if missing := sorted(_missing_keys(data)):
        raise errors.InvalidInputError(
            f"{_where(name)} needs values for {', '.join(missing)}: give "
            + " ".join(f"{key}=..." for key in missing)
        )


def to_yaml(data: Mapping[str, Any]) -> str:
    """Return a composed configuration as YAML, without its secrets.

    Raises:
        MissingDependencyError: OmegaConf is not installed.
    """
    require()
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(without_secrets(data)))


def keys_of(
    model: type[pydantic.BaseModel], prefix: str = ""
) -> Iterator[tuple[str, pydantic.fields.FieldInfo]]:
    """Yield the full name and the field of every key of a configuration."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        section = _section_of(field.annotation)
        if section is None:
            yield key, field
        else:
            yield from keys_of(section, f"{key}.")


def check_names(data: Any, model: type[pydantic.BaseModel], name: str) -> None:
    """Check that all keys are known. Values may be missing or refer to others.

    Raises:
        InvalidInputError: A key is unknown; the message suggests the nearest known one.
    """
    check_keys(data, [key for key, _ in keys_of(model)], name)


def check_keys(
    data: Any, keys: Sequence[str], name: str, refused: Mapping[str, str] | None = None
) -> None:
    """Check that all keys are among the given full names; see `check_names`.

    Args:
        data: The data.
        keys: The full names.
        name: The configuration's name in errors.
        refused: Further names, with the reason why each is refused.

    Raises:
        InvalidInputError: A key is unknown or refused.
    """
    if problems := list(_unknown(data, "", keys, refused or {})):
        raise wrong(name, problems)


def wrong(name: str, problems: list[str]) -> errors.InvalidInputError:
    """Return the error for a configuration's problems, which are sentences without period."""
    return errors.InvalidInputError(_describe_problems(name, problems))


def validate(
    data: Any, model: type[_Model], name: str, names: Mapping[str, str] | None = None
) -> _Model:
    """Return data as a configuration.

    Args:
        data: The data.
        model: The configuration's class.
        name: The configuration's name in errors.
        names: The user's names for the model's full names, where they differ.

    Raises:
        InvalidInputError: The data is not valid.
    """
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
        problems = {_problem(problem, names or {}): None for problem in found}
        raise wrong(name, list(problems)) from None


def _unknown(
    data: Any, prefix: str, keys: Sequence[str], refused: Mapping[str, str]
) -> Iterator[str]:
    if not isinstance(data, Mapping):
        return  # `validate` reports wrong values.
    for item, value in data.items():
        key = f"{prefix}{item}"
        if key in refused:
            yield f"{key} is not accepted: {refused[key]}"
        elif any(known.startswith(f"{key}.") for known in keys):
            yield from _unknown(value, f"{key}.", keys, refused)
        elif key not in keys:
            yield f"{key} is unknown{_nearest(key, keys)}"


def _nearest(key: str, keys: Sequence[str]) -> str:
    """Return the key that was probably meant, matched by full name or else by last part."""
    last = key.rpartition(".")[2]
    by_last: dict[str, list[str]] = {}
    for known in keys:
        by_last.setdefault(known.rpartition(".")[2], []).append(known)
    if last in by_last:
        return f"; did you mean {min(by_last[last], key=lambda known: known.count('.'))}?"
    whole = difflib.get_close_matches(key, keys, n=1, cutoff=0.8)
    part = difflib.get_close_matches(last, by_last, n=1, cutoff=0.7)
    if whole:
        return f"; did you mean {whole[0]}?"
    return f"; did you mean {by_last[part[0]][0]}?" if part else ""


def _section_of(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Return the section type of a key, optional or not; None if the key holds a value."""
    options = (
        typing.get_args(annotation)
        if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
        else (annotation,)
    )
    others = [option for option in options if option is not type(None)]
    if len(others) == 1 and isinstance(others[0], type) and issubclass(others[0], Section):
        return others[0]
    return None


def _path(location: tuple[int | str, ...]) -> str:
    """Return a key's name, without the branch names that pydantic adds for unions."""
    parts = [str(part) for part in location]
    known = [part for part in parts if part.isidentifier() or part.isdecimal()]
    known = [part for part in known if part not in _BRANCHES]
    return ".".join(known) or "the configuration"


COMMAND_LINE = "command line"
"""The name under which a command's options are checked."""
_BRANCHES = frozenset({"str", "int", "float", "bool", "DifficultySteps"})


def _problem(problem: Any, names: Mapping[str, str]) -> str:
    path = _path(problem["loc"])
    path = _rename_key(path, names)
    message = _message(problem, path)
    message = _PATH.sub(lambda found: names.get(found[0], found[0]), message)
    # A check of several keys names them itself.
    names_keys = not problem["loc"] and problem["type"] == "value_error"
    return message if names_keys else f"{path}: {message}"


def _rename_key(path: str, names: Mapping[str, str]) -> str:
    """Return a key by the user's name for it or for its section."""
    start = path
    while start and start not in names:
        start = start.rpartition(".")[0]
    return names[start] + path[len(start) :] if start else path


def _message(problem: Any, path: str) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ").removesuffix(".")
    # Readers of YAML do not know class names.
    message = message.partition(" or instance of ")[0].replace("dictionary", "mapping of keys")
    message = message.replace("Input should be", "must be", 1)
    given = problem.get("input")
    if problem["type"] == "missing":
        return f"missing; set {path}=VALUE"
    if isinstance(given, Mapping):
        return message
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    return f"{message}; got {credentials.conceal_data(given, name)!r:.60}"


def _describe_problems(name: str, problems: list[str]) -> str:
    shown = "; ".join(problems[:_MAX_PROBLEMS])
    more = len(problems) - _MAX_PROBLEMS
    if more > 0:
        shown += f"; and {more} more problems"
    return f"{_where(name)} is wrong: {shown}" + ("" if shown.endswith("?") else ".")


def _where(name: str) -> str:
    return "The command line" if name == COMMAND_LINE else f"The configuration {name!r}"


# Secrets.


def without_secrets(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with secrets replaced by `???`. References are kept."""
    return {key: _without_secrets(value, key) for key, value in data.items()}


def _without_secrets(data: Any, key: str) -> Any:
    if isinstance(data, Mapping):
        inside = key in _SECRET_OPTIONS
        return {
            name: _without_secrets(value, key if inside else name) for name, value in data.items()
        }
    if isinstance(data, list | tuple):  # A list can only be given as a whole.
        kept = [_without_secrets(item, key) for item in data]
        return MISSING if MISSING in kept else kept
    return MISSING if _holds_secret(data, key) else data


def _holds_secret(data: Any, key: str) -> bool:
    if data is None or isinstance(data, bool):
        return False
    if key in _SECRET_OPTIONS or credentials.is_secret_name(key):
        return not (isinstance(data, str) and _REFERENCE.fullmatch(data))
    # A URL or a key, not running text such as a goal.
    return isinstance(data, str) and not _SPACE.search(data) and any(credentials.find_secrets(data))


def _missing_keys(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in data.items():
        if value == MISSING:
            yield f"{prefix}{key}"
        elif isinstance(value, Mapping):
            yield from _missing_keys(value, f"{prefix}{key}.")
