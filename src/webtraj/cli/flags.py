"""Turn fields of `RunSpec` into a command's flags, and given flags back into fields."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli.options import read_setting, storage_options

__all__ = ["fields_of", "flag", "takes", "takes_flags", "with_flags"]

_PANELS = {
    "Tasks": ("preset", "environment_options", "episodes", "attempts", "group_size", "seed"),
    "Agent": ("agent", "agent_options"),
    "Model": ("model", "base_url", "api_key_variable", "provider", "temperature", "max_tokens"),
    "Run": (
        "parallel", "max_steps", "timeout", "max_retries", "out", "storage_options", "format",
    ),
    "Judge": (
        "judge", "judge_options", "judge_model", "judge_base_url", "judge_api_key_variable",
        "judge_when",
    ),
    "Proposer": ("proposer",),
}  # fmt: skip
"""The fields that have a flag by default, under their headings in the help. All others are given
as KEY=VALUE, or in a file."""
_FLAGS = {
    "agent_options": "--agent-set",
    "environment_options": "--set",
    "judge_options": "--judge-set",
    "proposer_options": "--proposer-set",
    "storage_options": "--option",
}
"""Flags that are not named after their field."""
_JUDGE_OPTIONS = {
    "judge_model": ("model", "The judge's model."),
    "judge_base_url": ("base_url", "The judge's server; default: the vendor's."),
    "judge_api_key_variable": ("api_key_variable", "The variable with that server's API key."),
}
"""Flags for options of the judge, with their help."""
_FIRST_SENTENCE = re.compile(r".*?(?=\.(\s|$))", re.DOTALL)


def takes_flags(function: Callable[..., None]) -> bool:
    """Return whether a command takes the flags: it has a parameter `**given`."""
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator like `with_flags`, with only the flags of these fields."""
    return functools.partial(with_flags, only=names)


def with_flags(
    function: Callable[..., None], only: Collection[str] | None = None
) -> Callable[..., None]:
    """Return a command whose parameter `**given` is replaced by the flags.

    The command gets the flags that were given. If it has a parameter of the same name as a flag,
    the parameter replaces the flag.

    Args:
        function: The command.
        only: The fields that have a flag. Default: the most used.
    """
    every = inspect.signature(function, eval_str=True).parameters.values()
    own = {one.name: one for one in every if one.kind is not one.VAR_KEYWORD}
    panels = {name: panel for panel, names in _PANELS.items() for name in names}
    names = [*panels, *(name for name in only or () if name not in panels)]
    names = [name for name in names if name not in own and (only is None or name in only)]
    flags = {name: _parameter(name, panels.get(name)) for name in names}

    @functools.wraps(function)
    def command(**values: Any) -> None:
        idle = {name for name in flags if values[name] is None}
        function(**{name: value for name, value in values.items() if name not in idle})

    parameters = [*own.values(), *flags.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def flag(name: str) -> str:
    """Return the flag of a field, or of an option of the judge."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def fields_of(given: Mapping[str, Any], settings: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of a `RunSpec` for the values of flags.

    Args:
        given: The values by the names of the flags' parameters.
        settings: More fields as `key=value`, with dotted keys and YAML values. They override flags,
            and may refer to them. `out=null` is ignored.

    Raises:
        InvalidInputError: A value is malformed, or a key is unknown.
    """
    fields: dict[str, Any] = {}
    for name in given.keys() - _JUDGE_OPTIONS.keys():
        value = given[name]
        if name == "storage_options":
            fields[name] = storage_options(value)
        elif name.endswith("_options"):
            fields[name] = dict(read_setting(flag(name), text) for text in value)
        elif name == "base_url" and len(value) == 1:
            fields[name] = value[0]
        else:
            fields[name] = _number_or_auto(value) if name == "parallel" else value
    for name in given.keys() & _JUDGE_OPTIONS.keys():
        fields.setdefault("judge_options", {})[_JUDGE_OPTIONS[name][0]] = given[name]
    merged = _merge_settings(fields, settings)
    if merged.get("out", "") is None:
        del merged["out"]
    return merged


def _merge_settings(fields: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    from webtraj.runs.spec import RunSpec
    from webtraj.settings import configuration

    settings = list(settings)
    if not settings:
        return dict(fields)
    example = "wait_timeout=60"
    own = configuration.with_overrides({}, settings, example=example)
    # Flags may name settings of the command's own, such as those of a job.
    configuration.check_names(own, RunSpec, configuration.COMMAND_LINE)
    both = configuration.merge_layers({}, fields, settings, example=example)
    return configuration.resolve(both, configuration.COMMAND_LINE)


def _number_or_auto(text: str) -> int | str:
    if text != "auto" and not text.isdecimal():
        raise errors.InvalidInputError(
            f"--parallel got {text!r:.60}; expected a number of episodes from 1, or auto."
        )
    return text if text == "auto" else int(text)


def _parameter(name: str, panel: str | None) -> inspect.Parameter:
    """Return the parameter of a flag."""
    from webtraj.runs.spec import RunSpec

    metavar = None
    kind: Any = str
    if name in _JUDGE_OPTIONS:
        text = _JUDGE_OPTIONS[name][1]
    else:
        field = RunSpec.model_fields[name]
        first = _FIRST_SENTENCE.match(field.description or "")
        text = " ".join(f"{first.group() if first else ''}.".split())
        kind = _type_of(field.annotation)
        if name.endswith("_options"):
            kind, metavar = list[str], "KEY=VALUE"
        if kind == list[str]:
            text += " Repeatable."
        elif isinstance(field.default, int | float):
            text += f" Default: {field.default}."
    option = typer.Option(
        flag(name), metavar=metavar, help=text, show_default=False, rich_help_panel=panel
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _type_of(annotation: Any) -> Any:
    """Return the type of a flag: a number if the field takes only numbers, a list, or text."""
    options = set(_plain(annotation)) - {type(None)}
    if list in options:
        return list[str]
    return options.pop() if len(options) == 1 and options <= {int, float} else str


def _plain(annotation: Any) -> Iterator[Any]:
    """Yield the types in an annotation, without constraints."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        yield from _plain(typing.get_args(annotation)[0])
    elif origin in (list, dict):
        yield origin
    elif origin is typing.Literal:
        yield str
    elif origin is not None:
        for option in typing.get_args(annotation):
            yield from _plain(option)
    else:
        yield annotation
