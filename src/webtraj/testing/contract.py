"""`EnvironmentContract`: checks an environment against the environment contract.

The asynchronous counterpart of dm_env's `EnvironmentTestMixin` (dm_env/test_utils.py), with the
same messages and more tests: ends of episodes, close, cancellation, errors, recording.

To test an environment, subclass it in a test module and implement `make_environment`::

    from webtraj.testing import EnvironmentContract

    class TestMyEnvironment(EnvironmentContract):
        def make_environment(self):
            return MyEnvironment()

An environment needs `reset` and `step`. Tests of what it does not have (specs, `close`,
`async with`) are skipped, and values without a spec are not checked.

Every test is a plain method that runs its own event loop, so it works under unittest and under
pytest with any asynchronous plugin or none. Each makes a fresh environment and closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import unittest
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, ClassVar, Literal, TypeVar

import dm_env

from webtraj.collectors import memory
from webtraj.environments import base as base_lib
from webtraj.environments import bridges, collecting_environment
from webtraj.testing import assertions, messages

__all__ = ["EnvironmentContract"]

_T = TypeVar("_T")

# Where to cancel a call: at its first await, and further in.
_TURNS_BEFORE_CANCELLATION = (1, 2, 5, 20)


def _in_environment(
    check: Callable[[Any, Any], Awaitable[None]],
) -> Callable[[Any], None]:
    """Turn a coroutine function of a contract and an environment into a plain test."""

    def test(self: EnvironmentContract) -> None:
        async def run() -> None:
            async with self._time_limit(), self._environment() as environment:
                await check(self, environment)

        self.run_async(run())

    # Not `functools.wraps`: pytest would take the environment for a fixture.
    test.__name__, test.__qualname__ = check.__name__, check.__qualname__
    test.__doc__ = check.__doc__
    return test


class EnvironmentContract:
    """Tests of one environment. Subclass it and override `make_environment`.

    Override `make_action_sequence` too, with actions that reach the end of an episode; otherwise
    the tests of ends are skipped.
    """

    time_limit: ClassVar[float] = 60.0
    """The time limit of a test, in seconds."""
    ends: ClassVar[Literal["terminated", "truncated"] | None] = None
    """How the episode of `make_action_sequence` must end; None allows both."""

    def make_environment(self) -> Any:
        """Return a fresh environment, or an awaitable of one.

        It may be a synchronous dm_env environment, which is then run through `as_async`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must override make_environment to return a fresh environment."
        )

    def make_action_sequence(self, environment: Any) -> Iterable[Any]:
        """Return actions for an episode from its FIRST to its LAST, preferably beyond.

        Default: one action that conforms to the action spec, 20 times.
        """
        return [self.make_action(environment) for _ in range(20)]

    def make_action(self, environment: Any) -> Any:
        """Return one action that conforms to the environment's action spec.

        Raises:
            unittest.SkipTest: The environment has no action spec; override this method.
        """
        if not hasattr(self._made, "action_spec"):
            raise unittest.SkipTest(messages.NO_ACTION_SPEC)
        return assertions.generate(environment.action_spec())

    def make_invalid_action(self, environment: Any) -> Any:
        """Return an action that the environment cannot execute.

        Raises:
            unittest.SkipTest: There is none (the default); its test is skipped.
        """
        raise unittest.SkipTest("make_invalid_action is not overridden")

    def assert_valid_observation(self, environment: Any, observation: Any) -> None:
        """Assert that an observation conforms to the observation spec, if there is one."""
        self._validate(observation, environment, "observation_spec")

    def run_async(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run one test on an event loop; override it to share a loop between tests."""
        return asyncio.run(coroutine)

    # dm_env's own four. -------------------------------------------------------------------------

    @_in_environment
    async def test_reset(self, environment: Any) -> None:
        """`reset` returns FIRST, twice in a row."""
        for _ in range(2):
            await self._reset(environment)

    @_in_environment
    async def test_step_on_fresh_environment(self, environment: Any) -> None:
        """`step` on a fresh environment returns FIRST, and later steps do not."""
        timestep = await self._step(environment)
        _check(
            timestep.step_type is dm_env.StepType.FIRST,
            messages.STEP_NEW_ENV_MUST_RETURN_FIRST.format(timestep.step_type),
        )
        await self._step_after_first(environment)

    @_in_environment
    async def test_step_after_reset(self, environment: Any) -> None:
        """`step` after FIRST does not return FIRST."""
        for _ in range(2):
            await self._reset(environment)
            await self._step_after_first(environment)

    @_in_environment
    async def test_longer_action_sequence(self, environment: Any) -> None:
        """FIRST comes only after LAST."""
        for _ in range(2):
            previous = await self._reset(environment)
            for action in self.make_action_sequence(environment):
                timestep = await self._step(environment, action)
                is_first = timestep.step_type is dm_env.StepType.FIRST
                if previous.step_type is dm_env.StepType.LAST:
                    _check(is_first, messages.FIRST_MUST_COME_AFTER_LAST)
                else:
                    _check(not is_first, messages.FIRST_MUST_ONLY_COME_AFTER_LAST)
                previous = timestep

    # How an episode ends. -----------------------------------------------------------------------

    @_in_environment
    async def test_last_is_a_termination_or_a_truncation(self, environment: Any) -> None:
        """The discount of LAST is 0 throughout, or above 0 throughout."""
        last = await self._play(environment)
        leaves = list(assertions.leaves(last.discount))
        zeros = [bool((leaf == 0).all()) for leaf in leaves]
        _check(all(zeros) or not any(zeros), messages.LAST_MUST_END_ONE_WAY.format(last.discount))
        if self.ends is not None:
            terminated = base_lib.is_termination(last.discount)
            _check(
                terminated == (self.ends == "terminated"),
                messages.LAST_MUST_END_AS_EXPECTED.format(self.ends, last.discount),
            )

    @_in_environment
    async def test_step_after_last_begins_an_episode(self, environment: Any) -> None:
        """`step` after LAST returns FIRST, and a whole episode follows."""
        await self._play(environment)
        timestep = await self._step(environment)
        _check(timestep.step_type is dm_env.StepType.FIRST, messages.FIRST_MUST_COME_AFTER_LAST)
        await self._step_after_first(environment)

    @_in_environment
    async def test_reset_in_the_middle_of_an_episode(self, environment: Any) -> None:
        """`reset` begins a new episode at any time."""
        await self._reset(environment)
        await self._step(environment)
        await self._reset(environment)
        await self._step_after_first(environment)

    @_in_environment
    async def test_emitted_observations_do_not_change(self, environment: Any) -> None:
        """An emitted observation never changes, since its record would change too."""
        first = (await self._reset(environment)).observation
        as_emitted = copy.deepcopy(first)
        for action in self.make_action_sequence(environment):
            await self._step(environment, action)
            _check(assertions.equal(first, as_emitted), messages.OBSERVATION_MUST_NOT_CHANGE)

    # Close. -------------------------------------------------------------------------------------

    @_in_environment
    async def test_close_on_fresh_environment(self, environment: Any) -> None:
        """An environment that was never reset can be closed, twice."""
        _skip_without_close(environment)
        for _ in range(2):
            await _expect(environment.close(), messages.CLOSE_MUST_BE_IDEMPOTENT)

    @_in_environment
    async def test_close_is_idempotent(self, environment: Any) -> None:
        """`close` in the middle of an episode succeeds, twice."""
        _skip_without_close(environment)
        await self._reset(environment)
        await self._step(environment)
        for _ in range(2):
            await _expect(environment.close(), messages.CLOSE_MUST_BE_IDEMPOTENT)

    @_in_environment
    async def test_reset_after_close_begins_an_episode_or_raises(self, environment: Any) -> None:
        """`reset` after `close` works fully or raises."""
        _skip_without_close(environment)
        await self._reset(environment)
        await environment.close()
        try:
            timestep = await environment.reset()
        except Exception:  # Any exception is allowed.
            return
        self._check_timestep(environment, timestep)
        _check(
            timestep.step_type is dm_env.StepType.FIRST,
            messages.RESET_MUST_RETURN_FIRST.format(timestep.step_type),
        )

    @_in_environment
    async def test_async_with_returns_an_environment_and_closes_it(self, environment: Any) -> None:
        """`async with` returns an environment, propagates exceptions, and allows `close`."""
        if not hasattr(type(environment), "__aenter__"):
            raise unittest.SkipTest("the environment has no __aenter__, which is optional")
        error = ValueError("raised in the body of async with")
        try:
            async with environment as entered:
                await self._reset(entered)
                raise error
        except ValueError as caught:
            _check(caught is error, messages.EXIT_MUST_LET_EXCEPTIONS_OUT.format(repr(caught)))
        else:
            _check(False, messages.EXIT_MUST_LET_EXCEPTIONS_OUT.format("nothing"))
        if hasattr(environment, "close"):
            await _expect(environment.close(), messages.CLOSE_MUST_BE_IDEMPOTENT)

    # Cancellation and errors. -------------------------------------------------------------------

    @_in_environment
    async def test_cancelled_step(self, environment: Any) -> None:
        """A cancelled `step` raises CancelledError, and `reset` then begins an episode."""
        for turns in _TURNS_BEFORE_CANCELLATION:
            await self._reset(environment)
            await _cancel(environment.step(self.make_action(environment)), turns)
            await self._reset(environment)
            await self._step_after_first(environment)

    @_in_environment
    async def test_cancelled_reset(self, environment: Any) -> None:
        """A cancelled `reset` raises CancelledError, and `reset` then begins an episode."""
        for turns in _TURNS_BEFORE_CANCELLATION:
            await _cancel(environment.reset(), turns)
            await self._reset(environment)
            await self._step_after_first(environment)

    @_in_environment
    async def test_invalid_action(self, environment: Any) -> None:
        """An invalid action gives a timestep or an error, and `reset` then begins an episode."""
        action = self.make_invalid_action(environment)
        await self._reset(environment)
        try:
            timestep = await environment.step(action)
        except Exception:  # Any exception is allowed.
            timestep = None
        if timestep is not None:
            self._check_timestep(environment, timestep)
        await self._reset(environment)
        await self._step_after_first(environment)

    # Recording. ---------------------------------------------------------------------------------

    @_in_environment
    async def test_recording_leaves_no_open_episode(self, environment: Any) -> None:
        """A complete and an unfinished episode are recorded as two valid trajectories."""
        collector = memory.MemoryTrajectoryCollector()
        recorded = collecting_environment.TrajectoryCollectingEnvironment(environment, collector)
        await recorded.reset()
        for action in self.make_action_sequence(environment):
            if (await recorded.step(action)).last():
                break
        await recorded.reset()
        await recorded.step(self.make_action(environment))
        await recorded.close()
        assertions.assert_no_open_episode(collector)
        _check(
            len(collector.trajectories) == 2,
            messages.RECORD_MUST_HAVE_TWO_EPISODES.format(len(collector.trajectories)),
        )
        for trajectory in collector.trajectories:
            assertions.assert_valid_trajectory(trajectory)

    # Helpers. -----------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _environment(self) -> AsyncIterator[Any]:
        environment = self.make_environment()
        if inspect.isawaitable(environment):
            environment = await environment
        self._made = environment  # A bridge has all specs.
        environment = bridges.as_async(environment)
        try:
            yield environment
        finally:
            if hasattr(environment, "close"):
                async with self._time_limit():
                    await environment.close()

    @contextlib.asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.time_limit) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():  # The environment raised it.
                raise
            raise AssertionError(messages.MUST_NOT_HANG.format(self.time_limit)) from error

    def _validate(self, value: Any, environment: Any, spec: str) -> None:
        """Validate a value by one of the environment's specs, if it has this spec."""
        __tracebackhide__ = True
        if hasattr(self._made, spec):
            assertions.validate(value, getattr(environment, spec)())

    async def _reset(self, environment: Any) -> Any:
        timestep = await environment.reset()
        self._check_timestep(environment, timestep)
        _check(
            timestep.step_type is dm_env.StepType.FIRST,
            messages.RESET_MUST_RETURN_FIRST.format(timestep.step_type),
        )
        return timestep

    async def _step(self, environment: Any, action: Any = None) -> Any:
        if action is None:
            action = self.make_action(environment)
        timestep = await environment.step(action)
        self._check_timestep(environment, timestep)
        return timestep

    async def _step_after_first(self, environment: Any) -> None:
        timestep = await self._step(environment)
        _check(
            timestep.step_type is not dm_env.StepType.FIRST,
            messages.STEP_AFTER_FIRST_MUST_NOT_RETURN_FIRST,
        )

    async def _play(self, environment: Any) -> Any:
        """Play to LAST and return it; skip the test if the actions do not reach one."""
        await self._reset(environment)
        for action in self.make_action_sequence(environment):
            timestep = await self._step(environment, action)
            if timestep.step_type is dm_env.StepType.LAST:
                return timestep
        raise unittest.SkipTest(messages.NO_END_REACHED)

    def _check_timestep(self, environment: Any, timestep: Any) -> None:
        _check(
            isinstance(timestep, dm_env.TimeStep),
            messages.MUST_BE_A_TIMESTEP.format(type(timestep)),
        )
        _check(
            isinstance(timestep.step_type, dm_env.StepType),
            messages.MUST_HAVE_A_STEP_TYPE.format(timestep.step_type),
        )
        if timestep.step_type is dm_env.StepType.FIRST:
            _check(timestep.reward is None, messages.FIRST_MUST_NOT_HAVE_REWARD)
            _check(timestep.discount is None, messages.FIRST_MUST_NOT_HAVE_DISCOUNT)
        else:
            self._validate(timestep.reward, environment, "reward_spec")
            self._validate(timestep.discount, environment, "discount_spec")
        self.assert_valid_observation(environment, timestep.observation)


def _check(condition: bool, message: str) -> None:
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(message)


def _skip_without_close(environment: Any) -> None:
    if not hasattr(environment, "close"):
        raise unittest.SkipTest("the environment has no close, which is optional")


async def _expect(call: Awaitable[Any], message: str) -> None:
    try:
        await call
    except Exception as error:
        raise AssertionError(message.format(repr(error))) from error


async def _cancel(call: Coroutine[Any, Any, Any], turns: int) -> None:
    """Start a call and cancel it after some turns of the loop, unless it has returned."""
    task = asyncio.create_task(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        await task
        return
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError(messages.CANCELLATION_MUST_NOT_BE_SWALLOWED)
