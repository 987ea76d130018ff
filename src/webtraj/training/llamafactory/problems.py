"""What is wrong with files for LLaMA-Factory: where, what it would do, and what to do about it."""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["Effect", "Problem"]

Effect = Literal["aborts", "drops it", "cuts it", "ignores it", "trains nothing"]
"""What LLaMA-Factory does: it aborts the whole run; or goes on, and drops the row, cuts it, ignores
what it says, or trains nothing at all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One problem."""

    where: str
    """The file, and the row's number, from 0, or the key."""
    what: str
    effect: Effect
    to_do: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what} (LLaMA-Factory {self.effect}). {self.to_do}"
