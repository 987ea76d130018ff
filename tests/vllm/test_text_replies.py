"""What a client records of a real vLLM's replies to text."""

import asyncio
import json
import math
import re

import httpx
import pytest
from vllm_server import is_text_of

import other_user
from webtraj.agents.models.base import Message, Sampling, Structure
from webtraj.agents.models.openai import OpenAICompatibleClient

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLERANCE = 2e-3
"""Of a log-probability: both add up the same float32 numbers, in another order."""


def conversation(n=0):
    return [
        Message.of("system", "You act in a web browser."),
        Message.of("user", f"Task {n}: click the button named 'Go {n}'. Then say done()."),
    ]


async def ask_many(client, count, **settings):
    return await asyncio.gather(
        *(
            client.complete(conversation(n), Sampling(seed=n, max_tokens=32, **settings))
            for n in range(count)
        )
    )


async def test_a_model_is_asked_for_by_its_path_from_any_folder(text_server, models, monkeypatch):
    """A rollout names a checkpoint by the path that it finds it at."""
    folder = models / "text-0"
    for base, name in (
        (models, str(folder)),  # What `<save_path>/model.pt` is.
        (models, "text-0/"),
        (models.parent, f"{models.name}/../{models.name}/text-0"),
    ):
        monkeypatch.chdir(base)
        async with OpenAICompatibleClient(name, text_server.base_url) as client:
            call = await client.complete(conversation(), Sampling(max_tokens=4))
        assert (call.model, call.error) == (name, "")
    answer = httpx.get(f"{text_server.base_url}/models", trust_env=False).json()
    assert {str(folder), "text-0"} <= {model["id"] for model in answer["data"]}


@other_user.needs_root
async def test_another_user_of_the_machine_is_refused(text_server):
    lines = (
        "GET /health", "GET /v1/models", "POST /v1/completions", "POST /inference/v1/generate",
        "POST /collective_rpc", "POST /v1/load_lora_adapter", "GET /metrics", "WS /v1/realtime",
    )  # fmt: skip
    url = text_server.url
    assert set(await asyncio.to_thread(other_user.statuses, url, *lines)) <= {401, 403}
    own = await asyncio.to_thread(other_user.statuses, url, *lines, user=0)
    assert own[:2] == [200, 200]


async def test_record_is_complete(client):
    call = await client.complete(conversation(), Sampling(max_tokens=16, temperature=1.0, seed=1))
    assert (call.provider, call.model, call.policy_version) == ("vllm", "text-0", "default")
    assert call.text
    assert call.finish_reason in ("length", "stop")
    assert call.usage["prompt_tokens"] == len(call.prompt_token_ids)
    assert call.usage["completion_tokens"] == len(call.completion_token_ids) > 0
    assert len(call.logprobs) == len(call.completion_token_ids)
    assert call.sampling["temperature"] == 1.0
    assert call.latency > 0


@pytest.mark.parametrize("temperature", [1.0, 0.6], ids=["as the model", "sharpened"])
async def test_tokens_and_logprobs_are_those_of_the_weights(client, reference, temperature):
    """Also sharpened: they are of the distribution that was sampled from."""
    calls = await ask_many(client, 16, temperature=temperature)
    sequences = [(c.prompt_token_ids, c.completion_token_ids, temperature) for c in calls]
    for call, expected in zip(calls, reference("text-0", sequences), strict=True):
        assert call.logprobs == pytest.approx(expected["logprobs"], abs=TOLERANCE)
        assert sum(call.logprobs) == pytest.approx(sum(expected["logprobs"]), abs=20 * TOLERANCE)
        assert is_text_of(call.text, expected["completion"])


async def test_records_alone_give_back_what_the_server_saw(client, text_server, reference):
    """Nothing is tokenized here: ids become text, never the other way round."""
    extra = {"return_prompt_text": True}
    calls = await ask_many(client, 16, temperature=1.0, extra=extra)
    sequences = [(c.prompt_token_ids, c.completion_token_ids, 1.0) for c in calls]
    for call, expected in zip(calls, reference("text-0", sequences), strict=True):
        assert expected["prompt"] == call.response["prompt_text"]
        assert conversation_text(call) in expected["prompt"]
        assert is_text_of(call.text, expected["completion"])
        there = await ask(
            text_server,
            "/detokenize",
            {"model": text_server.model, "tokens": list(call.prompt_token_ids)},
        )
        assert there["prompt"] == call.response["prompt_text"]


CHOICES = ("click('a1')", "go_back()", "noop()")
REGEX = r"(?:click\('[a-z][0-9]{1,3}'\)|scroll\(0, -?[1-9][0-9]{0,2}\)|done\(\))"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["click", "type"]},
        "arguments": {
            "type": "object",
            "properties": {
                "x": {"type": "integer", "minimum": 0, "maximum": 1000},
                "text": {"type": "string", "maxLength": 8},
                "double": {"type": "boolean"},
            },
            "required": ["x", "text", "double"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}


def check_json(text):
    reply = json.loads(text)
    assert reply.keys() == {"name", "arguments"}
    assert reply["name"] in ("click", "type")
    arguments = reply["arguments"]
    assert arguments.keys() == {"x", "text", "double"}
    assert type(arguments["x"]) is int
    assert 0 <= arguments["x"] <= 1000
    assert isinstance(arguments["text"], str)
    assert isinstance(arguments["double"], bool)


def check_choice(text):
    assert text in CHOICES


def check_regex(text):
    assert re.fullmatch(REGEX, text)


@pytest.mark.parametrize(
    ("structure", "check"),
    [
        (Structure("choice", CHOICES), check_choice),
        (Structure("regex", REGEX), check_regex),
        (Structure("json", SCHEMA), check_json),
    ],
    ids=["choice", "regex", "json"],
)
async def test_structured_replies_always_parse(client, structure, check):
    """Random weights would write no valid reply by themselves in years."""
    settings = {"temperature": 1.5, "max_tokens": 256, "structure": structure}
    calls = await asyncio.gather(
        *(client.complete(conversation(n), Sampling(seed=n, **settings)) for n in range(24))
    )
    assert {call.finish_reason for call in calls} == {"stop"}
    for call in calls:
        check(call.text)
        assert len(call.logprobs) == len(call.completion_token_ids)
    assert len({call.text for call in calls}) > 1


async def test_logprobs_under_a_constraint_are_of_what_it_leaves(client):
    """Two replies are possible, of one token each: their probabilities make one."""
    structure = Structure("choice", ("a", "b"))
    calls = await asyncio.gather(
        *(
            client.complete(
                conversation(),
                Sampling(seed=n, temperature=1.0, max_tokens=4, structure=structure),
            )
            for n in range(64)
        )
    )
    probabilities = {call.text: math.exp(sum(call.logprobs)) for call in calls}
    assert probabilities.keys() == {"a", "b"}
    assert sum(probabilities.values()) == pytest.approx(1.0, abs=TOLERANCE)


def conversation_text(call):
    return call.messages[-1]["content"]


async def ask(server, path, body):
    async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
        answer = await http.post(f"{server.url}{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()
