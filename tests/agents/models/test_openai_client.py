"""The client of servers that speak OpenAI's chat completions: what it sends and records."""

import hashlib

import orjson
import pytest

from webtraj import errors
from webtraj.agents import models
from webtraj.agents.models import replies
from webtraj.testing.model_server import FakeModelServer, Reply, exchange


async def test_the_record_is_complete(model_server, connect, image):
    model_server.script("click('12')")
    client = connect(model_server, name="me", sampling=models.Sampling(temperature=0.5))
    messages = [
        models.Message.of("system", "Act."),
        models.Message.of("user", "Look:", image),
    ]
    call = await client.complete(messages, models.Sampling(top_p=0.9, max_tokens=64, stop=("\n",)))
    uuid = hashlib.sha256(image.data).hexdigest()
    assert call.model == "fake-model"
    assert call.provider == "vllm"
    assert call.policy_version == "1"
    assert call.messages == (
        {"role": "system", "content": "Act."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": image.data}, "uuid": uuid},
            ],
        },
    )
    assert call.sampling == {
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 64,
        "stop": ["\n"],
        "return_token_ids": True,
        "logprobs": True,
    }
    assert call.text == "click('12')"
    assert call.finish_reason == "stop"
    assert call.response["choices"][0]["message"]["content"] == "click('12')"
    assert call.completion_token_ids == (*exchange.encode("click('12')"), exchange.END_OF_TURN)
    assert call.logprobs == tuple(map(exchange.logprob, call.completion_token_ids))
    [request] = model_server.requests
    assert call.prompt_token_ids == tuple(exchange.prompt_ids(request))
    assert call.usage == {
        "prompt_tokens": len(call.prompt_token_ids),
        "completion_tokens": 12,
        "total_tokens": len(call.prompt_token_ids) + 12,
        "prompt_tokens_details.cached_tokens": 0,
    }
    assert call.start_time > 1.7e9
    assert 0 < call.latency < 60
    assert call.error == ""
    assert client.name == "me"


async def test_what_is_sent_is_what_is_recorded(model_server, connect, image):
    client = connect(model_server)
    call = await client.complete([models.Message.of("user", image, "a", "b", image)])
    [request] = model_server.requests
    sent = request.json
    assert request.images == [image.data, image.data]
    assert request.parts(0)[0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    for here, there in zip(call.messages[0]["content"], request.parts(0), strict=True):
        assert {**here, "image_url": None} == {**there, "image_url": None}
    assert {k: v for k, v in sent.items() if k not in ("model", "messages")} == call.sampling
    assert sent["model"] == call.model


async def test_the_server_is_asked_what_it_is_once(model_server, connect, ask):
    client = connect(model_server, policy_version="7")
    for _ in range(3):
        await client.complete(ask)
    assert model_server.visits.count("/v1/models") == 1
    assert len(model_server.visits) == 4


async def test_a_server_that_lists_no_models_is_none_of_vllm(model_server, connect, ask):
    model_server.overrides["/v1/models"] = Reply.error(404)
    call = await connect(model_server).complete(ask)
    assert call.provider == "openai"


async def test_a_lora_adapter_is_a_model(connect, ask):
    with FakeModelServer(models=("base", "base-adapter")) as server:
        call = await connect(server, model="base-adapter").complete(ask)
        assert call.model == "base-adapter"
        assert server.requests[0].model == "base-adapter"


_STRUCTURES = [
    models.Structure("regex", r"click\('\d+'\)"),
    models.Structure("choice", ("yes", "no")),
    models.Structure("json", {"type": "object"}),
    models.Structure("grammar", 'root ::= "a"'),
]


@pytest.mark.parametrize("structure", _STRUCTURES, ids=lambda structure: structure.kind)
async def test_vllm_is_asked_for_a_structure(model_server, connect, ask, structure):
    await connect(model_server).complete(ask, models.Sampling(structure=structure))
    value = list(structure.value) if structure.kind == "choice" else structure.value
    assert model_server.requests[0].json["structured_outputs"] == {structure.kind: value}


async def test_openai_is_asked_for_json(connect, ask):
    structure = models.Structure("json", {"type": "object"})
    with FakeModelServer(vendor="openai") as server:
        call = await connect(server).complete(ask, models.Sampling(structure=structure))
        asked = server.requests[0].json["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["schema"] == {"type": "object"}
    assert asked["json_schema"]["strict"] is True
    assert call.sampling["response_format"] == asked


@pytest.mark.parametrize("kind", ["regex", "choice", "grammar"])
async def test_a_structure_that_cannot_be_had_is_refused_unasked(connect, ask, kind):
    sampling = models.Sampling(structure=models.Structure(kind, "ab"))
    with FakeModelServer(vendor="openai") as server:
        with pytest.raises(
            errors.ModelRefusedError, match=f"Only vLLM can restrict replies to a {kind}"
        ):
            await connect(server).complete(ask, sampling)
        assert server.requests == []


async def test_parameters_of_the_call_take_precedence(model_server, connect, ask):
    sampling = models.Sampling(temperature=1.0, seed=1, extra={"a": 1, "b": 1})
    client = connect(model_server, kind="openai", sampling=sampling)
    call = await client.complete(ask, models.Sampling(temperature=0.0, extra={"b": 2}))
    assert call.sampling == {"temperature": 0.0, "seed": 1, "a": 1, "b": 2}


@pytest.mark.parametrize("name", ["messages", "model", "stream"])
async def test_what_is_the_clients_is_no_parameter(model_server, connect, ask, name):
    with pytest.raises(errors.InvalidInputError, match=name):
        await connect(model_server).complete(ask, models.Sampling(extra={name: True}))
    assert model_server.visits == []


async def test_pages_may_have_half_characters(model_server, connect):
    call = await connect(model_server).complete([models.Message.of("user", "a\ud83d!")])
    assert model_server.requests[0].text == "a\ufffd!"
    assert call.messages[0]["content"] == "a\ufffd!"


async def test_a_picture_of_no_known_kind_is_refused(model_server, connect):
    with pytest.raises(errors.InvalidInputError, match="PNG, JPEG"):
        await connect(model_server).complete([models.Message.of("user", models.Image(b"BM.."))])


async def test_a_long_reply_is_cut_at_the_limit(model_server, connect):
    call = await connect(model_server).complete(
        [models.Message.of("user", "abcdef")], models.Sampling(max_tokens=3)
    )
    assert (call.text, call.finish_reason) == ("abc", "length")
    assert call.completion_token_ids == tuple(exchange.encode("abc"))


async def test_thoughts_are_told_apart(model_server, connect, ask):
    model_server.script(Reply("noop()", reasoning="Nothing to do."))
    call = await connect(model_server).complete(ask)
    assert call.text == "noop()"
    assert replies.reasoning_of(call) == "Nothing to do."


async def test_a_refusal_is_text(model_server, connect, ask):
    body = {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}
    model_server.script(Reply(body=orjson.dumps(body)))
    call = await connect(model_server).complete(ask)
    assert call.text == "No."
    assert call.usage == {}


async def test_log_probabilities_that_belong_to_no_tokens_are_left_in_the_response(
    model_server, connect, ask
):
    call = await connect(model_server, token_ids=False).complete(ask)
    assert call.completion_token_ids == call.logprobs == ()
    assert call.response["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize("kind", ["auto", "vllm"])
@pytest.mark.parametrize(
    ("card", "sent"),
    [
        pytest.param({"id": "policy", "root": "{folder}"}, "policy", id="served by its path"),
        pytest.param({"id": "{folder}", "root": "x"}, "{folder}", id="served as its path"),
        pytest.param({"id": "policy", "root": "/other/model.pt"}, "model.pt", id="another model"),
        pytest.param({"id": "policy", "root": "model.pt"}, "model.pt", id="a relative path"),
        pytest.param({"id": "model.pt", "root": "{folder}"}, "model.pt", id="as it was given"),
    ],
)
async def test_a_models_folder_is_found_whatever_it_is_served_as(
    tmp_path, monkeypatch, card, sent, kind
):
    folder = tmp_path / "my runs" / "model.pt"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder.parent)
    card = {key: value.replace("{folder}", str(folder)) for key, value in card.items()}
    sent = sent.replace("{folder}", str(folder))
    listed = orjson.dumps({"data": [{**card, "owned_by": "vllm"}]})
    with FakeModelServer(["hello"], models=(sent,)) as server:
        server.overrides["/v1/models"] = Reply(body=listed)
        async with models.OpenAICompatibleClient("model.pt", server.url, kind=kind) as client:
            call = await client.complete([models.Message.of("user", "?")])
        assert server.requests[0].json["model"] == sent
    assert (call.text, call.model) == ("hello", "model.pt")
