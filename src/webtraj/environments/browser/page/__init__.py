"""The scripts that run in pages: a JavaScript file for each job."""

from __future__ import annotations

import functools
from importlib import resources

__all__ = ["read_script"]


@functools.cache
def read_script(name: str) -> str:
    """Return the source of a script: `tree` for `tree.js`."""
    return (resources.files(__name__) / f"{name}.js").read_text(encoding="utf-8")
