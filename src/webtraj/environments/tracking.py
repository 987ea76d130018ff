"""The recording wrapper's state machine: which episode is open, and how it ends.

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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import (
    EpisodeRecorder,
    NullTrajectoryCollector,
    TrajectoryCollector,
    optional,
)
from webtraj.environments import base as contract
from webtraj.environments.redaction import without_keys
from webtraj.store.foreign import bounded_repr
from webtraj.trajectory import EndReason, Phase, StepType

__all__ = ["EpisodeTracker", "OnCollectorError", "outcome_of_error", "same"]

OnCollectorError = Literal["raise", "warn"]

_LOGGER = logging.getLogger(__name__)
_CANCELLATIONS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)


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
        *,
        describe: Callable[[], trajectory_lib.EpisodeInfo],
        redescribe: Callable[[trajectory_lib.EpisodeInfo], trajectory_lib.EpisodeInfo],
        outcome: Callable[[], trajectory_lib.Outcome],
        on_collector_error: OnCollectorError,
    ) -> None:
        """Initialize the tracker with no episode open.

        Args:
            collector: Stores the episodes.
            describe: Returns the info of an episode about to begin.
            redescribe: Returns the updated info of an episode that has just begun, given the first.
            outcome: Returns the outcome of an episode that has just returned LAST.
            on_collector_error: Whether a failure to record is raised, or logged and noted in the
                episode's end.
        """
        self._collector = collector
        self._describe = describe
        self._redescribe = redescribe
        self._outcome = outcome
        self._raise = on_collector_error == "raise"
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
        self.ended(EndReason.INTERRUPTED, Phase.RESET)
        self._begin()

    def step_called(self, action: Any, decision: trajectory_lib.Decision | None) -> None:
        """Note the action that is about to go to the environment."""
        episode = self._episode or self._begin()
        self._start_time = trajectory_lib.now()
        episode.action_in_flight = True
        episode.action = action
        episode.decision = decision
        try:
            episode.action = action = without_keys(action)
            episode.decision = decision = without_keys(decision)
            episode.record_intent(action, decision=decision)
        except Exception as error:  # Whatever a collector raises, here and below.
            if self._raise:  # The action is not taken.
                episode.action_in_flight = False
                episode.action = episode.decision = None
            self._handle([_noted(episode, error)])

    def withdrawn(self) -> None:
        """Forget the action in flight: somebody took it back before its result was recorded."""
        if self._episode is not None:
            self._episode.action_in_flight = False
            self._episode.action = self._episode.decision = None

    def returned(self, timestep: Any, phase: Phase) -> None:
        """Record the timestep that `reset` or `step` returned.

        If `close` or `mark_truncated` has ended the episode meanwhile, the timestep is dropped;
        that episode's end names the action in flight.

        Raises:
            EnvironmentMisuseError: The value is not a timestep.
        """
        end_time = trajectory_lib.now()
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
            episode = self._first_returned(episode, failures)
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
            failures.append(_noted(episode, error))
        if step_type is StepType.LAST:
            reason = EndReason.TRUNCATED
            if contract.is_termination(timestep.discount):
                reason = EndReason.TERMINATED
            failures += self._end(reason, phase, outcome=self._judge(episode))
            self._step_rule = contract.ALREADY_LAST_RAISED
        if failures:
            self._handle(failures)

    def raised(self, error: BaseException, phase: Phase) -> None:
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

    def ended(
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
        self._handle(self._end(reason, phase, detail=detail, outcome=outcome))

    def _begin(self, failures: Iterable[Exception] = ()) -> _OpenEpisode:
        """Begin an episode; if that fails, report `failures` too."""
        self._start_time = trajectory_lib.now()
        info = self._describe()
        try:
            recorder = self._collector.begin_episode(info)
        except Exception as error:
            if self._raise:
                self._handle([error, *failures])
            _LOGGER.warning("The episode %s is not recorded: %s", info.episode_id, error)
            recorder = NullTrajectoryCollector()
        self._episode = _OpenEpisode(info, recorder, optional(recorder, "record_intent"))
        return self._episode

    def _first_returned(self, episode: _OpenEpisode, failures: list[Exception]) -> _OpenEpisode:
        """Return the episode of a FIRST: a new one if the environment reset itself."""
        if episode.num_records:
            episode.violations.append(contract.RESET_BY_ITSELF)
            action, decision, start_time = episode.action, episode.decision, self._start_time
            failures += self._end(EndReason.INTERRUPTED, Phase.STEP)
            episode = self._begin(failures)
            episode.action, episode.decision, self._start_time = action, decision, start_time
        self._update_info(episode, self._redescribe(episode.info), failures)
        return episode

    def _headless(self, episode: _OpenEpisode, phase: Phase, failures: list[Exception]) -> None:
        """Note that an episode did not start with FIRST, and link it to the episode before."""
        info = self._redescribe(episode.info)
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
        if same(info, episode.info):
            return
        episode.info = info
        try:
            optional(episode.recorder, "record_info")(info)
        except Exception as error:
            failures.append(_noted(episode, error))

    def _no_timestep(self, value: Any, phase: Phase) -> errors.EnvironmentMisuseError:
        error = errors.EnvironmentMisuseError(
            f"{phase} returned an object of type {type(value).__qualname__}; expected a timestep "
            "with step_type, reward, discount and observation, as dm_env defines it. "
            "Wrap a Gymnasium environment with webtraj.from_gymnasium first."
        )
        self._step_rule = ""
        self.raised(error, phase)
        return error

    def _judge(self, episode: _OpenEpisode) -> trajectory_lib.Outcome:
        try:
            return trajectory_lib.Outcome(self._outcome())
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
            error=None if error is None else without_keys(_error_info(error)),
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
            episode.decision = without_keys(decision)

    def _handle(self, failures: list[Exception]) -> None:
        if failures and self._raise:
            first, *others = failures
            for other in others:
                first.add_note(f"And: {other}")
            raise first
        for failure in failures:
            _LOGGER.warning("Not recorded: %s", failure)


def _foreign_step_type(timestep: Any, episode: _OpenEpisode) -> StepType:
    """Return the type of a timestep that is not dm_env's own; MID if it is unknown."""
    step_type = contract.step_type_of(timestep)
    if step_type is None:
        given = bounded_repr(timestep.step_type)
        episode.violations.append(f"{contract.UNKNOWN_STEP_TYPE}; got {given}")
        return StepType.MID
    return step_type


def same(one: Any, other: Any) -> bool:
    """Return whether two values are known to be equal, whatever they are."""
    try:
        return bool(one == other)
    except Exception:  # Arrays have no truth value; other values may raise.
        return False


def _noted(episode: _OpenEpisode, error: Exception) -> Exception:
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


def _error_info(error: BaseException) -> trajectory_lib.ErrorInfo:
    cls = type(error)
    name = (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )
    try:
        message = str(error)
    except Exception as broken:  # A broken __str__ must not hide the error itself.
        message = f"<str failed: {type(broken).__name__}>"
    return trajectory_lib.ErrorInfo(
        type=name,
        message=_without_folders(message),
        traceback=_without_folders("".join(traceback.format_exception(error))),
    )


def _without_folders(text: str) -> str:
    """Return a text without the folders of this machine: modules by their names, home as `~`."""
    places = {f"{place}/": "" for place in sys.path if len(place) > 1}
    with contextlib.suppress(RuntimeError):  # A user without a home.
        places.setdefault(f"{Path.home()}/", "~/")
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text
