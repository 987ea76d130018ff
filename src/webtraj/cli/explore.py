"""`webtraj explore`: explore sites by coarse tasks, and propose concrete ones."""

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
            "to have tasks proposed for episodes that are there. With --resume: the run to go on "
            "with; default: the latest.",
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
            help="What episodes are written as: json, pb or pb.zst; default: what the dataset has, "
            "json for a new one.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Who explores: model, curious, random or scripted; default: model if --model is "
            "given, else curious."
        ),
    ] = None,
    proposer: Annotated[
        str | None,
        typer.Option(
            help="Who proposes: model or hindsight; default: model if --model is given, else "
            "hindsight."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that both ask, as its server knows it.")
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="The model's server, such as http://127.0.0.1:8000/v1; default: OpenAI's. Given "
            "several times, the servers share the work."
        ),
    ] = None,
    api_key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help=API_KEY_HELP, show_default=False)
    ] = None,
    agent_options: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set", metavar="KEY=VALUE", help="An option of the explorer; may be repeated."
        ),
    ] = None,
    proposer_options: Annotated[
        list[str] | None,
        typer.Option(
            "--proposer-set",
            metavar="KEY=VALUE",
            help="An option of the proposer, such as max_tokens=2000; may be repeated.",
        ),
    ] = None,
    proposals: Annotated[
        int | None, typer.Option(help="How many tasks an episode may give; default: 3.")
    ] = None,
    attempts: Annotated[
        int | None, typer.Option(help="How often each coarse task is explored; default: 1.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(help="How many episodes at a time; default: 1.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="Steps after which exploring ends; default: 15.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The run's seed; default: 0.")] = None,
    run: Annotated[
        str | None, typer.Option(help="With propose: whose episodes; default: the latest run's.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a crawl: explore and propose what is left."),
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the environments."),
    ] = None,
) -> None:
    """Explore sites by coarse tasks, and propose concrete tasks for what was seen.

    A coarse task is a site's url and a rough description. The episodes are recorded to --out, and
    the tasks lie beside them, in tasks/<run>/proposed-*.jsonl, for `webtraj rollout` to play. The
    exit code is 1 if errors ended all episodes, or if some could not be proposed for.
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
                "Proposing takes a dataset: webtraj explore propose DATASET. It goes on by itself "
                "where it was left, and writes beside the episodes."
            )
        _propose(values, words[1], run, buckets)
        return
    if out is None or len(words) > 1 or (not words and not resume) or run is not None:
        raise errors.InvalidInputError(
            "Say what to explore and where to: webtraj explore TASKS --out DATASET; or what to go "
            "on with: webtraj explore --resume --out DATASET."
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
        say("There is no episode that ended by itself, so there was nothing to propose for.")
    if proposed.rejections:
        say("What became no task, and why:")
        for reason, number in list(proposed.rejections.items())[:_MOST_SHOWN]:
            say(f"  {number} x {reason}")
    if proposed.unfinished:
        say(f"{proposed.unfinished} episodes did not end by themselves, and were left out.")
    for episode_id, why in list(proposed.failures.items())[:_MOST_SHOWN]:
        say(f"{episode_id} was not proposed for: {why}")
    if proposed.failures:
        say("To try those again: webtraj explore propose, or --resume.")
