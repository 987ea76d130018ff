"""`explore`: a guided crawl in one call, from coarse tasks to concrete ones.

Two things are kept in one place: the episodes, as any rollout records them, and the tasks that are
proposed for what they saw. Exploring is a run that `resume` goes on with; proposing comes after it,
and does what has not been done. So a crawl that died anywhere is begun again with `resume`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.exploring.checking import Proposer
from webtraj.exploring.proposing import Proposed, Record, propose
from webtraj.exploring.seen import CHANNELS
from webtraj.rollouts.collecting import collect
from webtraj.rollouts.recording import EpisodeFormat
from webtraj.rollouts.results import RolloutObserver, RolloutSummary
from webtraj.rollouts.runs import Run, new_run_id
from webtraj.rollouts.settings import RolloutSettings
from webtraj.store.places import open_storage
from webtraj.tasks import TaskSpec

if TYPE_CHECKING:
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["Exploration", "explore", "require_coarse"]

_MAX_STEPS = 15
_MAX_REPETITIVE_ACTIONS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Exploration:
    """What came of a crawl."""

    run_id: str
    """The run's name."""
    summary: RolloutSummary
    """How the exploring episodes ended, those of a resumed run included."""
    proposed: Proposed
    """What was proposed for them."""


async def explore(
    tasks: Iterable[TaskSpec],
    agent: agents_lib.Agent,
    proposer: Proposer,
    *,
    out: str | os.PathLike[str],
    run_id: str | None = None,
    resume: bool | str = False,
    attempts: int = 1,
    proposals: int = 3,
    parallel: int = 1,
    seed: int = 0,
    max_steps: int = _MAX_STEPS,
    settings: RolloutSettings | None = None,
    storage_options: Mapping[str, Any] | None = None,
    environment_options: Mapping[str, Any] | None = None,
    browser_pool: BrowserPool | None = None,
    observer: RolloutObserver | None = None,
    format: EpisodeFormat | None = None,  # noqa: A002
    on_proposals: Callable[[Record], None] | None = None,
) -> Exploration:
    """Explore sites and proposes tasks for what was seen there.

    Args:
        tasks: Coarse tasks: a site, and roughly what may be done there. Ignored on `resume`.
        agent: Who explores. It is left open.
        proposer: Who proposes. It is left open.
        out: The dataset: a folder, or a bucket's URL.
        run_id: Names the run; by default a new name.
        resume: Whether to go on with a run of `out`: its id, or True for the latest.
        attempts: How often each task is explored, with other seeds.
        proposals: How many tasks an episode may give.
        parallel: How many episodes are played at a time, and how many proposed for.
        seed: The run's seed.
        max_steps: Truncates an episode after so many steps; a task's own limit goes before it.
        settings: How to play, beside those two; by default an agent that does the same more than
            three times in a row ends its episode.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
        environment_options: For the presets' factories.
        browser_pool: Shared and left open; by default one is made.
        observer: Is told of the exploring.
        format: "json", "pb" or "pb.zst", what episodes are written as; by default that of the
            dataset, "json" for a new one.
        on_proposals: Is called with each episode's proposals.

    Raises:
        InvalidInputError: A task is not coarse, or another argument is wrong.
        Exception: What `webtraj.rollouts.collect` and `webtraj.exploring.propose` raise.
    """
    coarse = () if resume else require_coarse(tasks)
    if resume:
        run = (
            resume
            if isinstance(resume, str)
            else Run.last(open_storage(out, storage_options)).run_id
        )
    else:
        run = run_id or new_run_id()
    channels = dict.fromkeys((*getattr(agent, "channels", ()), *CHANNELS, "timings", "info"))
    base = settings or RolloutSettings(max_repetitive_actions=_MAX_REPETITIVE_ACTIONS)
    summary = await collect(
        coarse,
        agent,
        attempts=attempts,
        parallel=parallel,
        seed=seed,
        out=out,
        storage_options=storage_options,
        run_id=None if resume else run,
        resume=run if resume else False,
        max_steps=max_steps,
        settings=base,
        environment_options={"observe": list(channels), **(environment_options or {})},
        browser_pool=browser_pool,
        observer=observer,
        format=format,
    )
    proposed = await propose(
        out,
        proposer,
        run=run,
        proposals=proposals,
        parallel=parallel,
        storage_options=storage_options,
        on_episode=on_proposals,
    )
    return Exploration(run, summary, proposed)


def require_coarse(tasks: Iterable[TaskSpec]) -> tuple[TaskSpec, ...]:
    """Return tasks that can be explored.

    Raises:
        InvalidInputError: There is none, or one is no coarse task.
    """
    coarse = tuple(tasks)
    if not coarse:
        raise errors.InvalidInputError("There is no task to explore; give at least one.")
    for task in coarse:
        if not task.coarse:
            raise errors.InvalidInputError(
                f"The task {task.name!r:.100} is no coarse one. Exploring takes rows with a site's "
                "url and a description of what may be done there, or with coarse=true; "
                "`webtraj rollout` plays the others."
            )
    return coarse
