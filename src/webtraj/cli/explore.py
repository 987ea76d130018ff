"""`webtraj explore`: explore sites from coarse tasks, and propose concrete tasks."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli.options import API_KEY_HELP, OPTION_HELP, read_setting

if TYPE_CHECKING:
    from webtraj.exploring.proposing import Proposed
    from webtraj.tasks import TaskSpec

__all__ = ["explore"]

_MOST_SHOWN = 10


def explore(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASKS | propose DATASET | [RUN]",
            help="The coarse tasks: a .jsonl or .parquet file. Or the word propose and a dataset, "
            "to propose tasks for its episodes. With --resume: the run to resume; default: the "
            "latest.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="The dataset to write or add to, a folder or s3://bucket/prefix."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The episodes' file format: json, pb or pb.zst; default: the dataset's, json for "
            "a new one.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="The exploring agent: model, curious, random or scripted; default: model if "
            "--model is given, else curious."
        ),
    ] = None,
    proposer: Annotated[
        str | None,
        typer.Option(
            help="The proposer: model or hindsight; default: model if --model is given, else "
            "hindsight."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The model of the agent and the proposer, by its server's name."),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="The model's server, such as http://127.0.0.1:8000/v1; default: OpenAI's. "
            "Repeat it to share the work among several servers."
        ),
    ] = None,
    api_key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help=API_KEY_HELP, show_default=False)
    ] = None,
    agent_options: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set", metavar="KEY=VALUE", help="An option of the agent. Repeatable."
        ),
    ] = None,
    proposer_options: Annotated[
        list[str] | None,
        typer.Option(
            "--proposer-set",
            metavar="KEY=VALUE",
            help="An option of the proposer, such as max_tokens=2000. Repeatable.",
        ),
    ] = None,
    proposals: Annotated[
        int | None, typer.Option(help="The most tasks proposed per episode; default: 3.")
    ] = None,
    attempts: Annotated[
        int | None, typer.Option(help="Attempts at each coarse task; default: 1.")
    ] = None,
    parallel: Annotated[int | None, typer.Option(help="Episodes at a time; default: 1.")] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="The most steps per episode; default: 15.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; default: 0.")] = None,
    run: Annotated[
        str | None, typer.Option(help="With propose: the run; default: the latest.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume a crawl: explore and propose what is left."),
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="An option of the environments. Repeatable."
        ),
    ] = None,
) -> None:
    """Explore sites from coarse tasks, and propose concrete tasks from what was seen.

    A coarse task is a site's URL and a rough description. The episodes are recorded to --out. The
    proposed tasks go beside them, to tasks/<run>/proposed-*.jsonl, for `webtraj rollout` to run.
    The exit code is 1 if every episode ended with an error, or if proposing failed for an episode.
    """
    from webtraj import errors
    from webtraj.cli.options import storage_options

    values: dict[str, Any] = {
        "agent": agent,
        "proposer": proposer,
        "model": model,
        "base_url": base_url[0] if base_url and len(base_url) == 1 else base_url,
        "api_key_variable": api_key_variable,
        "agent_options": dict(read_setting("--agent-set", text) for text in agent_options or ()),
        "proposer_options": dict(
            read_setting("--proposer-set", text) for text in proposer_options or ()
        ),
        "proposals": proposals,
        "attempts": attempts,
        "parallel": parallel,
        "max_steps": max_steps,
        "seed": seed,
        "format": format_name,
        "environment_options": dict(read_setting("--set", text) for text in options or ()),
    }
    values = {name: value for name, value in values.items() if value not in (None, {})}
    words = what or []
    buckets = storage_options(option)
    if words[:1] == ["propose"]:
        if len(words) != 2 or out is not None or resume:
            raise errors.InvalidInputError(
                "`webtraj explore propose` takes one dataset, and neither --out nor --resume: it "
                "writes beside the episodes and resumes by itself. Run: webtraj explore propose "
                "DATASET."
            )
        _propose(values, words[1], run, buckets)
        return
    if out is None or len(words) > 1 or (not words and not resume) or run is not None:
        raise errors.InvalidInputError(
            "Expected a task file and a dataset: webtraj explore TASKS --out DATASET; or, to "
            "resume: webtraj explore --resume --out DATASET."
            + (" --run applies only to `webtraj explore propose`." if run is not None else "")
        )
    _explore(values, words, out, buckets, resume=resume, flags=option or [])


def _explore(
    values: dict[str, Any],
    words: list[str],
    out: str,
    buckets: dict[str, Any] | None,
    *,
    resume: bool,
    flags: list[str],
) -> None:
    from webtraj.cli import progress, signals
    from webtraj.exploring import command
    from webtraj.store.places import is_url

    options = buckets if is_url(out) else None
    tasks: tuple[TaskSpec, ...] = ()
    if resume:
        config, run_id = command.go_on(
            values, out=out, run_id=words[0] if words else None, storage_options=options
        )
    else:
        config, run_id, tasks = command.begin(
            {**values, "tasks": words[0]},
            out=out,
            storage_options=options,
            tasks_options=buckets if is_url(words[0]) else None,
        )
    again = [part for text in flags for part in ("--option", text)]
    go_on = shlex.join(["webtraj", "explore", "--out", out, *again, "--resume", run_id])
    with progress.RolloutProgress(out, go_on=go_on) as observer:
        explored = signals.run(
            command.play(
                config,
                run_id,
                tasks,
                out=out,
                resume=resume,
                storage_options=options,
                observer=observer,
            )
        )
        observer.rollout_ended(explored.summary)
    _tell(explored.proposed)
    if all(result.failed for result in explored.summary.last_tries) or explored.proposed.failures:
        raise typer.Exit(1)


def _propose(
    values: dict[str, Any], place: str, run: str | None, buckets: dict[str, Any] | None
) -> None:
    from webtraj.cli import signals
    from webtraj.exploring import command

    config = command.read_config(values)
    proposed = signals.run(command.propose_again(config, place, run=run, storage_options=buckets))
    _tell(proposed)
    if proposed.failures:
        raise typer.Exit(1)


def _tell(proposed: Proposed) -> None:
    from webtraj.cli import terminal
    from webtraj.cli.terminal import counted, printable

    console = terminal.make_console()

    def say(line: str) -> None:
        console.print(printable(line), soft_wrap=True, markup=False, highlight=False)

    say(
        f"{counted(len(proposed.tasks), 'task')} of {counted(proposed.episodes, 'episode')} "
        f"({proposed.new} new) are in "
        f"{proposed.tasks_place}."
    )
    for task in proposed.tasks[:_MOST_SHOWN]:
        say(f"  {task.metadata.get('kind', '')}: {task.goal}")
    if (more := len(proposed.tasks) - _MOST_SHOWN) > 0:
        say(f"  ... and {more} more.")
    if not proposed.episodes and not proposed.failures:
        say("No episode finished by itself, so there was nothing to propose from.")
    if proposed.rejections:
        say("Rejected proposals, by reason:")
        for reason, number in list(proposed.rejections.items())[:_MOST_SHOWN]:
            say(f"  {number} x {reason}")
    if proposed.unfinished:
        say(f"Skipped {counted(proposed.unfinished, 'episode')} that did not finish.")
    for episode_id, why in list(proposed.failures.items())[:_MOST_SHOWN]:
        say(f"No proposals for {episode_id}: {why}")
    if proposed.failures:
        say("To retry those: webtraj explore propose, or --resume.")
