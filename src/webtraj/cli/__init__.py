"""The command line. Each command is a small module of its name; `app` puts them together."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Runs the command that the process's arguments name."""
    from webtraj.cli import app

    app.main()
