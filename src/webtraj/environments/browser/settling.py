"""When a page counts as settled after an action: a policy, not a sleep."""

from __future__ import annotations

import dataclasses
from typing import Final

from webtraj import errors as errors_lib

__all__ = ["LIVE_SITE", "LOCAL_PAGE", "SettlePolicy"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SettlePolicy:
    """Waits until the page has stood still for `quiet`, at most `cap`. Times are in seconds.

    Standing still means: the document is parsed, no mutation of the DOM, no finite animation, and,
    where `network_quiet` is given, no request in flight for that long. How the wait ended is part
    of the observation: `quiet`, `cap`, `navigated`.
    """

    quiet: float = 0.016
    """How long the DOM stands still; a frame is enough for handlers that run at once."""
    cap: float = 3.0
    """The longest wait. Pages that never stand still are observed as they are."""
    network_quiet: float | None = None
    """How long no request is in flight; None does not watch the network."""
    load: float = 10.0
    """The longest wait for a navigation to load."""

    def __post_init__(self) -> None:
        if not 0 <= self.quiet <= self.cap:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs 0 <= quiet <= cap; got {self.quiet} and {self.cap}."
            )


LOCAL_PAGE: Final = SettlePolicy()
"""For pages that live in the browser alone, such as MiniWoB++."""

LIVE_SITE: Final = SettlePolicy(quiet=0.1, cap=10.0, network_quiet=0.5)
"""For sites that fetch what they show; half a second of network quiet is Stagehand's rule too."""
