"""Log messages on stderr: all of them with `-v`, else those that a command shows by itself."""

from __future__ import annotations

import logging
import sys
from typing import Any

__all__ = ["show"]


class _Handler(logging.StreamHandler[Any]):
    """Writes to the stderr of the moment: a progress bar replaces it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, stream: Any) -> None:
        pass


def show(level: int, logger: str = "webtraj") -> None:
    """Show a logger's messages from a level on, unless `-v` shows them already.

    Args:
        level: The lowest level, such as `logging.INFO`.
        logger: The logger; the empty text for all libraries' messages too, as `-v` shows them.
    """
    shown, root = logging.getLogger(logger or None), logging.getLogger()
    if any(isinstance(handler, _Handler) for handler in (*root.handlers, *shown.handlers)):
        return
    shown.setLevel(level)
    shown.addHandler(_Handler())
