"""Tasks: an episode's start, goal and reward.

`BrowserTask` is the base class of tasks: an episode calls `setup`, `goal_of`, `validate` after each
step, and `teardown`. `WebTask` is a task as data, for any site.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import session as session_lib
from webtraj.redaction import RedactionRules

__all__ = [
    "BrowserTask",
    "ScriptedSolution",
    "Verdict",
    "WebTask",
]

_OF_SITES = ("http", "https")
_SCHEMES = (*_OF_SITES, "file", "about")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A task's verdict on the current page."""

    done: bool = False
    """Whether the episode is over."""
    reward: float = 0.0
    """The reward of the step."""
    success: bool = False
    """Whether the task is done correctly; a reward alone does not say so."""
    raw_reward: float = 0.0
    """The reward before any scaling by time."""
    scaled_reward: float = 0.0
    """The reward as the task scales it by the time taken."""
    reason: str = ""
    """The reason, if the task gives one."""


class ScriptedSolution:
    """A solution from an asynchronous generator of actions.

    Each action is performed before the generator continues.
    """

    def __init__(self, actions: AsyncGenerator[actions_lib.Action, None]) -> None:
        self._actions = actions

    async def next_action(self) -> actions_lib.Action | None:
        """Return the next action; None when the task is solved."""
        return await anext(self._actions, None)

    async def close(self) -> None:
        """Free its resources. Idempotent."""
        await self._actions.aclose()


class BrowserTask:
    """A task in a browser. A subclass has a `name` and at least `setup` and `goal_of`."""

    start_url: str = ""
    """The first page's URL, whose origin is allowed unless the policy denies it; empty if there is
    none or it is local."""
    context_options: Mapping[str, Any] = MappingProxyType({})
    """Options for Playwright's `Browser.new_context`, which override the environment's."""
    redaction: RedactionRules | None = None
    """Redaction rules, in addition to the environment's."""
    shares_context: bool = False
    """Whether consecutive episodes may share a page, its cookies and storage: those of one
    environment, and of environments with the same settings and class of task in one pool."""
    has_judge: bool = True
    """Whether the task judges its episodes; if not, their outcome is UNKNOWN."""
    judges_refusals: bool = False
    """Whether `validate_refusal` judges the report that the task cannot be done."""

    # Properties, since some tasks compute them. A class attribute does as well.

    @property
    def name(self) -> str:
        """The task's name in records."""
        raise NotImplementedError

    @property
    def site(self) -> str:
        """The site's name in records; empty if it has none."""
        return ""

    @property
    def script(self) -> str:
        """JavaScript to add to the page script (see `page_script`). May be empty."""
        return ""

    @property
    def hidden(self) -> str:
        """A CSS selector of elements left out of the axtree. May be empty."""
        return ""

    @property
    def max_steps(self) -> int | None:
        """The default step limit; None for no limit. The environment's own limit overrides it."""
        return None

    @property
    def local_sites(self) -> network_lib.LocalSites:
        """Handlers by host and port that replace the network, so that URLs are always the same."""
        return {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Facts about the running episode for its record's `metadata`, for instance for a judge."""
        return {}

    @property
    def has_solution(self) -> bool:
        """Whether `solve` has a solution."""
        return False

    async def setup(
        self, session: session_lib.BrowserSession, seed: int
    ) -> Mapping[str, Any] | None:
        """Bring the session to the start of the episode with this seed.

        Returns:
            The argument for the script's `begin`, called before the first look; None to call
            nothing.
        """
        raise NotImplementedError

    def goal_of(self, begun: Any) -> str:
        """Return the goal. `begun` is the result of the script's `begin`, or None."""
        raise NotImplementedError

    async def validate(
        self, session: session_lib.BrowserSession, state: Any, answer: str | None
    ) -> Verdict:
        """Return the verdict on the first observation and on each step.

        Args:
            session: The session, settled.
            state: The result of the script's `state`; None without a script.
            answer: The agent's answer, if this step gave one, which ends the episode.
        """
        return Verdict()

    async def validate_refusal(self, session: session_lib.BrowserSession, reason: str) -> Verdict:
        """Return the verdict on `ReportInfeasible`, which ends the episode."""
        raise NotImplementedError

    async def teardown(self, session: session_lib.BrowserSession) -> None:
        """Undo what `setup` did outside the browser. Called once for each `setup`."""

    async def snapshot(self, session: session_lib.BrowserSession) -> Any:
        """Return a copy of the episode's state outside the browser. Later steps do not change it.

        The default is None: the state cannot be copied, so forks replay their record. The copy's
            resources are freed when nothing refers to it.
        """
        return None

    def restoring(
        self, session: session_lib.BrowserSession, snapshot: Any
    ) -> AbstractAsyncContextManager[None]:
        """Replace `setup` in an episode that starts from a copy.

        Within the context, the copied page loads again and must get the same documents. On leaving
        it, the state is set back to the copy, without what loading has changed.
        """
        raise NotImplementedError

    def solve(self, session: session_lib.BrowserSession, goal: str) -> ScriptedSolution:
        """Return the solution of the session's episode, if the task has one."""
        raise ValueError(f"The task {self.name!r} has no solution.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebTask(BrowserTask):
    """A task on any site, as data.

    Each episode has a context of its own, with cookies and storage from `context_options`.

    Raises:
        InvalidInputError: `start_url` is not a URL that a browser may open.
    """

    goal: str
    """The goal for the agent."""
    start_url: str = dataclasses.field()
    """The first page's URL."""
    name: str = "web"
    """The task's name in records."""
    site: str = ""
    """The site's name in records; by default the host of `start_url`."""
    hidden: str = ""
    """A CSS selector of elements left out of the axtree."""
    context_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """For Playwright's `Browser.new_context`: storage_state, locale, timezone_id, ..."""
    max_steps: int | None = None
    """The step limit; None leaves it to the environment."""
    before: Callable[[session_lib.BrowserSession, int], Awaitable[None]] | None = None
    """Called with the session and seed before `start_url` is opened."""
    judge: (
        Callable[[session_lib.BrowserSession, str | None], Awaitable[Verdict] | Verdict] | None
    ) = None
    """The judge, called with the session and answer after each step. Without it rewards are 0."""
    solution: (
        Callable[[session_lib.BrowserSession], AsyncGenerator[actions_lib.Action, None]] | None
    ) = None
    """A scripted solution: an asynchronous generator of actions."""
    after: Callable[[session_lib.BrowserSession], Awaitable[None]] | None = None
    """Called when the episode is over."""
    redaction: RedactionRules | None = None
    """Redaction rules, in addition to the environment's."""
    has_judge: bool = dataclasses.field(init=False, repr=False)
    """Whether there is a judge."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_judge", self.judge is not None)
        host = _host_of(self.start_url)
        object.__setattr__(self, "site", self.site or host)

    @property
    def has_solution(self) -> bool:
        """See `BrowserTask.has_solution`."""
        return self.solution is not None

    async def setup(self, session: session_lib.BrowserSession, seed: int) -> None:
        """See `BrowserTask.setup`."""
        if self.before is not None:
            await self.before(session, seed)
        await session.open(self.start_url)

    def goal_of(self, begun: Any) -> str:
        """See `BrowserTask.goal_of`."""
        return self.goal

    async def validate(
        self, session: session_lib.BrowserSession, state: Any, answer: str | None
    ) -> Verdict:
        """See `BrowserTask.validate`.

        Raises:
            TypeError: The judge returned no verdict, or one whose reward is not a finite number.
        """
        if self.judge is None:
            return Verdict()
        given = self.judge(session, answer)
        verdict = await given if inspect.isawaitable(given) else given
        # Numpy's numbers count too.
        if (
            not isinstance(verdict, Verdict)
            or not isinstance(verdict.reward, numbers.Real)
            or not math.isfinite(verdict.reward)
        ):
            raise TypeError(
                f"The judge of the task {self.name!r} returned {verdict!r:.200}; expected a "
                "webtraj.Verdict with a finite reward, such as "
                "Verdict(done=True, reward=1.0, success=True)."
            )
        return verdict

    async def teardown(self, session: session_lib.BrowserSession) -> None:
        """See `BrowserTask.teardown`."""
        if self.after is not None:
            await self.after(session)

    def solve(self, session: session_lib.BrowserSession, goal: str) -> ScriptedSolution:
        """See `BrowserTask.solve`."""
        if self.solution is None:
            return super().solve(session, goal)
        return ScriptedSolution(self.solution(session))


def _host_of(url: str) -> str:
    """Return the host of a start URL; empty if it has none.

    Raises:
        InvalidInputError: It is not a URL that a browser may open.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except (ValueError, AttributeError, TypeError):
        parts = None
    if parts is None or parts.scheme not in _SCHEMES or (parts.scheme in _OF_SITES and not host):
        raise errors.InvalidInputError(
            f"start_url={url!r:.200} is not a URL that a task can start at. Give one with the "
            "scheme http, https, file or about, such as http://localhost:8000/."
        )
    return host
