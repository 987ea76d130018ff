"""When a page counts as settled, and the policies for local, served and live sites."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from webtraj import errors as errors_lib

__all__ = ["LIVE_SITE", "LOCAL_PAGE", "SERVED_PAGE", "SettlePolicy"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SettlePolicy:
    """Wait until the page has been still for `quiet`, at most `cap`. Times are in seconds.

    Still means: the document is parsed, the DOM does not change, no finite animation runs, no image
    in view and no frame is loading, an editor has had 0.11 s to notice text selected in it, no
    timer that `timers` counts is pending, and, if `network_quiet` is given, no request was in
    flight for that long.
    The end of the wait is part of the observation: `quiet`, `cap`, `navigated`.
    """

    quiet: float = 0.016
    """How long the DOM must not change; one frame is enough for handlers that run at once."""
    cap: float = 3.0
    """The longest wait. Pages that never settle are observed as they are."""
    network_quiet: float | None = None
    """How long no request must be in flight; None ignores the network."""
    after_typing: float | None = None
    """The same after an action that typed, as a page may search when the typing pauses; None for no
    difference."""
    restless: float | None = None
    """The longest wait for a page that changes or fetches without an end; what an action made it
    fetch, and a document on its way, are still waited for. None for `cap`."""
    answers: float | None = None
    """The longest wait for the answer to a request that an action caused, beyond `cap`. None for
    `cap`, or 2 s if that is less."""
    pictures: float = 1.0
    """The longest wait for each image in view that is loading; 0 does not wait."""
    timers: float = 0.6
    """The longest wait for the page's timers that are due to what happened since the last
    observation, with all that they lead to. For this, the page's timer functions are replaced,
    which a page can notice; 0 leaves them alone."""
    departure: float = 0.0
    """The longest wait for the document to which the page is on its way, until it is parsed; 0 does
    not wait."""
    load: float = 10.0
    """The longest wait for a navigation to load."""

    def __post_init__(self) -> None:
        if not 0 <= self.timers < math.inf:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs timers of 0 seconds or more, and a finite number; got "
                f"{self.timers}. 0 waits for no timers."
            )
        if not 0 <= self.quiet <= self.cap:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs 0 <= quiet <= cap; got {self.quiet} and {self.cap}."
            )


LOCAL_PAGE: Final = SettlePolicy()
"""For pages without network traffic, such as MiniWoB++."""

SERVED_PAGE: Final = SettlePolicy(departure=20.0, load=20.0, network_quiet=0.05, answers=20.0)
"""For sites on this machine, which answer forms, links and scripts before the next look."""

LIVE_SITE: Final = SettlePolicy(
    quiet=0.1,
    cap=10.0,
    departure=10.0,
    network_quiet=0.35,
    after_typing=0.6,
    restless=1.0,
    timers=0.0,
)
"""For sites that fetch their content. Their short timers run while the network is waited for."""
