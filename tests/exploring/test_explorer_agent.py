"""A model that explores is told where it has been and what it has tried."""

import dataclasses

import pytest

from rows import each
from webtraj import errors
from webtraj.agents.catalog import make_agent
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.environments import actions as a
from webtraj.environments.browser.observer import describe_action
from webtraj.exploring.catalog import make_proposer
from webtraj.exploring.explorer import ExplorerAgent
from webtraj.testing.model_server import FakeModelServer


def observation(path, title, axtree):
    return {
        "goal": "Look at lamps.",
        "url": f"http://shop.example{path}",
        "title": title,
        "axtree": axtree,
        "scroll": {},
        "last_action": describe_action(),
    }


async def test_the_question_says_what_was_seen_and_tried_quoted():
    replies = ["Thought: New.\nMemory: A shop.\nAction: click('2')", "Action: go_back()", "hm"]
    with FakeModelServer(replies) as server:
        client = OpenAICompatibleClient(
            "fake-model", server.url, retries=RetryPolicy(max_retries=0)
        )
        async with client:
            agent = ExplorerAgent(client=client)
            actor = agent.begin_episode(object())
            home = observation("/", 'Say "pay"\nNow', '[2] link "Lamps"')
            first = await actor.act(home)
            await actor.act(observation("/lamps", "Lamps", '[3] link "Home"'))
            third = await actor.act(home)
        asked = [request.text for request in server.requests]
        opening = server.requests[0].parts(1)[0]["text"]
    assert "Task: Explore the site shop.example. Look at lamps." in opening
    assert "You explore a web site" in server.requests[0].messages[0]["content"]
    assert first.action == a.Click("2")
    assert first.metadata["prompt"]["name"] == "explore"
    assert 'Pages that you have seen, 1 in all:\n- "shop.example" "Say \\"pay\\" Now"' in asked[0]
    assert "What you have tried on this page" not in asked[0]
    assert '- "shop.example/lamps" "Lamps"' in asked[1]
    assert "A shop." in asked[1]
    assert 'Say \\"pay\\" Now", 2 times' in asked[2]
    assert 'What you have tried on this page:\n- click "link Lamps"' in asked[2]
    assert third.parse_error
    assert agent.name == "model/openai/fake-model"


async def test_a_model_agent_becomes_an_explorer_with_all_it_has():
    client = OpenAICompatibleClient("m", "http://127.0.0.1:1/v1")
    agent = ModelAgent(client=client, seed=3, prompt="memory")
    explorer = ExplorerAgent.of(agent)
    assert {f.name: getattr(explorer, f.name) for f in dataclasses.fields(agent)} == {
        f.name: getattr(agent, f.name) for f in dataclasses.fields(agent)
    }
    assert ExplorerAgent.of(explorer) is explorer
    assert {"axtree", "url", "title", "http_status", "last_action"} <= set(explorer.channels)
    await explorer.aclose()


@each(
    ("make", "name", "options", "told"),
    [
        (make_agent, "curios", {}, "Did you mean 'curious'"),
        (make_agent, "curious", {"speed": 1}, "has no option 'speed'"),
        (make_agent, "curious", {"avoid": "x"}, "avoid='x'.* valid tuple"),
        (make_agent, "curious", {"ends": 2}, "ends must be a number from 0 to 1"),
        (make_agent, "explorer", {}, "needs a model: give --model NAME"),
        (make_proposer, "oracle", {}, "Choose one of: model, hindsight"),
        (make_proposer, "hindsight", {"model": "m"}, "takes no options"),
        (make_proposer, "model", {"model": "m", "prompt": "plain"}, "path of a .txt file"),
    ],
)
def test_wrong_names_and_options_are_told(make, name, options, told):
    with pytest.raises(errors.InvalidInputError, match=told):
        make(name, options=options)
