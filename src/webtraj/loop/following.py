"""What follows from a phase that is done: metrics, a picture, old trainings removed.

All of it can be made again from what is on disk. A loop that died after a phase's line in its state
was written, and before what follows from that, makes up for it when it goes on.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Sequence

from webtraj.loop import metrics, plots, schedule
from webtraj.loop.observer import LoopObserver
from webtraj.loop.places import Places
from webtraj.loop.schedule import Slot
from webtraj.loop.sections import LoopConfig
from webtraj.loop.state import LoopState
from webtraj.loop.wandb import IterationSink

__all__ = ["Following"]

_logger = logging.getLogger(__name__)

_MEASURED = ("rollout", "postprocess", "evaluate", "publish")
"""The phases after which an iteration is measured."""


class Following:
    """Does what follows from phases, one at a time.

    Args:
        config: The loop's configuration.
        state: What was done.
        slots: All phases of the loop.
        observer: Is told what was measured.
    """

    def __init__(
        self,
        config: LoopConfig,
        state: LoopState,
        slots: Iterable[Slot],
        observer: LoopObserver,
    ) -> None:
        self._config, self._state, self._observer = config, state, observer
        self._keys = [slot.key for slot in slots]
        self._places = Places(config)
        self._sink = IterationSink(config)

    def after(self, slot: Slot) -> None:
        """Does what follows from a phase that has just ended. Blocks."""
        if slot.name == "publish":
            self._prune(slot.iteration)
        if slot.name in _MEASURED:
            self._measure(slot.iteration)

    def catch_up(self, lanes: Sequence[Sequence[Slot]]) -> None:
        """Makes up for what a loop that died has left undone: of each lane's last phase. Blocks."""
        for lane in lanes:
            ended = [slot for slot in lane if self._state.ended(slot.key) is not None]
            if last := next((slot for slot in reversed(ended) if slot.name in _MEASURED), None):
                self.after(last)

    def close(self) -> None:
        """Ends what was begun elsewhere. Blocks; idempotent."""
        self._sink.close()

    def _measure(self, iteration: int) -> None:
        try:
            line = metrics.measure_iteration(self._config, self._state, iteration)
            lines = metrics.write_line(self._places.metrics, line)
            plots.plot_success(lines, self._places.plot)
            self._observer.measured(line)
            if all(self._state.ended(key) for key in self._keys if key[0] == iteration):
                self._sink.write(line)
        except Exception:
            # They follow from what is on disk, and are no reason to lose a night.
            _logger.warning("No metrics of iteration %d.", iteration, exc_info=True)

    def _prune(self, published: int) -> None:
        keep = self._config.publish.keep
        if keep is None:
            return
        # Weights that may play still are kept in any case.
        last = published - max(keep, 2 + schedule.staleness(self._config))
        for number in range(1, last + 1):
            shutil.rmtree(self._places.training(number), ignore_errors=True)
