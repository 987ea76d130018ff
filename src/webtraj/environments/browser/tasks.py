"""Tasks: where an episode begins, what it wants, what it is worth.

`BrowserTask` is what the environment asks of a task, in the order of an episode: `setup`,
`goal_of`, `validate` after each step, `teardown`. A task that can be solved by script is a
`SolvableTask` too.
A task that knows after how many steps it has taken too long says so by an attribute `max_steps`,
which a limit given to the environment outweighs. One whose pages come with it offers them by an
attribute `local_sites` (`network.LocalSites`): handlers by host and port, which answer in the place
of the network, so that their URLs are the same on every machine. `WebTask` is a task as data, for
any site.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.redaction import RedactionRules

__all__ = ["BrowserTask", "ScriptedSolution", "Solution", "SolvableTask", "Verdict", "WebTask"]

_OF_SITES = ("http", "https")
_SCHEMES = (*_OF_SITES, "file", "about", "data", "blob", "chrome")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a task says of the page as it is now."""

    done: bool = False
    """Whether the episode is over."""
    reward: float = 0.0
    """The reward of the step."""
    success: bool = False
    """Whether the task is done as it should be."""
    raw_reward: float = 0.0
    """The reward before any scaling by time."""
    scaled_reward: float = 0.0
    """The reward as the task scales it by the time taken."""
    reason: str = ""
    """Why, where the task says."""


class BrowserTask(Protocol):
    """A task in a browser."""

    @property
    def name(self) -> str:
        """The task's name in records."""

    @property
    def site(self) -> str:
        """The site's name in records; empty if it has none."""

    @property
    def script(self) -> str:
        """JavaScript that is added to the page script (see `page_script`); empty for none."""

    @property
    def hidden(self) -> str:
        """A CSS selector of what the axtree leaves out; empty for nothing."""

    @property
    def shares_context(self) -> bool:
        """Whether its episodes, one after another, may share cookies and storage."""

    @property
    def context_options(self) -> Mapping[str, Any]:
        """Options for Playwright's `Browser.new_context`, which outweigh the environment's."""

    async def setup(
        self, session: session_lib.BrowserSession, seed: int
    ) -> Mapping[str, Any] | None:
        """Bring the session to where the episode of this seed begins.

        Returns:
            The argument for the script's `begin`, called before the first look; None to call
            nothing.
        """

    def goal_of(self, begun: Any) -> str:
        """Return the goal. `begun` is what the script's `begin` gave, or None."""

    async def validate(
        self, session: session_lib.BrowserSession, state: Any, answer: str | None
    ) -> Verdict:
        """Return the verdict on the first look and on each step.

        Args:
            session: The session, settled.
            state: What the script's `state` gave with the observation; None without a script.
            answer: The agent's answer, if it has just given one, which ends the episode.
        """

    async def teardown(self, session: session_lib.BrowserSession) -> None:
        """Undo what `setup` did beyond the browser. Called once for each `setup`."""


class Solution(Protocol):
    """One episode's solution, under way."""

    async def next_action(self) -> actions_lib.Action | None:
        """Return the next action; None when there is nothing more to do."""

    async def close(self) -> None:
        """End the solution where it stands."""


@runtime_checkable
class SolvableTask(Protocol):
    """A task that may have a scripted solution."""

    @property
    def has_solution(self) -> bool:
        """Whether it has."""

    def solve(self, session: session_lib.BrowserSession, goal: str) -> Solution:
        """Return the solution of the episode that the session is in."""


class ScriptedSolution:
    """A solution from an asynchronous generator of actions.

    Each action is done before the generator is asked for the next.
    """

    def __init__(self, actions: AsyncGenerator[actions_lib.Action, None]) -> None:
        self._actions = actions

    async def next_action(self) -> actions_lib.Action | None:
        """See `Solution.next_action`."""
        return await anext(self._actions, None)

    async def close(self) -> None:
        """See `Solution.close`."""
        await self._actions.aclose()


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebTask:
    """A task on any site, as data.

    Each episode has a context of its own: cookies and storage are as `context_options` has them.

    Raises:
        InvalidInputError: `start_url` is no URL that a browser can open.
    """

    goal: str
    """What the agent is asked to do."""
    start_url: str
    """Where it begins."""
    name: str = "web"
    """The task's name in records."""
    site: str = ""
    """The site's name in records; by default the host of `start_url`."""
    hidden: str = ""
    """A CSS selector of what the axtree leaves out."""
    context_options: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """For Playwright's `Browser.new_context`: storage_state, locale, timezone_id, ..."""
    max_steps: int | None = None
    """After so many steps an episode is truncated; None leaves that to the environment."""
    before: Callable[[session_lib.BrowserSession, int], Awaitable[None]] | None = None
    """Called with session and seed, before `start_url` is opened."""
    judge: Callable[[session_lib.BrowserSession, str | None], Awaitable[Verdict]] | None = None
    """Called with session and answer, after each step. Without it no step has a reward."""
    solution: (
        Callable[[session_lib.BrowserSession], AsyncGenerator[actions_lib.Action, None]] | None
    ) = None
    """A scripted solution: an asynchronous generator of actions."""
    after: Callable[[session_lib.BrowserSession], Awaitable[None]] | None = None
    """Called when the episode is over."""
    redaction: RedactionRules | None = None
    """What no record may hold, beside what the environment says."""

    def __post_init__(self) -> None:
        host = _host_of(self.start_url)
        object.__setattr__(self, "site", self.site or host)

    @property
    def script(self) -> str:
        """See `BrowserTask.script`."""
        return ""

    @property
    def shares_context(self) -> bool:
        """See `BrowserTask.shares_context`."""
        return False

    @property
    def has_judge(self) -> bool:
        """Whether anybody says what an episode was worth; if not, its outcome is UNKNOWN."""
        return self.judge is not None

    @property
    def has_solution(self) -> bool:
        """See `SolvableTask.has_solution`."""
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
        """See `BrowserTask.validate`."""
        return Verdict() if self.judge is None else await self.judge(session, answer)

    async def teardown(self, session: session_lib.BrowserSession) -> None:
        """See `BrowserTask.teardown`."""
        if self.after is not None:
            await self.after(session)

    def solve(self, session: session_lib.BrowserSession, goal: str) -> Solution:
        """See `SolvableTask.solve`."""
        if self.solution is None:
            raise ValueError(f"The task {self.name!r} has no solution.")
        return ScriptedSolution(self.solution(session))


def _host_of(url: str) -> str:
    """Return the host of a URL that a task begins at; empty if it is no site's.

    Raises:
        InvalidInputError: It is no URL that a browser can open.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except (ValueError, AttributeError, TypeError):
        parts = None
    if parts is None or parts.scheme not in _SCHEMES or (parts.scheme in _OF_SITES and not host):
        raise errors.InvalidInputError(
            f"start_url={url!r:.200} is not a URL that a browser can open. Include the scheme, as "
            "in http://localhost:8000/ or https://example.com/."
        )
    return host
