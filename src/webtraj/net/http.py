"""The HTTP client. No other module imports it: a change to httpx2, its successor, is one line."""

from __future__ import annotations

import httpx

__all__ = ["httpx"]
