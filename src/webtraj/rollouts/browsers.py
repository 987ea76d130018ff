"""What a rollout's pages come from: a machine's browsers, as settings that any machine can use."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webtraj.environments.browser.executable import BrowserExecutable
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["Browsers"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Browsers:
    """The browsers of a rollout; on a cluster, those of each machine."""

    contexts: int = 16
    """Episodes that share one."""
    endpoint: str = ""
    """Where they run already; empty to start our own."""
    wait_timeout: float = 120.0
    """Seconds to wait for a page to come free."""
    operation_timeout: float = 30.0
    """Seconds that a call may take."""

    def find(self) -> BrowserExecutable | None:
        """Returns the browser to run; None where browsers run already. Blocks.

        Raises:
            BrowserNotFoundError: There is none.
        """
        if self.endpoint:
            return None
        from webtraj.environments.browser.executable import find_browser

        return find_browser()

    def open(self, parallel: int, executable: BrowserExecutable | None = None) -> BrowserPool:
        """Returns a pool for so many episodes at a time. No browser starts before it is needed."""
        from webtraj.environments.browser.pool import BrowserPool, PoolLimits

        browsers = math.ceil(parallel / self.contexts)
        return BrowserPool(
            browsers,
            math.ceil(parallel / browsers),
            executable=executable,
            endpoint=self.endpoint,
            limits=PoolLimits(lease=self.wait_timeout, call=self.operation_timeout),
        )
