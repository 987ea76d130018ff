"""The gateway forwards what agents ask and get, and its journal has all of it."""

import asyncio
import json
import os
import re
import signal
import sys

import anthropic
import httpx
import openai
import orjson
import pytest

from webtraj.agents.models.replies import tool_calls_of
from webtraj.gateway import read_calls
from webtraj.testing.model_server import FakeModelServer, Reply, exchange

SAY = [{"role": "user", "content": "What now?"}]
CLICK = {"name": "click", "arguments": {"element": "Send the form"}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "name": "click", "parameters": {"type": "object"}}


def press(request):
    return Reply("Press it now.", calls=[CLICK])


async def ask_chat(gateway, *, stream, run="", **options):
    async with openai.AsyncOpenAI(
        base_url=gateway.openai_url(run), api_key="sk-agent-key-12345678", max_retries=2
    ) as client:
        asked = {"model": "fake-model", "messages": SAY, "temperature": 0.5, **options}
        if not stream:
            return await client.chat.completions.create(**asked)
        async with client.chat.completions.stream(**asked) as replied:
            return await replied.get_final_completion()


async def ask_responses(gateway, *, stream):
    async with openai.AsyncOpenAI(base_url=gateway.openai_url(), api_key="x") as client:
        asked = {
            "model": "fake-model",
            "input": "What now?",
            "instructions": "Act.",
            "tools": [TOOL],
        }
        if not stream:
            return await client.responses.create(**asked)
        async with client.responses.stream(**asked) as replied:
            return await replied.get_final_response()


async def ask_anthropic(gateway, *, stream):
    async with anthropic.AsyncAnthropic(base_url=gateway.anthropic_url(), api_key="x") as client:
        asked = {"model": "fake-model", "messages": SAY, "max_tokens": 99, "system": "Act."}
        if not stream:
            return await client.messages.create(**asked)
        async with client.messages.stream(**asked) as replied:
            return await replied.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("vendor", ["vllm", "openai"])
async def test_calls_of_the_vendors_clients_are_recorded(gateway_before, journal, vendor, stream):
    async with gateway_before(press, vendor=vendor) as (gateway, server):
        chat = await ask_chat(gateway, stream=stream, run="first")
        responses = await ask_responses(gateway, stream=stream)
        message = await ask_anthropic(gateway, stream=stream)
    assert not server.errors
    assert chat.choices[0].message.content == responses.output_text == "Press it now."
    assert message.content[-1].input == CLICK["arguments"]
    calls = read_calls(journal)
    assert [call.run for call in calls] == ["first", "", ""]
    made = [call.call for call in calls]
    assert [call.provider for call in made] == [vendor, "responses", "anthropic"]
    for call in made:
        assert (call.model, call.text, call.error) == ("fake-model", "Press it now.", "")
        (used,) = tool_calls_of(call.response)
        assert used.name == "click"
        assert call.messages[-1] == SAY[0]
        assert call.latency > 0
        assert not call.failed_attempts
    assert [call.finish_reason for call in made] == ["tool_calls", "completed", "tool_use"]
    assert all(call.messages[0]["role"] == "system" for call in made[1:])
    assert made[0].sampling == {"temperature": 0.5}
    assert made[1].sampling["tools"] == [TOOL]
    assert all("output_tokens" in call.usage for call in made[1:])
    assert "sk-agent" not in journal.read_text()
    if vendor == "vllm":
        assert exchange.decode(made[0].completion_token_ids) == "Press it now."
        assert exchange.decode(made[0].prompt_token_ids) == "user: What now?assistant: "
        assert len(made[0].logprobs) == len(made[0].completion_token_ids)
        assert made[0].usage["completion_tokens"] == len(made[0].logprobs)


@pytest.mark.parametrize("asks", [{}, {"logprobs": True, "return_token_ids": True}])
@pytest.mark.parametrize("stream", [False, True])
async def test_agents_of_vllm_see_what_they_asked_for(gateway_before, stream, asks):
    async with gateway_before(press) as (gateway, server), httpx.AsyncClient() as client:
        body = {"model": "fake-model", "messages": SAY, "stream": stream, **asks}
        for base in (gateway.openai_url(), server.url):
            answer = await client.post(f"{base}/chat/completions", json=body)
            assert answer.headers["content-type"].startswith("text/event" if stream else "app")
            (chunks := []).extend(
                orjson.loads(line.removeprefix("data: "))
                for line in answer.text.splitlines()
                if line.strip() not in ("", "data: [DONE]")
            )
            for chunk in chunks:
                del chunk["id"]  # Each reply has its own, in calls, too.
            seen = orjson.dumps(chunks).replace(b"_1_0", b"_2_0")
            if base == gateway.openai_url():
                through = seen
    if stream or asks:
        assert through == seen
    else:  # vLLM says null for what was not asked for.
        null = b',"token_ids":null'
        assert through == seen.replace(null, b"").replace(b',"prompt_token_ids":null', b"")


async def test_replies_pass_unchanged_while_they_arrive(gateway_before, journal):
    reply = Reply("A long reply, of which a half arrives." * 9, cut="stall")
    ended = asyncio.Event()

    def observe(call):
        if call.call.latency is not None:
            ended.set()

    async with gateway_before([reply], observe, vendor="openai") as (gateway, _):
        body = {"model": "fake-model", "messages": SAY, "stream": True}
        async with (
            httpx.AsyncClient() as client,
            client.stream("POST", f"{gateway.openai_url()}/chat/completions", json=body) as answer,
        ):
            got = await anext(answer.aiter_bytes())
            assert got.startswith(b"data: ")
        await ended.wait()  # The agent closed its connection.
    (recorded,) = read_calls(journal)
    assert recorded.call.text
    assert reply.text.startswith(recorded.call.text)
    assert "closed the connection" in recorded.call.error
    assert [attempt.error for attempt in recorded.call.failed_attempts] == ["timeout"]


async def test_a_server_that_dies_cuts_the_agent_s_stream(gateway_before, journal):
    reply = Reply("A long reply, of which a half arrives." * 9, cut="within")
    async with gateway_before([reply], vendor="openai") as (gateway, _):
        body = {"model": "fake-model", "messages": SAY, "stream": True}
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post(f"{gateway.openai_url()}/chat/completions", json=body)
    (recorded,) = read_calls(journal)
    assert recorded.call.text
    assert [attempt.error for attempt in recorded.call.failed_attempts] == ["reply"]


async def test_retries_of_an_agent_are_attempts_at_one_call(gateway_before, journal):
    replies = [Reply.error(503, retry_after=0), Reply(cut="before"), "Done."]
    async with gateway_before(replies, vendor="openai") as (gateway, _):
        chat = await ask_chat(gateway, stream=False)
        refused = ask_chat(gateway, stream=False)
        with pytest.raises(openai.BadRequestError, match="no more replies"):
            await refused
    assert chat.choices[0].message.content == "Done."
    first, last = read_calls(journal)
    attempts = [(attempt.error, attempt.status) for attempt in first.call.failed_attempts]
    assert attempts == [("status", 503), ("connection", None)]
    assert (first.call.text, first.call.error) == ("Done.", "")
    assert first.call.latency > sum(attempt.latency for attempt in first.call.failed_attempts)
    assert "no more replies" in last.call.error


async def test_parallel_calls_and_other_requests(gateway_before, journal):
    texts = [f"Sub-agent {number}" for number in range(20)]
    async with gateway_before(lambda request: request.text) as (gateway, _):
        base = gateway.openai_url()
        async with httpx.AsyncClient() as client:
            asked = (
                {"model": "fake-model", "messages": [{"role": "user", "content": text}]}
                for text in texts
            )
            calls = [client.post(f"{base}/chat/completions", json=body) for body in asked]
            replies = [answer.json() for answer in await asyncio.gather(*calls)]
            models = await client.get(f"{base}/models")
            missing = await client.post(f"{base}/embeddings", json={})
            page = await client.get(gateway.url, headers={"origin": "https://example.com"})
    assert [reply["choices"][0]["message"]["content"] for reply in replies] == texts
    assert (models.json()["data"][0]["id"], missing.status_code) == ("fake-model", 404)
    assert page.status_code == 403
    assert sorted(call.call.text for call in read_calls(journal)) == sorted(texts)


async def test_pictures_are_recorded_as_bytes(gateway_before, journal):
    part = {"type": "image_url", "image_url": {"url": PIXEL}}
    async with gateway_before(press) as (gateway, server):
        await ask_chat(gateway, stream=False, messages=[{"role": "user", "content": [part]}])
        assert server.requests[0].images[0] == b"\x89PNG\r\n\x1a\n"
    (recorded,) = read_calls(journal)
    (shown,) = recorded.call.messages[0]["content"]
    assert shown["image_url"]["url"] == b"\x89PNG\r\n\x1a\n"


async def test_a_killed_gateway_loses_the_replies_in_flight_and_names_them(journal):
    with FakeModelServer(["Done.", Reply(delay=float("inf"))]) as server:
        gateway = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "webtraj", "gateway"),
            *("--journal", journal, "--base-url", f"openai={server.url}"),
            stdout=asyncio.subprocess.PIPE,
        )
        lines = (await gateway.stdout.readline() + await gateway.stdout.readline()).decode()
        openai_url, url = re.findall(r"=(\S+)", lines)
        assert openai_url == f"{url}/v1"
        async with httpx.AsyncClient(timeout=30) as client:
            body = {"model": "fake-model", "messages": SAY}
            await client.post(f"{url}/v1/chat/completions", json=body)
            asking = asyncio.ensure_future(
                client.post(f"{url}/v1/chat/completions", json={**body, "seed": 1})
            )
            await server.until(lambda server: len(server.requests) == 2)
            os.kill(gateway.pid, signal.SIGKILL)
            await gateway.wait()
            with pytest.raises(httpx.HTTPError):
                await asking
    whole, lost = read_calls(journal)
    assert (whole.call.text, whole.call.error) == ("Done.", "")
    assert lost.call.sampling == {"seed": 1}
    assert (lost.call.latency, lost.call.error) == (None, "The gateway ended before the reply.")


@pytest.mark.parametrize(
    "text", ["data:image/png;base64,iVBOR…", "half a \ud83d"], ids=["cut picture", "half a letter"]
)
async def test_odd_texts_reach_the_server_and_are_recorded(gateway_before, journal, text):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    async with gateway_before(press) as (gateway, _), httpx.AsyncClient() as agent:
        url = f"{gateway.openai_url()}/chat/completions"
        await agent.post(url, content=body, headers={"content-type": "application/json"})
    (call,) = read_calls(journal)
    assert call.call.messages[0]["content"] == text.replace("\ud83d", "\ufffd")


async def test_numbers_that_json_does_not_have_are_recorded_as_null(gateway_before, journal):
    message = {"content": "Done.", "tokens": 1 << 70}
    chat = {"choices": [{"index": 0, "message": message, "score": float("nan")}]}
    asked = {"model": "fake-model", "messages": SAY}
    async with (
        gateway_before([Reply(body=json.dumps(chat).encode())]) as (gateway, _),
        httpx.AsyncClient() as agent,
    ):
        url = f"{gateway.openai_url()}/chat/completions"
        for more in ({}, {"temperature": float("inf")}):
            answer = await agent.post(url, content=json.dumps({**asked, **more}).encode())
            assert more or answer.content == json.dumps(chat).encode()
    replied, refused = (recorded.call for recorded in read_calls(journal))
    assert (replied.text, replied.error) == ("Done.", "")
    assert replied.response["choices"][0]["score"] is None
    assert replied.response["choices"][0]["message"]["tokens"] == float(1 << 70)
    assert refused.sampling == {"temperature": None}


async def test_a_reply_that_is_no_object_is_an_error(gateway_before, journal):
    async with gateway_before([Reply(body=b"null")]) as (gateway, _), httpx.AsyncClient() as agent:
        url = f"{gateway.openai_url()}/chat/completions"
        answer = await agent.post(url, json={"model": "fake-model", "messages": SAY})
        assert (answer.status_code, answer.content) == (200, b"null")
        odd = await agent.get(f"{gateway.openai_url()}/a%0Ab")
        assert odd.status_code == 404
    (call,) = read_calls(journal)
    assert "did not answer with a chat completion" in call.call.error


async def test_keys_under_other_names_are_not_recorded(gateway_before, journal):
    key = "A1za-9f8e7d6c5b4a3f2e1d"
    asked = {"model": "m", "messages": [{"role": "user", "content": f"{key} and again {key}"}]}
    async with gateway_before(press) as (gateway, _), httpx.AsyncClient() as agent:
        url = f"{gateway.openai_url()}/chat/completions"
        await agent.post(url, json=asked, headers={"authorization": f"bearer {key}"})
        await agent.post(f"{url}?key={key}", json=asked)
    assert key not in journal.read_text()
