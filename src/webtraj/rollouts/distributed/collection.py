"""`collect_on_ray`: run a rollout on several machines in one call."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from webtraj import errors
from webtraj.agents.base import Agent
from webtraj.datasets.place import create_place
from webtraj.datasets.recovery import recover
from webtraj.rollouts.configuration.builder import build_rollout
from webtraj.rollouts.configuration.ranks import check_no_ranks
from webtraj.rollouts.distributed.cluster import RayCluster, connect
from webtraj.rollouts.distributed.driver import Driver
from webtraj.rollouts.distributed.node import Cluster, Work
from webtraj.rollouts.episode_environment import check_environments, check_tasks
from webtraj.rollouts.results import RolloutObserver, RolloutSummary
from webtraj.rollouts.rollout import Rollout, episodes_on_record
from webtraj.rollouts.scheduler import RetryPolicy
from webtraj.runs.run import progress_of
from webtraj.runs.spec import RunSpec
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary

__all__ = ["collect_on_ray", "play_on_ray"]


async def collect_on_ray(
    spec: RunSpec,
    *,
    agent: Callable[[], Agent] | None = None,
    cluster: Cluster | None = None,
    observer: RolloutObserver | None = None,
    run_id: str | None = None,
    resume: bool | str = False,
) -> RolloutSummary:
    """Run an agent on every machine of a Ray cluster and record all episodes in one store.

    This works like `rollouts.collect`, with the same plan on record. The calling process is the
    driver and must run on a machine of the cluster. Machines may join and leave meanwhile.

    Args:
        spec: The settings. `out` is a bucket URL, or a folder at the same path on all machines;
            each machine writes there itself. `parallel` counts all machines together, distributed
            in proportion to their size; by default, or if "auto", as many as each can handle.
            Order, politeness, retries, completion and the run's deadline apply to all machines
            together. Each machine gets a share, by its size, of `operation_limits` and of the
            agent's requests per minute.
        agent: Makes an agent of your own on each machine. It is pickled; a function from a module
            that the machines lack needs `runtime_env`.
        cluster: The cluster; the one that this machine is part of by default.
        observer: Called when episodes end.
        run_id: Name of the run in `out`; a new one by default.
        resume: The id of a run in `out` to resume, or True for the latest. Nodes that a crashed
            driver left end first, within `lease`, and the machines' spools are sent.

    Returns:
        Every recorded result, including earlier ones of a resumed run. Of several tries at a row,
        `webtraj.store.tries` says which one counts.

    Raises:
        InvalidInputError: A setting is invalid, or no cluster runs at that address.
        MissingDependencyError: Ray is not installed.
        RolloutStoppedError: Too many episodes in a row failed, or no machine is left.
        CollectorError: Some episodes have not reached the store; they are in the machines' spools.
        WebtrajError: An error that would end every other machine too.
    """
    is_made = hasattr(agent, "begin_episode") and not isinstance(agent, type)
    if is_made or not (agent is None or callable(agent)):
        raise errors.InvalidInputError(
            "On several machines, the agent is a name in the RunSpec, or a function that makes "
            f"one there; got {agent!r:.100}. Pass `lambda: MyAgent(...)`."
        )
    rollout = await asyncio.to_thread(
        build_rollout, spec, run_id=run_id, resume=resume, agent_factory=agent
    )
    player = functools.partial(play_on_ray, cluster or Cluster())
    return await rollout.play(observer=observer, player=player)


async def play_on_ray(
    cluster: Cluster, rollout: Rollout, observer: RolloutObserver
) -> RolloutSummary:
    """Play a rollout's remaining episodes on a cluster. See `Rollout.only_play`."""
    spec, options = rollout.spec, rollout.environment_options
    if rollout.run is None:
        raise errors.InvalidInputError(
            "On several machines, out is needed: a bucket URL, or a folder that all of them share."
        )
    check_no_ranks(spec)
    if not rollout.resume:
        await check_environments(rollout.plan, options, elsewhere=True)
        if rollout.agent is not None and rollout.agent.name == "oracle":  # Others may not load.
            await check_tasks(rollout.plan, rollout.agent, options, elsewhere=True)
    async with connect(cluster):
        out = _same_everywhere(rollout.out)
        written = rollout.settle_format()
        if not rollout.resume:
            if not is_url(out):
                create_place(out, DatasetHeader(format=written))  # A plan alone is not a dataset.
            rollout.write_plan(written)
        work = Work(
            run_id=rollout.run_id,
            spec=rollout.spec.model_copy(update={"out": out, "format": written}),
            agent=rollout.agent_factory,
            environment_options=dict(options),
            cluster=cluster,
        )
        start = time.perf_counter()
        async with Driver(cluster=RayCluster(work), work=work, observer=observer) as driver:
            # First, so that a driver that is still alive makes way.
            session = driver.run.begin_session(resumed=rollout.resume)
            summaries: Sequence[EpisodeSummary] = ()
            if rollout.resume:
                await driver.gather()
                summaries = await asyncio.to_thread(
                    episodes_on_record, out, rollout.storage_options
                )
            retry = RetryPolicy.of(rollout.spec)
            progress = progress_of(driver.run, rollout.plan, summaries, retry)
            observer.rollout_planned([turn.planned for turn in progress.left])
            results = await driver.play(progress.left, session=session)
        if driver.lost_nodes:  # Some crashed before they could write their index lines.
            with contextlib.suppress(errors.NotADatasetError):
                await asyncio.to_thread(recover, out, storage_options=rollout.storage_options)
    return RolloutSummary(
        results=(*progress.done, *results),
        seconds=time.perf_counter() - start,
        earlier=len(progress.done),
    )


def _same_everywhere(out: str) -> str:
    """Return the store's path or URL, the same on all machines."""
    return out if is_url(out) else str(Path(out).absolute())
