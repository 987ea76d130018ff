"""`webtraj rollout submit`: run a rollout as a job on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, read_setting

__all__ = ["submit"]


def submit(
    source: Annotated[
        str,
        typer.Option(
            envvar="SOURCE_S3_URI",
            help="The tasks: the URL of a .jsonl or .parquet file; or presets, comma-separated.",
        ),
    ] = "",
    save: Annotated[
        str, typer.Option(envvar="SAVE_S3_URI", help="The dataset to write: a bucket's URL.")
    ] = "",
    max_trajs: Annotated[
        int, typer.Option(envvar="MAX_TRAJS", min=1, help="The number of episodes.")
    ] = 100,
    max_steps: Annotated[
        int,
        typer.Option(envvar="MAX_STEPS", min=1, help="Truncate episodes after this many steps."),
    ] = 15,
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
    agent: Annotated[str, typer.Option(help="The agent, as for webtraj rollout.")] = "model",
    model: Annotated[
        str | None, typer.Option(help="The agent's model, by its server's name.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The model's server; default: OpenAI's.")
    ] = None,
    agent_options: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set", metavar="KEY=VALUE", help="An option of the agent. Repeatable."
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An option of the presets. Repeatable."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="The episodes' file format: json, pb or pb.zst."),
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    pass_variable: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of an environment variable to pass on, if it is set here; default: "
            "OPENAI_API_KEY. Repeatable."
        ),
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Episodes at a time, on all machines together.")
    ] = None,
    max_retries: Annotated[
        int, typer.Option(min=0, help="Retries of an episode that ended with an error.")
    ] = 3,
    seed: Annotated[int, typer.Option(help="The run's seed.")] = 0,
    run_id: Annotated[str | None, typer.Option(help="The run's id; default: a new one.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="Resume this run of --save; 'last' for the latest.")
    ] = None,
    python: Annotated[
        str, typer.Option(help="The Python on the cluster that has webtraj installed.")
    ] = "python",
    wait: Annotated[bool, typer.Option(help="Follow the job's output until it ends.")] = True,
) -> None:
    """Submit a rollout to a Ray cluster through Ray's job API.

    Every machine of the cluster runs episodes and writes them to the same dataset. Environment
    variables are passed on without appearing on a command line or in a log. Exit with 1 if the job
    fails.
    """
    import asyncio

    from webtraj import errors
    from webtraj.cli import options as options_lib
    from webtraj.rollouts.distributed import job
    from webtraj.rollouts.recording import checked_format

    given = dict(read_setting("--agent-set", text) for text in agent_options or ())
    given |= {
        name: value
        for name, value in (("model", model), ("base_url", base_url))
        if value is not None
    }
    if not save or not (source or resume):
        raise errors.InvalidInputError(
            f"A job needs tasks and a dataset; got --source {source!r} and --save {save!r}. Give "
            "--source (or SOURCE_S3_URI) and --save (or SAVE_S3_URI)."
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
