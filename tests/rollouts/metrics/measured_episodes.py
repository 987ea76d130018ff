"""Episodes to measure, made of what they did."""

from hypothesis import settings

from webtraj import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
)
from webtraj.trajectory import StepRecord, StepType

patient = settings(deadline=None)
"""For properties: how fast examples are made says nothing about them."""

ENDED = (EndReason.TERMINATED, EndReason.TRUNCATED)


def make_trajectory(
    actions=("click('1')",),
    *,
    outcome=Outcome.SUCCESS,
    reason=EndReason.TERMINATED,
    reward=None,
    decisions=None,
    observations=None,
    begun=1000.0,
    seconds=None,
    in_flight=None,
    **info,
):
    """Returns an episode that took actions, a second for each step and the reset.

    The reward comes with the last step: 1 for a success, 0 for all else.
    """
    if reward is None:
        reward = float(outcome is Outcome.SUCCESS)
    steps = [StepRecord(0, StepType.FIRST, {}, start_time=begun, end_time=begun + 1)]
    for index, action in enumerate(actions, start=1):
        last = index == len(actions) and reason in ENDED
        decision = None if decisions is None else decisions[index - 1]
        steps.append(
            StepRecord(
                index,
                StepType.LAST if last else StepType.MID,
                {} if observations is None else observations[index - 1],
                action,
                reward if index == len(actions) else 0.0,
                0.0 if last and reason is EndReason.TERMINATED else 1.0,
                start_time=begun + index,
                end_time=begun + index + 1,
                decision=decision,
            )
        )
    end = EpisodeEnd(
        reason=reason,
        outcome=outcome,
        in_flight_decision=in_flight,
        in_flight_action=in_flight and in_flight.action,
    )
    length = len(steps) if seconds is None else seconds
    return EpisodeTrajectory(
        EpisodeInfo(**{"task": "t", **info}), tuple(steps), end, begun, begun + length
    )


def reply(text, action, *, parse_error="", **call):
    """Returns the decision that a model's reply is."""
    calls = (ModelCall(text=text, **call),)
    return Decision(action=action, parse_error=parse_error, model_calls=calls)
