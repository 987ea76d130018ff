"""A server's log: where it goes, its end for messages, and whether it is kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["ServerLog", "tail"]

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


class ServerLog:
    """The file that a server's output goes to.

    Args:
        path: The file, which is appended to; a temporary one if None.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.keep = path is not None
        """Whether it is left where it is; a temporary one is, if something went wrong."""
        self._path = None if path is None else Path(path)
        self._start = 0

    @property
    def path(self) -> Path | None:
        """The file; None while it has no name yet."""
        return self._path

    def open(self) -> Path:
        """Makes sure of the file, and remembers its end: there begins what `tail` quotes."""
        if self._path is None:
            handle, name = tempfile.mkstemp(prefix="webtraj-server-", suffix=".log")
            os.close(handle)
            self._path = Path(name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._start = self._path.stat().st_size if self._path.exists() else 0
        return self._path

    def tail(self) -> str:
        """Returns a sentence with the last lines, to put at the end of a message."""
        assert self._path is not None
        return f" The end of its log, {self._path}:\n{tail(self._path, self._start)}"

    def close(self) -> None:
        """Removes it, unless it is to be kept."""
        if not self.keep and self._path is not None:
            self._path.unlink(missing_ok=True)
