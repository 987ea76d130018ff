"""`webtraj ray submit`: a rollout as a job on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from webtraj.cli.options import OPTION_HELP, read_setting

__all__ = ["ray"]


def ray(
    action: Annotated[Literal["submit"], typer.Argument(help="What to do: submit.")],
    source: Annotated[
        str,
        typer.Option(
            envvar="SOURCE_S3_URI",
            help="The tasks: a .jsonl or .parquet file's URL; or presets, with commas between.",
        ),
    ] = "",
    save: Annotated[
        str, typer.Option(envvar="SAVE_S3_URI", help="Where the episodes go: a bucket's URL.")
    ] = "",
    max_trajs: Annotated[
        int, typer.Option(envvar="MAX_TRAJS", min=1, help="How many episodes to play.")
    ] = 100,
    max_steps: Annotated[
        int, typer.Option(envvar="MAX_STEPS", min=1, help="Steps after which one is truncated.")
    ] = 15,
    address: Annotated[
        str, typer.Option(envvar="RAY_API_SERVER_ADDRESS", help="Ray's dashboard.")
    ] = "http://127.0.0.1:8265",
    working_dir: Annotated[
        Path | None,
        typer.Option(help="A folder that all machines are given, with modules of yours."),
    ] = None,
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="A module to import on each machine first, to register presets for example. "
            "May be repeated.",
        ),
    ] = None,
    agent: Annotated[str, typer.Option(help="Who plays, as for webtraj rollout.")] = "model",
    model: Annotated[
        str | None, typer.Option(help="The model that plays, as its server knows it.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The model's server; default: OpenAI's.")
    ] = None,
    agent_options: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set", metavar="KEY=VALUE", help="An option of the agent; may be repeated."
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the presets."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="What episodes are written as: json, pb or pb.zst."),
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    pass_variable: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of an environment variable to hand on, if it is set here; by default "
            "OPENAI_API_KEY. May be repeated."
        ),
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Episodes at a time, on all machines together.")
    ] = None,
    max_retries: Annotated[
        int, typer.Option(min=0, help="How often an episode that an error ended is tried again.")
    ] = 3,
    seed: Annotated[int, typer.Option(help="The run's seed.")] = 0,
    run_id: Annotated[str | None, typer.Option(help="Names the run.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run of --save; 'last' is the latest.")
    ] = None,
    python: Annotated[str, typer.Option(help="The cluster's Python that has webtraj.")] = "python",
    wait: Annotated[bool, typer.Option(help="Whether to wait for the end, and tell.")] = True,
) -> None:
    """Submit a rollout to a Ray cluster through Ray's job API.

    Every machine of the cluster plays, and writes to the one place. Values of variables are handed
    on, and are on no command line and in no log. Exits with 1 if the job fails.
    """
    import asyncio

    from webtraj import errors
    from webtraj.cli import options as options_lib
    from webtraj.rollouts.distributed import job
    from webtraj.rollouts.recording import checked_format

    assert action == "submit"
    given = dict(read_setting("--agent-set", text) for text in agent_options or ())
    given |= {
        name: value
        for name, value in (("model", model), ("base_url", base_url))
        if value is not None
    }
    if not save or not (source or resume):
        raise errors.InvalidInputError(
            "A job needs --source (or SOURCE_S3_URI), the tasks to play, and --save (or "
            f"SAVE_S3_URI), where the episodes go; got {source!r} and {save!r}."
        )
    spec = job.JobSpec(
        source=source,
        save=save,
        max_trajs=max_trajs,
        max_steps=max_steps,
        agent=agent,
        agent_options=given,
        environment_options=dict(read_setting("--set", text) for text in options or ()),
        imports=imports or [],
        storage_options=options_lib.storage_options(option),
        format=checked_format(format_name),
        max_retries=max_retries,
        parallel=parallel,
        seed=seed,
        run_id=run_id,
        resume=True if resume == "last" else resume or False,
    )
    job_id = job.submit_job(
        spec,
        address=address,
        working_dir=working_dir,
        pass_variables=pass_variable or ("OPENAI_API_KEY",),
        python=python,
    )
    print(job_id, flush=True)
    if not wait:
        return
    status, message = asyncio.run(
        job.follow_job(job_id, address=address, tell=lambda text: print(text, end="", flush=True))
    )
    print(f"{job_id}: {status.lower()}. {message}")
    if status != "SUCCEEDED":
        raise typer.Exit(1)
