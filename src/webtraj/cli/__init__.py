"""The command line. `app` assembles the commands from the modules beside it."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command named by the process's arguments."""
    try:
        from webtraj.cli import app
    except KeyboardInterrupt:  # Ctrl-C during import, before any command handles it.
        sys.exit(128 + signal.SIGINT)
    app.main()
