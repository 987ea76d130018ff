"""The HTTP client. Only this module imports httpx, so a change to its successor is one line."""

from __future__ import annotations

import httpx

__all__ = ["httpx"]
