"""What is wrong with rules that were written as data, in words that say what may stand there."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pydantic

from webtraj.judging.predicates import TextTest

__all__ = ["told"]


def told(error: pydantic.ValidationError, model: type[pydantic.BaseModel]) -> list[str]:
    """Returns a line for each mistake: its place, what is wrong, and the keys that are known there.

    Args:
        error: Of a list of `model`.
        model: What each item of the list is.
    """
    return [
        f"{'.'.join(map(str, problem['loc'])) or 'rules'}: {_said(problem, model)}"
        for problem in error.errors(include_url=False)
    ]


def _said(problem: Mapping[str, Any], model: type[pydantic.BaseModel]) -> str:
    place, kind = problem["loc"], problem["type"]
    if kind == "extra_forbidden":
        known = _keys(_model_at(place[:-1], model))
        return f"is unknown{_nearest(str(place[-1]), known)}; the keys are {', '.join(known)}"
    if kind == "model_type":
        expected = _model_at(place, model)
        text = "a text or " if expected is not None and issubclass(expected, TextTest) else ""
        keys = ", ".join(_keys(expected))
        return f"expected {text}a mapping with keys of {keys}; got {problem['input']!r:.60}"
    if kind == "list_type":
        return f"expected a list; got {problem['input']!r:.60}"
    if kind == "too_short":
        return "is empty; expected one or more"
    if kind == "missing":
        return "is missing"
    return str(problem["msg"]).removeprefix("Value error, ")


def _nearest(key: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f", did you mean {found[0]}?" if found else ""


def _keys(model: type[pydantic.BaseModel] | None) -> list[str]:
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(
    place: Sequence[int | str], model: type[pydantic.BaseModel]
) -> type[pydantic.BaseModel] | None:
    """Returns what is expected at a place; None if that is no mapping with keys of its own."""
    found: type[pydantic.BaseModel] | None = model
    for part in place:
        if isinstance(part, int) or found is None:
            continue
        fields = {field.alias or name: field for name, field in found.model_fields.items()}
        found = next(_models(fields[part].annotation), None) if part in fields else None
    return found


def _models(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models(inner)
