"""Progress of a run: its log and live metrics."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from pathlib import Path
from typing import Any, Protocol

import orjson

from webtraj.metrics.live import MetricsSink, TensorBoardSink, WandbSink
from webtraj.store import files, records
from webtraj.training.sft.data import DataReport
from webtraj.training.sft.settings import SftSettings
from webtraj.trajectory import Count

__all__ = ["LOG", "NullTrainObserver", "TrainLog", "TrainObserver", "read_log"]

LOG = "train_log.jsonl"

_logger = logging.getLogger(__name__)


class TrainObserver(Protocol):
    """An observer of training."""

    def training_begins(self, report: DataReport, *, start: int, total: int) -> None:
        """Handle the start of training, before step `start` of `total`."""

    def logged(self, entry: dict[str, Any]) -> None:
        """Handle a line of the log."""


class NullTrainObserver:
    """An observer that does nothing."""

    def training_begins(self, report: DataReport, *, start: int, total: int) -> None:
        """See `TrainObserver`."""

    def logged(self, entry: dict[str, Any]) -> None:
        """See `TrainObserver`."""


class TrainLog:
    """A writer of the log, one JSON object per line. Resuming removes lines of later steps.

    Args:
        settings: The output folder and the live metrics.
        start: The step that the run resumes from.
        observer: Receives each line of the log too.
    """

    def __init__(self, settings: SftSettings, start: int, observer: TrainObserver) -> None:
        folder = Path(settings.out)
        path = folder / LOG
        kept = [entry for entry in read_log(folder) if start and entry["step"] <= start]
        files.write_atomically(path, b"".join(map(_line, kept)))
        self._file = path.open("ab", buffering=0)
        self._observer = observer
        self._sinks: list[MetricsSink] = []
        if settings.tensorboard:
            self._sinks.append(TensorBoardSink(folder / "tensorboard"))
        if settings.wandb_project is not None:
            config = settings.model_dump(mode="json")
            self._sinks.append(
                WandbSink(settings.wandb_project, folder=folder / "wandb", config=config)
            )

    def write(self, entry: dict[str, Any]) -> None:
        """Write a line. Failures of live metrics do not stop the run."""
        self._file.write(_line(entry))
        self._observer.logged(entry)
        values = {
            f"train/{key}": float(value)
            for key, value in entry.items()
            if key != "step" and isinstance(value, int | float)
        }
        for sink in list(self._sinks):
            try:
                sink.write(values, step=entry["step"])
            except Exception as error:
                self._sinks.remove(sink)
                _logger.warning("%s stopped accepting metrics: %s", type(sink).__name__, error)

    def close(self) -> None:
        """Close the log and the sinks."""
        self._file.close()
        for sink in self._sinks:
            with contextlib.suppress(Exception):
                sink.close()


def read_log(output: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the lines of a run's log. An incomplete last line is left out.

    Raises:
        CorruptDataError: A line is damaged.
    """
    path = Path(output) / LOG
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    remedy = "Remove the line: training does not depend on the log."
    return records.read_lines(_Line, whole, str(path), remedy)


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    step: Count
    loss: float | None = None
    eval_loss: float | None = None


def _line(entry: dict[str, Any]) -> bytes:
    return orjson.dumps(entry) + b"\n"
