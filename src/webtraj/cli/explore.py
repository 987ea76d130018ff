"""`webtraj explore`: explore sites from coarse tasks, and propose concrete tasks."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import playing, signals, terminal
from webtraj.cli.flags import fields_of, flag
from webtraj.cli.options import Json

__all__ = ["explore"]

_PROPOSING = (
    "api_key_variable", "base_url", "model", "parallel", "proposals", "proposer",
    "proposer_options", "provider", "requests_per_minute", "storage_options",
)  # fmt: skip
"""Fields that matter to `webtraj explore propose`."""


def explore(
    preset: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASKS | propose DATASET | [RUN]",
            help="The coarse tasks: a .jsonl or .parquet file. Or the word propose and a dataset, "
            "to propose tasks for its episodes. With --resume: the run to resume; default: the "
            "latest.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="With propose: the run; default: the latest.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume a crawl: explore and propose what is left."),
    ] = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Explore sites from coarse tasks, and propose concrete tasks from what was seen.

    A coarse task is a site's URL and a rough description. The episodes are recorded to --out. The
    proposed tasks go beside them, to tasks/<run>/proposed-*.jsonl, for `webtraj rollout` to run.
    The exit code is 1 if every episode ended with an error, or if proposing failed for an episode.
    """
    from webtraj.runs.spec import exploring

    words = preset or []
    if words[:1] == ["propose"]:
        if len(words) != 2 or "out" in given or resume:
            raise errors.InvalidInputError(
                "`webtraj explore propose` takes one dataset, and neither --out nor --resume: it "
                "writes beside the episodes and resumes by itself. Run: webtraj explore propose "
                "DATASET."
            )
        if idle := sorted(given.keys() - set(_PROPOSING)):
            raise errors.InvalidInputError(
                f"{flag(idle[0])} has no effect on `webtraj explore propose`. Leave it out."
            )
        _propose(exploring(fields_of(given)), words[1], run, json=json)
        return
    if "out" not in given or len(words) > 1 or (not words and not resume) or run is not None:
        raise errors.InvalidInputError(
            "Expected a task file and a dataset: webtraj explore TASKS --out DATASET; or, to "
            "resume: webtraj explore --resume --out DATASET."
            + (" --run applies only to `webtraj explore propose`." if run is not None else "")
        )
    if resume:
        built, go_on = playing.from_flags(
            "explore", given, settle=exploring, resume=True, run_id=words[0] if words else None
        )
        if built.proposing is None:
            raise errors.InvalidInputError(
                f"The run {built.run_id!r} in {built.out!r} was not started by `webtraj explore`. "
                "Use `webtraj explore propose` to propose tasks for its episodes."
            )
    else:
        built, go_on = playing.from_flags("explore", {"preset": words, **given}, settle=exploring)
    playing.play(built, None, f"{go_on} --resume {built.run_id}", json=json)


def _propose(fields: dict[str, Any], place: str, run: str | None, *, json: bool) -> None:
    from webtraj.rollouts.configuration.recipes import proposing_of
    from webtraj.runs.spec import RunSpec
    from webtraj.settings.configuration import COMMAND_LINE, validate

    spec = validate(fields, RunSpec, COMMAND_LINE)
    proposing = proposing_of(spec)
    assert proposing is not None
    with signals.resumable("run the same command"):
        proposed = signals.run(proposing.propose(place, run, storage_options=spec.storage_options))
    with terminal.json_output(json) as give:
        done = playing.tell_proposed(proposed, errors.command("explore", "propose", place))
        give(playing.proposed_data(proposed))
    if not done:
        raise typer.Exit(1)
