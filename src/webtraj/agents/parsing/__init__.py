"""Parsing: a model's reply becomes a thought, a memory and exactly one action, or an invalid one.

The dialect finds and reads the action (`webtraj.environments.actions.dialects`): it never raises on
what a model wrote, never evaluates it, never guesses. This package adds what is the prompt's: the
sections of a reply, the numbers of marks, and tool calls that a server has taken out of the text.

A reply that cannot be read is an `InvalidAction` that says why. It is never a click.
"""

from webtraj.agents.parsing.replies import Reply, parse_call, parse_reply
from webtraj.agents.parsing.sections import reasoning_of, sections_of, without_reasoning

__all__ = [
    "Reply",
    "parse_call",
    "parse_reply",
    "reasoning_of",
    "sections_of",
    "without_reasoning",
]
