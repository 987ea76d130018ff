"""How docstrings become Markdown: examples of the prompt (`>>>`) are blocks of code there."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^([ ]*)>>> .*\n?(?:^(?!\s*$).*\n?)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts a fence around each example of a docstring."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Changes the docstring of an object that has one."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    indent = match[1]
    return f"{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n"
