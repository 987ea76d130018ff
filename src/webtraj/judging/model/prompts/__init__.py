"""The judge's prompts: templates that ship with the package, by version.

`system.txt` is the system message of all questions. Each other file is a question that follows the
evidence; its first line lists the allowed verdicts::

    verdicts: success, failure, unclear
    ---
    Judge this fact and no other: ${criterion}

Files of a released version never change: an improved prompt is a new version, and so a new version
of the judge.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from importlib import resources
from string import Template

__all__ = ["LATEST", "QUESTIONS", "Prompts", "load_prompts"]

LATEST = "v1"
QUESTIONS = ("screenshot", "blocked", "answer", "fact", "goal", "reference")
"""The questions, by file name."""

_DIVIDER = "\n---\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of one version."""

    version: str
    """The version, such as `v1`."""
    sha256: str
    """The SHA-256 of all their files."""
    system: str
    """The system message."""
    again: str
    """The text added when retrying a broken reply; `${broken}` is what was wrong."""
    words: Mapping[str, tuple[str, ...]]
    """The allowed verdicts of each question."""
    questions: Mapping[str, str]
    """The template of each question; `${criterion}` is the block to judge."""

    def ask(self, question: str, criterion: str = "") -> str:
        """Return the text of a question."""
        return Template(self.questions[question]).substitute(criterion=criterion)

    def ask_again(self, broken: str) -> str:
        """Return the text to add to a question whose reply was broken."""
        return Template(self.again).substitute(broken=broken)


@functools.cache
def load_prompts(version: str = LATEST) -> Prompts:
    """Return the prompts of a version.

    >>> load_prompts().words["blocked"]
    ('blocked', 'open', 'unclear')
    """
    folder = resources.files(__name__) / version
    names = ("system", "again", *QUESTIONS)
    files = {name: (folder / f"{name}.txt").read_text("utf-8") for name in names}
    parts = {name: files[name].split(_DIVIDER) for name in QUESTIONS}
    everything = "\0".join(f"{name}\0{text}" for name, text in sorted(files.items()))
    return Prompts(
        version=version,
        sha256=hashlib.sha256(everything.encode()).hexdigest(),
        system=files["system"].strip(),
        again=files["again"].strip(),
        words={name: _words(heading) for name, (heading, _) in parts.items()},
        questions={name: text.strip() for name, (_, text) in parts.items()},
    )


def _words(heading: str) -> tuple[str, ...]:
    listed = heading.removeprefix("verdicts:").split(",")
    return tuple(word.strip() for word in listed)
