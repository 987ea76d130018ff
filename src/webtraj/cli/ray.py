"""`webtraj rollout submit`: run a rollout as a job on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import Json, Settings, without_none

__all__ = ["submit"]


def submit(
    settings: Settings = None,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            envvar="SOURCE_S3_URI",
            help="The tasks: the URL of a .jsonl or .parquet file; or presets, comma-separated.",
        ),
    ] = "",
    out: Annotated[
        str,
        typer.Option("--out", envvar="SAVE_S3_URI", help="The dataset to write: a bucket's URL."),
    ] = "",
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", envvar="MAX_TRAJS", help="Episodes in all; default: 100."),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            envvar="MAX_STEPS", help="Truncate episodes after this many steps; default: 15."
        ),
    ] = None,
    address: Annotated[
        str, typer.Option(envvar="RAY_API_SERVER_ADDRESS", help="The URL of Ray's dashboard.")
    ] = "http://127.0.0.1:8265",
    working_dir: Annotated[
        Path | None,
        typer.Option(help="A folder with your modules, copied to all machines."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="A module to import first on each machine, for example to register presets. "
            "Repeatable.",
        ),
    ] = None,
    pass_variable: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of an environment variable to pass on, if it is set here; default: "
            "OPENAI_API_KEY. Repeatable."
        ),
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="The run's id; default: a new one.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Resume this run of --out; 'last' for the latest.")
    ] = None,
    python: Annotated[
        str, typer.Option(help="The Python on the cluster that has webtraj installed.")
    ] = "python",
    wait: Annotated[bool, typer.Option(help="Follow the job's output until it ends.")] = True,
    json: Json = False,
    **given: Any,
) -> None:
    """Submit a rollout to a Ray cluster through Ray's job API.

    Every machine of the cluster runs episodes and writes them to the same dataset. Environment
    variables are passed on without appearing on a command line or in a log. By default a model
    plays 100 episodes of 15 steps, with 3 retries. Exit with 1 if the job fails.
    """
    import asyncio

    from webtraj.cli.flags import fields_of
    from webtraj.rollouts.distributed import job

    own = without_none(
        preset=preset.split(",") if preset else None,
        out=out or None,
        episodes=episodes,
        max_steps=max_steps,
    )
    fields = fields_of({**given, **own}, settings or ())
    if not fields.get("out") or not (fields.get("preset") or resume):
        raise errors.InvalidInputError(
            f"A job needs tasks and a dataset; got preset {fields.get('preset')!r:.100} and out "
            f"{fields.get('out')!r:.100}. Give --preset (or SOURCE_S3_URI), and --out (or "
            "SAVE_S3_URI)."
        )
    job_id = job.submit_job(
        job.Job.of(
            fields,
            imports=imports or (),
            run_id=run_id,
            resume=True if resume == "last" else resume or False,
        ),
        address=address,
        working_dir=working_dir,
        pass_variables=pass_variable or ("OPENAI_API_KEY",),
        python=python,
    )
    with terminal.json_output(json) as give:
        print(job_id, flush=True)
        if not wait:
            give({"job": job_id})
            return
        status, message = asyncio.run(
            job.follow_job(
                job_id, address=address, tell=lambda text: print(text, end="", flush=True)
            )
        )
        print(f"{job_id}: {status.lower()}. {message}")
        give({"job": job_id, "status": status.lower(), "message": message})
    if status != "SUCCEEDED":
        raise typer.Exit(1)
