"""`webtraj postprocess`: make a processed dataset from a recorded one."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import logs, signals, terminal
from webtraj.cli.options import (
    OPTION_HELP,
    ApiKeyVariable,
    BaseUrl,
    Csv,
    Json,
    Provider,
    Where,
    condition_of,
    options_for,
    read_setting,
)
from webtraj.cli.terminal import pluralize, say, still_open

if TYPE_CHECKING:
    from webtraj.processing.configuration import ProcessingConfig, StepChoice
    from webtraj.processing.ledger import ProcessingReport, StepReport

__all__ = ["postprocess", "print_report"]

_MAX_FAILURES_SHOWN = 5


def postprocess(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values that override the configuration's, such as parallel=4 or "
            "steps=[clean,dedupe]. They override options, too.",
            show_default=False,
        ),
    ] = None,
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
    provider: Provider = None,
    base_url: BaseUrl = None,
    api_key_variable: ApiKeyVariable = None,
    step: Annotated[
        list[str] | None,
        typer.Option(
            "--step",  # Typer 0.27 would take the metavar for its name.
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
        Path | None, typer.Option(help="A YAML file with settings; options override it.")
    ] = None,
    where: Where = None,
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
    csv: Csv = None,
    json: Json = False,
) -> None:
    """Make a processed dataset from a recorded one, which stays unchanged.

    Run the same command again to resume: it processes new episodes and retries those that failed.
    Exit with 1 if any episode failed.

    The steps: clean, drop-no-effect, prune-loops, judge, filter, filter-outcome, filter-site,
    filter-task, relabel, relabel-clicks, relabel-forms, describe, grade-difficulty, dedupe, redact.

    Aliases: --read-s3-dir, --write-s3-dir, --model-name.
    """
    from webtraj.processing.configuration import load_config
    from webtraj.settings.named import import_modules
    from webtraj.store.layout import DatasetLayout
    from webtraj.store.places import is_url

    values = {
        "read": read,
        "write": write,
        "model": model,
        "provider": provider,
        "base_url": base_url,
        "api_key_variable": api_key_variable,
        "steps": step,
        "where": where,
        "format": to,
        "parallel": parallel,
        "patience": patience,
        "retry_failed": retry_failed,
        "verbose": verbose or None,
    }
    loaded = load_config(config, values, overrides or ())
    _check(loaded, imports or [])
    import_modules(imports or [])
    if loaded.verbose:
        logs.show(logging.INFO)
    choices = _with_settings(loaded.choices(), settings or [])
    source, target = str(loaded.read), str(loaded.write)
    options = {
        name: {**(options_for(place, option, other) or {}), **(own or {})} or None
        for name, place, other, own in (
            (
                "read_options", source, target,
                options_for(source, read_option, flag="--read-option"),
            ),
            (
                "write_options", target, source,
                options_for(target, write_option, flag="--write-option"),
            ),
        )
    }  # fmt: skip
    with signals.resumable("run the same command"):
        report = signals.run(_play(loaded, choices, options, model))
    terminal.save_table(csv, map(_step_row, report.steps))
    with terminal.json_output(json) as give:
        print_report(report, target)
        give({"source": source, "target": target, **dataclasses.asdict(report)})
    here = loaded.read is not None and not is_url(loaded.read)  # Spools have those of a bucket.
    left = len(DatasetLayout(Path(loaded.read or "")).open_episodes()) if here else 0
    if left:
        say(f"{loaded.read}: {still_open(left).removeprefix('; ')}", stderr=json)
    if report.failures:
        raise typer.Exit(1)


async def _play(
    config: ProcessingConfig,
    choices: list[StepChoice],
    options: dict[str, Any],
    model: str | None,
) -> ProcessingReport:
    from webtraj.agents.models.base import check_keys
    from webtraj.processing.configuration import asks_model, make_pipeline
    from webtraj.processing.pipeline import process

    assert config.read is not None
    assert config.write is not None
    client = config.make_client()
    try:
        pipeline = make_pipeline(choices, client=client)
        if model is not None and not asks_model(pipeline):
            raise errors.InvalidInputError(
                f"--model has no effect: none of the steps {', '.join(n for n, _ in choices)} asks "
                "a model. Add one that does, such as --step judge or --step describe, or leave it "
                "out."
            )
        check_keys(client)
        with terminal.Bar("Processing") as bar:
            return await process(
                config.read,
                config.write,
                pipeline,
                where=condition_of(config.where),
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
    console = terminal.make_console()
    steps = [_step_row(step).values() for step in report.steps]
    columns = ("step", ">seen", ">kept", ">changed", ">failed", "dropped")
    console.print(terminal.make_table(*columns, rows=steps))
    if len(report.tasks) > 1:
        tasks = ((t.task or "-", t.episodes, t.outputs, t.dropped, t.failed) for t in report.tasks)
        counts = (">recorded", ">processed", ">dropped", ">failed")
        console.print()
        console.print(terminal.make_table("task", *counts, rows=tasks))
    failed = [f"{one.episode_id}: {one.step}: {one.error}" for one in report.failures]
    terminal.say_first(failed, _MAX_FAILURES_SHOWN, "failed; report.json lists them.")
    if report.stale:
        say(
            f"{pluralize(len(report.stale), 'recorded episode')} changed after processing and were "
            f"not processed again: {', '.join(report.stale[:3])}"
            + (", ..." if len(report.stale) > 3 else "")
        )
    if report.superseded:
        left_out = pluralize(report.superseded, "episode")
        say(f"{left_out} left out, because another try of the row counts.")
    if report.episodes and report.dropped == report.episodes:
        console.print(_describe_all_dropped(report), soft_wrap=True)
    found = f", {report.found} done earlier" if report.found else ""
    say(
        f"{target}: {pluralize(report.outputs, 'episode')} from {report.episodes} recorded "
        f"({report.dropped} dropped, {len(report.failures)} failed); {report.now} processed now"
        f"{found}."
    )


def _step_row(step: StepReport) -> dict[str, Any]:
    return {
        "step": step.name,
        "seen": step.seen,
        "kept": step.kept,
        "changed": step.changed,
        "failed": step.failed,
        "dropped": ", ".join(f"{reason} {n}" for reason, n in step.dropped.items()),
    }


def _describe_all_dropped(report: ProcessingReport) -> str:
    """Return the message, with a hint, for a report without any output."""
    too_short = sum(step.dropped.get("too short", 0) for step in report.steps)
    hint = (
        " To keep short episodes, lower the minimum with --step clean:min_steps=1 and write to a "
        "new dataset."
        if too_short > report.dropped / 2
        else ""
    )
    return f"Every recorded episode was dropped.{hint}"


def _check(config: ProcessingConfig, imports: list[str]) -> None:
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


def _with_settings(choices: list[StepChoice], settings: list[str]) -> list[StepChoice]:
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
