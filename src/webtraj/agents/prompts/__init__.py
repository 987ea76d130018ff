"""Prompts: templates that ship with the package, by version, each known by the hash of its file.

A prompt is a text file of three parts, divided by lines `---`::

    sections: Thought, Memory, Action
    ---
    The system message. ${actions} is where the dialect describes its actions.
    ---
    The question that ends every context.

`sections` names the labelled parts of a reply, in order; replies are taken apart by it
(`webtraj.agents.parsing`). A section named Memory is what the agent remembers. What stands in a
file of a version never changes once that is released: an improved prompt is a new version.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from webtraj import errors

__all__ = ["LATEST", "Prompt", "load_prompt", "prompt_names", "read_prompt"]

LATEST = "v1"
"""The version that a name without one means."""

_VERSION = re.compile(r"v\d+")
_DIVIDER = "\n---\n"
_SECTIONS = re.compile(r"sections:(?: *[A-Z][A-Za-z ]*(?:, *[A-Z][A-Za-z ]*)*)? *")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is told beside the task and the page."""

    name: str
    """Its name, such as `plain`."""
    version: str
    """Its version, such as `v1`; empty if it is no part of webtraj."""
    sha256: str
    """The SHA-256 of its file, in hexadecimal."""
    system: str
    """The template of the system message."""
    ask: str
    """The question at the end."""
    sections: tuple[str, ...] = ()
    """The labels of a reply's parts, in order."""

    def render(self, actions: str) -> str:
        """Returns the system message.

        Args:
            actions: What says which actions there are: a dialect's `prompt()`.
        """
        return Template(self.system).substitute(actions=actions)

    @property
    def reference(self) -> Mapping[str, Any]:
        """What is recorded with each decision."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256}


def prompt_names(version: str = LATEST) -> tuple[str, ...]:
    """Returns the names of the prompts of a version.

    >>> prompt_names()
    ('bare', 'explore', 'memory', 'plain', 'webgym_complete', 'webgym_vanilla')
    """
    folder = resources.files(__name__) / version
    if not _VERSION.fullmatch(version) or not folder.is_dir():
        return ()
    files = (file.name for file in folder.iterdir())
    return tuple(sorted(name.removesuffix(".txt") for name in files if name.endswith(".txt")))


def load_prompt(name: str) -> Prompt:
    """Returns a prompt by name: `plain`, or `v1/plain`; or by the path of a file, `mine.txt`.

    >>> load_prompt("v1/memory").sections
    ('Thought', 'Memory', 'Action')

    Raises:
        InvalidInputError: There is no such prompt, or the file is none.
    """
    if name.endswith(".txt"):
        return _from_file(Path(name))
    version, _, short = name.rpartition("/")
    version = version or LATEST
    if short not in prompt_names(version):
        raise errors.InvalidInputError(
            f"There is no prompt {name!r}; the prompts are {', '.join(prompt_names())}, or the "
            "path of a file that ends in .txt."
        )
    data = (resources.files(__name__) / version / f"{short}.txt").read_bytes()
    return read_prompt(data.decode(), name=short, version=version)


def read_prompt(text: str, *, name: str, version: str = "") -> Prompt:
    """Returns the prompt that a text stands for, in the format of this package.

    Raises:
        InvalidInputError: The text does not follow the format.
    """
    parts = text.replace("\r\n", "\n").split(_DIVIDER)
    if len(parts) != 3 or not _SECTIONS.fullmatch(parts[0].strip()):
        raise errors.InvalidInputError(
            f"The prompt {name!r} does not follow the format: a line 'sections: Thought, Action', "
            "the system message and the question, divided by two lines '---'."
        )
    heading, system, ask = (part.strip() for part in parts)
    labels = heading.removeprefix("sections:").split(",")
    prompt = Prompt(
        name=name,
        version=version,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        system=system,
        ask=ask,
        sections=tuple(label.strip() for label in labels if label.strip()),
    )
    try:
        prompt.render("")
    except (KeyError, ValueError) as error:
        raise errors.InvalidInputError(
            f"The prompt {name!r} has a placeholder other than ${{actions}} ({error}); write $$ "
            "for a dollar sign."
        ) from None
    return prompt


def _from_file(path: Path) -> Prompt:
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(
            f"The prompt {str(path)!r} cannot be read ({error}); give the path of a UTF-8 text "
            "file, or the name of one of webtraj's prompts."
        ) from None
    return read_prompt(text, name=path.stem)
