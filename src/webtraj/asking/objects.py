"""Objects: what of a model's reply counts as one JSON object, or why nothing does.

Around it there may be white space and one code fence. Everything else is broken: prose, several
objects, members named twice, numbers that JSON does not have or no float holds, halves of
characters, and a reply that the server cut, filtered or refused. What is broken is never read for
what it might have meant.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any, Generic, NoReturn, TypeVar

from webtraj.trajectory import ModelCall

__all__ = ["LONGEST", "Reading", "object_of", "problem_of", "read_object"]

LONGEST = 100_000
"""Characters of a reply, at most."""

_COMPLETE = frozenset({"stop", "end_turn", "eos_token", "stop_sequence"})
"""The finish reasons of replies that a model has ended itself, as servers call them."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_SPACE = " \t\r\n"

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class Reading(Generic[_T]):
    """What a reply says."""

    value: _T | None = None
    """What was asked for; None if the reply is broken."""
    broken: str = ""
    """Why the reply cannot be used, in words of our own; empty if it can."""


def object_of(call: ModelCall) -> Reading[dict[str, Any]]:
    """Reads the object that a call brought. One that failed or is not complete brought none."""
    incomplete = problem_of(call)
    return Reading(broken=incomplete) if incomplete else read_object(call.text)


def problem_of(call: ModelCall) -> str:
    """Returns why a call's text is no complete reply, whatever it says; empty if it is one."""
    if call.error:
        return "The model gave no reply."
    if call.finish_reason not in _COMPLETE:
        return (
            "The reply is not complete (cut off, filtered or refused): its finish reason is "
            f"{call.finish_reason!r:.50}."
        )
    return ""


def read_object(text: str) -> Reading[dict[str, Any]]:
    r"""Reads the object that a complete reply is.

    >>> read_object('```json\n{"achieved": true}\n```').value
    {'achieved': True}
    >>> read_object('It is {"achieved": true}').broken
    'The reply is not one JSON object.'
    """
    stripped = text.strip(_SPACE)
    if not stripped:
        return Reading(broken="The reply is empty.")
    if len(stripped) > LONGEST:
        return Reading(broken=f"The reply is longer than {LONGEST} characters.")
    if fenced := _FENCE.fullmatch(stripped):
        stripped = fenced[1].strip(_SPACE)
    try:
        data = json.loads(
            stripped,
            object_pairs_hook=_distinct,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
        # JSON can say halves of characters, which no file can hold.
        json.dumps(data, ensure_ascii=False).encode()
    except _DuplicateError:
        return Reading(broken="The reply has a member twice.")
    except UnicodeEncodeError:
        return Reading(broken="The reply has half of a character.")
    except (ValueError, RecursionError):
        return Reading(broken="The reply is not one JSON object.")
    if not isinstance(data, dict):
        return Reading(broken="The reply is not one JSON object.")
    return Reading(data)


class _DuplicateError(ValueError):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _DuplicateError
    return members


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is beyond all floats")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
