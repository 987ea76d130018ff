"""What `webtraj ray submit` runs on the cluster: `python -m webtraj.rollouts.distributed.job`."""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pydantic

from webtraj import errors
from webtraj.agents import catalog
from webtraj.rollouts.distributed.collecting import collect_on_ray
from webtraj.rollouts.distributed.submitting import MODULE, JobSpec
from webtraj.rollouts.observed import channels_for, environment_options
from webtraj.rollouts.plan import PlannedEpisode, plan_tasks, specs_of_presets
from webtraj.rollouts.recording import checked_format
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.retrying import RetryPolicy
from webtraj.rollouts.runs import counting
from webtraj.rollouts.settings import RolloutSettings
from webtraj.rollouts.summary import RolloutSummary
from webtraj.rollouts.tasks import TaskSpec, read_tasks

__all__ = ["main"]


def main() -> None:
    """Does what the job says that went along. Exits with 1 if it cannot."""
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
        f"{len(counted)} rows, {finished} played to their ends, {len(summary.results)} episodes on "
        f"record in {job.save}, {summary.seconds:.1f} s\n"
    )
    if finished == 0:
        sys.exit(1)


def read_job(path: Path) -> JobSpec:
    """Return what a job is to do.

    Raises:
        InvalidInputError: The file is missing or wrong; the message names the field.
    """
    try:
        return JobSpec.model_validate_json(path.read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        raise errors.InvalidInputError(
            f"The job {str(path)!r} cannot be read: {error}. Submit it again, with the version of "
            "webtraj that the cluster has."
        ) from error


async def _play(job: JobSpec, variables: dict[str, str]) -> RolloutSummary:
    plan = () if job.resume else _plan(job)
    return await collect_on_ray(
        plan,
        job.agent,
        out=job.save,
        storage_options=job.storage_options,
        agent_options=job.agent_options,
        environment_options=environment_options(
            plan, job.environment_options, await _channels(job)
        ),
        parallel=job.parallel,
        seed=job.seed,
        run_id=job.run_id,
        resume=job.resume,
        settings=RolloutSettings(
            max_steps=job.max_steps, retry=RetryPolicy(max_retries=job.max_retries)
        ),
        setup=functools.partial(prepare, tuple(job.imports)),
        variables=variables,
        observer=_Teller(),
        format=checked_format(job.format),
    )


async def _channels(job: JobSpec) -> list[str]:
    """Returns what browsers are to observe for the agent, if it says so, and for its records."""
    agent = catalog.make_agent(job.agent, seed=job.seed, options=job.agent_options)
    close = getattr(agent, "aclose", None)
    if close is not None:
        await close()
    return channels_for(agent)


def _plan(job: JobSpec) -> tuple[PlannedEpisode, ...]:
    specs: Iterable[TaskSpec]
    if job.source.endswith((".jsonl", ".parquet")):
        specs = read_tasks(job.source, storage_options=job.storage_options)
    else:
        specs = specs_of_presets(job.source.split(","))
    return plan_tasks(itertools.islice(itertools.cycle(specs), job.max_trajs), seed=job.seed)


class _Teller:
    """Says how far it is, seldom."""

    def __init__(self) -> None:
        self._rows = 0
        self._ended = 0

    def rollout_planned(self, plan: object) -> None:
        self._rows = len(tuple(plan))  # type: ignore[arg-type]

    def episode_ended(self, result: EpisodeResult) -> None:
        self._ended += 1
        if self._ended % max(self._rows // 20, 1) == 0:
            sys.stdout.write(f"{self._ended} episodes have ended; {self._rows} rows to play\n")
            sys.stdout.flush()


def take_variables(folder: Path) -> dict[str, str]:
    """Returns the variables that went along, and removes their file."""
    file = folder / "variables.json"
    if not file.exists():
        return {}
    variables: dict[str, str] = json.loads(file.read_bytes())
    file.unlink()
    return variables


def prepare(imports: Iterable[str]) -> None:
    """Makes a machine ready: imports modules, and removes the file of variables there.

    The machine is given the variables otherwise.

    Raises:
        InvalidInputError: There is no such module.
    """
    if importlib.util.find_spec(MODULE) is not None:
        (_folder() / "variables.json").unlink(missing_ok=True)
    for name in imports:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise errors.InvalidInputError(
                f"The module {name!r} cannot be imported on the cluster: {error}. Give the folder "
                "that it is in as --working-dir."
            ) from error


def _folder() -> Path:
    found = importlib.util.find_spec(MODULE)
    if found is None or found.origin is None:
        raise errors.InvalidInputError(
            f"There is no module {MODULE!r} that says what to do; submit a job by "
            "`webtraj ray submit`."
        )
    return Path(found.origin).parent


if __name__ == "__main__":
    main()
