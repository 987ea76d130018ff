"""A loop's metrics in Weights & Biases: a run of the loop, a step an iteration."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from webtraj.loop import metrics
from webtraj.loop.sections import LoopConfig

__all__ = ["IterationSink"]

_logger = logging.getLogger(__name__)


class IterationSink:
    """Takes the lines of iterations that are done; does nothing if nobody asked for it.

    The run there has an id that follows from the loop's folder, so that one that is gone on with
    goes on there. What goes wrong there is logged, and ends no loop.
    """

    def __init__(self, config: LoopConfig) -> None:
        self._config = config
        self._sink: Any = None
        self._broken = config.wandb is None

    def write(self, line: Mapping[str, Any]) -> None:
        """Takes a line. Blocks."""
        if self._broken:
            return
        try:
            if self._sink is None:
                self._sink = self._open()
            self._sink.write(metrics.flat(line), step=line["iteration"])
        except Exception as error:
            self._broken = True
            _logger.warning("W&B takes no more metrics: %s", error)

    def close(self) -> None:
        """Ends the run there. Blocks; idempotent."""
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.close()
            except Exception as error:
                _logger.warning("W&B's run was not ended well: %s", error)

    def _open(self) -> Any:
        from webtraj.rollouts.metrics.sinks import WandbSink

        target = self._config.wandb
        assert target is not None
        out = Path(self._config.out).absolute()
        return WandbSink(
            target.project,
            entity=target.entity,
            name=target.run_name or out.name,
            run_id=hashlib.sha256(str(out).encode()).hexdigest()[:16],
            mode=target.mode,
            folder=target.folder or str(out / "wandb"),
            config=self._config.model_dump(mode="json"),
            step_name="iteration",
        )
