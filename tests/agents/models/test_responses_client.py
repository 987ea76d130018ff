"""The client of OpenAI's Responses."""

import pytest

from webtraj import errors
from webtraj.agents import models
from webtraj.agents.models import accounting, replies
from webtraj.testing.model_server import FakeModelServer, Reply


@pytest.fixture
def client(model_server, connect):
    return connect(model_server, client_class=models.ResponsesClient, api_key="sk-1")


async def test_the_record_is_complete(model_server, client, image):
    model_server.script(Reply("noop()", reasoning="Hm."))
    messages = [models.Message.of("system", "Act."), models.Message.of("user", "Look:", image)]
    call = await client.complete(messages, models.Sampling(temperature=0.5, max_tokens=9))
    [request] = model_server.requests
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-1"
    assert request.images == [image.data]
    picture = {"type": "input_image", "detail": "auto", "image_url": image.data}
    assert call.messages == (
        {"role": "system", "content": "Act."},
        {"role": "user", "content": [{"type": "input_text", "text": "Look:"}, picture]},
    )
    assert call.sampling == {
        "temperature": 0.5,
        "max_output_tokens": 9,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert request.json.items() >= call.sampling.items()
    assert (call.text, call.finish_reason, call.provider) == ("noop()", "completed", "responses")
    assert replies.reasoning_of(call) == "Hm."
    counted = accounting.tokens_of(call)
    assert counted.output == call.usage["output_tokens"] == 7
    assert counted.total == call.usage["total_tokens"]
    assert client.name == "responses/fake-model"
    assert await client.probe()


async def test_a_reply_that_is_cut_off_says_so(model_server, client, ask):
    model_server.script("a long reply")
    call = await client.complete(ask, models.Sampling(max_tokens=3))
    assert (call.text, call.finish_reason) == ("a l", "max_output_tokens")


async def test_a_response_that_failed_is_asked_for_again(model_server, connect, ask, clock):
    failed = b'{"status": "failed", "error": {"code": "server_error", "message": "Oops"}}'
    model_server.script(Reply(body=failed), "ok")
    client = connect(model_server, client_class=models.ResponsesClient, clock=clock)
    assert (await client.complete(ask)).text == "ok"
    assert clock.slept == [0.375]


_IMPOSSIBLE = {
    "seed": models.Sampling(seed=1),
    "stop": models.Sampling(stop=("x",)),
    "top_k": models.Sampling(top_k=1),
    "regex": models.Sampling(structure=models.Structure("regex", "a")),
}


@pytest.mark.parametrize("name", _IMPOSSIBLE)
async def test_what_the_api_cannot_do_is_refused_unasked(model_server, client, ask, name):
    with pytest.raises(errors.ModelRefusedError, match=f"does not support .*{name}"):
        await client.complete(ask, _IMPOSSIBLE[name])
    assert model_server.requests == []


def without_reasoning(request):
    """A model that does not reason."""
    if "include" in request.json:
        return Reply.error(400, "Encrypted content is not supported with this model.")
    return "ok"


async def test_a_model_that_does_not_reason_is_noticed_once(connect, ask):
    with FakeModelServer(without_reasoning) as server:
        client = connect(server, client_class=models.ResponsesClient)
        calls = [await client.complete(ask) for _ in range(2)]
    assert [call.text for call in calls] == ["ok", "ok"]
    assert ["include" in request.json for request in server.requests] == [True, False, False]
    assert all("include" not in call.sampling for call in calls)


async def test_a_request_refused_for_another_reason_says_which(model_server, client, ask):
    model_server.script(Reply.error(400, "First."), Reply.error(400, "Second."), "ok")
    with pytest.raises(errors.ModelRefusedError, match="First"):
        await client.complete(ask)
    assert "include" in (await client.complete(ask)).sampling


async def test_a_conversation_may_be_too_long(connect, ask):
    with FakeModelServer(max_model_len=5) as server:
        client = connect(server, client_class=models.ResponsesClient)
        with pytest.raises(errors.ContextOverflowError):
            await client.complete(ask)
        assert len(server.requests) == 1
