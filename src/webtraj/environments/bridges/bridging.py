"""`as_async` and `as_sync`: a dm_env environment of one kind as one of the other."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, cast

import dm_env

from webtraj import errors
from webtraj.environments import base
from webtraj.environments.bridges import threads

__all__ = [
    "AsyncEnvironment",
    "SyncEnvironment",
    "WrapsEnvironment",
    "as_async",
    "as_sync",
    "is_async",
]

# What both bridges do alike: forward attributes, tell kinds of environment, refuse copies.

_NO_COPY = (
    "{bridge} cannot be pickled or copied: it owns a thread and the environment that lives there. "
    "Send a function that builds the environment instead, and call as_sync or as_async there."
)


class WrapsEnvironment:
    """A bridge around `_environment`, whose attributes stay reachable through the bridge."""

    _environment: Any

    @property
    def environment_name(self) -> str:
        """The name of the wrapped environment, usually its class, for the record."""
        name = getattr(self._environment, "environment_name", None)
        return name if isinstance(name, str) else type(self._environment).__name__

    def __getattr__(self, name: str) -> Any:
        # Dunders are the bridge's own affair: forwarded, they would make copy and pickle answer for
        # the wrong object. `_environment` is missing only while under construction.
        if name == "_environment" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._environment, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._environment!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(_NO_COPY.format(bridge=type(self).__name__))


def is_async(environment: Any) -> bool:
    """Returns whether an environment follows webtraj's asynchronous contract, not dm_env's."""
    return hasattr(type(environment), "__aenter__") or inspect.iscoroutinefunction(
        getattr(environment, "step", None)
    )


_T = TypeVar("_T")

_NOT_AN_ENVIRONMENT = (
    "as_async takes an environment with reset, step and close, as dm_env defines them; "
    "got {given}. {remedy}"
)


def as_async(environment: dm_env.Environment | base.Environment) -> base.Environment:
    """Returns `environment` as an asynchronous one; an asynchronous one as it is.

    Raises:
        InvalidInputError: It is not an environment of either kind.
    """
    if is_async(environment):
        return cast(base.Environment, environment)
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None and isinstance(environment, gymnasium.Env):
        raise errors.InvalidInputError(
            _NOT_AN_ENVIRONMENT.format(
                given=f"the Gymnasium environment {environment}",
                remedy="Use webtraj.from_gymnasium for it.",
            )
        )
    if not all(callable(getattr(environment, name, None)) for name in ("reset", "step", "close")):
        raise errors.InvalidInputError(
            _NOT_AN_ENVIRONMENT.format(
                given=f"{environment!r}", remedy="Pass an instance, not a class or a name."
            )
        )
    return AsyncEnvironment(cast(dm_env.Environment, environment))


class AsyncEnvironment(WrapsEnvironment):
    """An asynchronous environment that makes every call on a synchronous one in its own thread.

    * All calls, specs included, are made on one thread, one at a time, in the order in which they
      came. The thread starts with the first call and ends with `close`.
    * A thread cannot be interrupted. When a task is cancelled while it waits for a call, it stops
      waiting at once, but the environment stays busy until that call returns. The next call waits
      for that, and the late timestep is thrown away: it belongs to an episode that nobody follows.
    * The episode of a call that was cancelled is lost, so the environment then counts as fresh: by
      dm_env's rule the next `step` resets, ignores its action and returns FIRST.
    * Context variables of the caller are seen by the environment.
    * Other attributes are forwarded as they are, on the caller's thread; `call` uses the
      environment's.

    Args:
        environment: The synchronous environment. It belongs to the bridge from now on.
    """

    def __init__(self, environment: dm_env.Environment) -> None:
        self._environment = environment
        self._worker = threads.WorkerThread(
            name=f"as_async({type(environment).__name__})", last_call=environment.close
        )
        self._closed = False
        # These two belong to the environment's thread.
        self._episode_lost = False
        self._environment_closed = False

    async def reset(self) -> dm_env.TimeStep:
        """See `webtraj.Environment.reset`."""
        return await self._advance(self._reset)

    async def step(self, action: Any) -> dm_env.TimeStep:
        """See `webtraj.Environment.step`."""
        return await self._advance(self._step, action)

    async def call(self, function: Callable[..., _T], *args: Any) -> _T:
        """Returns `function(*args)`, called on the environment's thread, after calls before it.

        For what is bound to that thread, such as the page of a synchronous Playwright::

            title = await env.call(lambda: env.unwrapped.page.title())
        """
        return await asyncio.wrap_future(self._submit(function, *args))

    async def close(self) -> None:
        """Closes the environment and ends its thread, after any call still running. Idempotent."""
        if self._closed:
            return
        try:
            await asyncio.wrap_future(self._submit(self._close))
        except asyncio.CancelledError:
            # Still closing, or about to: a second close waits for that and ends the thread.
            raise
        except BaseException:
            self._end()
            raise
        self._end()

    def observation_spec(self) -> Any:
        """See `dm_env.Environment.observation_spec`. Blocks while a call is running."""
        return self._submit(self._environment.observation_spec).result()

    def action_spec(self) -> Any:
        """See `dm_env.Environment.action_spec`. Blocks while a call is running."""
        return self._submit(self._environment.action_spec).result()

    def reward_spec(self) -> Any:
        """See `dm_env.Environment.reward_spec`. Blocks while a call is running."""
        return self._submit(self._environment.reward_spec).result()

    def discount_spec(self) -> Any:
        """See `dm_env.Environment.discount_spec`. Blocks while a call is running."""
        return self._submit(self._environment.discount_spec).result()

    async def __aenter__(self) -> Self:
        if hasattr(self._environment, "__enter__"):
            await self.call(self._environment.__enter__)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if hasattr(self._environment, "__exit__"):
                await self.call(self._environment.__exit__, exc_type, exc, traceback)
        finally:
            await self.close()

    async def _advance(
        self, function: Callable[..., dm_env.TimeStep], *args: Any
    ) -> dm_env.TimeStep:
        try:
            return await asyncio.wrap_future(self._submit(function, *args))
        except asyncio.CancelledError:
            # Its timestep, even if it is there already, goes to nobody. A call whose turn had not
            # come is never made, but that is a matter of luck, and what follows must not be.
            self._submit(self._lose_episode)
            raise

    def _submit(self, function: Callable[..., _T], *args: Any) -> Any:
        if not self._worker.running:
            threads.at_end_of(self, self._worker)
        self._closed = False
        return self._worker.submit(function, *args)

    def _end(self) -> None:
        self._worker.stop()
        self._closed = True

    # What follows runs on the environment's thread, after every call before it.

    def _reset(self) -> dm_env.TimeStep:
        self._environment_closed = False
        timestep = self._environment.reset()
        self._episode_lost = False
        return timestep

    def _step(self, action: Any) -> dm_env.TimeStep:
        if self._episode_lost:
            return self._reset()
        self._environment_closed = False
        return self._environment.step(action)

    def _lose_episode(self) -> None:
        self._episode_lost = True

    def _close(self) -> None:
        # A close that was cancelled goes on, and must not be made a second time.
        if not self._environment_closed:
            self._environment.close()
            self._environment_closed = True


def as_sync(environment: base.Environment | dm_env.Environment) -> dm_env.Environment:
    """Returns `environment` as a synchronous one; a synchronous one as it is.

    >>> from webtraj.testing import fakes
    >>> with as_sync(fakes.CatchEnvironment()) as env:
    ...     env.reset().first()
    True
    """
    if not is_async(environment):
        return environment
    return SyncEnvironment(environment)


class SyncEnvironment(WrapsEnvironment, dm_env.Environment):  # type: ignore[misc]
    """A `dm_env.Environment` that runs an asynchronous environment on a loop in another thread.

    * The wrapped environment sees one event loop from its first call to `close`. The thread starts
      with the first call, and is the environment's own. Environments whose `shares_event_loop` is
      true share one thread, and with it what belongs to a loop, such as browsers. A call after
      `close` is forwarded, on a new loop: whether an environment can be used again is its own
      affair.
    * An exception in the calling thread (Ctrl-C, a test's time limit) cancels the call, waits until
      it has ended and is then raised. No call goes on unseen and takes the next action's place.
    * Context variables of the caller are seen by the environment.
    * Other attributes are forwarded; coroutine functions among them become plain functions.
    * `with` enters and leaves the wrapped environment, which thus learns of an exception inside; it
      cannot hide it.

    Args:
        environment: The asynchronous environment. It belongs to the bridge from now on: using it
            from another event loop is an error of the caller's.

    Raises:
        EnvironmentMisuseError: From any call made on the environment's own event loop.
    """

    def __init__(self, environment: base.Environment) -> None:
        self._environment = environment
        self._loop_thread = threads.LoopThread(
            name=f"as_sync({type(environment).__name__})",
            last_call=environment.close,
            shared=getattr(environment, "shares_event_loop", False) is True,
        )
        self._closed = False

    def reset(self) -> dm_env.TimeStep:
        """See `dm_env.Environment.reset`."""
        return self._call(self._environment.reset)

    def step(self, action: Any) -> dm_env.TimeStep:
        """See `dm_env.Environment.step`."""
        return self._call(self._environment.step, action)

    def observation_spec(self) -> Any:
        """See `dm_env.Environment.observation_spec`."""
        return self._environment.observation_spec()

    def action_spec(self) -> Any:
        """See `dm_env.Environment.action_spec`."""
        return self._environment.action_spec()

    def reward_spec(self) -> Any:
        """See `dm_env.Environment.reward_spec`."""
        return self._environment.reward_spec()

    def discount_spec(self) -> Any:
        """See `dm_env.Environment.discount_spec`."""
        return self._environment.discount_spec()

    def close(self) -> None:
        """Closes the environment. Ends its loop and joins the thread, if no other uses them.

        Idempotent.

        Raises:
            Exception: What closing the environment raised, after the thread has ended.
        """
        if self._closed:
            return
        try:
            self._call(self._environment.close)
        finally:
            self._loop_thread.stop()
            self._closed = True

    def __enter__(self) -> Self:
        if hasattr(self._environment, "__aenter__"):
            self._call(self._environment.__aenter__)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if hasattr(self._environment, "__aexit__"):
                self._call(self._environment.__aexit__, exc_type, exc, traceback)
        finally:
            self.close()

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(functools.partial(value, **kwargs), *args)

        return call

    def _call(self, function: Any, *args: Any) -> Any:
        if not self._loop_thread.running:
            threads.at_end_of(self, self._loop_thread)
        self._closed = False
        return self._loop_thread.run(functools.partial(function, *args))
