"""The MiniWoB++ environment: pages of the `miniwob` package, seeded, offline, with real rewards."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import dm_env

from webtraj import errors as errors_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser import environment as environment_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import pool as pool_lib
from webtraj.environments.browser import settling as settling_lib
from webtraj.environments.browser import tasks as browser_tasks_lib
from webtraj.environments.miniwob import oracles as oracles_lib
from webtraj.environments.miniwob import pages as pages_lib
from webtraj.environments.miniwob import scoring as scoring_lib
from webtraj.environments.miniwob import tasks as tasks_lib

__all__ = ["MiniwobEnvironment", "MiniwobTask"]

VIEWPORT: Final = (332, 214)
"""The task's 160 by 210 pixels, and room for menus that open beyond them; BrowserGym's size."""

_TIME_LIMIT_MS: Final = 1_000_000_000
"""Eleven days. Timers of 2**31 ms and more fire at once."""

_RELOADED: Final = frozenset(
    {
        # jQuery UI keeps state that a restart in the page does not put back.
        "drag-items",
        "drag-items-grid",
        "drag-sort-numbers",
        "form-sequence",
        "use-slider",
        "use-slider-2",
        # So do date pickers and colour pickers that were left open, and the cube that was turned.
        "choose-date",
        "choose-date-easy",
        "choose-date-medium",
        "choose-date-nodelay",
        "drag-cube",
        "search-engine",
        "use-spinner",
        "use-colorwheel",
        "use-colorwheel-2",
        # Timers of one episode run on into the next.
        "book-flight",
        "book-flight-nodelay",
        "click-pie",
        "click-pie-nodelay",
        "stock-market",
        "terminal",
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class MiniwobTask:
    """One MiniWoB++ page as a `PageTask`."""

    page: str
    """The page's name: `click-test`."""
    reward: scoring_lib.RewardKind = "raw"
    success: Callable[[float], bool] = scoring_lib.SUCCESS_RULES["full"]

    @property
    def name(self) -> str:
        """See `PageTask.name`."""
        return f"miniwob/{self.page}"

    @property
    def url(self) -> str:
        """See `PageTask.url`."""
        return pages_lib.page_url(self.page)

    @property
    def script(self) -> str:
        """See `PageTask.script`."""
        return pages_lib.task_script()

    @property
    def hidden(self) -> str:
        """See `PageTask.hidden`. The query is the goal, which is a channel of its own."""
        return "#query"

    @property
    def reload(self) -> bool:
        """See `PageTask.reload`."""
        return self.page in _RELOADED

    def begin(self, seed: int) -> Mapping[str, Any]:
        """See `PageTask.begin`."""
        return {"seed": seed, "time_limit": _TIME_LIMIT_MS}

    def goal(self, begun: Any) -> str:
        """See `PageTask.goal`."""
        return str(begun["goal"])

    def judge(self, state: Any) -> browser_tasks_lib.Verdict:
        """See `PageTask.judge`."""
        return scoring_lib.judge(state, reward=self.reward, success=self.success)


class MiniwobEnvironment(environment_lib.BrowserEnvironment):
    """Plays MiniWoB++ tasks, each `reset` the next of them.

    The same task and seed give the same page. Nothing depends on wall time but tasks that are
    themselves about time (`stock-market`). The browser has no network.

    Args:
        tasks: A task's name, or several: `click-test` (see `miniwob.tasks.TASKS`).
        seed: Episode k, counted over all resets, has the seed `seed + k`.
        pool: Where pages come from; None makes a pool of one page, closed with the environment.
        observe: Channels to observe, or an `Observe`; None for the default ones.
        max_steps: After this many steps an episode is truncated; None never does.
        reward: What `TimeStep.reward` is (see `scoring.RewardKind`).
        success: The rule from raw reward to success (see `scoring.SUCCESS_RULES`).
        settle: When a page counts as settled after an action.
        viewport: Width and height in CSS pixels.

    Raises:
        InvalidInputError: A task of that name does not exist, or an option has no such value.
        MissingDependencyError: The `miniwob` package is not installed.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        seed: int = 0,
        pool: pool_lib.BrowserPool | None = None,
        observe: observation_lib.Observe | Iterable[str] | None = None,
        max_steps: int | None = 10,
        reward: scoring_lib.RewardKind = "raw",
        success: str = "full",
        settle: settling_lib.SettlePolicy = settling_lib.LOCAL_PAGE,
        viewport: tuple[int, int] = VIEWPORT,
    ) -> None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        for name in names:
            _require_known(name)
        pages_lib.html_folder()  # So that a missing package is told at once.
        rule = scoring_lib.success_rule(success)
        if reward not in ("raw", "scaled", "binary"):
            raise errors_lib.InvalidInputError(
                f"reward is 'raw', 'scaled' or 'binary'; got {reward!r}."
            )
        self._pages = [MiniwobTask(name, reward, rule) for name in names]
        self._oracle: oracles_lib.Solution | None = None
        super().__init__(
            self._pages,
            seed=seed,
            pool=pool,
            observe=observe,
            max_steps=max_steps,
            settle=settle,
            viewport=viewport,
            context_options={"offline": True},
        )

    @property
    def page_name(self) -> str:
        """The MiniWoB++ page of the current episode, or of the first to come."""
        return self._pages[max(self._episode, 0) % len(self._pages)].page

    @property
    def has_oracle(self) -> bool:
        """Whether every task has an oracle."""
        return all(oracles_lib.has_oracle(page.page) for page in self._pages)

    async def cheat(self) -> actions_lib.Action | None:
        """Returns the oracle's next action, which is then to be stepped.

        None if the task has no oracle or the oracle has nothing more to do.

        Raises:
            EnvironmentMisuseError: No episode is under way.
            OracleError: The page is not as the oracle expects.
            BrowserError: The browser failed.
        """
        session = self.session
        if self._oracle is None:
            if not oracles_lib.has_oracle(self.page_name):
                return None
            view = oracles_lib.PageView(session, goal=self._goal)
            self._oracle = oracles_lib.solve(self.page_name, view)
        return await self._oracle.next_action()

    async def close(self) -> None:
        """See `BrowserEnvironment.close`."""
        await self._drop_oracle()
        await super().close()

    async def _begin_episode(self) -> dm_env.TimeStep:
        await self._drop_oracle()
        return await super()._begin_episode()

    async def _drop_oracle(self) -> None:
        oracle, self._oracle = self._oracle, None
        if oracle is not None:
            await oracle.close()

    def _versions(self) -> dict[str, str]:
        return {**super()._versions(), "miniwob": pages_lib.package_version()}


def _require_known(name: str) -> None:
    if name in tasks_lib.TASKS:
        return
    near = difflib.get_close_matches(name, tasks_lib.TASKS, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise errors_lib.InvalidInputError(
        f"MiniWoB++ has no task {name!r}; webtraj.environments.miniwob.tasks.TASKS lists all "
        f"{len(tasks_lib.TASKS)}.{hint}"
    )
