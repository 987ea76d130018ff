"""Metrics of real episodes: a browser plays MiniWoB, asked of a model server that counts tokens."""

import pytest

from webtraj import open_dataset
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient
from webtraj.metrics import Rate, measure
from webtraj.rollouts import collect
from webtraj.testing.model_server import FakeModelServer

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def ladder():
    """Leaves the presets that ship: not the ladder's world, but the real one."""


@pytest.mark.slow
async def test_a_real_rollout_says_where_its_time_and_tokens_went(tmp_path):
    replies = ["go_back()", "I will click.", "click('nowhere')"]
    with FakeModelServer() as server:
        server.script(*replies * 2)
        async with OpenAICompatibleClient("fake-model", server.url) as client:
            agent = ModelAgent(client=client, dialect="browsergym")
            await collect(
                "miniwob/click-test",
                agent,
                episodes=2,
                max_steps=3,
                out=tmp_path,
                run_id="r",
                environment_options={"observe": [*agent.channels, "timings", "info"]},
            )
    metrics = measure(open_dataset(tmp_path), run="r").overall
    assert metrics.total == metrics.valid == 2
    assert metrics.success_rate == Rate(0, 2)
    assert (metrics.steps, metrics.models.calls) == (6, 6)
    assert metrics.models.input_tokens > 0
    assert metrics.models.output_tokens > 0
    assert metrics.goback_rate.value == metrics.invalid_action_rate.value == 1 / 3
    assert metrics.failed_action_rate.numerator >= 2
    assert metrics.avg_chars_per_response.value == sum(map(len, replies)) / 3
    times = metrics.seconds_by_phase
    for phase in ("model", "act", "settle", "observe", "reset", "environment", "waiting"):
        assert getattr(times, phase) > 0, phase
    assert times.total == pytest.approx(metrics.throughput.episode_seconds, rel=0.01)
