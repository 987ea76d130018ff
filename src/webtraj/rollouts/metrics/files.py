"""`metrics.json`: a run's metrics, kept beside its plan (`report` says what is in it)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.rollouts.metrics.report import VERSION
from webtraj.store import records
from webtraj.trajectory import Count

if TYPE_CHECKING:
    from webtraj.rollouts.metrics.report import MetricsReport
    from webtraj.rollouts.runs import Run

__all__ = ["metrics_key", "read_metrics", "to_bytes", "write_metrics"]


def metrics_key(run: Run) -> str:
    """Returns the key of a run's metrics in its dataset."""
    return f"runs/{run.run_id}/metrics.json"


def to_bytes(report: MetricsReport, *, indent: bool = True) -> bytes:
    """Returns the content of a report's file, or with `indent=False` one line of JSON.

    Text that is no Unicode has question marks, and a number that JSON's readers cannot hold is
    null: episodes from elsewhere may have either.
    """
    option = orjson.OPT_INDENT_2 if indent else 0
    return orjson.dumps(_readable(report.to_data()), option=option) + b"\n"


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    return value


_LARGEST = 2**63 - 1


def write_metrics(run: Run, report: MetricsReport) -> None:
    """Writes a run's metrics, over those that were written before.

    Raises:
        StorageError: They cannot be written; those from before are still there.
    """
    run.storage.write(metrics_key(run), to_bytes(report))


def read_metrics(run: Run) -> Mapping[str, Any]:
    """Returns what a run's `metrics.json` holds.

    Raises:
        StorageMissingError: There is none; `webtraj metrics` makes one.
        CorruptDataError: It is none.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    key = metrics_key(run)
    content = run.storage.read(key)
    try:
        data = orjson.loads(content)
        header = records.read_object(_Header, data)
        if header.kind != "metrics":
            raise ValueError(f"expected the kind 'metrics', got {header.kind!r:.50}")
    except ValueError as error:
        raise errors.CorruptDataError(
            f"{key!r} in {run.storage.url!r} holds no metrics: {error!r:.200}. `webtraj metrics "
            "--write` writes them anew."
        ) from error
    if header.version > VERSION:
        raise errors.UnsupportedSchemaError(
            f"{key!r} has version {header.version}; this webtraj reads up to {VERSION}. Install a "
            "newer one."
        )
    metrics: dict[str, Any] = data
    return metrics


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    kind: str
    version: Count
