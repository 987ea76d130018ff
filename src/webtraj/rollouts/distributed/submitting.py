"""Submitting a rollout as a job of Ray's, from a machine that need not be a part of the cluster.

What the job is to do, and the values of the variables that it is given, go along as files of a
small module, `webtraj_job`: neither on a command line nor in the job's `runtime_env`, which Ray
writes to its logs and shows to whoever asks. The job takes the values out of there at once, see
`job`. Variables that the machines have themselves need not be sent at all.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from webtraj import errors

__all__ = ["MODULE", "JobSpec", "follow_job", "submit_job"]

MODULE = "webtraj_job"
"""The module that goes along."""


class JobSpec(pydantic.BaseModel):
    """What a job is to do. The first four are fields of the source's `ray_job_submit.sh`."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    source: str
    """SOURCE_S3_URI: the tasks to play: a `.jsonl` or `.parquet` file's URL; or presets' selectors,
    with commas between."""
    save: str
    """SAVE_S3_URI: where the episodes go."""
    max_trajs: int = pydantic.Field(default=100, ge=1)
    """MAX_TRAJS: how many episodes to play: one of each task in order, and then again."""
    max_steps: int = pydantic.Field(default=15, ge=1)
    """MAX_STEPS: steps after which an episode is truncated, unless its task says otherwise."""
    agent: str = "model"
    """Who plays: a name of `webtraj.agents.catalog`."""
    agent_options: dict[str, Any] = pydantic.Field(default_factory=dict)
    environment_options: dict[str, Any] = pydantic.Field(default_factory=dict)
    format: str | None = None
    """What episodes are written as: `json`, `pb` or `pb.zst`."""
    storage_options: dict[str, Any] | None = None
    """For the buckets; holds no credentials."""
    imports: list[str] = pydantic.Field(default_factory=list)
    """Modules to import on each machine first, which register presets for example."""
    max_retries: int = pydantic.Field(default=3, ge=0)
    """How often an episode that an error ended is tried again."""
    parallel: int | None = pydantic.Field(default=None, ge=1)
    """How many episodes to play at a time on all machines together."""
    seed: int = 0
    run_id: str | None = None
    resume: bool | str = False


def submit_job(
    job: JobSpec,
    *,
    address: str,
    working_dir: str | os.PathLike[str] | None = None,
    pass_variables: Iterable[str] = ("OPENAI_API_KEY",),
    python: str = "python",
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Submits a job.

    Args:
        job: What it is to do.
        address: Ray's dashboard, such as `http://10.0.0.1:8265`.
        working_dir: A folder that the job and all machines are given, with modules of yours.
        pass_variables: Names of environment variables to hand on; those that are not set here are
            left to the machines.
        python: The Python on the cluster that has webtraj.
        metadata: Told by Ray of the job.

    Returns:
        The job's id.

    Raises:
        InvalidInputError: There is no dashboard at that address, or Ray refuses the job.
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
                metadata=dict(metadata or {}),
            )
        except (RuntimeError, ValueError) as error:
            raise errors.InvalidInputError(
                f"Ray at {address!r} refused the job: {str(error).strip():.1000}"
            ) from None
    return submitted


async def follow_job(
    job_id: str, *, address: str, tell: Callable[[str], object]
) -> tuple[str, str]:
    """Waits for a job to end.

    Args:
        job_id: What `submit_job` returned.
        address: As for `submit_job`.
        tell: Is given what the job prints, as it comes.

    Returns:
        Ray's word for how it ended, `SUCCEEDED`, `FAILED` or `STOPPED`; and more about it.
    """
    client = _client(address)
    async for text in client.tail_job_logs(job_id):
        tell(text)
    info = client.get_job_info(job_id)
    return str(info.status), info.message or ""


def _write_module(module: Path, job: JobSpec, values: Mapping[str, str]) -> None:
    module.mkdir(mode=0o700)
    (module / "__init__.py").write_text('"""What a job of webtraj\'s is to do."""\n')
    (module / "job.json").write_text(job.model_dump_json())
    if values:
        secret = os.open(module / "variables.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(secret, "w") as file:
            json.dump(dict(values), file)


def _client(address: str) -> Any:
    try:
        from ray.job_submission import JobSubmissionClient

        return JobSubmissionClient(address)
    except ImportError as error:
        raise errors.missing_dependency("Jobs need Ray with its client", "ray") from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        if "ray[default]" in str(error):
            raise errors.missing_dependency("Jobs need Ray with its client", "ray") from error
        raise errors.InvalidInputError(
            f"Ray's dashboard does not answer at {address!r}: {str(error).strip():.500} Expected "
            "its URL, such as http://10.0.0.1:8265; `ray start --head` says it."
        ) from error
