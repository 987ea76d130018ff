"""How often a server that died is started again, and after how long."""

from __future__ import annotations

import dataclasses

__all__ = ["RestartPolicy"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Bounded restarts with growing pauses.

    >>> [RestartPolicy().pause(restart) for restart in range(4)]
    [1.0, 2.0, 4.0, 8.0]
    """

    limit: int = 5
    """How many restarts in a row; 0 for none at all."""
    first_pause: float = 1.0
    """Seconds before the first; each next waits twice as long."""
    longest_pause: float = 60.0
    """Seconds that no pause exceeds."""
    stable_after: float = 300.0
    """Seconds of good health after which the restarts are no longer counted."""

    def pause(self, restart: int) -> float:
        """Returns the seconds to wait before a restart, counted from 0."""
        return float(min(self.first_pause * 2.0**restart, self.longest_pause))
