"""`as_sync`: an asynchronous environment as a true `dm_env.Environment`."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Self

import dm_env

from webtraj.environments import base
from webtraj.environments.bridges import backstop, inner, loop_thread

__all__ = ["SyncEnvironment", "as_sync"]


def as_sync(environment: base.Environment | dm_env.Environment) -> dm_env.Environment:
    """Returns `environment` as a synchronous one; a synchronous one as it is.

    >>> from webtraj.testing import fakes
    >>> with as_sync(fakes.CatchEnvironment()) as env:
    ...     env.reset().first()
    True
    """
    if not inner.is_async(environment):
        return environment
    return SyncEnvironment(environment)


class SyncEnvironment(inner.WrapsEnvironment, dm_env.Environment):  # type: ignore[misc]
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
        self._loop_thread = loop_thread.LoopThread(
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
            backstop.at_end_of(self, self._loop_thread)
        self._closed = False
        return self._loop_thread.run(functools.partial(function, *args))
