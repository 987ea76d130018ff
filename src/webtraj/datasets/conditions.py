"""Conditions on episodes, as a person writes them: parsed, and never run as code.

A condition is an expression over the fields of `webtraj.store.index.EpisodeSummary`::

    outcome == 'success' and num_steps <= 10
    task in ('miniwob/click-test', 'miniwob/choose-list') or site != ''
    'login' in goal and not (total_reward < 0.5)

It knows comparisons, `in`, `and`, `or`, `not`, brackets, text, numbers, `None`, `True` and `False`.
An outcome or end reason is its name in lower case.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import operator
from collections.abc import Callable
from typing import Any

from webtraj import errors
from webtraj.store.index import EpisodeSummary

__all__ = ["parse_condition"]

_LONGEST = 2000
_FIELDS = tuple(field.name for field in dataclasses.fields(EpisodeSummary))
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_Value = Callable[[EpisodeSummary], Any]


def parse_condition(text: str) -> Callable[[EpisodeSummary], bool]:
    """Returns what tells whether an episode meets a condition.

    >>> met = parse_condition("num_steps > 3 and task == 'a'")
    >>> met(EpisodeSummary(episode_id="e1", task="a", num_steps=4))
    True

    Raises:
        InvalidInputError: It is no condition, or compares what cannot be compared.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST} characters")
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise errors.InvalidInputError(
            f"{text!r:.200} is no condition: {error}. Expected comparisons of the fields "
            f"{', '.join(_FIELDS)}, joined by and, or, not: "
            "outcome == 'success' and num_steps <= 10."
        ) from error

    def met(summary: EpisodeSummary) -> bool:
        try:
            return bool(value(summary))
        except (TypeError, RecursionError) as error:
            raise errors.InvalidInputError(
                f"The condition {text!r:.200} cannot be told of the episode "
                f"{summary.episode_id!r}: {error}."
            ) from error

    return met


def _value(node: ast.expr) -> _Value:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [_value(value) for value in values]
            return lambda summary: all(part(summary) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=values):
            parts = [_value(value) for value in values]
            return lambda summary: any(part(summary) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _value(operand)
            return lambda summary: not inner(summary)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return lambda summary: -number
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _comparison([left, *comparators], ops)
        case ast.Name(id=name) if name in _FIELDS:
            return lambda summary: _plain(getattr(summary, name))
        case ast.Name(id=name):
            raise ValueError(f"there is no field {name!r}")
        case ast.Constant(value=str() | int() | float() | None as constant):
            return lambda summary: constant
        case ast.Tuple(elts=items) | ast.List(elts=items):
            parts = [_value(item) for item in items]
            return lambda summary: tuple(part(summary) for part in parts)
    raise ValueError(f"it may not have a {type(node).__name__}")


def _comparison(operands: list[ast.expr], ops: list[ast.cmpop]) -> _Value:
    values = [_value(operand) for operand in operands]
    compare = [_COMPARISONS[type(op)] for op in ops]

    def compared(summary: EpisodeSummary) -> bool:
        found = [value(summary) for value in values]
        pairs = zip(compare, found, found[1:], strict=False)
        return all(holds(one, other) for holds, one, other in pairs)

    return compared


def _plain(value: Any) -> Any:
    return value.name.lower() if isinstance(value, enum.Enum) else value
