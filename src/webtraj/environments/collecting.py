"""`TrajectoryCollectingEnvironment`: records every episode of the environment that it wraps.

It only forwards and records: timesteps and exceptions pass through unchanged. Secrets of an
environment (`Redacts`) are redacted on their way to the collector. It must be the outermost
wrapper; otherwise it records different episodes from those the agent sees. `tracking` defines which
events begin and end an episode.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import TrajectoryCollector, drain, seal
from webtraj.environments import bridges, redaction
from webtraj.environments.tracking import EpisodeTracker, OnCollectorError, same
from webtraj.trajectory import EndReason, Phase

__all__ = ["TrajectoryCollectingEnvironment"]

_LOGGER = logging.getLogger(__name__)
_DEFAULT_INFO = {
    field.name: getattr(trajectory_lib.EpisodeInfo(), field.name)
    for field in dataclasses.fields(trajectory_lib.EpisodeInfo)
    if field.name != "episode_id"
}


class TrajectoryCollectingEnvironment:
    """An environment that records everything that happens in another one on a collector.

    It accepts any environment shaped like dm_env's: synchronous or asynchronous, with dm_env's
    TimeStep or its own (a named tuple with step_type, reward, discount and observation), and
    returns that environment's own TimeStep objects. Other attributes are forwarded to the inner
    environment.

    Closing the environment does not close the collector, which others may share. After `close`, the
    environment's episodes are safe on this machine; uploads may still be running.
    """

    accepts_decisions = True

    def __init__(
        self,
        env: Any,
        trajectory_collector: TrajectoryCollector,
        *,
        episode_info: trajectory_lib.EpisodeInfo
        | Callable[[], trajectory_lib.EpisodeInfo]
        | None = None,
        on_collector_error: OnCollectorError = "raise",
    ) -> None:
        """Wrap an environment.

        Args:
            env: The environment. One whose methods are not coroutines runs on a thread of its own
                (see `webtraj.as_async`).
            trajectory_collector: Stores the episodes.
            episode_info: Description of the episodes. An `EpisodeInfo` is a template: each episode
                gets its own id. A function is called for each episode, and its result is used
                unchanged. Fields left at their default are filled in from the environment's
                `describe_episode`, if it has one.
            on_collector_error: What to do when the collector fails. "raise" raises its error from
                the call in which it happened; "warn" logs it and notes it in the episode's end.

        Raises:
            InvalidInputError: `on_collector_error` is neither, or an argument is not an environment
                or a collector.
        """
        if not callable(getattr(trajectory_collector, "begin_episode", None)):
            raise errors.InvalidInputError(
                "TrajectoryCollectingEnvironment takes an environment and a collector, which has "
                f"begin_episode; got {trajectory_collector!r:.200} as the collector."
            )
        if on_collector_error not in ("raise", "warn"):
            raise errors.InvalidInputError(
                f"on_collector_error={on_collector_error!r} is not known; "
                "expected 'raise' or 'warn'."
            )
        self._env = bridges.as_async(env)
        self._collector = trajectory_collector
        self._episode_info = episode_info
        self._on_collector_error = on_collector_error
        self._passes_decisions = getattr(self._env, "accepts_decisions", False)
        self._tracker = EpisodeTracker(
            redaction.redacting(trajectory_collector, self._env),
            describe=self._describe_new,
            redescribe=self._describe_known,
            outcome=self._episode_outcome,
            on_collector_error=on_collector_error,
        )
        self._left_open: frozenset[str] = frozenset()
        self._busy = ""

    @property
    def trajectory_collector(self) -> TrajectoryCollector:
        """The collector that stores the episodes."""
        return self._collector

    @property
    def tracker(self) -> EpisodeTracker:
        """The state machine, for recording actions that are not calls of `step`."""
        return self._tracker

    @property
    def environment_name(self) -> str:
        """The name of the inner environment, usually its class, for the record."""
        return _environment_name(self._env)

    @property
    def episode_id(self) -> str | None:
        """The id of the open episode; None if there is none."""
        return self._tracker.episode_id

    async def reset(self) -> Any:
        """Reset the environment; an open episode ends as INTERRUPTED.

        Raises:
            ConcurrentCallError: Another call has not returned yet.
            CollectorError: Something could not be recorded.
        """
        self._enter("reset")
        try:
            try:
                await drain(self._collector)
            except BaseException as error:
                self._drain_failed(error, Phase.RESET)
            self._tracker.reset_called()
            try:
                timestep = await self._env.reset()
            except BaseException as error:
                self._tracker.raised(error, Phase.RESET)
                raise
            self._tracker.returned(timestep, Phase.RESET)
            return timestep
        finally:
            self._busy = ""

    async def step(self, action: Any) -> Any:
        """Acts.

        Args:
            action: The action, or a `webtraj.Decision` that holds it. A decision is recorded with
                the step; the environment gets only its action, unless it accepts decisions.

        Raises:
            ConcurrentCallError: Another call has not returned yet.
            CollectorError: Something could not be recorded. If it was the action's result, the
                action has been carried out.
        """
        self._enter("step")
        try:
            try:
                await drain(self._collector)
            except BaseException as error:
                self._drain_failed(error, Phase.STEP)
            decision = None
            given = action
            if issubclass(type(action), trajectory_lib.Decision):
                decision, action = action, action.action
                given = decision if self._passes_decisions else action
            self._tracker.step_called(action, decision)
            try:
                timestep = await self._env.step(given)
            except BaseException as error:
                self._tracker.raised(error, Phase.STEP)
                raise
            self._tracker.returned(timestep, Phase.STEP)
            return timestep
        finally:
            self._busy = ""

    async def close(self) -> None:
        """End an open episode as CLOSED, close the environment, and wait until all is saved."""
        try:
            self._tracker.ended(EndReason.CLOSED, Phase.CLOSE)
        finally:
            await self._close_inner()
        await self._seal()

    async def __aenter__(self) -> Self:
        if hasattr(self._env, "__aenter__"):
            await self._env.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is not None:
                self._tracker.raised(exc, Phase.EXIT)
            else:
                self._tracker.ended(EndReason.CLOSED, Phase.EXIT)
        finally:
            if hasattr(self._env, "__aexit__"):
                await self._env.__aexit__(exc_type, exc, traceback)
            else:
                await self._close_inner()
        await self._seal(during=exc)

    def mark_truncated(
        self, reason: str, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """End the open episode as TRUNCATED, for a run loop with its own limits.

        Args:
            reason: The limit that was reached, for people: "context window", "60 s".
            decision: The decision at which the episode ended, if its action was never taken.

        Raises:
            EnvironmentMisuseError: No episode is open.
        """
        if self._tracker.episode_id is None:
            raise errors.EnvironmentMisuseError(
                f"mark_truncated({reason!r}): no episode is open. Call it after reset and "
                "before the episode's LAST timestep."
            )
        self._tracker.ended(EndReason.TRUNCATED, Phase.STEP, detail=reason, decision=decision)

    def observation_spec(self) -> Any:
        """Return the inner environment's."""
        return self._env.observation_spec()

    def action_spec(self) -> Any:
        """Return the inner environment's."""
        return self._env.action_spec()

    def reward_spec(self) -> Any:
        """Return the inner environment's."""
        return self._env.reward_spec()

    def discount_spec(self) -> Any:
        """Return the inner environment's."""
        return self._env.discount_spec()

    def __getattr__(self, name: str) -> Any:
        if (
            name.startswith("__") or name == "_env"
        ):  # Copying looks up dunders on half-made objects.
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._env, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "A TrajectoryCollectingEnvironment cannot be pickled or copied: its collector holds "
            "open files, and a copy would record the same episode twice. Create a new environment "
            "and collector in the other process, on the same dataset folder."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._env!r}, {self._collector!r})"

    def _enter(self, name: str) -> None:
        if self._busy:
            raise errors.ConcurrentCallError(
                f"{name} was called before {self._busy} returned. An environment runs one episode "
                "at a time: create one environment per concurrent episode."
            )
        self._busy = name

    def _drain_failed(self, error: BaseException, phase: Phase) -> None:
        if isinstance(error, Exception):
            self._collector_failed(error)
        else:  # Cancelled before anything was done.
            self._tracker.raised(error, phase)
            raise error

    async def _close_inner(self) -> None:
        # An environment that holds nothing needs no `close`.
        if hasattr(self._env, "close"):
            await self._env.close()

    async def _seal(self, during: BaseException | None = None) -> None:
        try:
            await seal(self._collector)
        except Exception as error:
            if during is None:
                self._collector_failed(error)
            else:  # Do not hide the exception already being raised.
                during.add_note(f"webtraj: something could not be recorded: {error}")

    def _collector_failed(self, error: Exception) -> None:
        if self._on_collector_error == "raise":
            raise error
        _LOGGER.warning("Not recorded: %s", error)

    def _describe_new(self) -> trajectory_lib.EpisodeInfo:
        if callable(self._episode_info):
            info = self._episode_info()
        else:
            template = self._episode_info or trajectory_lib.EpisodeInfo()
            info = dataclasses.replace(template, episode_id=trajectory_lib.new_episode_id())
        self._left_open = frozenset(
            name for name, default in _DEFAULT_INFO.items() if same(getattr(info, name), default)
        )
        if not info.environment:
            info = dataclasses.replace(info, environment=_environment_name(self._env))
        return self._describe_known(info)

    def _describe_known(self, info: trajectory_lib.EpisodeInfo) -> trajectory_lib.EpisodeInfo:
        """Return `info` with the fields that the user left open filled in by the environment."""
        describe = getattr(self._env, "describe_episode", None)
        if describe is None:
            return info
        try:
            known: Mapping[str, Any] = describe()
            fields = {name: value for name, value in known.items() if name in self._left_open}
            if known.get("metadata"):
                fields["metadata"] = _merged(known["metadata"], info.metadata)
        except Exception:  # A failing description must not cost the episode.
            _LOGGER.exception("describe_episode raised; the episode continues without it")
            return info
        return dataclasses.replace(info, **fields) if fields else info

    def _episode_outcome(self) -> trajectory_lib.Outcome:
        judge = getattr(self._env, "episode_outcome", None)
        return trajectory_lib.Outcome.UNKNOWN if judge is None else judge()


def _merged(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, at every level; what was given counts where they differ."""
    both = {
        name: _merged(known[name], value)
        if isinstance(value, Mapping) and isinstance(known.get(name), Mapping)
        else value
        for name, value in given.items()
    }
    return {**known, **both}


def _environment_name(env: Any) -> str:
    inner = getattr(env, "environment_name", None)
    return inner if isinstance(inner, str) else type(env).__name__
