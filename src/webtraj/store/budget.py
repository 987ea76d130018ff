"""The memory that reading one file may take.

A small file can ask for a lot of memory: an array of a huge shape, a string that is referred to a
million times, a pickle of empty sets. Whoever reads a file makes one `Budget` from the file's size
and passes it to everything that reads a part of it; each takes what it needs before it allocates.
"""

from __future__ import annotations

from webtraj import errors

__all__ = ["CEILING", "FLOOR", "RATIO", "Budget"]

RATIO = 64
"""Bytes of memory that each byte of a file may ask for,"""
FLOOR = 256 << 20
"""if they are more than this many bytes,"""
CEILING = 16 << 30
"""but never more than this many or, for a larger file, four times its size."""


class Budget:
    """The memory that one file may still take."""

    __slots__ = ("_left", "limit", "where")

    def __init__(self, where: str, size: int, *, limit: int | None = None) -> None:
        """Initialize the budget.

        Args:
            where: Names the file in errors.
            size: The bytes of the file as it is stored, and of the blobs that it refers to.
            limit: The memory that it may take; by default in proportion to its size.
        """
        self.where = where
        self.limit = max(FLOOR, min(RATIO * size, CEILING), 4 * size) if limit is None else limit
        self._left = self.limit

    def allows(self, size: int) -> bool:
        """Count memory if it is there; return whether it is."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def take(self, size: int) -> None:
        """Count memory that is about to be allocated.

        Raises:
            CorruptDataError: The file asks for more than it may.
        """
        self._left -= size
        if self._left < 0:
            raise errors.CorruptDataError(
                f"{self.where!r} asks for more than the {self.limit:,} bytes of memory that a file "
                "of its size may take. It was refused before they were allocated: the file is "
                "damaged, or was made to exhaust memory."
            )
