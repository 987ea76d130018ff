r"""The marks that stand for pictures in text, and text that only looks like them.

Trainers that take `<image>` for a picture count those marks, and abort where they are not as many
as the pictures are, as do models with tokens of their own (`<|image_pad|>`); a page that says one
is enough. So such text is written with a character
of no width in it, which can be taken out again, whatever the text was::

    >>> hide("see <image>")
    ('see <\u200bimage>', 1)
    >>> show(hide("see <image>")[0])
    'see <image>'
"""

from __future__ import annotations

import re

from webtraj.agents.models.markup import PICTURE_MARKS

__all__ = ["IMAGE", "hide", "show"]

IMAGE = "<image>"

_NO_WIDTH = "\u200b"
_MARK = f"({PICTURE_MARKS})"
_LOOKS_LIKE_ONE = re.compile(f"<({_NO_WIDTH}*){_MARK}")
_HIDDEN = re.compile(f"<{_NO_WIDTH}({_NO_WIDTH}*){_MARK}")


def hide(text: str) -> tuple[str, int]:
    """Returns text in which nothing is a mark, and how many there were."""
    if "<" not in text:
        return text, 0
    return _LOOKS_LIKE_ONE.subn(rf"<{_NO_WIDTH}\1\2", text)


def show(text: str) -> str:
    """Returns the text that `hide` was given."""
    return _HIDDEN.sub(r"<\1\2", text)
