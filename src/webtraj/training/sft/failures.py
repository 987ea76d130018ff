"""Errors of a training run."""

from __future__ import annotations

from webtraj import errors

__all__ = ["NonFiniteLossError", "PictureMismatchError", "TrainingError"]


class TrainingError(errors.WebtrajError, RuntimeError):
    """A training run failed, or would have trained nothing."""


class NonFiniteLossError(TrainingError, ArithmeticError):
    """A loss or gradient is infinite or NaN. The weights are as before that step."""


class PictureMismatchError(errors.InvalidInputError):
    """The image tokens of a sample and its pictures do not fit together."""
