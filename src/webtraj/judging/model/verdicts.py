"""Verdicts: what a model's reply says, or why it says nothing.

A verdict is one JSON object (`webtraj.asking.objects`) of exactly two members, and nothing else is
one::

    {"reasoning": "The page says that the order was placed.", "verdict": "success"}

Other words, another case, members that are missing or surplus are broken. So is a reply whose
reasoning states another verdict than its verdict does.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj.asking.objects import Reading, object_of, read_object
from webtraj.trajectory import ModelCall

__all__ = ["JUDGING_WORDS", "UNCLEAR", "Verdict", "read_call", "read_reply", "schema_of"]

UNCLEAR = "unclear"
JUDGING_WORDS = ("success", "failure", UNCLEAR)
"""The verdicts on a criterion."""

_STATED = re.compile(
    r"""\bverdict\b["'*]*\s*(?:[:=]|\bis\b)\s*["'*]*(not\s+)?["'*]*([a-z]+)""", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply says."""

    word: str
    """One of the words that were asked for."""
    reasoning: str
    """Why, in the model's words."""


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


def read_call(call: ModelCall, words: Sequence[str]) -> Reading[Verdict]:
    """Reads the verdict that a call brought."""
    return _verdict_of(object_of(call), words)


def read_reply(text: str, words: Sequence[str]) -> Reading[Verdict]:
    """Reads the verdict that a complete reply states.

    >>> read_reply('{"reasoning": "It is there.", "verdict": "success"}', JUDGING_WORDS).value
    Verdict(word='success', reasoning='It is there.')
    >>> read_reply("SUCCESS", JUDGING_WORDS).broken
    'The reply is not one JSON object.'

    Args:
        text: The reply.
        words: The verdicts that there are.
    """
    return _verdict_of(read_object(text), words)


def _verdict_of(reading: Reading[dict[str, Any]], words: Sequence[str]) -> Reading[Verdict]:
    if reading.value is None:
        return Reading(broken=reading.broken)
    data: Mapping[str, Any] = reading.value
    if set(data) != {"reasoning", "verdict"}:
        return Reading(broken='The reply has not exactly the members "reasoning" and "verdict".')
    reasoning, verdict = data["reasoning"], data["verdict"]
    if not isinstance(reasoning, str) or not reasoning.strip():
        return Reading(broken="The reasoning is no text, or empty.")
    if verdict not in words:
        return Reading(broken=f"The verdict is none of {', '.join(words)}.")
    if _contradicts(reasoning, verdict, words):
        return Reading(broken="The reasoning states another verdict than the verdict.")
    return Reading(Verdict(verdict, reasoning))


def _contradicts(reasoning: str, verdict: str, words: Sequence[str]) -> bool:
    for match in _STATED.finditer(reasoning):
        stated = match[2].lower()
        if stated in words and (stated == verdict) == bool(match[1]):
            return True
    return False
