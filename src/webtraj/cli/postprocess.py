"""`webtraj postprocess`: make a processed dataset from a recorded one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli.options import API_KEY_HELP, OPTION_HELP, WHERE_HELP

if TYPE_CHECKING:
    from rich.table import Table

    from webtraj.processing.configuration import ProcessingConfig, StepChoice
    from webtraj.processing.ledger import ProcessingReport

__all__ = ["postprocess", "print_report"]

_MAX_FAILURES_SHOWN = 5


def postprocess(
    read: Annotated[
        str | None,
        typer.Option("--read", "--read-s3-dir", help="The recorded dataset: a folder or URL."),
    ] = None,
    write: Annotated[
        str | None,
        typer.Option(
            "--write",
            "--write-s3-dir",
            help="The processed dataset: a new folder or URL, or one started by this pipeline.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "--model-name", help="The model for steps that use one."),
    ] = None,
    model_provider: Annotated[
        str | None, typer.Option(help="The server's API, such as auto, openai, anthropic or azure.")
    ] = None,
    model_url: Annotated[
        str | None,
        typer.Option(
            "--model-url",
            "--base-url",
            metavar="URL",
            help="The model's server, including /v1; default: the vendor's.",
        ),
    ] = None,
    api_key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help=API_KEY_HELP, show_default=False)
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STEP",
            help="A step as NAME, NAME:VALUE or NAME:KEY=VALUE: clean, judge:environment, "
            "clean:min_steps=2. Repeat it for more steps, in order. Default: clean, "
            "drop-no-effect, prune-loops; with a model also judge and describe.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OPTION",
            help="An option of a step as STEP.KEY=VALUE, such as clean.min_steps=2. The value is "
            "JSON, else text. Repeatable.",
        ),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", help="A module to import that registers your own steps."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file with these settings; options override it.")
    ] = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    to: Annotated[
        str | None,
        typer.Option("--format", help="json, pb or pb.zst; default: the recorded dataset's."),
    ] = None,
    parallel: Annotated[int | None, typer.Option(help="Episodes at a time; default: 8.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many failures in a row; default: 10.")
    ] = None,
    retry_failed: Annotated[
        bool | None,
        typer.Option(
            "--retry-failed/--no-retry-failed",
            help="Retry the episodes that failed in an earlier run; default: yes.",
            show_default=False,
        ),
    ] = None,
    read_option: Annotated[
        list[str] | None, typer.Option(help=f"For --read. {OPTION_HELP}")
    ] = None,
    write_option: Annotated[
        list[str] | None, typer.Option(help="Like --read-option, for --write.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Like --read-option, for --read and --write.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log details.")] = False,
) -> None:
    """Make a processed dataset from a recorded one, which stays unchanged.

    Run the same command again to resume: it processes new episodes and retries those that failed.
    Exit with 1 if any episode failed.

    The steps: clean, drop-no-effect, prune-loops, judge, filter, filter-outcome, filter-site,
    filter-task, relabel, relabel-clicks, relabel-forms, describe, grade-difficulty, dedupe, redact.

    Aliases: --read-s3-dir, --write-s3-dir, --model-name, --base-url.
    """
    from webtraj.cli import signals, terminal
    from webtraj.processing.configuration import load_config
    from webtraj.processing.registry import import_steps
    from webtraj.store.layout import DatasetLayout
    from webtraj.store.places import is_url

    values = {
        "read": read,
        "write": write,
        "model": model,
        "model_provider": model_provider,
        "model_url": model_url,
        "api_key_variable": api_key_variable,
        "where": where,
        "format": to,
        "parallel": parallel,
        "patience": patience,
        "retry_failed": retry_failed,
        "verbose": verbose or None,
    }
    loaded = load_config(config, values)
    _check(loaded, imports or [])
    import_steps(imports or [])
    if loaded.verbose:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("webtraj").setLevel(logging.INFO)
    choices = _with_settings(_chosen(loaded, step), settings or [])
    options = {
        "read_options": _options(loaded.read, [*(option or []), *(read_option or [])]),
        "write_options": _options(loaded.write, [*(option or []), *(write_option or [])]),
    }
    try:
        report = signals.run(_play(loaded, choices, options))
    except signals.SignalReceivedError:
        terminal.make_console(stderr=True).print(
            "Stopped. Finished work is kept. To resume, run the same command.", soft_wrap=True
        )
        raise
    print_report(report, str(loaded.write))
    here = loaded.read is not None and not is_url(loaded.read)  # Spools have those of a bucket.
    left = len(DatasetLayout(Path(loaded.read or "")).open_episodes()) if here else 0
    if left:
        terminal.make_console().print(f"{loaded.read}: {terminal.still_open(left)}", soft_wrap=True)
    if report.failures:
        raise typer.Exit(1)


async def _play(
    config: ProcessingConfig, choices: list[StepChoice], options: dict[str, Any]
) -> ProcessingReport:
    from webtraj.datasets.dataset import parse_condition
    from webtraj.processing.configuration import make_pipeline
    from webtraj.processing.pipeline import process

    assert config.read is not None
    assert config.write is not None
    client = config.make_client()
    try:
        with _Bar() as bar:
            return await process(
                config.read,
                config.write,
                make_pipeline(choices, client=client),
                where=None if config.where is None else parse_condition(config.where),
                parallel=config.parallel,
                format=config.format,
                retry_failed=config.retry_failed,
                patience=config.patience,
                observer=bar.show,
                **options,
            )
    finally:
        if client is not None:
            await client.aclose()


def print_report(report: ProcessingReport, target: str) -> None:
    """Print a report: a table of steps, a table of tasks, and the failures."""
    from webtraj.cli import terminal
    from webtraj.cli.terminal import counted, printable

    console = terminal.make_console()
    console.print(_steps_table(report))
    if len(report.tasks) > 1:
        console.print()
        console.print(_tasks_table(report))
    for failed in report.failures[:_MAX_FAILURES_SHOWN]:
        line = f"{failed.episode_id}: {failed.step}: {failed.error}"
        console.print(printable(line), soft_wrap=True)
    more = len(report.failures) - _MAX_FAILURES_SHOWN
    if more > 0:
        console.print(f"... and {more} more failed; report.json lists them.")
    if report.stale:
        console.print(
            f"{counted(len(report.stale), 'recorded episode')} changed after processing and were "
            f"not processed again: {', '.join(report.stale[:3])}"
            + (", ..." if len(report.stale) > 3 else ""),
            soft_wrap=True,
        )
    if report.episodes and report.dropped == report.episodes:
        console.print(_all_dropped(report), soft_wrap=True)
    found = f", {report.found} done earlier" if report.found else ""
    console.print(
        f"{target}: {counted(report.outputs, 'episode')} from {report.episodes} recorded "
        f"({report.dropped} dropped, {len(report.failures)} failed); {report.now} processed now"
        f"{found}.",
        soft_wrap=True,
    )


def _all_dropped(report: ProcessingReport) -> str:
    """Return the message, with a hint, for a report without any output."""
    too_short = sum(step.dropped.get("too short", 0) for step in report.steps)
    hint = (
        " To keep short episodes, lower the minimum with --step clean:min_steps=1 and write to a "
        "new dataset."
        if too_short > report.dropped / 2
        else ""
    )
    return f"Every recorded episode was dropped.{hint}"


def _steps_table(report: ProcessingReport) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("step", overflow="fold")
    for name in ("seen", "kept", "changed", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("dropped", overflow="fold")
    for step in report.steps:
        dropped = ", ".join(f"{reason} {n}" for reason, n in step.dropped.items())
        numbers = map(str, (step.seen, step.kept, step.changed, step.failed))
        table.add_row(step.name, *numbers, dropped)
    return table


def _tasks_table(report: ProcessingReport) -> Table:
    from rich.table import Table

    from webtraj.cli import terminal

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", overflow="fold")
    for name in ("recorded", "processed", "dropped", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for task in report.tasks:
        numbers = map(str, (task.episodes, task.outputs, task.dropped, task.failed))
        table.add_row(terminal.printable(task.task) or "-", *numbers)
    return table


class _Bar:
    """A progress bar on stderr, if that is a terminal."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        from webtraj.cli import terminal

        console = terminal.make_console(stderr=True)
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._line = self._bar.add_task("Processing", total=None)

    def show(self, done: int, total: int) -> None:
        self._bar.update(self._line, completed=done, total=total)

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()


def _check(config: ProcessingConfig, imports: list[str]) -> None:
    from webtraj import errors

    for name in ("read", "write"):
        if getattr(config, name) is None:
            raise errors.InvalidInputError(
                f"--{name} is missing: give --{name} FOLDER or --{name} s3://bucket/prefix."
            )
    for module in config.imports:
        if module not in imports:
            raise errors.InvalidInputError(
                f"The configuration imports {module!r:.100}, which runs its code. To allow it, add "
                f"--import {module}."
            )


def _chosen(config: ProcessingConfig, steps: list[str] | None) -> list[StepChoice]:
    from webtraj.processing.registry import parse_step

    return config.choices() if steps is None else [parse_step(text) for text in steps]


def _with_settings(choices: list[StepChoice], settings: list[str]) -> list[StepChoice]:
    from webtraj import errors
    from webtraj.cli.options import read_setting

    for text in settings:
        name, separator, rest = text.partition(".")
        if not separator or name not in {step for step, _ in choices}:
            raise errors.InvalidInputError(
                f"--set got {text!r:.100}; expected STEP.KEY=VALUE with a step out of "
                f"{', '.join(step for step, _ in choices)}."
            )
        key, value = read_setting("--set", rest)
        choices = [
            (step, {**options, key: value} if step == name else options)
            for step, options in choices
        ]
    return choices


def _options(place: str | None, given: list[str]) -> dict[str, Any] | None:
    from webtraj.cli.options import storage_options
    from webtraj.store.places import is_url

    return storage_options(given) if place is not None and is_url(place) else None
