"""The session that an environment's episodes take place in, kept from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser import acting as acting_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import page_script as page_script_lib
from webtraj.environments.browser import pool as pool_lib
from webtraj.environments.browser import secrecy as secrecy_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser import settling as settling_lib
from webtraj.environments.browser import tasks as tasks_lib

__all__ = ["Place", "Sessions"]

_CLOSED = "The environment was closed while an episode began."


class Place:
    """A session, what acts in it, and what holds it in its bounds."""

    __slots__ = ("boundary", "executor", "session")

    def __init__(
        self,
        session: session_lib.BrowserSession,
        executor: acting_lib.ActionExecutor,
        boundary: access_lib.Boundary,
    ) -> None:
        self.session = session
        self.executor = executor
        self.boundary = boundary


class Sessions:
    """Makes the session for an episode, or gives the last one again if that may be.

    It may if the task shares it and asks for the same script and options, and if nothing has made
    the session suspect since.

    Args:
        pool: Where pages come from.
        policy: What the agent may reach beyond the page.
        observe: What is to be observed.
        settle: When a page counts as settled.
        keeper: Knows what no record may hold.
        context_options: For each context; a task's own come on top.
    """

    def __init__(
        self,
        pool: pool_lib.BrowserPool | pool_lib.SharedPool,
        *,
        policy: access_lib.AccessPolicy,
        observe: observation_lib.Observe,
        settle: settling_lib.SettlePolicy,
        keeper: secrecy_lib.SecretKeeper,
        context_options: Mapping[str, Any],
    ) -> None:
        self._pool = pool
        self._policy = policy
        self._observe = observe
        self._settle = settle
        self._keeper = keeper
        self._context_options = context_options
        self._key: Any = None
        self._suspect = False
        self._waited = 0.0
        self._closed = False
        self.place: Place | None = None
        """The last one; None if there was none, or if it was dropped."""
        self.browser_version = ""
        """That of the last session; empty before the first."""

    def suspect(self) -> None:
        """Lets no further episode have the session: in what state its page is, nobody knows."""
        self._suspect = True

    async def place_for(self, task: tasks_lib.BrowserTask) -> Place:
        """Returns where an episode of the task can begin.

        Raises:
            BrowserError: The browser failed.
            EnvironmentMisuseError: The sessions were closed meanwhile.
        """
        local = getattr(task, "local_sites", {})
        key = (task.script, dict(task.context_options), dict(local))
        if self.place is not None and (
            self._suspect
            or not task.shares_context
            or key != self._key
            or not self.place.session.lease.healthy
        ):
            await self.drop()
        if self.place is None:
            self.place = await self._make(task)
            self._key = key
            self._suspect = False
            await self.place.session.start()
        if self.place is None:
            raise errors.EnvironmentMisuseError(_CLOSED)
        return self.place

    async def close(self) -> None:
        """Gives the page back, also one that is being opened. Idempotent."""
        self._closed = True
        await self.drop()

    async def drop(self) -> None:
        """Gives the page back, if there is one."""
        place, self.place = self.place, None
        if place is None:
            return
        try:
            await place.session.lease.release()
            self._waited += place.session.lease.turns.take_waited()
        finally:
            await place.boundary.close()

    async def _make(self, task: tasks_lib.BrowserTask) -> Place:
        boundary = access_lib.Boundary(
            self._policy, getattr(task, "start_url", ""), getattr(task, "local_sites", None)
        )
        lease = await self._lease(task, boundary)
        self.browser_version = lease.browser_version
        session = session_lib.BrowserSession(
            lease,
            script=page_script_lib.page_script(task.script),
            # A task's own script reaches into the page, which is then one to be trusted.
            isolated=not task.script,
            observe=self._observe,
            settle=self._settle,
            look_for_passwords=self._keeper.watches_passwords,
            private=self._keeper.selectors,
            why=boundary.why,
        )
        boundary.watch(session)
        return Place(session, acting_lib.ActionExecutor(session, self._policy), boundary)

    async def _lease(
        self, task: tasks_lib.BrowserTask, boundary: access_lib.Boundary
    ) -> pool_lib.Lease:
        """Returns a lease inside of a boundary, which is then open."""
        await boundary.open()
        try:
            options = {
                "accept_downloads": "downloads" in self._observe.channels,
                **self._context_options,
                **task.context_options,
            }
            lease = await self._pool.lease(owner=task.name, **boundary.context_options(options))
            if self._closed:
                await lease.release()
                raise errors.EnvironmentMisuseError(_CLOSED)
        except BaseException:
            await boundary.close()
            raise
        lease.turns.waited += self._waited
        self._waited = 0.0
        return lease
