"""A model's API key, wherever a model is configured: named by a variable, sent, never guessed."""

import pytest

from webtraj import errors
from webtraj.agents.options import read_options
from webtraj.processing.configuration import load_config
from webtraj.rollouts import RunSpec
from webtraj.rollouts.configuration import build_rollout, load_configuration
from webtraj.testing.model_server import FakeModelServer

KEY = "AIza-key-of-a-server-that-is-nobodys-vendor"


def of_the_agent(url):
    return read_options({"model": "fake-model", "base_url": url, "api_key_variable": "MY_KEY"})


def of_the_pipeline(url):
    return load_config(None, {"model": "fake-model", "base_url": url, "api_key_variable": "MY_KEY"})


async def ask(client):
    from webtraj.agents.models.base import Message

    async with client:
        return await client.complete([Message.of("user", "hello")])


@pytest.mark.parametrize("configured", [of_the_agent, of_the_pipeline])
async def test_the_key_is_sent_to_any_server(configured, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with FakeModelServer(vendor="openai", api_key=KEY) as server:
        call = await ask(configured(server.url).make_client())
    assert call.text == "hello"


def test_the_explorer_and_its_proposer_have_the_key(monkeypatch, tmp_path):
    tasks = tmp_path / "coarse.jsonl"
    tasks.write_text('{"url": "shop.example", "description": "Look at lamps."}\n')
    given = {"model": "m", "base_url": "http://a/v1", "api_key_variable": "MY_KEY"}
    monkeypatch.setenv("MY_KEY", KEY)
    who = {"agent": "explorer", "proposer": "model"}
    spec = RunSpec(preset=str(tasks), **who, **given, out=tmp_path / "data")
    built = build_rollout(spec)
    made = (built.agent_factory, built.proposing.make)
    for make in made:
        make()
    monkeypatch.delenv("MY_KEY")
    for make in made:
        with pytest.raises(errors.InvalidInputError, match="MY_KEY for the API key"):
            make()


def test_a_crawl_and_its_proposer_have_the_key(tmp_path):
    configuration = load_configuration(
        "crawl",
        [
            "source_parquet_path=miniwob/click-test", f"s3_save_uri={tmp_path}",
            "agent_model_name=m", "agent_model_url=http://a/v1", "agent_model_provider=openai",
            "agent_model_api_key_env_var=MY_KEY", "agent_name=explorer", "proposer=model",
        ],
    )  # fmt: skip
    with pytest.raises(errors.InvalidInputError, match="MY_KEY for the API key"):
        build_rollout(configuration)


@pytest.mark.parametrize("configured", [of_the_agent, of_the_pipeline])
def test_a_variable_that_is_not_set_is_told_before_anything_is_asked(configured, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(errors.InvalidInputError, match="MY_KEY for the API key"):
        configured("http://a/v1").make_client()


def test_a_key_given_as_the_name_is_not_quoted():
    given = read_options({"model": "m", "base_url": "http://a/v1", "api_key_variable": KEY})
    with pytest.raises(errors.InvalidInputError) as caught:
        given.make_client()
    assert KEY not in str(caught.value)


def test_a_key_without_a_model_is_refused():
    with pytest.raises(errors.InvalidInputError, match="api_key_variable is given without a model"):
        load_config(None, {"api_key_variable": "MY_KEY"}).make_client()
