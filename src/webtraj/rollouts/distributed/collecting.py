"""`collect_on_ray`: a rollout on many machines in one call."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import catalog
from webtraj.agents.base import Agent
from webtraj.datasets.place import create_place
from webtraj.rollouts.collecting import Playable, keep_metrics, plan_of
from webtraj.rollouts.distributed.cluster import NodeSizing, RayCluster, connected
from webtraj.rollouts.distributed.driver import Driver
from webtraj.rollouts.distributed.ledger import Record
from webtraj.rollouts.distributed.messages import Work
from webtraj.rollouts.making import Browsers, check_environments, check_tasks
from webtraj.rollouts.recording import EpisodeFormat, settle_format
from webtraj.rollouts.results import NullRolloutObserver, RolloutObserver, RolloutSummary
from webtraj.rollouts.runs import Progress, Run, new_run_id, progress_of
from webtraj.rollouts.scheduling import Turn
from webtraj.rollouts.settings import RolloutSettings
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.rollouts.sampling import Blocklist

__all__ = ["collect_on_ray"]


async def collect_on_ray(
    tasks: Playable,
    agent: str | Callable[[], Agent],
    *,
    out: str | os.PathLike[str],
    address: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
    agent_options: Mapping[str, Any] | None = None,
    episodes: int | None = None,
    attempts: int = 1,
    group_size: int = 1,
    parallel: int | None = None,
    seed: int = 0,
    run_id: str | None = None,
    resume: bool | str = False,
    settings: RolloutSettings | None = None,
    environment_options: Mapping[str, Any] | None = None,
    sizing: NodeSizing | None = None,
    setup: Callable[[], object] | None = None,
    variables: Mapping[str, str] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    rows_per_lease: int = 8,
    lease: float = 30.0,
    join_timeout: float = 300.0,
    close_timeout: float = 60.0,
    blocklist: Blocklist | None = None,
    observer: RolloutObserver | None = None,
    browsers: Browsers | None = None,
    format: EpisodeFormat | None = None,  # noqa: A002
) -> RolloutSummary:
    """Lets an agent play episodes on every machine of a Ray cluster, and records them in one store.

    Does what `rollouts.collect` does, with the same plan on record. The calling process is the
    driver, and must run on a machine of the cluster. Machines may come and go meanwhile.

    Args:
        tasks: As for `collect`.
        agent: Who plays: the name of an agent, or what makes one on each machine. What machines get
            is pickled; a function of a module that they do not have needs `runtime_env`.
        out: A bucket's URL, or a folder that all machines have at the same path. Each is a writer
            of its own there.
        address: The cluster: `auto`, or the address of its head.
        storage_options: For a bucket. They go to all machines; credentials are better in their
            environments.
        agent_options: For an agent by name.
        episodes: As for `collect`.
        attempts: As for `collect`.
        group_size: As for `collect`.
        parallel: How many to play at a time on all machines together, shared out in proportion to
            their size; by default as many as they can. Of `settings.parallel` nothing is looked at
            but whether it is "auto" or an `Adaptive`: then each machine plays as many as it can
            bear, within that range, and up to what `sizing` says.
        seed: The run's seed.
        run_id: Names the run; by default a new name.
        resume: Whether to go on with a run of `out`: its id, or True for the latest. Nodes that a
            dead driver has left behind are ended first, and what waits in the spools of the
            machines is sent.
        settings: How to play. Order, politeness, retries, completion and the run's deadline hold
            for all machines together. Of `operations`, and of what an agent may ask its model by
            the minute, each machine has its part by its size.
        environment_options: For the presets' factories.
        sizing: How many episodes a machine plays at once.
        setup: Called first on each machine, to register presets for example.
        variables: Environment variables to set on each machine. They are not logged, as those of
            `runtime_env` are.
        runtime_env: Ray's: what machines need to have of the caller's modules and variables.
        rows_per_lease: How many rows a node is given at a time and lane, at most.
        lease: Seconds of silence after which driver and node give each other up.
        join_timeout: Seconds to wait for a machine, and for a node to begin.
        close_timeout: Seconds that a node has, at its end, to send what waits in its spool.
        blocklist: Takes the sites that refused the agent.
        observer: Is told what happens.
        browsers: What pages come from, on each machine.
        format: As for `collect`.

    Returns:
        Every result on record, those of a resumed run's earlier episodes included. Of several
        tries at one row, `rollouts.runs.counting` says which counts.

    Raises:
        InvalidInputError: An argument is wrong, or there is no cluster at that address.
        MissingDependencyError: Ray is not installed.
        RolloutStoppedError: Too many episodes failed one after the other, or there is no machine to
            play on any more.
        CollectorError: What was played has not come to the store; it is in the machines' spools.
        WebtrajError: What no machine would be spared.
    """
    if lease <= 0 or rows_per_lease < 1 or (parallel is not None and parallel < 1):
        raise errors.InvalidInputError(
            "A lease lasts more than 0 s and has 1 row or more, and 1 episode or more is played at "
            f"a time; got lease={lease}, rows_per_lease={rows_per_lease}, parallel={parallel}."
        )
    settings = settings or RolloutSettings()
    observer = observer or NullRolloutObserver()
    place = _place(out)
    plan = (
        ()
        if resume
        else plan_of(tasks, episodes=episodes, attempts=attempts, seed=seed, group_size=group_size)
    )
    await check_environments(plan, environment_options or {}, elsewhere=True)
    if agent == "oracle":  # Others by name play any task, or need what this machine may lack.
        await check_tasks(
            plan, catalog.make_agent("oracle"), environment_options or {}, elsewhere=True
        )
    async with connected(address, runtime_env):
        storage = open_storage(place, storage_options)
        if resume:
            run = Run(storage, resume) if isinstance(resume, str) else Run.last(storage)
            plan = run.read_plan()
            written = settle_format(format, place, storage_options, run=run)
        else:
            written = settle_format(format, place, storage_options)
            if not is_url(place):
                create_place(place, DatasetHeader(format=written))  # A plan alone makes no dataset.
            run = Run(storage, run_id or new_run_id())
            about = {**dataclasses.asdict(settings), "format": written}
            run.write_plan(plan, seed=seed, settings=about)
        work = Work(
            run_id=run.run_id,
            out=place,
            agent=agent,
            seed=seed,
            agent_options=dict(agent_options or {}),
            storage_options=None if storage_options is None else dict(storage_options),
            environment_options=dict(environment_options or {}),
            format=written,
            browsers=browsers or Browsers(),
            settings=settings,
            setup=setup,
            variables=dict(variables or {}),
            lease=lease,
            close_timeout=close_timeout,
        )
        cluster = RayCluster(
            work, sizing or NodeSizing(), runtime_env=runtime_env, open_timeout=join_timeout
        )
        record = Record(place, storage_options)
        driver = Driver(
            cluster=cluster,
            run=run,
            record=record,
            settings=settings,
            observer=observer,
            lease=lease,
            parallel=parallel,
            rows_per_lease=rows_per_lease,
            join_timeout=join_timeout,
            blocklist=blocklist,
        )
        start = time.perf_counter()
        async with driver:
            progress = Progress((), tuple(Turn(planned=planned) for planned in plan))
            if resume:
                await cluster.end_nodes_of_before()
                await driver.gather()
                summaries = await asyncio.to_thread(record.summaries)
                progress = progress_of(run, plan, summaries, settings.retry)
            session = run.begin_session(resumed=bool(resume))
            observer.rollout_planned([turn.planned for turn in progress.left])
            results = await driver.play(progress.left, session=session)
        if driver.lost_nodes:
            await asyncio.to_thread(record.complete)
        seconds = time.perf_counter() - start
    await asyncio.to_thread(keep_metrics, run, place, storage_options)
    return RolloutSummary(results=(*progress.done, *results), seconds=seconds)


def _place(out: str | os.PathLike[str]) -> str:
    """Returns the store's name, the same on all machines."""
    return os.fspath(out) if is_url(out) else str(Path(out).absolute())
