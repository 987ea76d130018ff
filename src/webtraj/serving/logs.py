"""The end of a server's log, for messages."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["tail"]

_MAX_LINES = 25
_MAX_LINE = 300
_MAX_BYTES = 64 * 1024


def tail(log_file: Path, start: int = 0) -> str:
    """Returns the last lines that were written after `start`, indented, long ones cut."""
    try:
        with log_file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - _MAX_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"  (it cannot be read: {error.strerror})"
    lines = [line.rstrip()[:_MAX_LINE] for line in text.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-_MAX_LINES:]) or "  (it is empty)"
