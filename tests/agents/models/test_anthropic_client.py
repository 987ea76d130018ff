"""The client of Anthropic's messages."""

import pytest

from webtraj import errors
from webtraj.agents import models
from webtraj.agents.models import replies
from webtraj.testing.model_server import FakeModelServer, Reply


@pytest.fixture
def client(model_server, connect):
    return connect(model_server, client_class=models.AnthropicClient, api_key="sk-1")


async def test_the_record_is_complete(model_server, client, image):
    model_server.script(Reply("noop()", reasoning="Hm."))
    messages = [models.Message.of("system", "Act."), models.Message.of("user", "Look:", image)]
    call = await client.complete(messages, models.Sampling(temperature=0.5, stop=("x",), top_k=2))
    [request] = model_server.requests
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == "sk-1"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.images == [image.data]
    assert request.json["system"] == "Act."
    source = {"type": "base64", "media_type": "image/png", "data": image.data}
    parts = [{"type": "text", "text": "Look:"}, {"type": "image", "source": source}]
    assert call.messages == (
        {"role": "system", "content": "Act."},
        {"role": "user", "content": parts},
    )
    parameters = {"max_tokens": 4096, "temperature": 0.5, "stop_sequences": ["x"], "top_k": 2}
    assert call.sampling == parameters
    assert request.json.items() >= parameters.items()
    assert call.provider == "anthropic"
    assert call.text == "noop()"
    assert call.finish_reason == "end_turn"
    assert call.usage["output_tokens"] == 7
    assert call.usage["input_tokens"] > 0
    assert replies.reasoning_of(call) == "Hm."
    assert call.policy_version == ""
    assert call.latency > 0
    assert client.name == "anthropic/fake-model"


async def test_replies_may_have_other_blocks_than_text(model_server, client, ask):
    model_server.script(
        Reply(
            body=b'{"content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "1"},'
            b'{"type": "text", "text": "b"}], "stop_reason": "tool_use", "usage": {}}'
        )
    )
    call = await client.complete(ask)
    assert (call.text, call.finish_reason) == ("ab", "tool_use")


async def test_json_can_be_asked_for(model_server, client, ask):
    schema = {"type": "object"}
    await client.complete(ask, models.Sampling(structure=models.Structure("json", schema)))
    asked = model_server.requests[0].json["output_config"]
    assert asked == {"format": {"type": "json_schema", "schema": schema}}


_IMPOSSIBLE = {
    "seed": models.Sampling(seed=1),
    "min_p": models.Sampling(min_p=0.1),
    "regex": models.Sampling(structure=models.Structure("regex", "a")),
}


@pytest.mark.parametrize("name", _IMPOSSIBLE)
async def test_what_the_api_cannot_do_is_refused_unasked(model_server, client, ask, name):
    with pytest.raises(errors.ModelRefusedError, match=f"does not support .*{name}") as caught:
        await client.complete(ask, _IMPOSSIBLE[name])
    assert caught.value.call.error
    assert model_server.requests == []


async def test_a_conversation_may_be_too_long(connect, ask):
    with FakeModelServer(max_model_len=5) as server:
        client = connect(server, client_class=models.AnthropicClient)
        with pytest.raises(errors.ContextOverflowError, match="prompt is too long"):
            await client.complete(ask)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, errors.ModelRefusedError),
        (402, errors.ModelRefusedError),
        (404, errors.ModelRefusedError),
        (413, errors.ContextOverflowError),
    ],
)
async def test_errors_are_told_apart(model_server, client, ask, status, error):
    model_server.script(Reply.error(status, "Sorry."))
    with pytest.raises(error, match="Sorry"):
        await client.complete(ask)
    assert len(model_server.requests) == 1
