"""Log messages on stderr: all with `-v`, otherwise those that a command chooses to show."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any

from webtraj.cli import terminal
from webtraj.settings import credentials

__all__ = ["private", "show"]


class _Handler(logging.StreamHandler[Any]):
    """Writes to the current stderr, which a progress bar may replace."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def format(self, record: logging.LogRecord) -> str:
        """Format a record without secrets, because libraries log replies and headers of servers."""
        return private(super().format(record))

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, stream: Any) -> None:
        pass

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  The base's name.
        """Report a message that cannot be formatted, without its content."""
        print(f"{record.levelname} a message of {record.name} cannot be shown", file=sys.stderr)


_HEADER = re.compile(r"[(\[]b?(['\"])(?P<name>[^'\"]{1,200})\1, b?(['\"])(?P<value>.*?)\3[)\]]")
"""A header as a pair, as HTTP clients log it."""


def private(text: str) -> str:
    """Return a text for the terminal, without this process's keys and other credentials.

    >>> private("[(b'Set-Cookie', b'a=b'), (b'Server', b'x')] --api-key sk-8fKz02mQx7Lw")
    "[(b'Set-Cookie', b'<hidden>'), (b'Server', b'x')] --api-key <hidden>"
    >>> private("[('x-api-key', 'a b'), ['Cookie', 'a=b']]")
    "[('x-api-key', '<hidden>'), ['Cookie', '<hidden>']]"
    """
    from webtraj.redaction import without_keys

    return terminal.printable(
        credentials.conceal(_HEADER.sub(_without_value, without_keys(text))), keep_lines=True
    )


def _without_value(header: re.Match[str]) -> str:
    if not credentials.is_secret_name(header["name"], hints=True):
        return header[0]
    start, end = (place - header.start() for place in header.span("value"))
    return f"{header[0][:start]}{credentials.HIDDEN}{header[0][end:]}"


def show(level: int, logger: str = "webtraj") -> None:
    """Show a logger's messages from a level on, unless `-v` shows them already.

    Args:
        level: The lowest level, such as `logging.INFO`.
        logger: The logger's name. An empty name also shows all libraries' messages, as with `-v`.
    """
    shown, root = logging.getLogger(logger or None), logging.getLogger()
    if any(isinstance(handler, _Handler) for handler in (*root.handlers, *shown.handlers)):
        return
    shown.setLevel(level)
    shown.addHandler(_Handler())
