"""`webtraj export`: write a dataset in the formats of other tools and trainers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import (
    BucketOptions,
    EndReason,
    Json,
    Outcome,
    Place,
    Policy,
    Task,
    Where,
    condition_of,
    format_settings,
    options_for,
)
from webtraj.cli.terminal import counted, say, still_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webtraj.datasets.dataset import Dataset
    from webtraj.datasets.exporters import ExportReport

__all__ = ["export"]

_TRAINING = "For training"
_SHOWN = 3
"""The most episodes named for each reason to leave some out."""


def export(
    dataset: Place,
    to: Annotated[
        str,
        typer.Option(
            "--format",
            help="For episodes: huggingface or html; of webtraj[formats] also atif, har, inspect, "
            "minari, otel or playwright. For training samples: sharegpt, openai, trl, tokens, "
            "preferences or trl-preferences.",
        ),
    ],
    out: Annotated[str, typer.Option(help="A new folder or URL.")],
    task: Task = None,
    site: Annotated[str | None, typer.Option(help="Only this site.")] = None,
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
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier export.")] = False,
    csv: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write what was left out or changed as a CSV file."),
    ] = None,
    json: Json = False,
    option: BucketOptions = None,
    then: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATASET",
            help="The next iteration's dataset. Repeatable.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Take DATASET as a save_path, and export its last iterations: this many.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="Which samples to include: min_steps=1, filter_successful_only=false, "
            "max_per_task=100, .... Repeatable.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK",
            help="A task, pattern or task file to leave out. Repeatable.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    loss_weights: Annotated[
        Literal["success", "reward", "uniform", "advantage", "rare"] | None,
        typer.Option(
            help="The loss weight of a sample. success: 1 or 0; reward: a reward of 0.5 halves the "
            "samples; rare: more for tasks with few samples. Default: success, or uniform for "
            "tokens and pairs.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, help="Draw this many samples; default: all.", rich_help_panel=_TRAINING
        ),
    ] = None,
    recency_bias_power: Annotated[
        float | None,
        typer.Option(
            help="With --samples: how strongly to prefer later iterations; default: 2.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    val_split: Annotated[
        float | None,
        typer.Option(
            help="The share of samples for validation, such as 0.05.", rich_help_panel=_TRAINING
        ),
    ] = None,
    split_by: Annotated[
        Literal["episode", "group", "task", "site"] | None,
        typer.Option(
            help="What to keep together in a split; default: episode, or group for tokens and "
            "pairs.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of draws and splits.", rich_help_panel=_TRAINING)
    ] = None,
    render: Annotated[
        bool,
        typer.Option(
            "--render",
            help="Also make samples of decisions without a model call, such as an oracle's.",
            rich_help_panel=_TRAINING,
        ),
    ] = False,
) -> None:
    """Export a dataset to another tool's format. Exit with 1 if an episode could not be read.

    The export is written completely or not at all. It reports what the format cannot hold.
    """
    from webtraj.cli.export_training import TrainingOptions, export_training
    from webtraj.datasets.dataset import open_dataset
    from webtraj.datasets.exporters import export_dataset
    from webtraj.datasets.exporters.base import ENTRY_POINT_GROUP, all_formats
    from webtraj.settings.named import check_installed, listing, nearest
    from webtraj.store.layout import FORMATS
    from webtraj.training.export.running import all_formats as all_sample_formats

    training = TrainingOptions(
        then=then, iterations=iterations, filters=filters, held_out=held_out,
        loss_weights=loss_weights, samples=samples, recency_bias_power=recency_bias_power,
        val_split=val_split, split_by=split_by, seed=seed, render=render,
    )  # fmt: skip
    conditions = {
        "task": task, "site": site, "policy": policy, "outcome": outcome,
        "end_reason": end_reason, "where": where,
    }  # fmt: skip
    selection: dict[str, Any] = {k: v for k, v in conditions.items() if v is not None}
    of_samples = all_sample_formats()
    if to in of_samples:
        if episode or limit:
            raise errors.InvalidInputError(
                f"--id and --limit select episodes, but {to} holds samples. Select samples with "
                "--where, --filter and --samples."
            )
        export_training(
            dataset, out, to, training, selection, format_settings(setting),
            overwrite=overwrite, storage_options=options_for(dataset, option), csv=csv, json=json,
        )  # fmt: skip
        return
    of_episodes = all_formats()
    known = (*of_episodes, *of_samples)
    if to in FORMATS:
        raise errors.InvalidInputError(
            f"{to!r} is webtraj's own format. To convert a dataset: webtraj copy "
            f"{dataset:.200} {out:.200} --format {to}."
        )
    if to not in known:
        check_installed(ENTRY_POINT_GROUP, to)
        raise errors.InvalidInputError(
            f"No export format {to!r:.60}. {nearest(to, known, cutoff=0.6)}"
            f"The formats of episodes are {listing(ENTRY_POINT_GROUP, of_episodes)}; those of "
            f"samples for trainers {', '.join(of_samples)}."
        )
    if training.given:
        raise errors.InvalidInputError(
            f"{', '.join(training.given)} cannot be used with the episode format {to!r:.60}. "
            f"Choose a format of samples: {', '.join(of_samples)}."
        )
    opened = open_dataset(dataset, storage_options=options_for(dataset, option, out), complete=True)
    selected = _selected(opened, selection, episode, limit)
    if episode is not None:
        selection["id"] = episode
    if limit:
        selection["limit"] = limit
    report = export_dataset(
        selected,
        out,
        format=to,
        options=format_settings(setting),
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


def _selected(
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
    """Return what an export left out or changed: what, why, how many episodes and values."""
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
        f"{out}: {counted(len(report.written), 'episode')} of {counted(steps, 'step')} "
        f"written as {report.format}"
        + (f", {len(report.left_out)} left out" if report.left_out else "")
        + still_open(len(dataset.open_episodes))
    )


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
