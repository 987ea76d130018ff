"""Decisions that never became an action are on record with the end of their episode."""

import dm_env
import pytest

from webtraj import (
    Decision,
    EndReason,
    MemoryTrajectoryCollector,
    ModelCall,
    Outcome,
    TrajectoryCollectingEnvironment,
    errors,
)

UNDONE = Decision(
    thought="I do not know.", model_calls=(ModelCall(text="", error="503", latency=1.5),)
)


class Stairs:
    """An environment without end; the judge's word is what its outcome is set to."""

    outcome = Outcome.FAILURE

    def __init__(self, fails=False):
        self._fails = fails

    async def reset(self):
        return dm_env.restart(0)

    async def step(self, action):
        if self._fails:
            raise RuntimeError("a stair broke")
        return dm_env.transition(0.0, 1)

    async def close(self):
        pass

    def episode_outcome(self):
        return self.outcome


def error_with(decision, error=errors.ModelUnavailableError):
    raised = error("the server is away")
    raised.decision = decision
    return raised


async def fail_in(env, error):
    async with env:
        await env.reset()
        raise error


def recorded(collector, **options):
    return TrajectoryCollectingEnvironment(Stairs(**options), collector)


async def test_truncation_by_hand_keeps_the_decision_and_asks_the_judge():
    collector = MemoryTrajectoryCollector()
    env = recorded(collector)
    await env.reset()
    await env.step(Decision(action="up"))
    env.mark_truncated("given up", decision=UNDONE)
    (trajectory,) = collector.trajectories
    assert trajectory.end.in_flight_decision == UNDONE
    assert not trajectory.end.action_in_flight
    assert (trajectory.end.reason, trajectory.outcome) == (EndReason.TRUNCATED, Outcome.FAILURE)


async def test_agents_error_keeps_its_decision():
    collector = MemoryTrajectoryCollector()
    with pytest.raises(errors.ModelUnavailableError):
        await fail_in(recorded(collector), error_with(UNDONE))
    (trajectory,) = collector.trajectories
    assert trajectory.end.in_flight_decision == UNDONE
    assert not trajectory.end.action_in_flight
    assert trajectory.outcome is Outcome.MODEL_ERROR


async def test_decision_whose_action_is_in_flight_is_not_replaced():
    collector = MemoryTrajectoryCollector()
    env = recorded(collector, fails=True)
    await env.reset()
    with pytest.raises(RuntimeError):
        await env.step(Decision(action="up", thought="Up."))
    end = collector.trajectories[0].end
    assert (end.action_in_flight, end.in_flight_decision.thought) == (True, "Up.")
