"""The HTTP client: httpx2, which continues httpx, where it is installed; httpx else.

Both have the same interface and take the same CPU a call (`docs/benchmarks.md`). No other module
imports either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx
else:
    try:
        import httpx2 as httpx
    except ImportError:
        import httpx

__all__ = ["httpx"]
