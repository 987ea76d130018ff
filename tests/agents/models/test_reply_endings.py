"""What a reply is good for follows from its finish reason; odd optional fields cost no reply."""

import json

import pytest

from webtraj import errors
from webtraj.agents import models, reply_parser
from webtraj.agents.models import replies
from webtraj.environments import actions as a
from webtraj.environments.actions.dialects import make_dialect
from webtraj.environments.local_server import LocalServer
from webtraj.testing.model_server import Reply
from webtraj.trajectory import Ending, ModelCall, ending_of

QUICK = models.RetryPolicy(max_retries=1, first_delay=0)


def chat(reason, content="click('4')", **choice):
    message = {"role": "assistant", "content": content}
    return {"choices": [{"message": message, "finish_reason": reason, **choice}]}


def messages(reason, content="click('4')"):
    return {"content": [{"type": "text", "text": content}], "stop_reason": reason}


def responses(reason, content="click('4')"):
    said = {"type": "message", "content": [{"type": "output_text", "text": content}]}
    if reason in ("completed", "failed", "cancelled", "in_progress"):
        return {"status": reason, "output": [said]}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [said]}


APIS = {
    chat: (models.OpenAICompatibleClient, "stop length content_filter abort error"),
    messages: (models.AnthropicClient, "end_turn max_tokens refusal error abort"),
    responses: (
        models.ResponsesClient,
        "completed max_output_tokens content_filter failed cancelled",
    ),
}
PARSERS = (reply_parser.parse_call, reply_parser.parse_tool_call)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
async def test_every_api_decides_by_the_finish_reason(api, model_server, connect, ask):
    client_class, words = APIS[api]
    whole, cut, filtered, *broken = words.split()
    client = connect(model_server, client_class, retries=QUICK)

    async def reply(*reasons):
        model_server.script(*[Reply(body=json.dumps(api(one)).encode()) for one in reasons])
        return await client.complete(ask)

    webtraj = make_dialect("webtraj")
    for reason in (whole, cut):
        assert reply_parser.parse_call(await reply(reason), webtraj).action == a.Click("4")
    for parse in PARSERS:
        assert parse(await reply(filtered), webtraj).action.kind == "filtered"
    for reason in broken:
        before = len(model_server.requests)
        assert (await reply(reason, whole)).text == "click('4')"
        assert len(model_server.requests) == before + 2
        with pytest.raises(errors.ModelUnavailableError, match="broke off its reply") as caught:
            await reply(reason, reason)
        assert caught.value.call.text == ""
        assert caught.value.call.response == api(reason)


def test_words_of_servers():
    words = {
        Ending.WHOLE: "stop STOP end_turn stop_sequence eos_token completed COMPLETE",
        Ending.CALLED: "tool_calls tool_use function_call TOOL_CALL",
        Ending.CUT: "length max_tokens MAX_TOKENS model_length model_context_window_exceeded",
        Ending.FILTERED: "content_filter refusal SAFETY guardrail_intervened sensitive",
        Ending.BROKEN: "abort aborted error ERROR timeout insufficient_system_resource",
        Ending.UNKNOWN: "bored",
    }
    for ending, said in words.items():
        assert {word: ending_of(word) for word in said.split()} == dict.fromkeys(
            said.split(), ending
        )
    assert ending_of("") is Ending.UNKNOWN


TOKENS = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -0.5}]
SOUND = {"token_ids": [1, 2], "logprobs": {"content": TOKENS}}


def replaced(old, new, **fields):
    return json.dumps(chat("stop", **{**SOUND, **fields})).replace(old, new).encode()


ODD = {
    "NaN": (replaced("-0.5", "NaN"), (1, 2), ()),
    "infinity": (replaced("-0.5", "-Infinity"), (1, 2), ()),
    "beyond all floats": (replaced("-0.5", "-1e999"), (1, 2), ()),
    "null": (replaced("-0.5", "null"), (1, 2), ()),
    "a text": (replaced("-0.5", '"-0.5"'), (1, 2), ()),
    "no mark of a token": (replaced('"b"', r'"\ud800"'), (1, 2), (-0.1, -0.5)),
    "not UTF-8": (replaced('"b"', '"@"').replace(b"@", b"\xff"), (1, 2), (-0.1, -0.5)),
    "a control character": (replaced('"b"', '"\t"'), (1, 2), (-0.1, -0.5)),
    "a byte order mark": (b"\xef\xbb\xbf" + replaced("", ""), (1, 2), (-0.1, -0.5)),
    "no ids": (replaced("", "", token_ids=3), (), ()),
    "ids of another kind": (replaced("", "", token_ids=[1, None]), (), ()),
    "fewer than ids": (replaced("", "", logprobs={"content": TOKENS[:1]}), (1, 2), ()),
    "log-probabilities in a list": (replaced("", "", logprobs=[1]), (1, 2), ()),
    "no counts": (json.dumps({**chat("stop", **SOUND), "usage": [1]}).encode(),
                  (1, 2), (-0.1, -0.5)),
    "a finish reason of its own": (replaced('"stop"', '{"type": "stop", "matched": 2}'),
                                   (1, 2), (-0.1, -0.5)),
    "parts": (replaced("", "", message={"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "click("}, {"type": "text", "text": "'4')"},
    ]}), (1, 2), (-0.1, -0.5)),
    "a part without a type": (replaced("", "", message={"content": [
        {"type": None, "text": "click('4')"},
    ]}), (1, 2), (-0.1, -0.5)),
    "one part": (replaced("", "", message={"content": {"type": "text", "text": "click('4')"}}),
                 (1, 2), (-0.1, -0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
async def test_a_malformed_optional_field_costs_no_reply(name, model_server, connect, ask):
    body, ids, logprobs = ODD[name]
    model_server.script(Reply(body=body))
    call = await connect(model_server).complete(ask)
    assert (call.text, call.finish_reason) == ("click('4')", "stop")
    assert (call.completion_token_ids, call.logprobs) == (ids, logprobs)
    assert len(model_server.requests) == 1


async def test_a_dropped_field_is_reported_once(model_server, connect, ask, caplog):
    model_server.script(*[Reply(body=ODD["no ids"][0])] * 2)
    client = connect(model_server)
    await client.complete(ask)
    await client.complete(ask)
    (said,) = caplog.messages
    assert "whose field 'token_ids' is malformed" in said


def test_odd_counts_are_dropped_and_named():
    usage = {
        "prompt_tokens": -5, "completion_tokens": 3.0, "total_tokens": "8", "cost": 0.5,
        "prompt_tokens_details": {"cached_tokens": 1e300, "audio_tokens": None},
    }  # fmt: skip
    reply = replies.read_openai({**chat("stop"), "usage": usage})
    assert reply.usage == {"completion_tokens": 3}
    assert reply.dropped == (
        "usage.prompt_tokens", "usage.total_tokens", "usage.prompt_tokens_details.cached_tokens",
    )  # fmt: skip


def test_a_message_without_a_stop_reason_is_a_reply():
    body = {"content": [{"type": "text", "text": "click('4')"}]}
    reply = replies.read_anthropic(body)
    assert (reply.text, reply.finish_reason) == ("click('4')", "")


async def test_half_a_character_in_a_reply_is_replaced(model_server, connect, ask):
    body = json.dumps(chat("stop", "a\ud83d \U0001f600")).encode()
    model_server.script(Reply(body=body))
    assert (await connect(model_server).complete(ask)).text == "a\ufffd \U0001f600"


@pytest.mark.parametrize("cut", ["before", "within"])
async def test_a_call_that_was_sent_again_is_one_call(cut, model_server, connect, ask):
    model_server.script(Reply("lost", cut=cut), "click('4')")
    call = await connect(model_server, retries=QUICK).complete(ask)
    assert (call.text, call.error) == ("click('4')", "")
    assert "temperature" not in call.sampling, "It was not sent, so the server's own applied."


@pytest.mark.parametrize("framing", ["Transfer-Encoding: chunked", "Content-Length: 9999"])
@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_connection_that_breaks_behind_a_whole_reply_costs_no_second_one(framing, is_whole):
    body = json.dumps(chat("stop")).encode()
    sent = body if is_whole else body[:-2]
    if "chunked" in framing:
        sent = b"%x\r\n%b\r\n" % (len(sent), sent)
    asked = []

    async def answer(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
        writer.write(head.encode() + sent)
        await writer.drain()

    async with LocalServer(answer) as server:
        url = f"http://{server.address}/v1"
        client = models.OpenAICompatibleClient("m", url, kind="openai", retries=QUICK)
        async with client:
            if is_whole:
                call = await client.complete([models.Message.of("user", "Go.")])
                assert call.text == "click('4')"
            else:
                with pytest.raises(errors.ModelUnavailableError, match="No answer"):
                    await client.complete([models.Message.of("user", "Go.")])
    assert len(asked) == (1 if is_whole else 2)


@pytest.mark.parametrize("none", [None, "", " \n", "null", "{}", "[]", {}, []])
@pytest.mark.parametrize("name", ["webtraj", "browsergym"])
def test_a_tool_call_without_arguments(name, none):
    dialect = make_dialect(name)
    assert dialect.parse({"name": "go_back", "arguments": none}) == a.GoBack()
    assert dialect.parse({"name": "click", "arguments": none}).kind == "bad_arguments"
    function = {"name": "go_back", "arguments": none}
    message = {"content": None, "tool_calls": [{"id": "1", "function": function}]}
    call = ModelCall(response={"choices": [{"message": message}]}, finish_reason="tool_calls")
    reply = reply_parser.parse_tool_call(call, dialect)
    assert reply.action == a.GoBack()
    if not isinstance(none, dict):
        assert reply.calls[0].to_data()["function"]["arguments"] == "{}"
