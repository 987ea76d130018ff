"""OpenTelemetry traces in a file: one trace per episode.

::

    <out>/traces.jsonl      OTLP as JSON, one episode per line, as the collector's `otlpjsonfile`
                            receiver reads it

The spans are those of `webtraj_formats.spans`. Needs the extra `otel`.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from typing import ClassVar

import orjson

from webtraj import errors
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.plain import note_lost

try:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
except ImportError as error:
    raise errors.missing_dependency(
        "OpenTelemetry files need opentelemetry-exporter-otlp-proto-common",
        "otel",
        package="webtraj-formats",
    ) from error

from webtraj_formats.spans import SAMPLING, first_time, spans_maker

__all__ = ["OtelExporter"]

_FILE = "traces.jsonl"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtelExporter:
    """Writes a file of OTLP JSON."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = (
        "opentelemetry-sdk",
        "opentelemetry-exporter-otlp-proto-common",
    )

    content: bool = False
    """Whether to include texts: goal, messages, arguments, results."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        spans_of = spans_maker(Resource({"service.name": "webtraj"}), content=self.content)
        path = job.folder / _FILE
        written = []
        with path.open("wb") as file:
            for episode in job.episodes:
                if first_time(episode) is None:
                    why = "no time was recorded; the spans are at 0"
                    job.ledger.note(episode.episode_id, "start_time", why)
                if self.content:
                    note = functools.partial(job.ledger.note, episode.episode_id)
                    note_lost(episode, note, SAMPLING)
                gone = episode.episode_id in job.ledger.superseded
                line = _otlp_json(spans_of(episode, superseded=gone))
                written.append(hashlib.sha256(line).digest())
                file.write(line + b"\n")
                job.ledger.wrote(episode)
        with path.open("rb") as file:
            read = [hashlib.sha256(line.rstrip(b"\n")).digest() for line in file]
        if read != written:
            raise base.unequal(_FILE, "content")


def _otlp_json(spans: Sequence[ReadableSpan]) -> bytes:
    """Return spans as OTLP JSON: protobuf's JSON, but with ids in hexadecimal."""
    from google.protobuf.json_format import MessageToDict

    data = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in data["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
    return orjson.dumps(data)
