"""Groups of attempts, each with its tries, and a plain reference for their advantages.

Our own trainer, TRL, verl and SkyRL are held to the same table: a success is worth 1, a failure 0,
and what the machinery ended is in no mean.
"""

import contextlib
import math

from webtraj.trajectory import Outcome

WON, LOST = (Outcome.SUCCESS, 1.0), (Outcome.FAILURE, 0.0)
DIED, UNJUDGED = (Outcome.ENV_ERROR, 1.0), (Outcome.JUDGE_ERROR, 0.0)
GROUPS = {
    "a success among failures": [[WON], [LOST], [LOST]],
    "equal rewards": [[WON], [WON]],
    "all failed": [[LOST], [LOST]],
    "all failed, with shaped rewards": [
        [(Outcome.FAILURE, -1.0)], [(Outcome.FAILURE, 0.5)], [(Outcome.FAILURE, 0.0)],
    ],
    "successes with shaped rewards": [
        [(Outcome.SUCCESS, 0.3)], [(Outcome.SUCCESS, 0.9)], [(Outcome.FAILURE, 0.7)],
    ],
    "a failure of the machinery beside others": [[WON], [LOST], [DIED, DIED, DIED]],
    "a failed judge beside others": [[WON], [LOST], [UNJUDGED, UNJUDGED, UNJUDGED]],
    "a retried attempt": [[WON], [DIED, LOST], [LOST]],
    "an attempt retried twice": [[UNJUDGED, DIED, WON], [LOST]],
}  # fmt: skip
"""The outcome and the total reward of each try, by attempt."""


def counting(tries):
    """Return the try of an attempt that counts; None if the machinery ended all."""
    finished = [one for one in tries if one[0] in (Outcome.SUCCESS, Outcome.FAILURE)]
    return finished[-1] if finished else None


def worth(tries):
    """Return what an attempt is worth: 1, 0, or None if it was not scored."""
    one = counting(tries)
    return None if one is None else float(one[0] is Outcome.SUCCESS)


def advantages(attempts):
    """Return the advantage of each attempt that was scored, by its place."""
    known = {place: worth(tries) for place, tries in enumerate(attempts)}
    known = {place: value for place, value in known.items() if value is not None}
    mean = sum(known.values()) / len(known)
    return {place: value - mean for place, value in known.items()}


def rollout(outcome, total):
    """Return a session and its last turn, as a rollout with this end leaves them."""
    # Not where the built-in trainer is tested: the package is not there.
    from webtraj_integrations.sessions import Sessions, Turn

    turn = Turn(
        task="t", goal="g", seed=0, episode_id="", heading="", page="", step=1, reward=total,
        done=True, judged=True, outcome=outcome,
    )  # fmt: skip
    session = Sessions("miniwob/click-test").session()
    session._turn, session._total = turn, total
    return session, turn


async def rewards_of_trainers(attempts):
    """Return the rewards that verl and SkyRL get, by place; what is left out has none."""
    from webtraj_integrations.sessions import EpisodeFailedError
    from webtraj_integrations.trainers import again, require_reward, reward_of

    found = {}
    for place, tries in enumerate(attempts):
        left = list(tries)

        async def play(left=left):
            session, turn = rollout(*left.pop(0))
            return require_reward(reward_of(session, turn), turn)

        with contextlib.suppress(EpisodeFailedError):
            found[place] = await again(play)
    return found


def are_close(found, expected):
    """Return whether advantages are those expected, but for rounding."""
    return found.keys() == expected.keys() and all(
        math.isclose(found[place], expected[place], abs_tol=1e-6) for place in found
    )
