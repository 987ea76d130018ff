"""The command line. Each command is a small module of its name; `app` puts them together."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command that the process's arguments name."""
    try:
        from webtraj.cli import app
    except KeyboardInterrupt:  # Ctrl-C before there is a command that it could end in good order.
        sys.exit(128 + signal.SIGINT)
    app.main()
