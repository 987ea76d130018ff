"""Model servers that answer what no one expects, as people meet them when they set one up.

What is no reply at all is a failure of the server: no reward, not the agent's failure, and counted
apart. A reply without an action is the agent's failure: it gets a few more tries and then has
failed. Nothing hangs, and whatever came back is on record.
"""

import math

import dm_env
import orjson
import pytest

from rows import each
from webtraj import EndReason, Outcome, open_dataset, registry
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy, Sampling
from webtraj.environments.actions import Click
from webtraj.metrics import Rate, measure
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer, Reply

INVALID = 3
"""How many replies without an action the agent is allowed in a row."""
ACTION = "Action: click('a1')"


class Page:
    """One button in an observation such as a browser gives."""

    goal = "Press OK."

    def __init__(self, tasks=()):
        self.pressed = False

    def episode_outcome(self):
        return Outcome.SUCCESS if self.pressed else Outcome.FAILURE

    def observation(self, error=""):
        return {
            "goal": self.goal,
            "axtree": "[a1] button 'OK'",
            "last_action": {"error": error, "error_kind": ""},
        }

    async def reset(self):
        self.pressed = False
        return dm_env.restart(self.observation())

    async def step(self, action):
        self.pressed = action == Click("a1")
        if self.pressed:
            return dm_env.termination(1.0, self.observation())
        return dm_env.transition(0.0, self.observation("nothing to do"))

    async def close(self):
        pass


@pytest.fixture(autouse=True)
def page(monkeypatch):
    monkeypatch.setattr(registry, "_presets", {})
    monkeypatch.setattr(registry, "_builtin_loaded", True)
    monkeypatch.setattr(registry, "_plugins_loaded", True)
    registry.register("page/press", Page)


@pytest.fixture
def server():
    with FakeModelServer(lambda request: ACTION) as server:
        yield server


async def play(server, out, *, attempt_timeout=None, max_tokens=None):
    """Returns the summary of one episode, and its record."""
    client = OpenAICompatibleClient(
        server.models[0],
        server.url,
        kind="vllm",
        timeout=60.0,
        attempt_timeout=attempt_timeout,
        retries=RetryPolicy(max_retries=1, first_delay=0.0),
        sampling=Sampling(max_tokens=max_tokens),
    )
    agent = ModelAgent(client=client, max_invalid_actions=INVALID)
    try:
        summary = await collect(RunSpec(preset="page/press", out=out), agent=agent)
    finally:
        await agent.aclose()
    (episode,) = open_dataset(out)
    assert not server.errors
    return summary, episode


def body(**message):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return Reply(body=orjson.dumps({"object": "chat.completion", "choices": [choice]}))


NO_REPLIES = {
    "nothing, for ever": (Reply(delay=math.inf), "did not answer within"),
    "a connection that is cut": (Reply(cut="before"), "No answer"),
    "half of a reply": (Reply(ACTION, cut="within"), "No answer"),
    "an empty body": (Reply(body=b""), "did not answer with JSON"),
    "null": (Reply(body=b"null"), "not answer with a chat completion"),
    "no choices": (Reply(body=b'{"object": "chat.completion", "choices": []}'), "choices"),
    "a page of HTML": (
        Reply(body=b"<html><body>Welcome to nginx!</body></html>"),
        "Welcome to nginx",
    ),
    "nothing but errors": (Reply.error(500, "CUDA out of memory"), "CUDA out of memory"),
    "a wrong key": (Reply.error(401, "Incorrect API key"), "Incorrect API key"),
}


@each("name", NO_REPLIES)
async def test_what_is_no_reply_is_a_failure_of_the_server(name, server, tmp_path):
    reply, said = NO_REPLIES[name]
    server.script(*[reply] * 2)
    summary, episode = await play(server, tmp_path, attempt_timeout=0.5 if reply.delay else None)
    (result,) = summary.results
    assert (result.end_reason, result.outcome) == (EndReason.ERRORED, Outcome.MODEL_ERROR)
    assert said in result.error
    assert result.total_reward is None
    assert summary.total.success_rate is None
    assert episode.outcome is Outcome.MODEL_ERROR
    (call,) = episode.end.in_flight_decision.model_calls  # What was asked, and what came back.
    assert said in call.error
    assert call.messages


async def test_a_text_may_come_in_parts(server, tmp_path):
    server.script(body(content=[{"type": "text", "text": ACTION}]))
    summary, _ = await play(server, tmp_path)
    assert summary.results[0].outcome is Outcome.SUCCESS
    assert len(server.requests) == 1


UNUSABLE = {
    "a refusal": body(content=None, refusal="I cannot help with that."),
    "content: null": body(content=None),
    "an empty text": Reply(""),
    "invalid UTF-8": Reply(body=b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "half of a surrogate": Reply(body=b'{"choices": [{"message": {"content": "\\ud83d"}}]}'),
    "tool calls": body(
        content=None,
        tool_calls=[
            {"id": "1", "type": "function", "function": {"name": "click", "arguments": "{}"}}
        ],
    ),
    "thoughts alone": Reply("", reasoning="Which button? The one called OK."),
    "3 MB of prose": body(content="All work and no play makes Jack a dull boy. " * 70_000),
    "a page's markup": body(content="<html>" * 1000),
}


@each("name", UNUSABLE)
async def test_a_reply_without_an_action_is_the_agents_failure(name, server, tmp_path):
    server.script(*[UNUSABLE[name]] * INVALID)
    summary, episode = await play(server, tmp_path)
    (result,) = summary.results
    assert (result.end_reason, result.outcome) == (EndReason.TRUNCATED, Outcome.FAILURE)
    assert summary.total.success_rate == 0.0
    assert measure(open_dataset(tmp_path)).overall.success_rate == Rate(0, 1)
    assert f"{INVALID} replies in a row were not valid actions" in episode.end.detail
    decisions = [step.decision for step in episode.steps[1:]] + [episode.end.in_flight_decision]
    assert len(decisions) == INVALID
    for decision in decisions:
        assert decision.parse_error
        assert decision.model_calls[0].response


@each("name", UNUSABLE)
async def test_an_agent_gets_another_try_after_a_reply_without_an_action(name, server, tmp_path):
    server.script(UNUSABLE[name])
    summary, episode = await play(server, tmp_path)
    assert summary.total.success_rate == 1.0
    assert episode.num_steps == 2
    assert "Your last reply was not carried out" in str(server.requests[-1].messages)
    assert len(server.requests[-1].body) < 2_000_000, "the unusable reply is sent back shortened"


async def test_a_reply_cut_by_max_tokens_is_not_acted_on(server, tmp_path):
    server.script(*["Thought: the button to press is OK.\nAction: click('a1')"] * INVALID)
    summary, episode = await play(server, tmp_path, max_tokens=45)
    assert [result.outcome for result in summary.results] == [Outcome.FAILURE]
    call = episode.steps[1].decision.model_calls[0]
    assert call.finish_reason == "length"
    assert call.text.endswith("Action: c")
