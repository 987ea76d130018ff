"""Verdicts: what a model's reply says, or why it says nothing.

A verdict is one JSON object of exactly two members, and nothing else is one::

    {"reasoning": "The page says that the order was placed.", "verdict": "success"}

Around it there may be white space and one code fence. Everything else is broken: other words,
another case, members that are missing, surplus or named twice, several objects, prose, and a reply
that the server cut, filtered or refused. So is one whose reasoning states another verdict than its
verdict does. What is broken is never read for what it might have meant.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from webtraj.trajectory import ModelCall

__all__ = ["JUDGING_WORDS", "UNCLEAR", "Reading", "read_call", "read_reply", "schema_of"]

UNCLEAR = "unclear"
JUDGING_WORDS = ("success", "failure", UNCLEAR)
"""The verdicts on a criterion."""

_COMPLETE = frozenset({"stop", "end_turn", "eos_token"})
"""The finish reasons of replies that a model has ended itself, as servers call them."""
_LONGEST = 100_000
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_SPACE = " \t\r\n"
_STATED = re.compile(
    r"""\bverdict\b["'*]*\s*(?:[:=]|\bis\b)\s*["'*]*(not\s+)?["'*]*([a-z]+)""", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says."""

    verdict: str = ""
    """One of the words that were asked for; empty if the reply is broken."""
    reasoning: str = ""
    """Why, in the model's words."""
    broken: str = ""
    """Why the reply is no verdict, in words of our own; empty if it is one."""


def schema_of(words: Sequence[str]) -> dict[str, Any]:
    """Returns the JSON Schema of a verdict, of the keywords that every server knows."""
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "verdict": {"type": "string", "enum": list(words)},
        },
        "required": ["reasoning", "verdict"],
        "additionalProperties": False,
    }


def read_call(call: ModelCall, words: Sequence[str]) -> Reading:
    """Reads the verdict that a call brought."""
    if call.error:
        return Reading(broken="The model gave no reply.")
    if call.finish_reason not in _COMPLETE:
        return Reading(
            broken=f"The reply is not complete: its finish reason is {call.finish_reason!r:.50}."
        )
    return read_reply(call.text, words)


def read_reply(text: str, words: Sequence[str]) -> Reading:
    """Reads the verdict that a complete reply states.

    >>> read_reply('{"reasoning": "It is there.", "verdict": "success"}', JUDGING_WORDS).verdict
    'success'
    >>> read_reply("SUCCESS", JUDGING_WORDS).broken
    'The reply is not one JSON object.'

    Args:
        text: The reply.
        words: The verdicts that there are.
    """
    stripped = text.strip(_SPACE)
    if not stripped:
        return Reading(broken="The reply is empty.")
    if len(stripped) > _LONGEST:
        return Reading(broken=f"The reply is longer than {_LONGEST} characters.")
    if fenced := _FENCE.fullmatch(stripped):
        stripped = fenced[1].strip(_SPACE)
    try:
        data = json.loads(
            stripped, object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
    except _DuplicateError:
        return Reading(broken="The reply has a member twice.")
    except (ValueError, RecursionError):
        return Reading(broken="The reply is not one JSON object.")
    return _reading_of(data, words)


def _reading_of(data: Any, words: Sequence[str]) -> Reading:
    if not isinstance(data, Mapping):
        return Reading(broken="The reply is not one JSON object.")
    if set(data) != {"reasoning", "verdict"}:
        return Reading(broken='The reply has not exactly the members "reasoning" and "verdict".')
    reasoning, verdict = data["reasoning"], data["verdict"]
    if not isinstance(reasoning, str) or not reasoning.strip():
        return Reading(broken="The reasoning is no text, or empty.")
    if verdict not in words:
        return Reading(broken=f"The verdict is none of {', '.join(words)}.")
    if _contradicts(reasoning, verdict, words):
        return Reading(broken="The reasoning states another verdict than the verdict.")
    # JSON can say halves of characters, which no file can hold.
    return Reading(verdict, reasoning.encode(errors="replace").decode())


def _contradicts(reasoning: str, verdict: str, words: Sequence[str]) -> bool:
    for match in _STATED.finditer(reasoning):
        stated = match[2].lower()
        if stated in words and (stated == verdict) == bool(match[1]):
            return True
    return False


class _DuplicateError(ValueError):
    pass


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _DuplicateError
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
