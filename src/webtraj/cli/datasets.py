"""`webtraj ls`, `show`, `verify`, `recover`, `index`: list, show and check a dataset's episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import (
    BucketOptions,
    Csv,
    EndReason,
    Episode,
    Json,
    JsonLines,
    Outcome,
    Place,
    Policy,
    Task,
    Where,
    condition_of,
    options_for,
)
from webtraj.cli.terminal import brief, clock, pluralize, printable, say

if TYPE_CHECKING:
    from rich.console import Console

    from webtraj import trajectory as trajectory_lib
    from webtraj.datasets.dataset import Dataset
    from webtraj.datasets.recovery import RebuildReport

__all__ = ["find_episode", "index", "ls", "recover", "show", "verify"]

# `webtraj ls`: the episodes of a dataset.

_MOST_TASKS = 10


def ls(
    dataset: Place,
    task: Task = None,
    policy: Policy = None,
    outcome: Outcome = None,
    end_reason: EndReason = None,
    min_reward: Annotated[float | None, typer.Option(help="At least this total reward.")] = None,
    where: Where = None,
    limit: Annotated[int, typer.Option(min=0, help="Show only the latest; 0 shows all.")] = 50,
    csv: Csv = None,
    json: JsonLines = False,
    option: BucketOptions = None,
) -> None:
    """List a dataset's episodes, even while it is being written."""
    import sys

    from webtraj.datasets import tables
    from webtraj.datasets.dataset import open_dataset

    whole = open_dataset(dataset, storage_options=options_for(dataset, option))
    found = whole.filter(
        condition_of(where),
        task=task,
        policy=policy,
        outcome=outcome,
        end_reason=end_reason,
        min_reward=min_reward,
    )
    shown = found.summaries[-limit:] if limit else found.summaries
    made = (tables.episode_row(summary, found.superseded) for summary in shown)
    terminal.save_table(csv, made, list(tables.episode_columns()))
    if json:
        for summary in shown:
            sys.stdout.write(summary.to_line().decode())
        if not shown and task is not None:
            say(_no_match(task, whole), stderr=True)
        return
    rows = (
        (
            summary.episode_id,
            summary.task,
            summary.outcome,
            summary.num_steps,
            "" if summary.total_reward is None else f"{summary.total_reward:g}",
            summary.end_reason,
            summary.policy,
            clock(summary.start_time),
        )
        for summary in shown
    )
    columns = (
        "episode", "task", "outcome", ">steps", ">reward", "end", "policy", "began (UTC)"
    )  # fmt: skip
    if shown:
        terminal.make_console().print(terminal.make_table(*columns, rows=rows))
    else:
        say(_no_match(task, whole))
    still_open = len(whole.open_episodes)
    say(
        f"{len(shown)} shown of {len(found)} found among {len(whole)}"
        + (f"; {still_open} still open or waiting for recovery" if still_open else "")
    )


def _no_match(task: str | None, whole: Dataset) -> str:
    from webtraj.settings.named import nearest

    known = sorted({summary.task for summary in whole.summaries})
    if not known:
        return "This dataset has no sealed episodes."
    if task is None or task in known:
        return "No episode matches."
    some = ", ".join(known[:_MOST_TASKS]) + (", ..." if len(known) > _MOST_TASKS else "")
    return f"No episode has the task {task!r}. {nearest(task, known)}The tasks here: {some}."


# `webtraj show`: one episode, step by step.


def show(
    dataset: Place,
    episode: Episode = "-1",
    step: Annotated[
        int | None, typer.Option(help="Show this step's full observation and decision.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also write its steps as a CSV file.")
    ] = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Show one episode's details, steps and end; the latest by default."""
    import sys

    from webtraj.datasets import tables
    from webtraj.datasets.dataset import open_dataset
    from webtraj.store import encoding

    opened = open_dataset(dataset, storage_options=options_for(dataset, option))
    trajectory = opened[find_episode(opened.episode_ids, episode)]
    if step is not None and not 0 <= step < len(trajectory.steps):
        raise errors.InvalidInputError(
            f"No step {step}: the episode has steps 0 to {len(trajectory.steps) - 1}."
        )
    terminal.save_table(csv, tables.step_rows([trajectory]), tables.STEP_COLUMNS)
    if json:
        shown = {"episode": trajectory} if step is None else {"step": trajectory.steps[step]}
        data, _ = encoding.dumps_fields(shown)
        sys.stdout.write(data.decode() + "\n")
        return
    console = terminal.make_console()
    if step is None:
        _print_episode(console, trajectory)
    else:
        _print_step(console, trajectory.steps[step])


def find_episode(episode_ids: Any, wanted: str) -> str:
    """Return the only id that matches `wanted`.

    Raises:
        UnknownEpisodeError: No id matches, or several do.
    """
    if wanted in episode_ids:
        return wanted
    matching = [episode_id for episode_id in episode_ids if episode_id.startswith(wanted)]
    if len(matching) == 1:
        return str(matching[0])
    try:
        return str(episode_ids[int(wanted)])
    except (ValueError, IndexError):
        found = f"{len(matching)} episodes match" if matching else "No episode matches"
        raise errors.UnknownEpisodeError(
            f"{found} {wanted!r}; the dataset has {len(episode_ids)}. Give an id, the start of "
            "one, or a position such as 0 or -1. `webtraj ls` lists the ids."
        ) from None


def _print_episode(console: Console, trajectory: trajectory_lib.EpisodeTrajectory) -> None:
    import dataclasses

    from rich.table import Table

    facts = Table(box=None, show_header=False, pad_edge=False)
    for field in dataclasses.fields(trajectory.info):
        value = getattr(trajectory.info, field.name)
        if value not in ("", None, {}, ()) and field.name != "derivation":
            facts.add_row(field.name.replace("_", " "), brief(value, 200))
    for derivation in trajectory.info.derivation:
        facts.add_row("made by", printable(_derivation(derivation)))
    facts.add_row("began", f"{clock(trajectory.start_time)} UTC")
    facts.add_row("ended", f"{clock(trajectory.end_time)} UTC")
    console.print(facts)

    console.print(
        terminal.make_table(
            "step", "type", "action", "reward", "discount", "seconds",
            rows=(
                (
                    record.index,
                    record.step_type.name,
                    "" if record.first else brief(record.action),
                    brief(record.reward),
                    brief(record.discount),
                    _seconds(record),
                )
                for record in trajectory.steps
            ),
        )
    )  # fmt: skip
    end = trajectory.end
    assert end is not None  # Every sealed episode has an end.
    total = trajectory.total_reward
    say(
        f"{end.reason.name} in {end.phase or '?'}{end.detail and f': {end.detail}'}, "
        f"outcome {end.outcome.name.lower()}, {pluralize(trajectory.num_steps, 'step')}, "
        + ("not scored" if total is None else f"total reward {total:g}")
    )
    for one in end.judgements:
        why = one.reason and f": {one.reason}"
        say(f"judged by {one.judge}: {one.outcome.name.lower()}{why}")
    if end.action_in_flight:
        say(f"in flight: {brief(end.in_flight_action, 200)}")
    for note in (*end.violations, *end.recording_errors):
        say(f"noted: {note}")
    if end.error is not None:
        console.print(printable(end.error.traceback, keep_lines=True))


def _derivation(derivation: trajectory_lib.Derivation) -> str:
    said = f"{derivation.step} {derivation.version} of {derivation.software}"
    if derivation.model:
        said += f", with {derivation.model}"
    if derivation.source:
        said += f", from {derivation.source}"
    changes = ", ".join(f"{name} {value}" for name, value in derivation.changes.items())
    return f"{said}: {changes}"[:500] if changes else said


def _print_step(console: Console, record: trajectory_lib.StepRecord) -> None:
    from collections.abc import Mapping

    say(f"{record.step_type.name}, action {brief(record.action, 500)}")
    observation = record.observation
    channels = observation if isinstance(observation, Mapping) else {"observation": observation}
    for name, value in channels.items():
        whole = value if isinstance(value, str) else brief(value, 2000)
        console.rule(printable(str(name)), align="left")
        console.print(printable(whole, keep_lines=True))
    if record.decision is not None:
        console.rule("decision", align="left")
        console.print(printable(record.decision.thought or "-", keep_lines=True))
        for call in record.decision.model_calls:
            say(f"{printable(call.model)}: {printable(call.text)}")


def _seconds(record: trajectory_lib.StepRecord) -> str:
    if record.start_time is None or record.end_time is None:
        return "-"
    return f"{max(record.end_time - record.start_time, 0.0):.3f}"


# `webtraj verify`: check a dataset.


def verify(
    dataset: Place,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Check every byte of a dataset. Exit with 1 if anything is wrong."""
    from webtraj.datasets import verification

    report = verification.verify(dataset, storage_options=options_for(dataset, option))
    if json:
        terminal.print_json(report)
    else:
        for problem in report.problems:
            say(f"{problem.where}: {problem.what}")
        say(
            f"{pluralize(report.num_episodes, 'episode')}, {pluralize(report.num_steps, 'step')}, "
            f"{pluralize(report.num_blobs, 'blob')}: "
            + ("no problems" if report.clean else pluralize(len(report.problems), "problem"))
        )
        if report.being_written:
            say(f"{pluralize(len(report.being_written), 'episode')} still being written")
    if not report.clean:
        raise typer.Exit(1)


# `webtraj recover`: seal the episodes that a dead process left open.


def recover(
    dataset: Place,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Seal the episodes whose writer died. Exit with 1 if any episode cannot be recovered."""
    from webtraj.datasets import recovery

    report = recovery.recover(dataset, storage_options=options_for(dataset, option))
    if json:
        terminal.print_json(
            {
                "sealed": [summary.episode_id for summary in report.sealed],
                "indexed": report.indexed,
                "being_written": report.being_written,
                "unreadable": report.unreadable,
            }
        )
    else:
        for summary in report.sealed:
            say(
                f"{summary.episode_id}  {summary.task}: "
                f"{summary.end_reason.name.lower()} after {pluralize(summary.num_steps, 'step')}"
            )
        for what in report.unreadable:
            say(what)
        say(
            f"{len(report.sealed)} sealed, {len(report.indexed)} added to the index, "
            f"{len(report.being_written)} still being written, {len(report.unreadable)} unreadable"
        )
    if report.unreadable:
        raise typer.Exit(1)


# `webtraj index`: rebuild a dataset's index, or write it as Parquet.


def index(
    dataset: Place,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the index by reading every episode.")
    ] = False,
    parquet: Annotated[
        str | None, typer.Option(help="Write the index as a Parquet file to this path or URL.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the index as a CSV file.")
    ] = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Rebuild a dataset's index, or write it as a table. Safe while others write and read."""
    from webtraj.datasets import tables
    from webtraj.datasets.dataset import open_dataset
    from webtraj.datasets.recovery import rebuild as rebuild_index

    given = [name for name, value in (("--parquet", parquet), ("--csv", csv)) if value is not None]
    if rebuild == bool(given):
        raise errors.InvalidInputError(
            "Give either --rebuild or --parquet FILE or --csv FILE; got "
            + (f"{' and '.join(['--rebuild', *given])}." if rebuild else "none.")
        )
    if given:
        opened = open_dataset(dataset, storage_options=options_for(dataset, option, parquet or ""))
        if csv is not None:
            columns = list(tables.episode_columns())
            rows = tables.write_csv(csv, columns, opened.episode_rows())
        if parquet is not None:
            elsewhere = options_for(parquet, option, dataset)
            rows = opened.to_parquet(parquet, storage_options=elsewhere)
        targets = [target for target in (parquet, csv) if target is not None]
        if json:
            terminal.print_json({"targets": targets, "rows": rows})
        else:
            for target in targets:
                say(f"{target}: {pluralize(rows, 'row')}")
        return
    report = rebuild_index(dataset, storage_options=options_for(dataset, option))
    if json:
        terminal.print_json(report)
    else:
        _print_rebuilt(report)
    if report.unreadable:
        raise typer.Exit(1)


def _print_rebuilt(report: RebuildReport) -> None:
    for episode_id in report.dropped:
        say(f"{episode_id}: file missing; removed from the index")
    for what in report.unreadable:
        say(what)
    say(
        f"{pluralize(report.num_episodes, 'episode')}, {report.files_before} index files before, "
        f"{report.files_after} now"
        + (f", {report.being_written} of them still being written" if report.being_written else "")
    )
