"""Errors of a training run, other than wrong input."""

from __future__ import annotations

from webtraj import errors

__all__ = ["NonFiniteLossError", "TrainingError"]


class TrainingError(errors.WebtrajError, RuntimeError):
    """A training run failed, or would have trained nothing."""


class NonFiniteLossError(TrainingError, ArithmeticError):
    """A loss or gradient is infinite or NaN. The weights are as before that step."""
