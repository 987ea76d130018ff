"""The dataset says whose error ended an episode, as the result does."""

import pytest

import webtraj
from webtraj import errors
from webtraj.testing import fakes


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (errors.AgentError("no idea"), webtraj.Outcome.AGENT_ERROR),
        (errors.ModelUnavailableError("no reply"), webtraj.Outcome.MODEL_ERROR),
        (errors.BrowserCrashedError("gone"), webtraj.Outcome.ENV_ERROR),
        (ValueError("who knows"), webtraj.Outcome.UNKNOWN),
    ],
)
async def test_an_error_in_the_body_is_blamed_by_its_kind(
    error: Exception, outcome: webtraj.Outcome
) -> None:
    collector = webtraj.MemoryTrajectoryCollector()

    async def play() -> None:
        async with webtraj.TrajectoryCollectingEnvironment(
            fakes.CatchEnvironment(), collector
        ) as env:
            await env.reset()
            raise error

    with pytest.raises(type(error)):
        await play()
    (trajectory,) = collector.trajectories
    assert trajectory.end_reason is webtraj.EndReason.ERRORED
    assert trajectory.outcome is outcome
