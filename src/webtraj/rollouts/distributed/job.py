"""The job of `webtraj rollout submit`, run as `python -m webtraj.rollouts.distributed.job`."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import importlib.util
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pydantic

from webtraj import errors
from webtraj.rollouts.configuration.builder import build_rollout
from webtraj.rollouts.distributed.cluster import TOKEN_REMEDY, use_own_token
from webtraj.rollouts.distributed.collection import play_on_ray
from webtraj.rollouts.distributed.node import Cluster
from webtraj.rollouts.results import RolloutSummary
from webtraj.rollouts.rollout import Milestones
from webtraj.runs.spec import RunSpec
from webtraj.settings.configuration import COMMAND_LINE, validate
from webtraj.store.tries import pick_counting

__all__ = ["Job", "MODULE", "follow_job", "main", "submit_job"]

# Submit a rollout as a Ray job, from a machine that need not be part of the cluster.
#
# The job's settings and environment variables are sent as files of a small module, `webtraj_job`,
# not on a command line or in the job's `runtime_env`, which Ray logs and shows to anyone. The job
# removes the variables from there at once. Variables that the machines already have need not be
# sent.

MODULE = "webtraj_job"
"""Name of the module that is sent."""
_VARIABLES = "variables.json"

_EPISODES = 100
_PERCENT = 5
"""A job prints its progress each time that this many percent more are recorded."""
_OF_THE_SCRIPT = {"preset", "episodes"}
"""Fields that `ray_job_submit.sh` always sets; they are ignored when a run is resumed."""
_DEFAULTS = {"agent": "model", "max_steps": 15, "max_retries": 3}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A rollout to submit."""

    spec: RunSpec
    """The run; to resume one, its place and what changes."""
    imports: Sequence[str] = ()
    """Modules to import first on each machine, for example to register presets."""
    run_id: str | None = None
    """Name of a new run."""
    resume: bool | str = False
    """The id of a run to resume, or true for the latest."""

    @classmethod
    def of(
        cls,
        fields: Mapping[str, Any],
        *,
        imports: Sequence[str] = (),
        run_id: str | None = None,
        resume: bool | str = False,
    ) -> Self:
        """Return the job of a run's fields, with the defaults of `ray_job_submit.sh`.

        By default it plays 100 episodes, in whole groups.

        Raises:
            InvalidInputError: A field is unknown or invalid; the message names it.
        """
        if resume:
            given = {name: value for name, value in fields.items() if name not in _OF_THE_SCRIPT}
            spec = validate(given, RunSpec, COMMAND_LINE)
            return cls(spec=spec, imports=imports, run_id=run_id, resume=resume)
        spec = validate({**_DEFAULTS, **fields}, RunSpec, COMMAND_LINE)
        if spec.episodes is None and spec.attempts == 1 and spec.iteration is None:
            groups = math.ceil(_EPISODES / spec.group_size)
            spec = spec.model_copy(update={"episodes": groups * spec.group_size})
        return cls(spec=spec, imports=imports, run_id=run_id)


_JOB = pydantic.TypeAdapter(Job)


def submit_job(
    job: Job,
    *,
    address: str,
    working_dir: str | os.PathLike[str] | None = None,
    pass_variables: Iterable[str] = ("OPENAI_API_KEY",),
    python: str = "python",
) -> str:
    """Submit a job.

    Args:
        job: The job.
        address: URL of Ray's dashboard, such as `http://10.0.0.1:8265`.
        working_dir: A folder with your modules, sent to the job and all machines.
        pass_variables: Names of environment variables to send. Variables that are not set here are
            left to the machines.
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
        module.mkdir(mode=0o700)
        (module / "__init__.py").write_text('"""A job of webtraj."""\n')
        (module / "job.json").write_text(_JOB.dump_json(job, exclude_unset=True).decode())
        if values:  # The folder is this user's alone.
            (module / _VARIABLES).touch(mode=0o600)
            (module / _VARIABLES).write_text(json.dumps(values))
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


def _client(address: str) -> Any:
    try:
        from ray.job_submission import JobSubmissionClient

        use_own_token(address)
        return JobSubmissionClient(address)
    except (ImportError, ConnectionError, RuntimeError, ValueError) as error:
        if isinstance(error, ImportError) or "ray[default]" in str(error):
            raise errors.missing_dependency("Jobs need Ray with its client", "ray") from error
        raise errors.InvalidInputError(
            f"Ray's dashboard does not answer at {address!r}: {str(error).strip():.500} Expected "
            "its URL, such as http://10.0.0.1:8265, which `ray start --head` prints. "
            f"{TOKEN_REMEDY}"
        ) from error


def main() -> None:
    """Run the submitted job. Exits with 1 if it cannot."""
    try:
        job, variables = _take(_folder())
        os.environ.update(variables)
        prepare(job.imports)  # For the plan.
        summary = asyncio.run(_play(job, variables))
    except errors.WebtrajError as error:
        sys.exit(f"webtraj: {error}")
    counted = pick_counting(summary.results)
    finished = sum(result.counts for result in counted)
    sys.stdout.write(
        f"{len(counted)} rows, {finished} finished, {len(summary.results)} episodes recorded in "
        f"{job.spec.out}, {summary.seconds:.1f} s\n"
    )
    if finished == 0:
        sys.exit(1)


def _take(folder: Path) -> tuple[Job, dict[str, str]]:
    """Return a job and its variables, and remove the file with the variables.

    Raises:
        InvalidInputError: A file is missing or invalid; the message names the field.
    """
    try:
        job = _JOB.validate_json((folder / "job.json").read_bytes())
        sent = folder / _VARIABLES
        variables: dict[str, str] = json.loads(sent.read_bytes()) if sent.exists() else {}
        sent.unlink(missing_ok=True)
    except (OSError, pydantic.ValidationError) as error:
        raise errors.InvalidInputError(
            f"Cannot read the job in {str(folder)!r}: {error}. Submit it again with the cluster's "
            "version of webtraj."
        ) from error
    return job, variables


async def _play(job: Job, variables: dict[str, str]) -> RolloutSummary:
    rollout = build_rollout(job.spec, run_id=job.run_id, resume=job.resume)
    setup = functools.partial(prepare, tuple(job.imports))
    tell = functools.partial(print, flush=True)
    player = functools.partial(play_on_ray, Cluster(setup=setup, variables=variables))
    return await rollout.play(player=player, observer=Milestones(_PERCENT, tell=tell))


def prepare(imports: Iterable[str]) -> None:
    """Prepare a machine: import modules, and remove the file of variables.

    The machine gets the variables in another way.

    Raises:
        InvalidInputError: A module cannot be imported.
    """
    if importlib.util.find_spec(MODULE) is not None:
        (_folder() / _VARIABLES).unlink(missing_ok=True)
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
