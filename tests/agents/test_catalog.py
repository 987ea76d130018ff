"""Agents by name, and their options."""

import pytest

from rows import each
from webtraj import (
    EpisodeInfo,
    JsonTrajectoryCollector,
    TrajectoryCollectingEnvironment,
    errors,
    open_dataset,
)
from webtraj.agents.catalog import AGENTS, make_agent
from webtraj.agents.contexts import ContextSettings
from webtraj.agents.models import AnthropicClient, BalancedClient, OpenAICompatibleClient, Sampling
from webtraj.agents.random import RandomAgent
from webtraj.testing.fakes import CatchEnvironment


async def record(folder, episodes=1):
    async with JsonTrajectoryCollector(folder) as collector:
        env = TrajectoryCollectingEnvironment(
            CatchEnvironment(), collector, episode_info=EpisodeInfo(task="catch")
        )
        async with env:
            for _ in range(episodes):
                timestep = await env.reset()
                while not timestep.last():
                    timestep = await env.step(1)
    return open_dataset(folder)


# The agent 'broken' needs recorded successes: test_broken_agent.py.
@pytest.mark.parametrize("name", sorted({*AGENTS} - {"broken"}))
async def test_agent_goes_by_the_name_it_is_made_by(name, tmp_path):
    (tmp_path / "script.txt").write_text("click('1')")
    await record(tmp_path / "data")
    options = {
        "model": {"model": "tiny", "base_url": "http://127.0.0.1:9/v1"},
        "scripted": {"script": str(tmp_path / "script.txt")},
        "replay": {"dataset": str(tmp_path / "data")},
    }
    agent = make_agent(name, options=options.get(name))
    assert agent.name.startswith(name)
    assert AGENTS[name].summary
    if hasattr(agent, "aclose"):
        await agent.aclose()


def test_seed_goes_to_agents_that_take_one():
    assert make_agent("random", seed=7) == RandomAgent(7)
    assert make_agent("random", options={"untouched": 0.5}) == RandomAgent(untouched=0.5)
    assert make_agent("oracle", seed=7) == make_agent("oracle")


def test_unknown_agent_is_an_error_that_names_those_there_are():
    with pytest.raises(errors.InvalidInputError, match=r"'ramdom'.*mean 'random'.*oracle, random"):
        make_agent("ramdom")


@each(
    ("name", "options", "words"),
    [
        ("oracle", {"model": "tiny"}, "'oracle' does not take 'model'; its options: none"),
        ("random", {"seed": 3}, "does not take 'seed'"),
        ("random", {"untouched": "often"}, "untouched must be a number from 0 to 1; got 'often'"),
        ("scripted", {}, r"needs 'script'; its options: script \(the file\)"),
        ("replay", {}, "needs 'dataset'"),
        ("replay", {"dataset": ".", "task": "x"}, "does not take 'task'"),
        ("model", {}, "The agent 'model' needs a model: give --model NAME, or the option model"),
        ("model", {"modle": 1}, r"No option 'modle'.*It takes model, base_url, provider"),
        ("model", {"model": "x", "modle": "y"}, "No option 'modle'"),
        ("model", {"model": "x", "temperature": "hot"}, "temperature: Input should be a valid num"),
        ("model", {"model": "x", "mode": "pixels"}, "'text', 'aria', 'marks' or 'coordinates'"),
        ("model", {"model": "x", "prompt": "none"}, "No prompt 'none'"),
        ("model", {"model": "x", "base_url": "nowhere"}, "nowhere"),
        (
            "model",
            {"model": "x", "provider": "anthropic", "base_url": ["http://a/v1", "http://b/v1"]},
            "takes one base_url",
        ),
    ],
)
def test_options_that_an_agent_does_not_take_are_refused_by_name(name, options, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        make_agent(name, options=options)


async def test_options_of_the_model_agent():
    agent = make_agent(
        "model",
        options={
            "model": "tiny",
            "base_url": "http://127.0.0.1:9/v1",
            "mode": "marks",
            "full_rounds": 2,
            "keep_thinking": True,
            "temperature": 0.5,
            "stop": ["</tool_call>"],
            "viewport": [800, 600],
            "seed": 4,
        },
    )
    assert isinstance(agent.client, OpenAICompatibleClient)
    assert agent.context == ContextSettings(mode="marks", full_rounds=2, keep_thinking=True)
    assert agent.sampling == Sampling(temperature=0.5, stop=("</tool_call>",))
    assert (agent.dialect, agent.prompt.name) == ("webgym_marks", "webgym_vanilla")
    assert (agent.viewport, agent.seed) == ((800, 600), 4)
    await agent.aclose()


@pytest.mark.parametrize(
    ("options", "client"),
    [
        ({}, OpenAICompatibleClient),
        ({"provider": "anthropic"}, AnthropicClient),
        ({"base_url": ["http://127.0.0.1:8/v1", "http://127.0.0.1:9/v1"]}, BalancedClient),
    ],
    ids=["openai", "anthropic", "several servers"],
)
async def test_client_is_that_of_the_provider(options, client):
    agent = make_agent("model", options={"model": "tiny", **options})
    assert type(agent.client) is client
    await agent.aclose()


@pytest.mark.parametrize(
    ("given", "dialect", "prompt"),
    [
        ({}, "webtraj", "plain"),
        ({"mode": "coordinates"}, "webgym", "webgym_vanilla"),
        ({"mode": "coordinates", "dialect": "anthropic"}, "anthropic", "bare"),
        ({"mode": "marks", "dialect": "webtraj", "prompt": "memory"}, "webtraj", "memory"),
    ],
    ids=["text", "coordinates", "computer use", "given"],
)
async def test_dialect_follows_from_the_mode_and_the_prompt_from_the_dialect(
    given, dialect, prompt
):
    agent = make_agent("model", options={"model": "tiny", **given})
    assert (agent.dialect, agent.prompt.name) == (dialect, prompt)
    await agent.aclose()


async def test_replay_of_one_episode_out_of_a_dataset(tmp_path):
    dataset = await record(tmp_path / "data", episodes=3)
    options = {"dataset": str(tmp_path / "data")}
    assert len(make_agent("replay", options=options).recordings) == 3
    chosen = make_agent("replay", options={**options, "episode": dataset.episode_ids[1]})
    assert [recording.episode_id for recording in chosen.recordings] == [dataset.episode_ids[1]]
    with pytest.raises(errors.UnknownEpisodeError):
        make_agent("replay", options={**options, "episode": "none"})
