"""Where live metrics go: TensorBoard and Weights & Biases, imported when a sink is made.

A sink is written to by one thread at a time. It raises what goes wrong; `MetricsObserver` sees to
it that no rollout ends by it.

* `TensorBoardSink` writes an event file of its own into a folder. Needs the extra `tensorboard`.
* `WandbSink` logs to a run of W&B, also offline. Needs the extra `wandb`.
"""

from __future__ import annotations

import importlib
import itertools
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from webtraj import errors

__all__ = ["MetricsSink", "TensorBoardSink", "WandbSink"]

_SERIAL = itertools.count()


class MetricsSink(Protocol):
    """Takes numbers by name, step by step."""

    def write(self, values: Mapping[str, float], *, step: int) -> None:
        """Takes the numbers as they are at a step. Raises whatever goes wrong."""

    def close(self) -> None:
        """Sees to it that all that was taken is kept, and lets go. Idempotent."""


class TensorBoardSink:
    """Writes TensorBoard's event files: `tensorboard --logdir FOLDER` shows them.

    A record that could not be written whole is taken back, so that those after it can be read.

    Args:
        folder: Where the event file is made; one folder for each run is TensorBoard's custom.
        clock: Gives the time of what is written, in seconds since the epoch.

    Raises:
        MissingDependencyError: TensorBoard is not installed.
        StorageError: The file cannot be made.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._event = _imported("tensorboard.compat.proto.event_pb2").Event
        self._summary = _imported("tensorboard.compat.proto.summary_pb2").Summary
        record_writer = _imported("tensorboard.summary.writer.record_writer").RecordWriter
        self._clock = clock
        name = f"events.out.tfevents.{int(clock()):010d}.{socket.gethostname()}"
        self.path = Path(folder) / f"{name}.{os.getpid()}.{next(_SERIAL)}"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise errors.StorageError(
                f"{str(self.path)!r} cannot be made for TensorBoard's events: {error}. Give a "
                "folder that can be written to."
            ) from error
        self._records = record_writer(_Whole(self._file))
        self._write(self._event(wall_time=clock(), file_version="brain.Event:2"))

    def write(self, values: Mapping[str, float], *, step: int) -> None:
        """See `MetricsSink`."""
        scalars = [self._summary.Value(tag=k, simple_value=v) for k, v in values.items()]
        summary = self._summary(value=scalars)
        self._write(self._event(wall_time=self._clock(), step=step, summary=summary))

    def close(self) -> None:
        """See `MetricsSink`."""
        self._file.close()

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())


class _Whole:
    """A file that takes what it is given whole, or not at all."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        size = self._file.tell()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            self._file.seek(size)
            self._file.truncate()
            raise


class WandbSink:
    """Logs to a run of Weights & Biases.

    Args:
        project: The project's name.
        entity: Whose project it is, a user or a team; by default the account's own.
        name: What the run is called there; by default W&B's own invention.
        run_id: The run's id there, to go on with it after a death.
        mode: "online", "offline" (kept in `folder`; `wandb sync` sends it later) or "disabled"; by
            default what `WANDB_MODE` says, else online.
        folder: Where W&B keeps its files.
        config: What the run was made with.
        step_name: What steps count; the axis of all curves.

    Raises:
        MissingDependencyError: wandb is not installed.
        Exception: What wandb raises if no run can be begun, such as without an API key.
    """

    def __init__(
        self,
        project: str,
        *,
        entity: str | None = None,
        name: str | None = None,
        run_id: str | None = None,
        mode: Literal["online", "offline", "disabled"] | None = None,
        folder: str | os.PathLike[str] | None = None,
        config: Mapping[str, Any] | None = None,
        step_name: str = "episodes",
    ) -> None:
        wandb = _imported("wandb")
        self._step_name = step_name
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=project,
            entity=entity,
            name=name,
            id=run_id,
            resume="allow" if run_id else None,
            mode=mode,
            dir=None if folder is None else os.fspath(folder),
            config=dict(config or {}),
        )
        # W&B drops what comes with a step below the last, as after a death. By a metric, it does
        # not.
        self._run.define_metric("*", step_metric=step_name)

    def write(self, values: Mapping[str, float], *, step: int) -> None:
        """See `MetricsSink`."""
        self._run.log({**values, self._step_name: step})

    def close(self) -> None:
        """Ends W&B's run. What is kept offline is all on disk when this process has ended."""
        self._run.finish()


def _imported(name: str) -> Any:
    """Returns a module of an extra that is called like the module's package."""
    extra = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise errors.missing_dependency(f"Live metrics need {extra} ({error})", extra) from error
