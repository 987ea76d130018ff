"""Play one episode and return a result that says how it ended.

Whoever raised an error decides what it means:

1. The agent, or the environment because the agent's action is unusable: the episode ends as ERRORED
   with the outcome AGENT_ERROR. That is the agent's failure, and success rates count it.
2. The environment, its browser, the model's server or a deadline: the episode ends as ERRORED with
   the outcome ENV_ERROR, MODEL_ERROR or TIMEOUT, and says nothing about the agent. A failure of the
   browser or the model's server stays theirs even if it reaches us through the agent.
3. An error that would end every other episode too is raised: a full disk or a missing package
   (`FATAL`), or the InvalidInputError of an agent that cannot act in the environment at all. Any
   other exception of `begin_episode` is the agent's, as if its first decision had raised it.
4. Cancellation ends the episode as CANCELLED and is raised again.
5. An agent that gives up an episode (`EpisodeGivenUpError`) truncates it. That is not an error.

An episode that ends in an error has no reward.

In each case the environment is closed before anything else happens, so that the record is complete.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents import base as agents_lib
from webtraj.environments import base as environment_lib
from webtraj.environments.bridges import WorkerThread
from webtraj.environments.collecting_environment import outcome_of_error
from webtraj.rollouts.deadlines import Deadline
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult
from webtraj.trajectory import Decision, EndReason, Outcome, Phase, sum_of_rewards

__all__ = ["FATAL", "EpisodePlay"]

FATAL = (
    errors.BrowserNotFoundError,
    errors.CollectorError,
    errors.MissingDependencyError,
)
"""Errors that would end every other episode too."""

_NEVER_THE_AGENTS = (
    errors.AgentError,
    errors.BrowserError,
    errors.EpisodeTimeoutError,
    errors.ForkDepartedError,
)
"""Errors that keep their type when the agent raises them; an `AgentError` already blames it."""

_logger = logging.getLogger(__name__)


class _Shown:
    """An environment as its agent sees it, with the plan's facts in its description.

    This is needed because an environment whose last episode was cut off still describes that
    episode until it is reset, and because an attempt in a group needs its number for fresh
    sampling.
    """

    def __init__(
        self, environment: environment_lib.Environment, planned: Mapping[str, Any]
    ) -> None:
        self._environment = environment
        self._planned = planned

    def describe_episode(self) -> Mapping[str, Any]:
        describe = getattr(self._environment, "describe_episode", None)
        return {**(describe() if callable(describe) else {}), **self._planned}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)


@dataclasses.dataclass(kw_only=True, slots=True)
class EpisodePlay:
    """Plays one episode to its end."""

    planned: PlannedEpisode
    """The episode to play."""
    environment: environment_lib.Environment
    """An environment of the planned task, seeded with `set_seed` if it has that. It is left open if
    the episode finishes, and closed otherwise."""
    agent: agents_lib.Agent
    episode_id: str = ""
    """Id of the record, if known beforehand."""
    number: int = 0
    """Number of earlier tries at this episode."""
    max_steps: int | None = None
    """Truncates the episode after this many steps; None leaves that to the environment."""
    max_repetitive_actions: int | None = None
    """Truncates the episode when the agent chooses the same action more often than this in a row;
    None allows any repetition."""
    deadline: Deadline | None = None
    """Limits the agent's decisions; the environment limits its own calls."""
    start: float = dataclasses.field(default_factory=time.perf_counter)
    seed: int | None = None
    num_steps: int = 0
    rewards: list[Any] = dataclasses.field(default_factory=list)
    phase: Phase = Phase.RESET
    agent_decides: bool = False
    thread: WorkerThread | None = None
    repeated: int = 0
    last_action: Any = None

    async def run(self, report: Callable[[EpisodeResult], None]) -> EpisodeResult:
        """Play the episode.

        Args:
            report: Called with the result, even if the episode is cancelled.

        Returns:
            The result of the episode.

        Raises:
            InvalidInputError: The agent cannot play this task. No episode was started.
            Exception: One of `FATAL`.
        """
        act = self._begin()
        try:
            end_reason = await self._loop(act)
            result = self._result(end_reason, _outcome(self.environment))
        except FATAL as fatal:
            await _close(self.environment, fatal)
            raise
        except asyncio.CancelledError as cancelled:
            try:
                await _close(self.environment, cancelled)
            finally:  # Report the end even if cancelled again meanwhile.
                report(self._result(EndReason.CANCELLED, Outcome.CANCELLED))
            raise
        except Exception as error:
            _logger.info("An episode of %s ended in an error.", self.planned.task, exc_info=True)
            recorded = self._attribute(error)
            result = self._result(EndReason.ERRORED, outcome_of_error(recorded, self.phase), error)
            try:
                await _close(self.environment, recorded)
            finally:  # Even if cancelled meanwhile, the record shows the error.
                report(result)
            return result
        finally:
            if self.thread is not None:
                self.thread.abandon()  # A hanging `act` must not block the rollout.
        report(result)
        return result

    def _begin(self) -> agents_lib.Act:
        set_seed = getattr(self.environment, "set_seed", None)
        if callable(set_seed):
            set_seed(self.planned.seed)
            self.seed = self.planned.seed
        try:
            known: dict[str, Any] = {} if self.seed is None else {"seed": self.seed}
            if self.planned.group is not None:
                known["attempt"] = self.planned.attempt
            if self.planned.fork is not None:
                known["fork"] = self.planned.fork
            shown = _Shown(self.environment, known) if known else self.environment
            actor = self.agent.begin_episode(shown)
        except (errors.InvalidInputError, *FATAL):
            raise
        except Exception as error:
            return _make_raising_act(error)
        return agents_lib.act_of(actor)

    async def _loop(self, act: agents_lib.Act) -> EndReason:
        timestep = await self.environment.reset()
        self.episode_id = getattr(self.environment, "episode_id", None) or self.episode_id
        self.phase = Phase.STEP
        takes_decisions = getattr(self.environment, "accepts_decisions", False)
        while not timestep.last():
            if self.max_steps is not None and self.num_steps >= self.max_steps:
                return self._truncate(f"the rollout's limit of {self.max_steps} steps")
            self.agent_decides = True
            try:
                decision = await self._decide(act, timestep.observation)
            except errors.EpisodeGivenUpError as given_up:
                self.agent_decides = False
                return self._truncate(str(given_up), given_up.decision)
            self.agent_decides = False
            fork = self.planned.fork
            of_record = fork is not None and self.num_steps < fork.step
            if not of_record and self._repeats(decision.action):
                return self._truncate(f"the same action {self.repeated} times in a row", decision)
            timestep = await self.environment.step(decision if takes_decisions else decision.action)
            self.num_steps += 1
            self.rewards.append(timestep.reward)
        terminated = environment_lib.is_termination(timestep.discount)
        return EndReason.TERMINATED if terminated else EndReason.TRUNCATED

    async def _decide(self, act: agents_lib.Act, observation: Any) -> Decision:
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        call = self._call(act, observation)
        if self.deadline is not None:
            call = self.deadline.within("The agent's decision", call)
        try:
            returned = await call
        except asyncio.CancelledError as leaked:
            if task.cancelling() > cancelled_before:
                raise
            raise errors.AgentError(
                "act raised CancelledError, though nobody cancelled it: something that it awaits "
                "was cancelled."
            ) from leaked
        if task.cancelling() > cancelled_before:
            raise asyncio.CancelledError  # The agent swallowed the cancellation.
        return agents_lib.decision_of(returned)

    async def _call(self, act: agents_lib.Act, observation: Any) -> Any:
        if agents_lib.is_async(act):
            return await act(observation)
        if self.thread is None:
            self.thread = WorkerThread(name=f"act of {self.agent.name}", last_call=lambda: None)
        returned = await asyncio.wrap_future(self.thread.submit(act, observation))
        return await returned if inspect.isawaitable(returned) else returned

    def _repeats(self, action: Any) -> bool:
        """Return whether the agent repeats an action more often than allowed."""
        if self.max_repetitive_actions is None:
            return False
        if self.repeated and _same(action, self.last_action):
            if self.repeated >= self.max_repetitive_actions:
                return True
            self.repeated += 1
        else:
            self.repeated = 1
        self.last_action = action
        return False

    def _attribute(self, error: Exception) -> Exception:
        """Return the error to record. An agent's exception becomes the cause of an `AgentError`."""
        if not self.agent_decides or isinstance(error, _NEVER_THE_AGENTS):
            return error
        agent_error = errors.AgentError(f"{type(error).__name__}: {error}")
        agent_error.__cause__ = error
        return agent_error

    def _result(
        self, end_reason: EndReason, outcome: Outcome, error: Exception | None = None
    ) -> EpisodeResult:
        describe = getattr(self.environment, "describe_episode", None)
        described = None
        try:
            described = describe().get("task") if callable(describe) else None
        except Exception:  # A failing description must not cost the episode.
            _logger.warning("An environment cannot describe its episode.", exc_info=True)
        return EpisodeResult.of(
            self.planned,
            self.number,
            task=described or self.planned.task,
            seed=self.seed,
            episode_id=self.episode_id,
            end_reason=end_reason,
            outcome=outcome,
            num_steps=self.num_steps,
            total_reward=sum_of_rewards(self.rewards),
            seconds=time.perf_counter() - self.start,
            error="" if error is None else f"{type(error).__name__}: {error}",
            cause=error,
        )

    def _truncate(self, reason: str, decision: Decision | None = None) -> EndReason:
        mark_truncated = getattr(self.environment, "mark_truncated", None)
        if callable(mark_truncated) and decision is not None:
            mark_truncated(reason, decision=decision)
        elif callable(mark_truncated):
            mark_truncated(reason)
        return EndReason.TRUNCATED


def _make_raising_act(error: Exception) -> agents_lib.Act:
    """Return an `act` that raises, so that the episode is recorded with its first observation."""

    async def act(observation: Any) -> Any:
        raise error

    return act


async def _close(environment: environment_lib.Environment, error: BaseException) -> None:
    """Close an environment in the way of an `async with` block that raised an error."""
    try:
        await environment.__aexit__(type(error), error, error.__traceback__)
    except Exception:
        # Report the episode's own error, not this one.
        _logger.warning("Could not close an environment after an error.", exc_info=True)


def _same(action: Any, other: Any) -> bool:
    try:
        return bool(action == other)
    except (TypeError, ValueError):  # Arrays have no single truth value.
        return repr(action) == repr(other)


def _outcome(environment: environment_lib.Environment) -> Outcome:
    """Return the environment's outcome of the episode; if that raises, UNKNOWN, as recorded."""
    try:
        return environment_lib.outcome_of(environment)
    except Exception:
        _logger.warning("An environment cannot tell its episode's outcome.", exc_info=True)
        return Outcome.UNKNOWN
