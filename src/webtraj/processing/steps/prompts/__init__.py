"""The steps' prompts: templates that ship with the package, by version, known by their hash.

A prompt is a text file of two parts, divided by a line `---`: the system message, and the question.
`${name}` in the question is where something is filled in: blocks of quoted text, mostly. What
stands in a file of a version never changes once that is released: an improved prompt is a new
version.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from importlib import resources
from string import Template

__all__ = ["LATEST", "Prompt", "load_prompt"]

LATEST = "v1"
_DIVIDER = "\n---\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """What a step tells its model."""

    name: str
    version: str
    sha256: str
    """Of its file, in hexadecimal."""
    system: str
    question: str
    """A template."""

    def ask(self, fields: Mapping[str, str]) -> str:
        """Return the question with all that is to be filled in."""
        return Template(self.question).substitute(fields)


@functools.cache
def load_prompt(name: str, version: str = LATEST) -> Prompt:
    """Return a prompt.

    >>> load_prompt("relabel").version
    'v1'
    """
    text = (resources.files(__name__) / version / f"{name}.txt").read_text("utf-8")
    system, question = (part.strip() for part in text.split(_DIVIDER))
    return Prompt(name, version, hashlib.sha256(text.encode()).hexdigest(), system, question)
