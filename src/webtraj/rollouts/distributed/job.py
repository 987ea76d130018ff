"""The job of `webtraj rollout submit`, run as `python -m webtraj.rollouts.distributed.job`."""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import Field

from webtraj import errors
from webtraj.rollouts.configuration.building import build_rollout, resume_run
from webtraj.rollouts.distributed.cluster import Cluster, use_own_token, wants_token
from webtraj.rollouts.results import RolloutSummary
from webtraj.rollouts.rollout import Milestones, Rollout
from webtraj.runs.run import run_of
from webtraj.runs.spec import RunSpec
from webtraj.store.places import open_storage
from webtraj.store.tries import counting

__all__ = ["JobSpec", "MODULE", "follow_job", "main", "submit_job"]

# Submit a rollout as a Ray job, from a machine that need not be part of the cluster.
#
# The job's settings and environment variables are sent as files of a small module, `webtraj_job`,
# not on a command line or in the job's `runtime_env`, which Ray logs and shows to anyone. The job
# removes the variables from there at once. Variables that the machines already have need not be
# sent.

MODULE = "webtraj_job"
"""Name of the module that is sent."""


_EPISODES = 100
_PERCENT = 5
"""A job prints its progress each time that this many percent more are recorded."""
_OF_THE_SCRIPT = {"preset", "episodes"}
"""Fields that `ray_job_submit.sh` always sets; they are ignored when a run is resumed."""


def _split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


class JobSpec(RunSpec):
    """A run as a job: `RunSpec` with the defaults of `ray_job_submit.sh`."""

    preset: Annotated[list[str], pydantic.BeforeValidator(_split)] = Field(default_factory=list)
    """The tasks: task files or presets, separated by commas if they are text."""
    out: Annotated[str, Field(min_length=1)]
    """The place to record to."""
    agent: str = "model"
    """Name of the agent."""
    episodes: Annotated[int, Field(ge=1)] | None = None
    """Episodes to play, spread over the tasks; by default 100, in whole groups, unless `attempts`
    are given."""
    max_steps: Annotated[int, Field(ge=1)] | None = 15
    """Step limit of an episode, unless its task has one."""
    max_retries: Annotated[int, Field(ge=0)] = 3
    """Retries of an episode after an infrastructure failure."""
    imports: list[str] = Field(default_factory=list)
    """Modules to import first on each machine, for example to register presets."""
    run_id: str | None = None
    """Name of a new run."""
    resume: bool | str = False
    """The id of a run to resume, or true for the latest."""


def submit_job(
    job: JobSpec,
    *,
    address: str,
    working_dir: str | os.PathLike[str] | None = None,
    pass_variables: Iterable[str] = ("OPENAI_API_KEY",),
    python: str = "python",
) -> str:
    """Submit a job.

    Args:
        job: The job's settings.
        address: URL of Ray's dashboard, such as `http://10.0.0.1:8265`.
        working_dir: A folder with your modules, sent to the job and all machines.
        pass_variables: Names of environment variables to send; those that are not set here are left
            to the machines.
        python: The Python on the cluster that has webtraj.

    Returns:
        The job's id.

    Raises:
        InvalidInputError: No dashboard runs at that address, or Ray rejects the job.
        MissingDependencyError: Ray's client is not installed.
    """
    client = _client(address)
    values = {name: os.environ[name] for name in pass_variables if os.environ.get(name)}
    with tempfile.TemporaryDirectory(prefix="webtraj-job-") as folder:
        module = Path(folder) / MODULE
        _write_module(module, job, values)
        runtime_env: dict[str, Any] = {"py_modules": [str(module)]}
        if working_dir is not None:
            runtime_env["working_dir"] = os.fspath(working_dir)
        try:
            submitted: str = client.submit_job(
                entrypoint=f"{shlex.quote(python)} -m webtraj.rollouts.distributed.job",
                runtime_env=runtime_env,
            )
        except (RuntimeError, ValueError) as error:
            raise errors.InvalidInputError(
                f"Ray at {address!r} rejected the job: {str(error).strip():.1000}"
            ) from None
    return submitted


async def follow_job(
    job_id: str, *, address: str, tell: Callable[[str], object]
) -> tuple[str, str]:
    """Wait for a job to end.

    Args:
        job_id: The id from `submit_job`.
        address: As for `submit_job`.
        tell: Called with the job's output as it arrives.

    Returns:
        Ray's status, `SUCCEEDED`, `FAILED` or `STOPPED`, and a message.
    """
    client = _client(address)
    async for text in client.tail_job_logs(job_id):
        tell(text)
    info = client.get_job_info(job_id)
    return str(info.status), info.message or ""


def _write_module(module: Path, job: JobSpec, values: Mapping[str, str]) -> None:
    module.mkdir(mode=0o700)
    (module / "__init__.py").write_text('"""What a job of webtraj\'s is to do."""\n')
    (module / "job.json").write_text(job.model_dump_json(exclude_unset=True))
    if values:
        secret = os.open(module / "variables.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(secret, "w") as file:
            json.dump(dict(values), file)


def _client(address: str) -> Any:
    try:
        from ray.job_submission import JobSubmissionClient

        try:
            return JobSubmissionClient(address)
        except (ConnectionError, RuntimeError) as error:
            if not (wants_token(error) and use_own_token(address)):
                raise
            return JobSubmissionClient(address)
    except (ImportError, ConnectionError, RuntimeError, ValueError) as error:
        if isinstance(error, ImportError) or "ray[default]" in str(error):
            raise errors.missing_dependency("Jobs need Ray with its client", "ray") from error
        raise errors.InvalidInputError(
            f"Ray's dashboard does not answer at {address!r}: {str(error).strip():.500} Expected "
            "its URL, such as http://10.0.0.1:8265, which `ray start --head` prints."
        ) from error


def main() -> None:
    """Run the submitted job. Exits with 1 if it cannot."""
    try:
        folder = _folder()
        job = read_job(folder / "job.json")
        variables = take_variables(folder)
        os.environ.update(variables)
        prepare(job.imports)  # For the plan.
        summary = asyncio.run(_play(job, variables))
    except errors.WebtrajError as error:
        sys.exit(f"webtraj: {error}")
    counted = counting(summary.results)
    finished = sum(result.counts for result in counted)
    sys.stdout.write(
        f"{len(counted)} rows, {finished} finished, {len(summary.results)} episodes recorded in "
        f"{job.out}, {summary.seconds:.1f} s\n"
    )
    if finished == 0:
        sys.exit(1)


def read_job(path: Path) -> JobSpec:
    """Return a job's settings.

    Raises:
        InvalidInputError: The file is missing or invalid; the message names the field.
    """
    try:
        return JobSpec.model_validate_json(path.read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        raise errors.InvalidInputError(
            f"Cannot read the job {str(path)!r}: {error}. Submit it again with the cluster's "
            "version of webtraj."
        ) from error


async def _play(job: JobSpec, variables: dict[str, str]) -> RolloutSummary:
    rollout = _resumed(job) if job.resume else _new(job)
    setup = functools.partial(prepare, tuple(job.imports))
    cluster = Cluster(setup=setup, variables=variables)
    tell = functools.partial(print, flush=True)
    return await rollout.play(cluster=cluster, observer=Milestones(_PERCENT, tell=tell))


def _new(job: JobSpec) -> Rollout:
    if job.episodes is None and job.attempts == 1:
        groups = math.ceil(_EPISODES / job.group_size)
        job = job.model_copy(update={"episodes": groups * job.group_size})
    return build_rollout(job, run_id=job.run_id)


def _resumed(job: JobSpec) -> Rollout:
    """Return the rest of a run, as it was begun but for what the job changes."""
    storage = open_storage(job.out, job.storage_options or None)
    retries = job.given().get("max_retries")
    run = run_of(storage, run_id=job.run_id, resume=job.resume, max_retries=retries)
    given = {name: value for name, value in job.given().items() if name not in _OF_THE_SCRIPT}
    return resume_run(given, out=job.out, run_id=run.run_id, storage_options=job.storage_options)


def take_variables(folder: Path) -> dict[str, str]:
    """Return the variables that were sent, and remove their file."""
    file = folder / "variables.json"
    if not file.exists():
        return {}
    variables: dict[str, str] = json.loads(file.read_bytes())
    file.unlink()
    return variables


def prepare(imports: Iterable[str]) -> None:
    """Prepare a machine: import modules, and remove the file of variables.

    The machine gets the variables another way.

    Raises:
        InvalidInputError: A module cannot be imported.
    """
    if importlib.util.find_spec(MODULE) is not None:
        (_folder() / "variables.json").unlink(missing_ok=True)
    for name in imports:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise errors.InvalidInputError(
                f"Cannot import the module {name!r} on the cluster: {error}. Pass its folder as "
                "--working-dir."
            ) from error


def _folder() -> Path:
    found = importlib.util.find_spec(MODULE)
    if found is None or found.origin is None:
        raise errors.InvalidInputError(
            f"The module {MODULE!r}, which holds the job's settings, is missing. Submit jobs with "
            "`webtraj rollout submit`."
        )
    return Path(found.origin).parent


if __name__ == "__main__":
    main()
