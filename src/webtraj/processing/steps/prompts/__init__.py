"""The steps' prompts: templates that ship with the package, by version and identified by hash.

A prompt is a text file of two parts, separated by a line `---`: the system message and the
question. `${name}` in the question is a placeholder, mostly for blocks of quoted text. Files of a
released version never change: an improved prompt is a new version.
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
    """A prompt of a step."""

    name: str
    version: str
    sha256: str
    """The SHA-256 of its file, in hexadecimal."""
    system: str
    question: str
    """A template."""

    def ask(self, fields: Mapping[str, str]) -> str:
        """Return the question with its placeholders filled in."""
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
