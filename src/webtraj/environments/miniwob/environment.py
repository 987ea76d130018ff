"""The MiniWoB++ environment: pages, tasks and scoring."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from webtraj import errors as errors_lib
from webtraj.environments.browser import (
    environment as environment_lib,
)
from webtraj.environments.browser import (
    network as network_lib,
)
from webtraj.environments.browser import (
    observation as observation_lib,
)
from webtraj.environments.browser import perturbations as perturbations_lib
from webtraj.environments.browser import (
    pool as pool_lib,
)
from webtraj.environments.browser import (
    session as session_lib,
)
from webtraj.environments.browser import settle_policy as settle_policy_lib
from webtraj.environments.browser import (
    tasks as browser_tasks_lib,
)
from webtraj.environments.miniwob import tasks as tasks_lib

if TYPE_CHECKING:
    from webtraj.environments.miniwob.oracles import Solution

__all__ = [
    "MiniwobEnvironment",
    "MiniwobTask",
    "RewardKind",
    "SUCCESS_RULES",
    "judge",
    "success_rule",
]

# Scoring of a MiniWoB++ episode.
#
# A page gives a raw reward, mostly 1 or -1 and sometimes a fraction, and scales it down by the time
# taken. Time limits are lifted here, so wall time has no effect; the reward under the page's own
# limit is kept beside the raw reward.

RewardKind = Literal["raw", "scaled", "binary"]
"""The kind of `TimeStep.reward`: the page's raw reward; the raw reward scaled by wall time, as the
page does; or 1.0 for success and 0.0 otherwise."""

SUCCESS_RULES: Final[Mapping[str, Callable[[float], bool]]] = MappingProxyType(
    {
        "full": lambda raw: raw >= 1.0,
        "positive": lambda raw: raw > 0.0,
    }
)
"""Rules from raw reward to success. `full` is the default; `positive` is BrowserGym's, which counts
a reward of 0.1 as solved."""


def success_rule(name: str) -> Callable[[float], bool]:
    """Return the success rule of that name.

    Raises:
        InvalidInputError: The name is unknown.
    """
    if name not in SUCCESS_RULES:
        raise errors_lib.InvalidInputError(
            f"success must be one of {', '.join(SUCCESS_RULES)}; got {name!r}."
        )
    return SUCCESS_RULES[name]


def judge(
    state: Mapping[str, Any], *, reward: RewardKind, success: Callable[[float], bool]
) -> browser_tasks_lib.Verdict:
    """Return the verdict on an episode from `page.js`'s state."""
    raw, scaled, done = float(state["raw"]), float(state["scaled"]), bool(state["done"])
    succeeded = done and success(raw)
    rewards = {"raw": raw, "scaled": scaled, "binary": float(succeeded)}
    return browser_tasks_lib.Verdict(
        done=done,
        reward=rewards[reward] if done else 0.0,
        success=succeeded,
        raw_reward=raw,
        scaled_reward=scaled,
        reason=state["reason"],
    )


VIEWPORT: Final = (332, 214)
"""The task's 160 by 210 pixels plus room for menus; BrowserGym's size."""

_TIME_LIMIT_MS: Final = 1_000_000_000
"""Eleven days. Timers of 2**31 ms and more fire at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class MiniwobTask(browser_tasks_lib.BrowserTask):
    """One MiniWoB++ page as a `BrowserTask`."""

    page: str
    """The page's name: `click-test`."""
    reward: RewardKind = "raw"
    success: Callable[[float], bool] = SUCCESS_RULES["full"]

    site = "miniwob"
    hidden = "#query"  # The query is the goal, which has its own channel.
    shares_context = True  # The pages store nothing, and each episode loads its page anew.

    @property
    def name(self) -> str:
        """See `BrowserTask.name`."""
        return f"miniwob/{self.page}"

    @property
    def script(self) -> str:
        """See `BrowserTask.script`."""
        return tasks_lib.task_script()

    @property
    def local_sites(self) -> network_lib.LocalSites:
        """The origin that serves the pages. See `BrowserTask`."""
        return tasks_lib.LOCAL_SITES

    @property
    def max_steps(self) -> int:
        """See `BrowserTask.max_steps`."""
        return tasks_lib.MAX_STEPS.get(self.page, tasks_lib.MOST_STEPS)

    @property
    def has_solution(self) -> bool:
        """See `BrowserTask.has_solution`."""
        from webtraj.environments.miniwob import oracles as oracles_lib  # Not for other agents.

        return oracles_lib.has_oracle(self.page)

    async def setup(self, session: session_lib.BrowserSession, seed: int) -> Mapping[str, Any]:
        """See `BrowserTask.setup`."""
        # A restart in the page would keep what its scripts and fields remember: widgets, timers,
        # and that a field was typed into, which hides the text that it is given later.
        await session.open(tasks_lib.page_url(self.page))
        return {"seed": seed, "time_limit": _TIME_LIMIT_MS}

    def goal_of(self, begun: Any) -> str:
        """See `BrowserTask.goal_of`."""
        return str(begun["goal"])

    async def validate(
        self, session: session_lib.BrowserSession, state: Any, answer: str | None
    ) -> browser_tasks_lib.Verdict:
        """See `BrowserTask.validate`."""
        return judge(state, reward=self.reward, success=self.success)

    def solve(self, session: session_lib.BrowserSession, goal: str) -> Solution:
        """See `BrowserTask.solve`."""
        from webtraj.environments.miniwob import oracles as oracles_lib

        return oracles_lib.solve(self.page, oracles_lib.PageView(session, goal=goal))


class MiniwobEnvironment(environment_lib.BrowserEnvironment):
    """An environment of MiniWoB++ tasks; each `reset` starts the next one.

    The same task and seed give the same page. Wall time affects only tasks about time
    (`stock-market`). The browser has no network.

    Args:
        tasks: A task's name, or several: `click-test` (see `miniwob.tasks.TASKS`).
        seed: Episode k, counted over all resets, uses the seed `seed + k`.
        pool: The browser pool; None shares one (see `BrowserEnvironment`).
        observe: Channels to observe, or an `Observe`; None for the default channels.
        max_steps: The step limit, after which an episode is truncated; None for no limit. By
            default 10, or more for tasks that need more (see `tasks.MAX_STEPS`).
        reward: The kind of `TimeStep.reward` (see `RewardKind`).
        success: The rule from raw reward to success (see `SUCCESS_RULES`).
        settle: When a page counts as settled after an action.
        viewport: Width and height in CSS pixels.
        perturbation: A change of the tasks' surroundings (see `BrowserEnvironment`).

    Raises:
        InvalidInputError: A task is unknown, or an option is invalid.
        MissingDependencyError: The `miniwob` package is not installed.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        seed: int = 0,
        pool: pool_lib.BrowserPool | None = None,
        observe: observation_lib.Observe | Iterable[str] | None = None,
        max_steps: int | Literal["task"] | None = "task",
        reward: RewardKind = "raw",
        success: str = "full",
        settle: settle_policy_lib.SettlePolicy = settle_policy_lib.LOCAL_PAGE,
        viewport: tuple[int, int] = VIEWPORT,
        perturbation: perturbations_lib.Perturbation | str | None = None,
    ) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        for name in names:
            _require_known(name)
        tasks_lib.html_folder()  # Report a missing package at once.
        rule = success_rule(success)
        if reward not in ("raw", "scaled", "binary"):
            raise errors_lib.InvalidInputError(
                f"reward must be 'raw', 'scaled' or 'binary'; got {reward!r}."
            )
        self._pages = [MiniwobTask(name, reward, rule) for name in names]
        super().__init__(
            self._pages,
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            settle=settle,
            viewport=viewport,
            perturbation=perturbation,
            # The passwords are synthetic and appear in the goals.
            redact_passwords=False,
        )

    @property
    def page_name(self) -> str:
        """The MiniWoB++ page of the current episode. Before the first episode, its page."""
        return self._pages[max(self._episode, 0) % len(self._pages)].page

    def _versions(self) -> dict[str, str]:
        return {**super()._versions(), "miniwob": tasks_lib.package_version()}


def _require_known(name: str) -> None:
    if name in tasks_lib.TASKS:
        return
    near = difflib.get_close_matches(name, tasks_lib.TASKS, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise errors_lib.InvalidInputError(
        f"MiniWoB++ has no task {name!r}; webtraj.environments.miniwob.tasks.TASKS lists all "
        f"{len(tasks_lib.TASKS)}.{hint}"
    )
