"""Episodes as OpenTelemetry traces, while they run.

`OpenTelemetryCollector` beside the collector that stores the episodes::

    collector = webtraj.TeeTrajectoryCollector(
        webtraj.JsonTrajectoryCollector("runs/x"), OpenTelemetryCollector("http://localhost:4318")
    )

The spans are those of `webtraj_formats.spans`: a step's when it has been recorded, the episode's
when it has ended. A background thread sends them. If the receiver is down or slow, spans are
dropped and the SDK logs it; the run is neither stopped nor delayed, and `webtraj otel` sends the
recorded episodes later, with the same ids. Needs the extra `otel`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import EpisodeRecorder, TrajectoryCollector
from webtraj.trajectory import EpisodeTrajectory

try:
    from opentelemetry import context as context_lib
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )
except ImportError as error:
    raise errors.missing_dependency(
        "OpenTelemetry needs opentelemetry-sdk", "otel", package="webtraj-integrations"
    ) from error

from webtraj_formats.spans import EpisodeIds, EpisodeSpans, spans_maker

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

__all__ = ["OpenTelemetryCollector", "otlp_exporter", "send_traces"]

_logger = logging.getLogger(__name__)
_BATCH = 512


def otlp_exporter(
    endpoint: str | None, headers: Mapping[str, str] | None = None
) -> OTLPSpanExporter:
    """Return an exporter that sends spans by OTLP over HTTP.

    Args:
        endpoint: The receiver's address, such as `http://localhost:4318`. Default: that of
            `OTEL_EXPORTER_OTLP_ENDPOINT`.
        headers: HTTP headers. Default: those of `OTEL_EXPORTER_OTLP_HEADERS`.

    Raises:
        InvalidInputError: The endpoint is not an HTTP address.
        MissingDependencyError: The exporter is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        need = "Sending traces needs opentelemetry-exporter-otlp-proto-http"
        raise errors.missing_dependency(need, "otel", package="webtraj-integrations") from error
    if endpoint is not None:
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise errors.InvalidInputError(
                f"The endpoint {endpoint!r:.100} is not an address. Expected one such as "
                "http://localhost:4318."
            )
        if parts.path in ("", "/"):
            endpoint = f"{endpoint.rstrip('/')}/v1/traces"
    return OTLPSpanExporter(endpoint, headers=None if headers is None else dict(headers))


def _own_resource() -> Resource:
    """Return this process's description from `OTEL_RESOURCE_ATTRIBUTES` and the like."""
    name = os.environ.get("OTEL_SERVICE_NAME") or "webtraj"
    return Resource.create({"service.name": name})


def send_traces(
    episodes: Iterable[EpisodeTrajectory],
    exporter: SpanExporter,
    *,
    content: bool = False,
    superseded: frozenset[str] = frozenset(),
) -> tuple[int, int]:
    """Send recorded episodes as traces.

    Args:
        episodes: The episodes.
        exporter: Sends the spans, such as `otlp_exporter(...)`.
        content: Whether to include texts, such as messages and arguments.
        superseded: The dataset's `superseded`: the ids of tries that do not count.

    Returns:
        The number of episodes and of spans.

    Raises:
        StorageError: The receiver did not take them.
    """
    spans_of = spans_maker(_own_resource(), content=content)
    num_episodes = num_spans = 0
    for episode in episodes:
        spans = spans_of(episode, superseded=episode.episode_id in superseded)
        for first in range(0, len(spans), _BATCH):
            if exporter.export(spans[first : first + _BATCH]) is not SpanExportResult.SUCCESS:
                raise errors.StorageError(
                    f"The receiver did not take the spans of episode {episode.episode_id!r}, after "
                    f"{num_episodes} episodes. Check the endpoint (--endpoint, or "
                    "OTEL_EXPORTER_OTLP_ENDPOINT) and the message above, then send them again: "
                    "known spans keep their ids."
                )
        num_episodes += 1
        num_spans += len(spans)
    return num_episodes, num_spans


class OpenTelemetryCollector(TrajectoryCollector):
    """Sends each episode as a trace, and stores nothing.

    Args:
        endpoint: The receiver's address, such as `http://localhost:4318`. Default: that of
            `OTEL_EXPORTER_OTLP_ENDPOINT`.
        headers: HTTP headers. Default: those of `OTEL_EXPORTER_OTLP_HEADERS`.
        content: Whether to include texts: goal, messages, arguments, results.
        tracer_provider: Makes and sends the spans instead, such as your program's own. Episodes
            then belong to the span that is current when they begin, and get random ids.
        close_timeout: The maximum number of seconds that `flush` and `aclose` wait for the
            receiver.

    Raises:
        InvalidInputError: The endpoint is not an HTTP address.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bool = False,
        tracer_provider: trace.TracerProvider | None = None,
        close_timeout: float = 5.0,
    ) -> None:
        self._content = content
        self._close_timeout = close_timeout
        self._ids: EpisodeIds | None = None
        self._own: TracerProvider | None = None
        self._lock = threading.Lock()
        self._open: set[_Recorder] = set()
        self._closed = False
        if tracer_provider is None:
            self._ids = EpisodeIds()
            exporter = otlp_exporter(endpoint, headers)
            self._own = tracer_provider = TracerProvider(
                resource=_own_resource(), shutdown_on_exit=False, id_generator=self._ids
            )
            tracer_provider.add_span_processor(BatchSpanProcessor(exporter))
        self._provider = tracer_provider

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """Begin the trace of one episode."""
        recorder = _Recorder(self, info)
        with self._lock:
            self._open.add(recorder)
        return recorder

    async def seal(self) -> None:
        """Do nothing: a run does not wait for telemetry."""

    async def flush(self) -> None:
        """Send what is waiting; wait for the receiver no longer than `close_timeout`."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None and not self._closed:
            await self._wait(flush)

    async def aclose(self) -> None:
        """End the spans of open episodes as CLOSED, and send what is waiting. Idempotent."""
        if self._closed:
            return
        with self._lock:
            still_open = list(self._open)
        end = trajectory_lib.EpisodeEnd(
            reason=trajectory_lib.EndReason.CLOSED, phase=trajectory_lib.Phase.CLOSE
        )
        for recorder in still_open:
            recorder.end_episode(end)
        own = self._own
        if own is None:
            await self.flush()
        else:
            await self._wait(own.force_flush, own.shutdown)
        self._closed = True

    async def _wait(self, *calls: Callable[[], Any]) -> None:
        """Make calls that may wait for the receiver, in a daemon thread."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def run() -> None:
            try:
                for call in calls:
                    call()
            except Exception:
                _logger.warning("Sending spans failed.", exc_info=True)
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:  # The loop has ended in the meantime.
                return

        threading.Thread(target=run, name="webtraj-otel", daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), self._close_timeout)
        except TimeoutError:
            _logger.warning(
                "The receiver of traces did not answer within %g s; spans may be missing there. "
                "`webtraj otel` sends recorded episodes again.",
                self._close_timeout,
            )


class _Recorder(EpisodeRecorder):
    """Writes the spans of one episode. Never raises: telemetry must not break the run."""

    def __init__(self, collector: OpenTelemetryCollector, info: trajectory_lib.EpisodeInfo) -> None:
        self._collector = collector
        self._spans: EpisodeSpans | None = None
        self._safely(lambda: self._begin(info))

    def _begin(self, info: trajectory_lib.EpisodeInfo) -> None:
        owner = self._collector
        within = None if owner._ids is not None else context_lib.get_current()
        self._spans = EpisodeSpans(
            owner._provider,
            info,
            trajectory_lib.now(),
            content=owner._content,
            ids=owner._ids,
            within=within,
        )

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replace the episode's info."""
        if self._spans is not None:
            self._spans.info = dataclasses.replace(info, episode_id=self._spans.info.episode_id)

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Write the step's spans."""
        if (spans := self._spans) is not None:
            self._safely(lambda: spans.step(step))

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Write the episode's span."""
        spans, self._spans = self._spans, None
        if spans is not None:
            self._safely(lambda: spans.end(end, trajectory_lib.now()))
        with self._collector._lock:
            self._collector._open.discard(self)

    def _safely(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            _logger.warning("The spans of a step could not be made.", exc_info=True)
