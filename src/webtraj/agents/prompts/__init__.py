"""Prompts: versioned templates that ship with the package, identified by the hash of their file.

A prompt is a text file of three parts, divided by `---` lines::

    sections: Thought, Memory, Action
    ---
    The system message. ${actions} is replaced by the dialect's description of its actions.
    ---
    The question that ends every context.

`sections` names the labelled parts of a reply, in order; `webtraj.agents.reply_parser` splits
replies by it. The section Memory is the text that the agent remembers. Released files never change:
an improved prompt is a new version.
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
    """The instructions for a model, besides the task and the page."""

    name: str
    """The name, such as `plain`."""
    version: str
    """The version, such as `v1`; empty for prompts from elsewhere."""
    sha256: str
    """The SHA-256 of the file, in hexadecimal."""
    system: str
    """The template of the system message."""
    ask: str
    """The question at the end of a context."""
    sections: tuple[str, ...] = ()
    """The labels of a reply's sections, in order."""

    def render(self, actions: str) -> str:
        """Return the system message.

        Args:
            actions: The description of the actions: a dialect's `prompt()`.
        """
        return Template(self.system).substitute(actions=actions)

    @property
    def reference(self) -> Mapping[str, Any]:
        """The reference recorded with each decision."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256}


def prompt_names(version: str = LATEST) -> tuple[str, ...]:
    """Return the names of the prompts of a version.

    >>> prompt_names()
    ('bare', 'explore', 'memory', 'plain', 'tools', 'webgym_complete', 'webgym_vanilla')
    """
    folder = resources.files(__name__) / version
    if not _VERSION.fullmatch(version) or not folder.is_dir():
        return ()
    files = (file.name for file in folder.iterdir())
    return tuple(sorted(name.removesuffix(".txt") for name in files if name.endswith(".txt")))


def load_prompt(name: str) -> Prompt:
    """Return a prompt by name, `plain` or `v1/plain`, or by the path of a file, `mine.txt`.

    >>> load_prompt("v1/memory").sections
    ('Thought', 'Memory', 'Action')

    Raises:
        InvalidInputError: The prompt is unknown, or the file is not a valid prompt.
    """
    if name.endswith(".txt"):
        return _from_file(Path(name))
    version, _, short = name.rpartition("/")
    version = version or LATEST
    if short not in prompt_names(version):
        raise errors.InvalidInputError(
            f"No prompt {name!r}; expected one of {', '.join(prompt_names())}, or the path of a "
            "file that ends in .txt."
        )
    data = (resources.files(__name__) / version / f"{short}.txt").read_bytes()
    return read_prompt(data.decode(), name=short, version=version)


def read_prompt(text: str, *, name: str, version: str = "") -> Prompt:
    """Parse a prompt in this package's format.

    Raises:
        InvalidInputError: The text does not follow the format.
    """
    parts = text.replace("\r\n", "\n").split(_DIVIDER)
    if len(parts) != 3 or not _SECTIONS.fullmatch(parts[0].strip()):
        raise errors.InvalidInputError(
            f"The prompt {name!r} has the wrong format; expected 'sections: Thought, Action', the "
            "system message and the question, divided by two lines '---'."
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
            f"The prompt {name!r} has a placeholder other than ${{actions}} ({error}). Write $$ "
            "for a dollar sign."
        ) from None
    return prompt


def _from_file(path: Path) -> Prompt:
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInputError(
            f"Cannot read the prompt {str(path)!r} ({error}); expected a UTF-8 text file, or the "
            "name of one of webtraj's prompts."
        ) from None
    return read_prompt(text, name=path.stem)
