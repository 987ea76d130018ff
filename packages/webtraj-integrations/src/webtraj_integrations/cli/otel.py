"""Send recorded episodes as OpenTelemetry traces."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import BucketOptions, Place, Where, condition_of, options_for
from webtraj.cli.terminal import pluralize, say

__all__ = ["otel"]


def otel(
    dataset: Place,
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="The receiver's address, such as http://localhost:4318; default: that of "
            "OTEL_EXPORTER_OTLP_ENDPOINT. Headers come from OTEL_EXPORTER_OTLP_HEADERS."
        ),
    ] = None,
    content: Annotated[
        bool,
        typer.Option(
            "--content", help="Also send texts: goals, messages, actions' arguments and results."
        ),
    ] = False,
    where: Where = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first; 0 sends all.")] = 0,
    option: BucketOptions = None,
) -> None:
    """Send recorded episodes as OpenTelemetry traces. Exit with 1 if one could not be read.

    Ids follow from the episodes' ids, so sending again adds nothing new. To write a file instead:
    webtraj export PLACE --format otel --out FOLDER.
    """
    from webtraj.datasets.dataset import open_dataset
    from webtraj.datasets.exporters.base import Episodes, Ledger
    from webtraj_integrations.opentelemetry import otlp_exporter, send_traces

    exporter = otlp_exporter(endpoint)
    opened = open_dataset(dataset, storage_options=options_for(dataset, option), complete=True)
    found = opened.filter(condition_of(where))
    ledger = Ledger()
    try:
        episodes, spans = send_traces(
            Episodes(found[:limit] if limit else found, ledger, None),
            exporter,
            content=content,
            superseded=opened.superseded,
        )
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    for item in (left_out := ledger.report("otel").left_out):
        say(f"{item.episode_id}: {item.why}")
    say(f"{pluralize(episodes, 'episode')} sent, {pluralize(spans, 'span')}")
    if left_out:
        raise typer.Exit(1)
