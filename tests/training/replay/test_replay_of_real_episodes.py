"""Episodes that were really played, by an oracle and by a model, in a real browser."""

import re

import pytest

from webtraj import open_dataset
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.agents.oracle import OracleAgent
from webtraj.environments.actions import parse_action
from webtraj.environments.tasks import TaskSpec
from webtraj.metrics import measure
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer
from webtraj.training.replay import AgentRenderer, Filters, ReplayBuffer

pytestmark = pytest.mark.browser
OBSERVED = ["goal", "url", "title", "axtree", "scroll", "screenshot", "last_action", "info"]


@pytest.mark.slow
async def test_clicks_whose_change_does_not_show_stay(tmp_path):
    """The first click of this task changes nothing that can be seen; without it none learns it."""
    await collect(
        RunSpec(
            preset="miniwob/click-button-sequence",
            episodes=2,
            out=tmp_path / "d",
            environment_options={"observe": OBSERVED},
        ),
        agent=OracleAgent(),
    )
    buffer = ReplayBuffer.from_datasets(
        tmp_path / "d", filters=Filters(distinct=False), render=AgentRenderer()
    )
    report = buffer.report()
    assert (report.samples, report.rendered, report.episodes) == (4, 4, 2)
    assert report.dropped_steps == {}
    for sample in buffer.all:
        assert re.fullmatch(r"Action: click\('\w+'\)", sample.completion)
        assert sample.goal in sample.messages[1].parts[0].text


@pytest.mark.slow
@pytest.mark.gate
async def test_what_a_model_was_sent_and_replied_is_the_sample(tmp_path):
    def reply(request):
        ref = re.search(r"\[(\w+)\] button", request.text)[1]
        return f"Thought: I press it.\nAction: click('{ref}')"

    with FakeModelServer(reply) as server:
        client = OpenAICompatibleClient(
            "fake-model", server.url, retries=RetryPolicy(max_retries=0)
        )
        agent = ModelAgent(client=client)
        try:
            await collect(
                RunSpec(
                    preset="miniwob/click-test",
                    episodes=2,
                    out=tmp_path / "d",
                    environment_options={"observe": [*agent.channels, "info"]},
                ),
                agent=agent,
            )
        finally:
            await agent.aclose()
        asked = {request.text for request in server.requests}
    buffer = ReplayBuffer.from_datasets(
        tmp_path / "d", filters=Filters(min_steps=1, distinct=False)
    )
    samples = list(buffer.all)
    assert len(samples) == 2
    for sample in samples:
        assert sample.recorded
        assert sample.reward == sample.loss_weight == 1.0
        assert sample.completion_token_ids
        assert len(sample.logprobs) == len(sample.completion_token_ids)
        text = "\n".join(p.text for m in sample.messages for p in m.parts)
        assert any(text in one or one in text for one in asked)
    assert buffer.report().estimated_tokens == 0


async def test_actions_as_text_are_read_like_others(tmp_path):
    page = "<!doctype html><button onclick='this.textContent = \"Bought\"'>Buy</button>"
    (tmp_path / "page.html").write_text(page)
    task = TaskSpec(name="t", goal="g", start_url=(tmp_path / "page.html").as_uri())
    texts = ("click('1')", "go_back()", "click('1'")

    def agent(as_text):
        left = iter(texts)
        return lambda observation: next(left) if as_text else parse_action(next(left))

    found = []
    for as_text in (True, False):
        out = tmp_path / str(as_text)
        await collect(RunSpec(out=out, max_steps=len(texts)), tasks=[task], agent=agent(as_text))
        buffer = ReplayBuffer.from_datasets(
            out, filters=Filters(filter_successful_only=False), render=AgentRenderer()
        )
        rates = measure(open_dataset(out)).overall
        found.append((rates.invalid_action_rate, len(buffer), buffer.contents.dropped))
    assert found[0] == found[1]
    assert found[0][0].value == pytest.approx(1 / 3)
    assert found[0][1] > 0
