"""A pool's limits, and its counts."""

from __future__ import annotations

import dataclasses

__all__ = ["PoolLimits", "PoolStats"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """When the pool loses patience, and when it replaces a browser. Times are in seconds."""

    lease: float = 120.0
    """For a page to come free."""
    launch: float = 60.0
    """For a browser or driver to start; a cold machine takes ten."""
    call: float = 30.0
    """For any one call into a browser."""
    close: float = 5.0
    """For a context or browser to close, before it is killed."""
    contexts_per_life: int = 1000
    """How many contexts a browser gives before it is replaced; browsers leak a little with each."""
    failures_in_a_row: int = 3
    """After so many leases in a row in which a call ran out of time, it is not the pages' fault any
    more, and the browser is replaced: a part of it hangs, its compositor for example."""
    memory: int = 4 << 30
    """Bytes private to a browser's processes above which it is replaced."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """What a pool has done so far."""

    leases: int
    """Pages on lease now."""
    browsers: int
    """Browsers that run now, retired ones included."""
    launched: int
    """Browsers started in all."""
    crashed: int
    """Browsers that died or had to be killed."""
    retired: int
    """Browsers replaced because of age, memory or failures."""
