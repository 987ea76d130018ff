"""Shares: what part of the limits that hold for all machines together each node may use.

A node's part is in proportion to its size. When another comes, the parts of the others shrink
first, and only what they have been told to leave is given away; so the parts never add up to more
than the whole, whoever hears of it when.
"""

from __future__ import annotations

__all__ = ["Shares"]

_EXACT = 1e-9


class Shares:
    """Who has which part."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._taken: dict[str, float] = {}
        """The most that a node may be using, by what it was told or is being told."""
        self._told: dict[str, float] = {}

    def join(self, key: str, size: int) -> None:
        """Takes a node in; it has no part yet."""
        self._sizes[key] = size

    def leave(self, key: str) -> None:
        """Forgets a node that uses nothing any more."""
        for known in (self._sizes, self._taken, self._told):
            known.pop(key, None)

    def has_any(self, key: str) -> bool:
        """Returns whether a node was told of a part."""
        return key in self._told

    def offer(self, key: str) -> float | None:
        """Returns the part to tell a node of now, which `told` has to follow; None for no news.

        >>> shares = Shares()
        >>> shares.join("a", 3), shares.offer("a"), shares.told("a", 1.0)
        (None, 1.0, None)
        >>> shares.join("b", 1), shares.offer("b"), shares.offer("a"), shares.told("a", 0.75)
        (None, None, 0.75, None)
        >>> shares.offer("b")
        0.25
        """
        due = self._sizes[key] / sum(self._sizes.values())
        free = 1.0 - sum(taken for other, taken in self._taken.items() if other != key)
        share, had = min(due, free), self._told.get(key, 0.0)
        if share < _EXACT or abs(share - had) < _EXACT:
            return None
        self._taken[key] = max(share, had)
        return share

    def told(self, key: str, share: float) -> None:
        """Notes that a node goes by its part from now on."""
        if key in self._sizes:
            self._taken[key] = self._told[key] = share
