"""Demonstrations: what a person, or another program, does in a browser, as ordinary episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.demonstrating.places import attached as attached
    from webtraj.demonstrating.places import borrow_environment as borrow_environment
    from webtraj.demonstrating.places import make_headed_pool as make_headed_pool
    from webtraj.demonstrating.places import page_environment as page_environment
    from webtraj.demonstrating.places import preset_environment as preset_environment
    from webtraj.demonstrating.recorder import Progress as Progress
    from webtraj.demonstrating.recorder import Recorded as Recorded
    from webtraj.demonstrating.recorder import Recorder as Recorder

_HOMES = {
    "Progress": "recorder",
    "Recorded": "recorder",
    "Recorder": "recorder",
    "attached": "places",
    "borrow_environment": "places",
    "make_headed_pool": "places",
    "page_environment": "places",
    "preset_environment": "places",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
