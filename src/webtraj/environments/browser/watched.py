"""Episodes in which somebody else acts: a person, or another program.

The environment then only observes. Its episodes begin, are judged and are recorded as always.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Mapping
from typing import Any, Final

import dm_env

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser import observer as observer_lib
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.listener import Listener
from webtraj.environments.browser.session import BrowserSession

__all__ = ["WatchedEnvironment"]

_SILENT: Final = "The page does not answer."
_AFTER_SILENCE: Final = 2.0
"""Seconds for a page that did not answer last time."""


class WatchedEnvironment:
    """Observes what somebody else does in a browser environment, instead of `step`.

    Args:
        environment: The environment, not yet reset. It listens from its first `reset` on.
        listener: Hears what is done in the pages.
    """

    def __init__(self, environment: BrowserEnvironment, listener: Listener) -> None:
        self._environment = environment
        environment._sessions.listener = listener
        self._silent: weakref.WeakSet[Any] = weakref.WeakSet()
        """The pages that did not answer the last look."""

    async def observe_external(
        self,
        action: actions_lib.Action,
        touched: Mapping[str, Any] | None = None,
        *,
        seen: Mapping[str, Any] | None = None,
        again: bool = False,
    ) -> dm_env.TimeStep:
        """Observe the result of an action that somebody else took.

        A failure leaves the episode open, so that it can be tried again.

        Args:
            action: The action.
            touched: The page script's description of its element.
            seen: What the page script saw at the time; None observes the page now, once it has
                settled. With a value, the picture is empty, and there is a verdict only if `seen`
                has the state of the task's script.
            again: Whether this replaces the last result.

        Raises:
            BrowserError: The browser failed.
            ConcurrentCallError: Another call has not returned yet.
            EnvironmentMisuseError: No episode is running.
        """
        environment = self._environment
        with environment._one_at_a_time():
            environment._active |= again  # Even if the last result was the episode's end.
            session, begun = environment.session, time.perf_counter()
            if not again:
                environment._steps += 1
            error = kind = ""
            judged = seen is None or seen["task"] is not None
            if seen is None:
                seen, error = await self._look(session)
                kind = "page_broke" if error else ""
            else:
                seen = session.make_look(seen)
                environment._note_secrets(seen)
            failure = session.take_failure(session.page)
            if failure is not None:
                error, kind = str(failure), "navigation_failed"
            last_action = observer_lib.describe_action(touched, error=error, error_kind=kind)
            return await environment._result(
                session,
                action,
                seen,
                last_action,
                begun=begun,
                acted=begun,
                again=again,
                judged=judged,
            )

    def conclude(
        self, timestep: dm_env.TimeStep, outcome: trajectory_lib.Outcome
    ) -> dm_env.TimeStep:
        """End the episode with a person's verdict; the task's own counts if it has a judge.

        Args:
            timestep: The last result of `observe_external`.
            outcome: SUCCESS or FAILURE.

        Returns:
            The result as the episode's last timestep.
        """
        environment = self._environment
        environment._active = False
        if environment.has_judge:
            environment._outcome, reward = environment._judge_outcome(), timestep.reward or 0.0
        else:
            environment._outcome = outcome
            reward = float(outcome is trajectory_lib.Outcome.SUCCESS)
        return dm_env.termination(reward, timestep.observation)

    async def _look(self, session: BrowserSession) -> tuple[Any, str]:
        """Return what the page shows; if it does not answer, an empty page and an error.

        The page belongs to somebody else, so it stays open. Until it answers again, each look waits
        only briefly.
        """
        page, known = session.page, self._silent
        try:
            async with asyncio.timeout(_AFTER_SILENCE if page in known else None):
                seen = await self._environment._look(session)
        except (TimeoutError, errors.BrowserTimeoutError):
            known.add(page)
            session.lease.timed_out = False
            return session.make_look(session.blank_look()), _SILENT
        known.discard(page)
        return seen, ""
