"""`TrajectoryCollectingEnvironment`: records every episode of the environment that it wraps.

It only forwards and records: timesteps and exceptions pass through unchanged. Secrets of an
environment (`Redacts`) are redacted on their way to the collector. It must be the outermost
wrapper; otherwise it records different episodes from those the agent sees.

`EpisodeTracker` is its state machine: which episode is open, and how it ends.

=====================  ==============================  ===========================================
event                  no episode is open              an episode is open
=====================  ==============================  ===========================================
reset is called        begin                           end (INTERRUPTED), begin
reset returns FIRST    --                              record step 0
reset raises           --                              end (ERRORED or CANCELLED), 0 steps
step is called         begin                           note the action in flight
step returns FIRST     --                              record it; if steps were recorded before, end
                                                       (INTERRUPTED) and begin first
step returns MID       --                              record it; without a FIRST before, that is
                                                       noted, and the episode linked to the last one
step returns LAST      --                              record it, end (TERMINATED or TRUNCATED)
step raises            --                              end (ERRORED or CANCELLED), action in flight
close, or exit         nothing                         end (CLOSED; by an exception: ERRORED or
                                                       CANCELLED; an agent's error brings along
                                                       the decision that it could not finish)
mark_truncated         --                              end (TRUNCATED)
=====================  ==============================  ===========================================

An episode begins *before* the environment is asked for its first timestep, so an episode whose
reset fails, or kills the process, is recorded too, with no steps.

Nothing here awaits, so cancellation cannot interrupt a change of state. A failure to record never
replaces an exception of the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from webtraj import errors, redaction
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import (
    EpisodeRecorder,
    NullTrajectoryCollector,
    TrajectoryCollector,
    begin,
    optional,
    seal,
)
from webtraj.environments import base as contract
from webtraj.environments import bridges, redacting_collector
from webtraj.store.foreign import bounded_repr
from webtraj.trajectory import EndReason, Phase, StepType

__all__ = [
    "EpisodeTracker",
    "OnCollectorError",
    "TrajectoryCollectingEnvironment",
    "error_type",
    "outcome_of_error",
]

OnCollectorError = Literal["raise", "warn"]

_LOGGER = logging.getLogger(__name__)
_CANCELLATIONS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
_DEFAULT_INFO = {
    field.name: getattr(trajectory_lib.EpisodeInfo(), field.name)
    for field in dataclasses.fields(trajectory_lib.EpisodeInfo)
    if field.name != "episode_id"
}


class TrajectoryCollectingEnvironment(bridges.WrapsEnvironment):
    """Wraps an environment, and records everything that happens in it.

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
        self._environment = bridges.as_async(env)
        self._collector = trajectory_collector
        self._drain = getattr(trajectory_collector, "drain", NullTrajectoryCollector().drain)
        self._passes_decisions = getattr(self._environment, "accepts_decisions", False)
        self.tracker = EpisodeTracker(
            redacting_collector.with_redaction(trajectory_collector, self._environment),
            self._environment,
            episode_info,
            on_collector_error=on_collector_error,
        )
        """The state machine, for recording actions that are not calls of `step`."""
        self._busy = ""

    @property
    def trajectory_collector(self) -> TrajectoryCollector:
        """The collector that stores the episodes."""
        return self._collector

    @property
    def episode_id(self) -> str | None:
        """The id of the open episode; None if there is none."""
        return self.tracker.episode_id

    async def reset(self) -> Any:
        """Reset the environment; an open episode ends as INTERRUPTED.

        Raises:
            ConcurrentCallError: Another call has not returned yet.
            CollectorError: Something could not be recorded.
        """
        self._enter("reset")
        try:
            try:
                await self._drain()
            except BaseException as error:
                self._handle_undrained(error, Phase.RESET)
            self.tracker.reset_called()
            try:
                timestep = await self._environment.reset()
            except BaseException as error:
                self.tracker.record_exception(error, Phase.RESET)
                raise
            self.tracker.record_return(timestep, Phase.RESET)
            return timestep
        finally:
            self._busy = ""

    async def step(self, action: Any) -> Any:
        """Take an action.

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
            try:  # As in `reset`; a coroutine around both would cost each step.
                await self._drain()
            except BaseException as error:
                self._handle_undrained(error, Phase.STEP)
            decision = None
            given = action
            if issubclass(type(action), trajectory_lib.Decision):
                decision, action = action, action.action
                given = decision if self._passes_decisions else action
            self.tracker.step_called(action, decision)
            try:
                timestep = await self._environment.step(given)
            except BaseException as error:
                self.tracker.record_exception(error, Phase.STEP)
                raise
            self.tracker.record_return(timestep, Phase.STEP)
            return timestep
        finally:
            self._busy = ""

    async def close(self) -> None:
        """End an open episode as CLOSED, close the environment, and wait until all is saved."""
        try:
            self.tracker.end(EndReason.CLOSED, Phase.CLOSE)
        finally:
            await self._close_inner()
        await self._seal()

    async def __aenter__(self) -> Self:
        if hasattr(self._environment, "__aenter__"):
            await self._environment.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is not None:
                self.tracker.record_exception(exc, Phase.EXIT)
            else:
                self.tracker.end(EndReason.CLOSED, Phase.EXIT)
        finally:
            if hasattr(self._environment, "__aexit__"):
                await self._environment.__aexit__(exc_type, exc, traceback)
            else:
                await self._close_inner()
        await self._seal(during=exc)

    def mark_truncated(
        self, reason: str, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """End the open episode as TRUNCATED, for a run loop with its own limits.

        Args:
            reason: The limit that was reached, in words: "context window", "60 s".
            decision: The decision at which the episode ended, if its action was never taken.

        Raises:
            EnvironmentMisuseError: No episode is open.
        """
        if self.tracker.episode_id is None:
            raise errors.EnvironmentMisuseError(
                f"mark_truncated({reason!r}): no episode is open. Call it after reset and "
                "before the episode's LAST timestep."
            )
        self.tracker.end(EndReason.TRUNCATED, Phase.STEP, detail=reason, decision=decision)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A TrajectoryCollectingEnvironment cannot be pickled or copied: its collector holds "
            "open files, and a copy would record the same episode twice. Create a new environment "
            "and collector in the other process, on the same dataset folder."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._environment!r}, {self._collector!r})"

    def _enter(self, name: str) -> None:
        if self._busy:
            raise errors.ConcurrentCallError(
                f"{name} was called before {self._busy} returned. An environment runs one episode "
                "at a time: create one environment per concurrent episode."
            )
        self._busy = name

    def _handle_undrained(self, error: BaseException, phase: Phase) -> None:
        """Handle a failure to wait while the collector is too far behind."""
        if isinstance(error, Exception):
            self.tracker.handle_failures([error])
        else:  # Cancelled before anything was done.
            self.tracker.record_exception(error, phase)
            raise error

    async def _close_inner(self) -> None:
        # An environment that holds nothing needs no `close`.
        if hasattr(self._environment, "close"):
            await self._environment.close()

    async def _seal(self, during: BaseException | None = None) -> None:
        try:
            await seal(self._collector)
        except Exception as error:
            if during is None:
                self.tracker.handle_failures([error])
            else:  # Do not hide the exception already being raised.
                during.add_note(f"webtraj: something could not be recorded: {error}")


@dataclasses.dataclass(slots=True)
class _OpenEpisode:
    info: trajectory_lib.EpisodeInfo
    recorder: EpisodeRecorder
    record_intent: Callable[..., None]
    num_records: int = 0
    action_in_flight: bool = False
    action: Any = None
    decision: trajectory_lib.Decision | None = None
    violations: list[str] = dataclasses.field(default_factory=list)
    recording_errors: list[str] = dataclasses.field(default_factory=list)


class EpisodeTracker:
    """A state machine that turns one environment's events into episodes on a collector."""

    def __init__(
        self,
        collector: TrajectoryCollector,
        environment: Any,
        episode_info: trajectory_lib.EpisodeInfo | Callable[[], trajectory_lib.EpisodeInfo] | None,
        *,
        on_collector_error: OnCollectorError,
    ) -> None:
        """Initialize the tracker with no episode open.

        Args:
            collector: Stores the episodes.
            environment: The environment, which may describe and judge its episodes.
            episode_info: See `TrajectoryCollectingEnvironment`.
            on_collector_error: Whether to raise a failure to record, or to log it and note it in
                the episode's end.
        """
        self._collector = collector
        self._environment = environment
        self._episode_info = episode_info
        self._raise = on_collector_error == "raise"
        self._left_open: frozenset[str] = frozenset()
        self._episode: _OpenEpisode | None = None
        self._previous_id = ""
        # The rule that the environment breaks if `step` raises with no episode open; "" if none.
        self._step_rule = contract.FRESH_STEP_RAISED
        self._start_time = 0.0

    @property
    def episode_id(self) -> str | None:
        """The id of the open episode."""
        return None if self._episode is None else self._episode.info.episode_id

    def reset_called(self) -> None:
        """End the open episode, if any, and begin another."""
        self.end(EndReason.INTERRUPTED, Phase.RESET)
        self._begin()

    def step_called(
        self, action: Any, decision: trajectory_lib.Decision | None, *, at: float | None = None
    ) -> None:
        """Note the action that the environment is about to get, or that was taken at time `at`."""
        episode = self._episode or self._begin()
        self._start_time = trajectory_lib.now() if at is None else at
        episode.action_in_flight = True
        episode.action = action
        episode.decision = decision
        try:
            episode.action = action = redaction.without_keys(action)
            episode.decision = decision = redaction.without_keys(decision)
            episode.record_intent(action, decision=decision)
        except Exception as error:  # Whatever a collector raises, here and below.
            if self._raise:  # The action is not taken.
                episode.action_in_flight = False
                episode.action = episode.decision = None
            self.handle_failures([_note_error(episode, error)])

    def withdrawn(self) -> None:
        """Forget the action in flight, which was taken back before its result was recorded."""
        if self._episode is not None:
            self._episode.action_in_flight = False
            self._episode.action = self._episode.decision = None

    def record_return(self, timestep: Any, phase: Phase, *, at: float | None = None) -> None:
        """Record the timestep that `reset` or `step` returned, now or at time `at`.

        If `close` or `mark_truncated` has ended the episode meanwhile, the timestep is dropped;
        that episode's end names the action in flight.

        Raises:
            EnvironmentMisuseError: The value is not a timestep.
        """
        end_time = trajectory_lib.now() if at is None else at
        episode = self._episode
        if episode is None:
            return
        try:
            step_type = timestep.step_type
        except AttributeError as error:
            raise self._no_timestep(timestep, phase) from error
        if type(step_type) is not StepType:
            step_type = _foreign_step_type(timestep, episode)
        failures: list[Exception] = []
        if step_type is StepType.FIRST:
            episode = self._begin_at_first(episode, failures)
        elif episode.num_records == 0:
            self._headless(episode, phase, failures)
        is_first = step_type is StepType.FIRST
        try:
            step = trajectory_lib.StepRecord(
                episode.num_records,
                step_type,
                timestep.observation,
                None if is_first else episode.action,
                timestep.reward,
                timestep.discount,
                self._start_time,
                end_time,
                episode.decision,
                episode.action if is_first else None,
            )
        except AttributeError as error:
            raise self._no_timestep(timestep, phase) from error
        if broken := contract.broken_rules(timestep, step_type):
            episode.violations.extend(broken)
        episode.num_records += 1
        episode.action_in_flight = False
        episode.action = episode.decision = None
        try:
            episode.recorder.record_step(step)
        except Exception as error:
            failures.append(_note_error(episode, error))
        if step_type is StepType.LAST:
            reason = EndReason.TRUNCATED
            if contract.is_termination(timestep.discount):
                reason = EndReason.TERMINATED
            failures += self._end(reason, phase, outcome=self._judge(episode))
            self._step_rule = contract.ALREADY_LAST_RAISED
        if failures:
            self.handle_failures(failures)

    def record_exception(self, error: BaseException, phase: Phase) -> None:
        """End the episode because of an exception, which the caller re-raises."""
        episode = self._episode
        if episode is None:
            return
        unasked = phase is Phase.STEP and episode.num_records == 0
        if unasked and self._step_rule and isinstance(error, Exception):
            episode.violations.append(self._step_rule)
        reason, outcome = EndReason.ERRORED, outcome_of_error(error, phase)
        if isinstance(error, _CANCELLATIONS):
            reason, outcome = EndReason.CANCELLED, trajectory_lib.Outcome.CANCELLED
        if isinstance(error, errors.AgentError):
            self._note_undone(episode, error.decision)
        for failure in self._end(reason, phase, error=error, outcome=outcome):
            error.add_note(f"webtraj: the episode's end could not be recorded: {failure}")

    def end(
        self,
        reason: EndReason,
        phase: Phase,
        *,
        detail: str = "",
        decision: trajectory_lib.Decision | None = None,
    ) -> None:
        """End the open episode, if any.

        `decision` is the decision at which it ended, whose action was not taken.
        """
        if self._episode is not None:
            self._note_undone(self._episode, decision)
        outcome = trajectory_lib.Outcome.UNKNOWN
        if reason is EndReason.TRUNCATED and self._episode is not None:
            outcome = self._judge(self._episode)
        self.handle_failures(self._end(reason, phase, detail=detail, outcome=outcome))

    def handle_failures(self, failures: list[Exception]) -> None:
        """Raise failures to record, as one, or log them."""
        if failures and self._raise:
            first, *others = failures
            for other in others:
                first.add_note(f"And: {other}")
            raise first
        for failure in failures:
            _LOGGER.warning("Not recorded: %s", failure)

    def _begin(self, failures: Iterable[Exception] = ()) -> _OpenEpisode:
        """Begin an episode; if that fails, report `failures` too."""
        self._start_time = trajectory_lib.now()
        info = self._describe_new()
        try:
            recorder = begin(self._collector, info)
        except Exception as error:
            if self._raise:
                self.handle_failures([error, *failures])
            _LOGGER.warning("The episode %s is not recorded: %s", info.episode_id, error)
            recorder = NullTrajectoryCollector()
        self._episode = _OpenEpisode(info, recorder, optional(recorder, "record_intent"))
        return self._episode

    def _begin_at_first(self, episode: _OpenEpisode, failures: list[Exception]) -> _OpenEpisode:
        """Return the episode that a FIRST belongs to; a new one if the environment reset itself."""
        if episode.num_records:
            episode.violations.append(contract.RESET_BY_ITSELF)
            action, decision, start_time = episode.action, episode.decision, self._start_time
            failures += self._end(EndReason.INTERRUPTED, Phase.STEP)
            episode = self._begin(failures)
            episode.action, episode.decision, self._start_time = action, decision, start_time
        self._update_info(episode, self._describe_info(episode.info, episode.violations), failures)
        return episode

    def _headless(self, episode: _OpenEpisode, phase: Phase, failures: list[Exception]) -> None:
        """Note that an episode did not start with FIRST, and link it to the episode before."""
        info = self._describe_info(episode.info, episode.violations)
        if phase is Phase.RESET:
            episode.violations.append(contract.NOT_FIRST_AFTER_RESET)
        else:
            episode.violations.append(contract.STEP_WITHOUT_RESET)
            parent = info.parent_episode_id or self._previous_id
            info = dataclasses.replace(info, parent_episode_id=parent)
        self._update_info(episode, info, failures)

    def _update_info(
        self, episode: _OpenEpisode, info: trajectory_lib.EpisodeInfo, failures: list[Exception]
    ) -> None:
        if _same(info, episode.info):
            return
        episode.info = info
        try:
            optional(episode.recorder, "record_info")(info)
        except Exception as error:
            failures.append(_note_error(episode, error))

    def _no_timestep(self, value: Any, phase: Phase) -> errors.EnvironmentMisuseError:
        error = errors.EnvironmentMisuseError(
            f"{phase} returned an object of type {type(value).__qualname__}; expected a timestep "
            "with step_type, reward, discount and observation, as dm_env defines it. "
            "Wrap a Gymnasium environment with webtraj.from_gymnasium first."
        )
        self._step_rule = ""
        self.record_exception(error, phase)
        return error

    def _describe_new(self) -> trajectory_lib.EpisodeInfo:
        if callable(self._episode_info):
            info = self._episode_info()
        else:
            template = self._episode_info or trajectory_lib.EpisodeInfo()
            info = dataclasses.replace(template, episode_id=trajectory_lib.new_episode_id())
        self._left_open = frozenset(
            name for name, default in _DEFAULT_INFO.items() if _same(getattr(info, name), default)
        )
        if not info.environment:
            info = dataclasses.replace(info, environment=bridges.name_of(self._environment))
        return self._describe_info(info, None)

    def _describe_info(
        self, info: trajectory_lib.EpisodeInfo, violations: list[str] | None
    ) -> trajectory_lib.EpisodeInfo:
        """Return `info` with the fields that the user left open filled in by the environment.

        A value that a field cannot hold is left out, and noted in `violations`.

        Before `reset` has returned, many environments have nothing to describe yet and may raise:
        they are asked again after FIRST. Until then, `violations` is None.
        """
        describe = getattr(self._environment, "describe_episode", None)
        if describe is None:
            return info
        try:
            known: Mapping[str, Any] = describe()
            fields = {name: value for name, value in known.items() if name in self._left_open}
            if (metadata := known.get("metadata")) is not None:
                is_mapping = isinstance(metadata, Mapping)
                metadata = metadata if is_mapping else {"value": metadata}
                fields["metadata"] = _merge_known(metadata, redacting_collector.metadata_of(info))
        except Exception:  # A failing description must not cost the episode.
            if violations is not None:
                _LOGGER.exception("describe_episode raised; the episode continues without it")
            return info
        for name, value in fields.items():
            try:
                info = dataclasses.replace(info, **{name: value})
            except errors.InvalidInputError as error:
                if violations is not None:
                    violations.append(f"{contract.DESCRIBE_TYPES}; {error}")
        return info

    def _judge(self, episode: _OpenEpisode) -> trajectory_lib.Outcome:
        try:
            return contract.outcome_of(self._environment)
        except Exception as error:  # Keep the timestep, even without its verdict.
            _LOGGER.exception("episode_outcome raised in episode %s", episode.info.episode_id)
            episode.violations.append(f"{contract.DESCRIBE_RAISED}; got {error!r}")
            return trajectory_lib.Outcome.UNKNOWN

    def _end(
        self,
        reason: EndReason,
        phase: Phase,
        *,
        detail: str = "",
        error: BaseException | None = None,
        outcome: trajectory_lib.Outcome = trajectory_lib.Outcome.UNKNOWN,
    ) -> list[Exception]:
        """End the open episode, if any; return what could not be recorded."""
        episode, self._episode = self._episode, None
        self._step_rule = ""
        if episode is None:
            return []
        self._previous_id = episode.info.episode_id
        end = trajectory_lib.EpisodeEnd(
            reason=reason,
            phase=phase,
            detail=detail,
            error=None if error is None else redaction.without_keys(_error_info(error)),
            action_in_flight=episode.action_in_flight,
            in_flight_action=episode.action,
            in_flight_decision=episode.decision,
            outcome=outcome,
            violations=tuple(episode.violations),
            recording_errors=tuple(episode.recording_errors),
        )
        try:
            episode.recorder.end_episode(end)
        except Exception as failure:
            return [failure]
        return []

    @staticmethod
    def _note_undone(episode: _OpenEpisode, decision: trajectory_lib.Decision | None) -> None:
        """Keep a decision whose action was never taken, unless an action is in flight."""
        if not episode.action_in_flight and decision is not None:
            episode.decision = redaction.without_keys(decision)


def _foreign_step_type(timestep: Any, episode: _OpenEpisode) -> StepType:
    """Return the type of a timestep that is not dm_env's own; MID if it is unknown."""
    step_type = contract.step_type_of(timestep)
    if step_type is None:
        given = bounded_repr(timestep.step_type)
        episode.violations.append(f"{contract.UNKNOWN_STEP_TYPE}; got {given}")
        return StepType.MID
    return step_type


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are known to be equal, whatever they are."""
    try:
        return bool(one == other)
    except Exception:  # Arrays have no truth value; other values may raise.
        return False


def _note_error(episode: _OpenEpisode, error: Exception) -> Exception:
    episode.recording_errors.append(f"{type(error).__name__}: {error}")
    return error


def outcome_of_error(error: BaseException, phase: Phase) -> trajectory_lib.Outcome:
    """Return the outcome of an episode that `error` ended.

    An agent's exception must arrive here as an `AgentError`: only the caller knows who raised it. A
    `ModelError` is a failure of the model's server, except for a prompt that is too long, which is
    the agent's fault. If `step` raises `InvalidInputError`, the environment rejects the agent's
    action.
    """
    if isinstance(error, errors.ModelError) and not isinstance(error, errors.ContextOverflowError):
        return trajectory_lib.Outcome.MODEL_ERROR
    if isinstance(error, errors.AgentError):
        return trajectory_lib.Outcome.AGENT_ERROR
    if phase is Phase.STEP and isinstance(error, errors.InvalidInputError):
        return trajectory_lib.Outcome.AGENT_ERROR
    if isinstance(error, errors.EpisodeTimeoutError):
        return trajectory_lib.Outcome.TIMEOUT
    if phase is Phase.EXIT and not isinstance(error, errors.BrowserError):
        return trajectory_lib.Outcome.UNKNOWN  # The body of `async with` raised: unknown.
    return trajectory_lib.Outcome.ENV_ERROR


def error_type(cls: type[BaseException]) -> str:
    """Return the name of an exception's class in records."""
    module = cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def _error_info(error: BaseException) -> trajectory_lib.ErrorInfo:
    try:
        message = str(error)
    except Exception as broken:  # A broken __str__ must not hide the error itself.
        message = f"<str failed: {type(broken).__name__}>"
    return trajectory_lib.ErrorInfo(
        type=error_type(type(error)),
        message=_without_folders(message),
        traceback=_without_folders("".join(traceback.format_exception(error))),
    )


def _without_folders(text: str) -> str:
    """Return a text without this machine's folders: modules by name, and home as `~`."""
    places = {f"{place}/": "" for place in sys.path if len(place) > 1}
    with contextlib.suppress(RuntimeError):  # A user without a home.
        places.setdefault(f"{Path.home()}/", "~/")
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text


def _merge_known(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings at every level. Where they differ, the given value counts."""
    both = {
        name: _merge_known(known[name], value)
        if isinstance(value, Mapping) and isinstance(known.get(name), Mapping)
        else value
        for name, value in given.items()
    }
    return {**known, **both}
