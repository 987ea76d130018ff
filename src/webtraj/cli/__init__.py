"""The command line. `app` assembles the commands from the modules beside it."""

from __future__ import annotations

import io
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command named by the process's arguments."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Whatever the locale: pages and tasks have names in every script, and JSON is UTF-8.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        from webtraj.cli import app
    except KeyboardInterrupt:  # Ctrl-C during import, before any command handles it.
        sys.exit(128 + signal.SIGINT)
    app.main()
