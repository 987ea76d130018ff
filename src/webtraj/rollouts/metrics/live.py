"""Metrics while a rollout runs: counted as episodes end, and handed to sinks as they change."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import itertools
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from webtraj import errors
from webtraj.closing import Closing
from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.rollouts.metrics.tally import RolloutMetrics, Tally
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult

__all__ = [
    "MetricsObserver",
    "MetricsSink",
    "MetricsTargets",
    "TensorBoardSink",
    "WandbSink",
    "WandbTarget",
]

# Where live metrics go: TensorBoard and Weights & Biases, imported when a sink is made.
#
# A sink is written to by one thread at a time. It raises what goes wrong; `MetricsObserver` sees to
# it that no rollout ends by it.
#
# * `TensorBoardSink` writes an event file of its own into a folder. Needs the extra `tensorboard`.
# * `WandbSink` logs to a run of W&B, also offline. Needs the extra `wandb`.

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


_logger = logging.getLogger(__name__)

_POINTS = 1000
"""About how many points a rollout has in its sinks, however long it is."""


class MetricsObserver(Closing):
    """A `RolloutObserver` that counts, and tells sinks.

    Sinks are written to by a thread of their own, so that no rollout waits for a disk or a server,
    and none ends because one fails: that is logged, counted in `lost`, and the next write is tried
    all the same. `close` waits until all is written.

    With steps unread, what needs them (tokens, time by phase, ...) is not among these numbers;
    `measure` has them afterwards.

    Args:
        sinks: Where the numbers go.
        every: How many episodes lie between two writes; by default so many that there are about
            1,000 writes. The last numbers are written by `close`.
        prefix: What stands before each number's name.
        first_step: The step of the first episode, less one: for a rollout that goes on with another
            one's numbers.
        earlier: Episodes that have ended already, to be counted in: those of a run that is gone on
            with. They come before the first step, too.
        clock: Gives seconds, for throughput.

    Raises:
        InvalidInputError: `every` is not positive.
    """

    def __init__(
        self,
        *sinks: MetricsSink,
        every: int | None = None,
        prefix: str = "rollout/",
        first_step: int = 0,
        earlier: Iterable[EpisodeFacts] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if every is not None and every < 1:
            raise errors.InvalidInputError(f"every={every}: write each episode (1) or fewer.")
        self.planned = 0
        """How many episodes were planned."""
        self.lost: dict[str, int] = {}
        """How many writes failed, by the name of the sink's class."""
        self._every = every
        self._prefix = prefix
        self._tally = Tally()
        for facts in earlier:
            self._tally.add(facts)
            first_step += 1
        self._earlier_seconds = self._tally.metrics().throughput.wall_seconds or 0.0
        self._step = self._written = first_step
        self._clock = clock
        self._start: float | None = None
        self._sinks = sinks
        self._waiting: queue.SimpleQueue[tuple[int, Mapping[str, float]] | None]
        self._waiting = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Begins to count, and to take the time."""
        self.planned = len(plan)
        self._start = self._clock()
        if self._every is None:
            self._every = max(len(plan) // _POINTS, 1)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Counts an episode."""
        self._tally.add(EpisodeFacts.of_result(result))
        self._step += 1
        if self._step - self._written >= (self._every or 1):
            self._hand_on()

    @property
    def metrics(self) -> RolloutMetrics:
        """The metrics of the episodes so far."""
        start = self._start
        seconds = None if start is None else self._clock() - start + self._earlier_seconds
        return self._tally.metrics(wall_seconds=seconds)

    def close(self) -> None:
        """Writes the last numbers, waits until all is written, and closes the sinks. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._step > self._written:
            self._hand_on()
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        for sink in self._sinks:
            self._try(sink, sink.close)
        for name, lost in self.lost.items():
            _logger.warning("%d writes of metrics to %s failed; they are lost there.", lost, name)

    def _hand_on(self) -> None:
        self._written = self._step
        if not self._sinks:
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write_all, name="webtraj-metrics", daemon=True
            )
            self._thread.start()
        numbers = self.metrics.scalars() | {"planned": float(self.planned)}
        self._waiting.put((self._step, {self._prefix + k: v for k, v in numbers.items()}))

    def _write_all(self) -> None:
        while (item := self._waiting.get()) is not None:
            step, numbers = item
            for sink in self._sinks:
                self._try(sink, functools.partial(sink.write, numbers, step=step))

    def _try(self, sink: MetricsSink, call: Callable[[], None]) -> None:
        name = type(sink).__name__
        try:
            call()
        except Exception as error:  # Whatever a sink raises.
            if name not in self.lost:
                _logger.warning("Metrics could not be written to %s: %s", name, error)
            self.lost[name] = self.lost.get(name, 0) + 1


# Where a run's live metrics are to go, as configurations and commands say it.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WandbTarget:
    """A run of Weights & Biases."""

    project: str
    """The project's name."""
    entity: str | None = None
    """Whose project it is; None for the account's own."""
    run_name: str | None = None
    """What the run is called there; None for the rollout's run."""
    mode: Literal["online", "offline", "disabled"] | None = None
    """See `WandbSink`."""
    folder: str | None = None
    """Where W&B keeps its files; None for the current folder."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTargets:
    """Where live metrics go."""

    tensorboard: str | None = None
    """A folder, in which each run has a folder of its own."""
    wandb: WandbTarget | None = None
    """Weights & Biases."""

    def __bool__(self) -> bool:
        return self.tensorboard is not None or self.wandb is not None

    def open(
        self,
        run_id: str,
        *,
        config: Mapping[str, Any] | None = None,
        earlier: Iterable[EpisodeFacts] = (),
    ) -> MetricsObserver:
        """Opens the sinks, and returns who writes to them; whoever opened it closes it. Blocks.

        A run that is gone on with goes on with its numbers there, too.

        Args:
            run_id: The rollout's run.
            config: What it was made from, for W&B.
            earlier: The run's episodes that have ended already.

        Raises:
            MissingDependencyError: TensorBoard or wandb is not installed.
            StorageError: TensorBoard's folder cannot be written.
            Exception: What wandb raises if no run can be begun, such as without an API key.
        """
        with contextlib.ExitStack() as undo:
            sinks: list[MetricsSink] = []
            if self.tensorboard is not None:
                sinks.append(TensorBoardSink(Path(self.tensorboard) / run_id))
                undo.callback(sinks[-1].close)
            if (wandb := self.wandb) is not None:
                sinks.append(
                    WandbSink(
                        wandb.project,
                        entity=wandb.entity,
                        name=wandb.run_name or run_id,
                        run_id=run_id,
                        mode=wandb.mode,
                        folder=wandb.folder,
                        config=config,
                    )
                )
            observer = MetricsObserver(*sinks, earlier=earlier)
            undo.pop_all()
            return observer
