"""`collect_on_ray`: run a rollout on several machines in one call."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents.base import Agent
from webtraj.datasets.place import create_place
from webtraj.datasets.recovery import recover
from webtraj.rollouts.collecting import Playable, episodes_on_record, keep_metrics, plan_of
from webtraj.rollouts.configuration.recipes import Player
from webtraj.rollouts.distributed.cluster import NodeSizing, RayCluster, connected
from webtraj.rollouts.distributed.driver import Driver
from webtraj.rollouts.distributed.node import Work
from webtraj.rollouts.making import Browsers, check_environments, check_tasks
from webtraj.rollouts.recording import EpisodeFormat, settle_format
from webtraj.rollouts.results import RolloutObserver, RolloutSummary, TeeRolloutObserver
from webtraj.rollouts.settings import RolloutSettings
from webtraj.runs.run import progress_of, run_of
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url, open_storage

if TYPE_CHECKING:
    from webtraj.rollouts.sampling import Blocklist
    from webtraj.store.index import EpisodeSummary

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
    lease: float = 30.0,
    join_timeout: float = 300.0,
    close_timeout: float = 60.0,
    blocklist: Blocklist | None = None,
    observer: RolloutObserver | None = None,
    browsers: Browsers | None = None,
    format: EpisodeFormat | None = None,  # noqa: A002
) -> RolloutSummary:
    """Run an agent on every machine of a Ray cluster and record all episodes in one store.

    This works like `rollouts.collect`, with the same plan on record. The calling process is the
    driver and must run on a machine of the cluster. Machines may join and leave meanwhile.

    Args:
        tasks: As for `collect`.
        agent: The name of an agent, or a factory called on each machine. It is pickled; a function
            from a module that the machines lack needs `runtime_env`.
        out: A bucket URL, or a folder at the same path on all machines. Each machine writes there
            itself.
        address: The cluster: `auto`, or the address of its head node.
        storage_options: For a bucket. They are sent to all machines; better keep credentials in
            the machines' environments.
        agent_options: For an agent by name.
        episodes: As for `collect`.
        attempts: As for `collect`.
        group_size: As for `collect`.
        parallel: How many episodes to play at a time on all machines together, distributed in
            proportion to their size; by default as many as they can bear. `settings.parallel` is
            ignored unless it is "auto" or an `Adaptive`: then each machine adjusts its number
            within that range, and up to what `sizing` allows.
        seed: The run's seed.
        run_id: Name of the run; a new one by default.
        resume: The id of a run in `out` to resume, or True for the latest. Nodes left behind by a
            crashed driver are ended first, and the machines' spools are sent.
        settings: Limits, order and retries. Order, politeness, retries, completion and the run's
            deadline apply to all machines together. Each machine gets a share, by its size, of
            `operations` and of the agent's requests per minute.
        environment_options: For the presets' factories.
        sizing: How many episodes a machine plays at a time.
        setup: Called first on each machine, for example to register presets.
        variables: Environment variables to set on each machine. Unlike those of `runtime_env`, they
            are not logged.
        runtime_env: Ray's runtime environment: modules and variables that machines need.
        lease: Seconds of silence after which driver and node give each other up.
        join_timeout: Seconds to wait for a machine, and for a node to start.
        close_timeout: Seconds that a closing node has to send its spool.
        blocklist: Receives the sites that refused the agent.
        observer: Called when episodes end.
        browsers: Browser settings of each machine.
        format: As for `collect`.

    Returns:
        Every recorded result, including earlier ones of a resumed run. Of several tries at a row,
        `webtraj.store.tries` says which one counts.

    Raises:
        InvalidInputError: An argument is invalid, or no cluster runs at that address.
        MissingDependencyError: Ray is not installed.
        RolloutStoppedError: Too many episodes in a row failed, or no machine is left.
        CollectorError: Some episodes have not reached the store; they are in the machines' spools.
        WebtrajError: An error that would end every other machine too.
    """
    if lease <= 0 or (parallel is not None and parallel < 1):
        raise errors.InvalidInputError(
            "lease must be more than 0 s, and parallel 1 or more; got "
            f"lease={lease}, parallel={parallel}."
        )
    is_made = hasattr(agent, "begin_episode") and not isinstance(agent, type)
    if is_made or not (isinstance(agent, str) or callable(agent)):
        raise errors.InvalidInputError(
            f"On several machines, the agent is a name or a function that makes one there; got "
            f"{agent!r:.100}. Pass `lambda: MyAgent(...)`."
        )
    settings = settings or RolloutSettings()
    observer = TeeRolloutObserver(observer, blocklist)
    place = _place(out)
    plan = (
        ()
        if resume
        else plan_of(tasks, episodes=episodes, attempts=attempts, seed=seed, group_size=group_size)
    )
    await check_environments(plan, environment_options or {}, elsewhere=True)
    if isinstance(agent, str):
        agent = Player(agent, dict(agent_options or {}), seed)
    if isinstance(agent, Player) and agent.name == "oracle":  # Others may not load here.
        await check_tasks(plan, agent.make(), environment_options or {}, elsewhere=True)
    async with connected(address, runtime_env):
        storage = open_storage(place, storage_options)
        retries = settings.retry.max_retries
        run = run_of(storage, run_id=run_id, resume=resume, max_retries=retries)
        if resume:
            plan = run.read_plan()
            written = settle_format(format, place, storage_options, run=run)
        else:
            written = settle_format(format, place, storage_options)
            if not is_url(place):
                create_place(place, DatasetHeader(format=written))  # A plan alone is not a dataset.
            about = {**dataclasses.asdict(settings), "format": written}
            run.write_plan(plan, seed=seed, settings=about)
        work = Work(
            run_id=run.run_id,
            out=place,
            agent=agent,
            storage_options=None if storage_options is None else dict(storage_options),
            environment_options=dict(environment_options or {}),
            format=written,
            browsers=browsers or Browsers(),
            settings=settings,
            setup=setup,
            variables=dict(variables or {}),
            lease=lease,
            join_timeout=join_timeout,
            close_timeout=close_timeout,
        )
        cluster = RayCluster(work, sizing or NodeSizing(), runtime_env)
        driver = Driver(cluster=cluster, work=work, observer=observer, parallel=parallel)
        start = time.perf_counter()
        async with driver:
            summaries: Sequence[EpisodeSummary] = ()
            if resume:
                await cluster.end_nodes_of_before()
                await driver.gather()
                summaries = await asyncio.to_thread(episodes_on_record, place, storage_options)
            progress = progress_of(run, plan, summaries, settings.retry)
            session = run.begin_session(resumed=bool(resume))
            observer.rollout_planned([turn.planned for turn in progress.left])
            results = await driver.play(progress.left, session=session)
        if driver.lost_nodes:  # Some crashed before they could write their index lines.
            with contextlib.suppress(errors.NotADatasetError):
                await asyncio.to_thread(recover, place, storage_options=storage_options)
        seconds = time.perf_counter() - start
    await asyncio.to_thread(keep_metrics, run, place, storage_options)
    return RolloutSummary(
        results=(*progress.done, *results), seconds=seconds, earlier=len(progress.done)
    )


def _place(out: str | os.PathLike[str]) -> str:
    """Return the store's path or URL, the same on all machines."""
    return os.fspath(out) if is_url(out) else str(Path(out).absolute())
