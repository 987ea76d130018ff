"""The flags of a command from the fields of `RunSpec`, and the fields from the flags given."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli.options import read_setting, storage_options

__all__ = ["fields_of", "flag", "takes", "takes_flags", "with_flags"]

_PANEL = "Settings of the run, without a configuration"
_PANEL_OF_LIMITS = "Patience, order and browsers, without a configuration"
_ALSO_LIMITS = {"retry_pause", "max_retry_pause", "run_timeout", "operation_limits"}
_FLAGS = {
    "agent_options": "--agent-set",
    "environment_options": "--set",
    "format": "--format",
    "judge_options": "--judge-set",
    "proposer_options": "--proposer-set",
    "storage_options": "--option",
}
"""Flags that are not named after their field."""
_MAPPINGS = ("_options", "_limits")
_WITHOUT = ("fork", "kind", "metrics", "verbose")
"""Fields that have no flag of their own."""
_ALSO: dict[str, tuple[str, Any, str | None, str]] = {
    "judge_model": ("judge_options.model", str, None, "The model that judges."),
    "judge_url": (
        "judge_options.base_url", str, None,
        "The judge's server, including /v1; default: OpenAI's.",
    ),
    "judge_api_key_variable": (
        "judge_options.api_key_variable", str, "NAME",
        "The environment variable that holds the API key for the judge's server.",
    ),
    "tensorboard": ("metrics.tensorboard", str, "DIR", "A folder for live metrics in TensorBoard."),
    "wandb": (
        "metrics.wandb.project", str, "PROJECT", "A Weights & Biases project for live metrics.",
    ),
    "har": (
        "environment_options.har", bool, None,
        "Record the browser's network traffic for `webtraj export --format har`, without cookies, "  # noqa: ISC004
        "keys and bodies; --set har=content also keeps bodies.",
    ),
}  # fmt: skip
"""Flags for parts of a field: the part, type, metavar and help."""


def takes_flags(function: Callable[..., None]) -> bool:
    """Return whether a command takes the flags: it has a parameter `**given`."""
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces a command's `**given` by the flags of these fields only."""
    return functools.partial(with_flags, only=names)


def with_flags(
    function: Callable[..., None], only: Collection[str] | None = None
) -> Callable[..., None]:
    """Return a command whose parameter `**given` is replaced by the flags.

    The command gets the flags that were given. A parameter of its own replaces the flag of that
    name.

    Args:
        function: The command.
        only: The fields that have a flag; all by default.
    """
    every = inspect.signature(function, eval_str=True).parameters.values()
    own = {one.name: one for one in every if one.kind is not one.VAR_KEYWORD}
    flags = {
        one.name: one
        for one in _parameters()
        if one.name not in own and (only is None or one.name in only)
    }

    @functools.wraps(function)
    def command(**values: Any) -> None:
        idle = {name for name in flags if values[name] is None or values[name] is False}
        function(**{name: value for name, value in values.items() if name not in idle})

    parameters = [*own.values(), *flags.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def flag(name: str) -> str:
    """Return the flag of a field, or of a part of one."""
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `RunSpec` for the values of flags.

    Raises:
        InvalidInputError: A flag's value is malformed.
    """
    fields: dict[str, Any] = {}
    for name in given.keys() - _ALSO.keys():
        value = given[name]
        if name == "storage_options":
            fields[name] = storage_options(value)
        elif name.endswith(_MAPPINGS):
            fields[name] = dict(read_setting(flag(name), text) for text in value)
        elif name == "base_url" and len(value) == 1:
            fields[name] = value[0]
        else:
            fields[name] = _number_or_auto(value) if name == "parallel" else value
    for name in given.keys() & _ALSO.keys():
        *path, last = _ALSO[name][0].split(".")
        section = fields
        for part in path:
            section = section.setdefault(part, {})
        if name != "har" or last not in section:  # `--set har=content` says more.
            section[last] = given[name]
    return fields


def _number_or_auto(text: str) -> int | str:
    if text != "auto" and not text.isdecimal():
        raise errors.InvalidInputError(
            f"--parallel got {text!r:.60}; expected a number of episodes from 1, or auto."
        )
    return text if text == "auto" else int(text)


def _parameters() -> Iterator[inspect.Parameter]:
    from webtraj.runs.spec import Patience, RunSpec

    limits = Patience.model_fields.keys() | _ALSO_LIMITS
    fields = RunSpec.model_fields.items()
    for name, field in sorted(fields, key=lambda item: item[0] in limits):
        if name in _WITHOUT:
            continue
        told = " ".join((field.description or "").split())
        settings = name.endswith(_MAPPINGS)
        kind = list[str] if settings else _type_of(field.annotation)
        if kind == list[str]:
            told += " Repeatable."
        elif isinstance(field.default, int | float):
            told += f" Default: {field.default}."
        panel = _PANEL_OF_LIMITS if name in limits else _PANEL
        yield _parameter(name, kind, "KEY=VALUE" if settings else None, told, panel)
    for name, (_, kind, metavar, told) in _ALSO.items():
        yield _parameter(name, kind, metavar, told)


def _parameter(
    name: str, kind: Any, metavar: str | None, told: str, panel: str = _PANEL
) -> inspect.Parameter:
    option = typer.Option(
        flag(name), metavar=metavar, help=told, show_default=False, rich_help_panel=panel
    )
    default, kind = (False, bool) if kind is bool else (None, kind | None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _type_of(annotation: Any) -> Any:
    """Return the type of a flag: a number where the field takes nothing else, a list, or text."""
    options = set(_plain(annotation)) - {type(None)}
    if list in options:
        return list[str]
    return options.pop() if len(options) == 1 and options <= {int, float} else str


def _plain(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation is made of, without constraints."""
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
