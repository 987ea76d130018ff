"""Labels for free: trajectories of tasks whose environment knows what they are worth.

Policies of four kinds play the same tasks with the same seeds, so that for most tasks there are
successes and failures that look alike at first sight:

* `oracle` does what solves the task;
* `hasty` does the first action of that, and then says that it is done;
* `claiming` says at once that it is done;
* `random` does anything.

The label is what the environment found (MiniWoB++'s rewards, the fixture site's state), not what
the policy was meant to bring about: at random some tasks are solved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents.base import Actor, Agent
from webtraj.agents.oracle import OracleAgent
from webtraj.agents.random import RandomAgent
from webtraj.environments import actions
from webtraj.environments import base as environment_lib
from webtraj.judging.quality import Label, labels_of_dataset
from webtraj.trajectory import Decision

if TYPE_CHECKING:
    from webtraj.environments.browser.pool import BrowserPool

__all__ = ["POLICIES", "HastyAgent", "collect_labelled"]

_CLAIM = "I have done what was asked for."
_RANDOM_STEPS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class HastyAgent:
    """Plays the first actions of another agent, then claims to be done."""

    agent: Agent
    after: int = 1
    """How many actions it takes from the other agent; with 0 it only claims."""
    claim: str = _CLAIM
    name: str = "hasty"

    def begin_episode(self, environment: environment_lib.Environment) -> Actor:
        """Returns an actor in as much of a hurry."""
        return _HastyActor(self.agent.begin_episode(environment), self.after, self.claim)


@dataclasses.dataclass(slots=True)
class _HastyActor:
    actor: Actor
    left: int
    claim: str

    async def act(self, observation: Any) -> Any:
        if not self.left:
            return Decision(action=actions.Answer(self.claim))
        self.left -= 1
        return await self.actor.act(observation)


POLICIES: Mapping[str, Callable[[int], Agent]] = {
    "oracle": lambda seed: OracleAgent(),
    "hasty": lambda seed: HastyAgent(OracleAgent()),
    "claiming": lambda seed: HastyAgent(RandomAgent(seed), after=0, name="claiming"),
    "random": RandomAgent,
}
"""The policies by name, each made from a seed."""


async def collect_labelled(
    out: str | os.PathLike[str],
    tasks: str | Sequence[str],
    *,
    policies: Sequence[str] = tuple(POLICIES),
    attempts: int = 1,
    seed: int = 0,
    parallel: int = 4,
    random_steps: int = _RANDOM_STEPS,
    environment_options: Mapping[str, Any] | None = None,
    browser_pool: BrowserPool | None = None,
) -> dict[str, Label]:
    """Has each policy play each task, and returns the labels of what is in the dataset then.

    Args:
        out: The dataset, as `webtraj.rollouts.collect` takes it; one that is there is added to.
        tasks: Presets of MiniWoB++ or the fixture site, or of another environment that knows.
        policies: Names out of `POLICIES`.
        attempts: How often each policy plays each task, each time with another seed.
        seed: The run's seed, the same for every policy.
        parallel: How many episodes are played at a time.
        random_steps: After how many steps the random policy is stopped.
        environment_options: For the presets: `{"observe": [...]}`, for example.
        browser_pool: Shared and left open.

    Returns:
        The labels of all episodes of the dataset whose environment knew. An episode that an error
        ended has none.

    Raises:
        InvalidInputError: There is no policy of that name, or `collect` does not take the rest.
    """
    from webtraj.datasets.dataset import open_dataset
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.rollouts import RunSpec, collect

    for name in policies:
        if name not in POLICIES:
            raise errors.InvalidInputError(
                f"There is no policy {name!r}; expected some of {', '.join(POLICIES)}."
            )
    async with contextlib.AsyncExitStack() as stack:
        pool = browser_pool or await stack.enter_async_context(BrowserPool(1, parallel))
        for name in policies:
            await collect(
                RunSpec(
                    preset=tasks,
                    attempts=attempts,
                    seed=seed,
                    out=out,
                    parallel=parallel,
                    max_steps=random_steps if name == "random" else None,
                    environment_options=environment_options,
                ),
                agent=POLICIES[name](seed),
                pool=pool,
            )
    labels = labels_of_dataset(open_dataset(out))
    return {
        episode_id: dataclasses.replace(label, source="environment")
        for episode_id, label in labels.items()
    }
