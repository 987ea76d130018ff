"""What is wrong with a configuration, in words: every problem, by the key's full name."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import pydantic

from webtraj import credentials, errors
from webtraj.rollouts.configuration.refusals import REFUSED

__all__ = ["Section", "check_names", "keys_of", "validate"]

_Model = TypeVar("_Model", bound=pydantic.BaseModel)

_MAX_PROBLEMS = 5


class Section(pydantic.BaseModel):
    """What all parts of a configuration are: of these keys and no others, and not converted."""

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what a repr shows: all fields, without secrets."""
        for name, value in super().__repr_args__():
            yield name, credentials.concealed(value, name or "")

    __str__ = pydantic.BaseModel.__repr__


def keys_of(
    model: type[pydantic.BaseModel], prefix: str = ""
) -> Iterator[tuple[str, pydantic.fields.FieldInfo]]:
    """Yields the full name of every key of a configuration, and what is said of it."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        section = _section_of(field.annotation)
        if section is None:
            yield key, field
        else:
            yield from keys_of(section, f"{key}.")


def check_names(data: Any, model: type[pydantic.BaseModel], name: str) -> None:
    """Checks that all keys are known. Values may be missing still, or refer to others.

    Raises:
        InvalidInputError: Some are not; the message names the nearest that are.
    """
    problems = list(_unknown(data, model, "", [key for key, _ in keys_of(model)]))
    if problems:
        raise errors.InvalidInputError(_told(name, problems))


def validate(data: Any, model: type[_Model], name: str) -> _Model:
    """Returns the configuration that the data is.

    Raises:
        InvalidInputError: It is none.
    """
    try:
        return model.model_validate(data)
    except pydantic.ValidationError as error:
        problems = {
            f"{_path(problem['loc'])}: {_message(problem)}": None
            for problem in error.errors(include_url=False)
        }
        raise errors.InvalidInputError(_told(name, list(problems))) from None


def _unknown(
    data: Any, model: type[pydantic.BaseModel], prefix: str, keys: list[str]
) -> Iterator[str]:
    if not isinstance(data, Mapping):
        return  # A wrong value, which `validate` tells of.
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for item, value in data.items():
        key = f"{prefix}{item}"
        if key in REFUSED:
            yield f"{key} is not taken: {REFUSED[key]}"
        elif item not in fields:
            yield f"{key} is unknown{_nearest(key, keys)}"
        elif (section := _section_of(fields[item].annotation)) is not None:
            yield from _unknown(value, section, f"{key}.", keys)


def _nearest(key: str, keys: list[str]) -> str:
    """Returns the key that was meant, maybe: by its whole name, or else by its last part."""
    last = key.rpartition(".")[2]
    by_last: dict[str, list[str]] = {}
    for known in keys:
        by_last.setdefault(known.rpartition(".")[2], []).append(known)
    if last in by_last:
        return f"; did you mean {by_last[last][0]}?"
    whole = difflib.get_close_matches(key, keys, n=1, cutoff=0.8)
    part = difflib.get_close_matches(last, by_last, n=1, cutoff=0.7)
    if whole:
        return f"; did you mean {whole[0]}?"
    return f"; did you mean {by_last[part[0]][0]}?" if part else ""


def _section_of(annotation: Any) -> type[pydantic.BaseModel] | None:
    """Returns the section that a key holds, which may be left out; None if it holds a value."""
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
    """Returns a key's name; what pydantic says of a union's branches does not belong to it."""
    parts = [str(part) for part in location]
    known = [part for part in parts if part.isidentifier() or part.isdecimal()]
    known = [part for part in known if part not in _BRANCHES]
    return ".".join(known) or "the configuration"


COMMAND_LINE = "command line"
"""The name of the configuration that a command's options are."""
_BRANCHES = frozenset({"str", "int", "float", "bool", "DifficultySteps"})


def _message(problem: Any) -> str:
    message = str(problem["msg"]).removeprefix("Value error, ")
    # A class's name says nothing to a reader of YAML.
    message = message.partition(" or instance of ")[0].replace("dictionary", "mapping of keys")
    message = message.replace("Input should be", "must be", 1)
    given = problem.get("input")
    if problem["type"] == "missing" or isinstance(given, Mapping):
        return message
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    return f"{message}; got {credentials.concealed(given, name)!r:.60}"


def _told(name: str, problems: list[str]) -> str:
    shown = "; ".join(problems[:_MAX_PROBLEMS])
    more = len(problems) - _MAX_PROBLEMS
    if more > 0:
        shown += f"; and {more} more problems"
    where = "The command line" if name == COMMAND_LINE else f"The configuration {name!r}"
    return f"{where} is wrong: {shown}" + ("" if shown.endswith("?") else ".")
