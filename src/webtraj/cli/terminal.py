"""The console that commands print to."""

from __future__ import annotations

from rich.console import Console

__all__ = ["make_console"]

_WIDTH_OF_A_PIPE = 250


def make_console(*, stderr: bool = False) -> Console:
    """Returns a console that takes text as it is, without markup."""
    console = Console(stderr=stderr, markup=False, highlight=False)
    if not console.is_terminal:  # A file or a pipe has no width to fold lines to.
        console.width = _WIDTH_OF_A_PIPE
    return console
