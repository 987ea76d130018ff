"""What can go wrong in a loop, other than its input."""

from __future__ import annotations

from webtraj import errors

__all__ = ["PhaseFailedError"]


class PhaseFailedError(errors.WebtrajError, RuntimeError):
    """A phase's command failed, or did not make what it promises; the loop can be gone on with."""
