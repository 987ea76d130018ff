"""Training on recorded episodes: samples, replay buffer, exports, trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.training import export as export
    from webtraj.training import replay as replay
    from webtraj.training import sft as sft

__getattr__, __dir__ = _homes.face(__name__, {}, ("export", "replay", "sft"))
