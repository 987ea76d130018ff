"""`webtraj export`: write a dataset's episodes in the format of another tool."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import (
    BucketOptions,
    EndReason,
    Json,
    NewPlace,
    Omissions,
    Outcome,
    Overwrite,
    Place,
    Policy,
    Site,
    Task,
    Where,
    condition_of,
    format_settings,
    options_for,
    without_none,
)
from webtraj.cli.terminal import pluralize, say, still_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webtraj.datasets.dataset import Dataset
    from webtraj.datasets.exporters import ExportReport

__all__ = ["export"]

_SHOWN = 3
"""The most episodes named for each reason to leave some out."""


def export(
    dataset: Place,
    to: Annotated[
        str,
        typer.Option(
            "--format",
            help="huggingface or html; of webtraj[formats] also atif, har, inspect, minari, otel "
            "or playwright.",
        ),
    ],
    out: NewPlace,
    task: Task = None,
    site: Site = None,
    policy: Policy = None,
    outcome: Outcome = None,
    end_reason: EndReason = None,
    episode: Annotated[
        list[str] | None, typer.Option("--id", help="Only this episode. Repeatable.")
    ] = None,
    where: Where = None,
    limit: Annotated[int, typer.Option(min=0, help="Only the first; 0 exports all.")] = 0,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the format, such as license=mit. Repeatable.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    csv: Omissions = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Export episodes to another tool's format. Exit with 1 if an episode could not be read.

    The export is written completely or not at all. It reports what the format cannot hold.
    `webtraj train export` writes samples to train on.
    """
    from webtraj.datasets.dataset import open_dataset
    from webtraj.datasets.exporters import export_dataset
    from webtraj.datasets.exporters.base import make_exporter
    from webtraj.store.layout import FORMATS
    from webtraj.training.export.export_folder import all_formats as all_sample_formats

    selection = without_none(
        task=task, site=site, policy=policy, outcome=outcome, end_reason=end_reason, where=where
    )
    if to in FORMATS:
        raise errors.InvalidInputError(
            f"{to!r} is webtraj's own format. To convert a dataset: "
            f"{errors.command('copy', dataset, out, '--format', to)}."
        )
    if to in all_sample_formats():
        raise errors.InvalidInputError(
            f"{to!r} is a format of samples to train on: "
            f"{errors.command('train', 'export', dataset, '--format', to, '--out', out)}."
        )
    settings = format_settings(setting)
    make_exporter(to, settings)  # Report wrong options before reading anything.
    opened = open_dataset(dataset, storage_options=options_for(dataset, option, out), complete=True)
    selected = _select(opened, selection, episode, limit)
    if episode is not None:
        selection["id"] = episode
    if limit:
        selection["limit"] = limit
    report = export_dataset(
        selected,
        out,
        format=to,
        options=settings,
        selection=selection,
        overwrite=overwrite,
        storage_options=options_for(out, option, dataset),
    )
    table = _table(report)
    columns = ("what", "why", "episodes", "values")
    terminal.save_table(csv, (dict(zip(columns, row, strict=True)) for row in table), columns)
    if json:
        terminal.print_json(_data(report, out))
    else:
        if table:
            shown = ("what", "why", ">episodes", ">values")
            terminal.make_console().print(terminal.make_table(*shown, rows=table))
        _say_written(report, out, opened)
    if not report.complete:
        raise typer.Exit(1)


def _select(
    dataset: Dataset, selection: dict[str, Any], ids: list[str] | None, limit: int
) -> Dataset:
    for episode_id in ids or ():
        if episode_id not in dataset:
            raise errors.UnknownEpisodeError(
                f"No sealed episode {episode_id!r:.150} in {dataset.url!r}, which has "
                f"{len(dataset)}. `webtraj ls` lists them."
            )
    conditions = {name: value for name, value in selection.items() if name != "where"}
    found = dataset.filter(condition_of(selection.get("where")), **conditions)
    if ids is not None:
        wanted = frozenset(ids)
        found = found.filter(lambda summary: summary.episode_id in wanted)
    return found[:limit] if limit else found


def _data(report: ExportReport, out: str) -> dict[str, Any]:
    """Return an export's report as JSON data."""
    return {
        "target": out,
        "format": report.format,
        "complete": report.complete,
        "written": [item.episode_id for item in report.written],
        "steps": sum(item.num_steps for item in report.written),
        "unfinished": [item.episode_id for item in report.written if not item.finished],
        "superseded": [item.episode_id for item in report.written if item.superseded],
        "left_out": report.left_out,
        "notes": report.notes,
    }


def _table(report: ExportReport) -> list[tuple[Any, ...]]:
    """Return a table of what an export left out or changed, why, and in how many episodes."""
    from webtraj.trajectory import name_of_end

    unfinished = (item for item in report.written if not item.finished)
    ends = Counter(name_of_end(item.outcome, item.end_reason) for item in unfinished)
    rows: list[tuple[Any, ...]] = [
        ("kept, and flagged", f"did not finish: {end}", count, "")
        for end, count in sorted(ends.items())
    ]
    if gone := sum(item.superseded for item in report.written):
        rows.append(("kept, and flagged", "superseded: another try of its row counts", gone, ""))
    left: dict[str, list[str]] = {}
    for item in report.left_out:
        # Unreadable episodes have one reason each.
        left.setdefault(item.why, []).append(item.episode_id)
    rows += [
        ("left out", f"{why} ({_some(ids)})", len(ids), "") for why, ids in sorted(left.items())
    ]
    notes: dict[tuple[str, str], list[int]] = {}
    for note in report.notes:
        notes.setdefault((note.field, note.why), []).append(note.count)
    rows += [(*what, len(counts), sum(counts)) for what, counts in sorted(notes.items())]
    return rows


def _say_written(report: ExportReport, out: str, dataset: Dataset) -> None:
    steps = sum(item.num_steps for item in report.written)
    say(
        f"{out}: {pluralize(len(report.written), 'episode')} of {pluralize(steps, 'step')} "
        f"written as {report.format}"
        + (f", {len(report.left_out)} left out" if report.left_out else "")
        + still_open(len(dataset.open_episodes))
    )


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
