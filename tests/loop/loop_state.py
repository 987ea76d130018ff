"""What a loop has written down of itself."""

from pathlib import Path
from typing import Any

from webtraj.loop import state


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a state file, the oldest first; none if there is no file."""
    return state._read(path)[0]
