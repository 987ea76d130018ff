"""An API key goes to its server, and nowhere else."""

import asyncio
import logging
import traceback

import pytest

from rows import each
from webtraj import errors
from webtraj.agents import models
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import endpoint
from webtraj.agents.models.base import check_keys
from webtraj.environments.collecting_environment import outcome_of_error
from webtraj.redaction import without_keys
from webtraj.rollouts import RunSpec, collect
from webtraj.store import encoding
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import Outcome, Phase

KEY = "sk-very-secret-0123456789"
CLASSES = [models.OpenAICompatibleClient, models.AnthropicClient]


@pytest.fixture(params=CLASSES, ids=lambda client_class: client_class.__name__)
def client_class(request):
    return request.param


def _all_of(error):
    """Everything that a log could have of an error, causes and contexts included."""
    seen = []
    while error is not None:
        seen += [repr(error), repr(vars(error)), *traceback.format_exception(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(seen)


async def test_the_server_gets_it(connect, ask, client_class):
    with FakeModelServer(api_key=KEY) as server:
        assert (await connect(server, client_class, api_key=KEY).complete(ask)).text


async def test_it_is_in_no_repr_record_log_or_error(connect, ask, client_class, caplog):
    caplog.set_level(logging.DEBUG)
    with FakeModelServer(api_key="another") as server:
        client = connect(
            server, client_class, api_key=KEY, retries=models.RetryPolicy(max_retries=0)
        )
        # This server quotes the key that it refuses, as some do.
        with pytest.raises(errors.ModelRefusedError, match="api-key") as refused:
            await client.complete(ask)
        server.overrides[server.requests[0].path] = Reply.error(500, f"Bearer {KEY}")
        with pytest.raises(errors.ModelUnavailableError) as failed:
            await client.complete(ask)
        server.overrides[server.requests[0].path] = Reply(body=f"<b>{KEY}</b>".encode())
        with pytest.raises(errors.ModelUnavailableError) as garbled:
            await client.complete(ask)
        server.stop()
        with pytest.raises(errors.ModelUnavailableError) as away:
            await client.complete(ask)
    shown = [repr(client), str(vars(client)), caplog.text]
    for caught in (refused, failed, garbled, away):
        shown.append(_all_of(caught.value))
        fields = {"call": caught.value.call}
        shown.append(encoding.dumps_fields(fields)[0].decode())
    assert KEY not in "\n".join(shown)
    assert "<secret:api-key>" in refused.value.call.error
    assert len(caplog.records) > 0


async def test_a_reply_that_quotes_it_is_recorded_without(model_server, connect, client_class):
    client = connect(model_server, client_class, api_key=KEY)
    call = await client.complete([models.Message.of("user", f"My key is {KEY}.")])
    assert call.text == f"My key is {KEY}."  # An agent acts on it.
    recorded = without_keys(call)
    assert recorded.text == "My key is <secret:api-key>."
    assert KEY not in encoding.dumps_fields({"call": recorded})[0].decode()


DUMMIES = ["click", "x", "test", "none", "EMPTY", "token-abc123", "sk-no-key-required", "dummy-key"]


@each("key", DUMMIES)
async def test_a_dummy_changes_no_reply_record_or_error(
    model_server, connect, ask, client_class, key
):
    client = connect(
        model_server, client_class, api_key=key, retries=models.RetryPolicy(max_retries=0)
    )
    said = f'{{"action": "left_{key}"}}'
    model_server.script(said, Reply.error(500, said))
    call = await client.complete(ask)
    assert call.text == said
    assert without_keys(call) is call
    with pytest.raises(errors.ModelUnavailableError, match=f"left_{key}"):
        await client.complete(ask)


async def test_what_a_url_asks_with_goes_to_the_server_alone(model_server, ask, caplog):
    caplog.set_level(logging.DEBUG)
    async with models.OpenAICompatibleClient(
        "fake-model", f"{model_server.url}?api-key={KEY}"
    ) as client:
        await client.complete(ask)
        assert KEY in model_server.requests[-1].query
        assert KEY not in repr(client) + client.base_url + caplog.text
    assert len(caplog.records) > 0


@pytest.mark.parametrize(
    ("client_class", "variable"),
    [
        (models.OpenAICompatibleClient, "OPENAI_API_KEY"),
        (models.AnthropicClient, "ANTHROPIC_API_KEY"),
    ],
    ids=["openai", "anthropic"],
)
async def test_a_vendors_variable_is_for_the_vendor_alone(
    model_server, connect, ask, monkeypatch, client_class, variable
):
    monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("MY_KEY", "mine")
    await connect(model_server, client_class).complete(ask)
    await connect(model_server, client_class, api_key_variable="MY_KEY").complete(ask)
    [none, mine] = model_server.requests
    assert KEY not in str(none.headers)
    assert "mine" in str(mine.headers)
    vendor = client_class("m")
    assert KEY in str(dict(vendor._endpoint._headers))
    await vendor.aclose()


@each(
    ("client_class", "variable"),
    [
        (models.OpenAICompatibleClient, "OPENAI_API_KEY"),
        (models.ResponsesClient, "OPENAI_API_KEY"),
        (models.AnthropicClient, "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_vendor_is_not_asked_without_a_key(ask, monkeypatch, client_class, variable):
    monkeypatch.delenv(variable, raising=False)
    async with client_class("m") as client:
        for call in (
            lambda: client.complete(ask),
            lambda: collect(
                RunSpec(preset=["miniwob/click-test"]), agent=ModelAgent(client=client)
            ),
        ):
            with pytest.raises(errors.MissingKeyError, match=rf"{variable}.*--base-url") as caught:
                await call()
            assert outcome_of_error(caught.value, Phase.RESET) is Outcome.MODEL_ERROR
    async with client_class("m", headers={"Authorization": "Bearer mine"}) as client:
        check_keys(ModelAgent(client=client))


@pytest.mark.parametrize("key", ["two\nlines", "a b", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_unquoted(key):
    with pytest.raises(errors.InvalidInputError, match="API key") as caught:
        endpoint.ApiKey(key, "MY_KEY")
    assert key not in str(caught.value)


def test_an_address_with_a_password_is_refused_unquoted():
    with pytest.raises(errors.InvalidInputError, match="password") as caught:
        models.OpenAICompatibleClient("m", f"https://me:{KEY}@host/v1")
    assert KEY not in str(caught.value)


async def test_a_key_is_not_carried_elsewhere(model_server, connect, ask):
    with FakeModelServer() as other:
        elsewhere = {"location": f"{other.url}/chat/completions"}
        model_server.script(Reply.error(307, headers=elsewhere))
        with pytest.raises(errors.ModelRefusedError, match="Redirects"):
            await connect(model_server, api_key=KEY).complete(ask)
        await asyncio.sleep(0)
        assert other.visits == []
