"""The gateway: records any agent's model calls, and joins them to its steps in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.gateway.joiner import Joiner as Joiner
    from webtraj.gateway.journal import RecordedCall as RecordedCall
    from webtraj.gateway.journal import read_calls as read_calls
    from webtraj.gateway.server import Gateway as Gateway

_HOMES = {
    "Gateway": "server",
    "Joiner": "joiner",
    "RecordedCall": "journal",
    "read_calls": "journal",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
