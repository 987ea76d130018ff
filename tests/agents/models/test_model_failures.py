"""What becomes of a call when its server fails it, in each of the ways in which servers do."""

import asyncio
import math

import pytest

from rows import each
from webtraj import errors
from webtraj.agents import models
from webtraj.agents.models import replies
from webtraj.testing.model_server import FakeModelServer, Reply

NO_RETRIES = models.RetryPolicy(max_retries=0)
QUICK = models.RetryPolicy(max_retries=3, first_delay=0.001)

REFUSALS = {
    400: "Change", 401: "api_key", 403: "permission", 404: "base_url", 302: "Redirect",
    501: "Change",
}  # fmt: skip


@pytest.mark.parametrize("status", REFUSALS)
async def test_what_will_not_heal_is_not_tried_again(model_server, connect, ask, clock, status):
    model_server.script(Reply.error(status, "So sad."))
    client = connect(model_server, clock=clock)
    with pytest.raises(errors.ModelRefusedError, match=REFUSALS[status]) as caught:
        await client.complete(ask, models.Sampling(seed=3))
    assert len(model_server.requests) == 1
    assert clock.slept == []
    call = caught.value.call
    assert "So sad." in call.error
    assert str(status) in call.error
    assert call.error == str(caught.value)
    assert call.response["error"]["message"] == "So sad."
    assert call.messages == ({"role": "user", "content": "What now?"},)
    assert call.sampling["seed"] == 3
    assert call.text == ""
    assert call.start_time is not None
    assert call.latency >= 0


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_what_may_heal_is_tried_again(model_server, connect, ask, clock, status):
    model_server.script(Reply.error(status), Reply.error(status), "ok")
    call = await connect(model_server, clock=clock).complete(ask)
    assert call.text == "ok"
    assert call.error == ""
    assert clock.slept == [0.375, 0.75]
    assert call.latency == pytest.approx(1.125)


async def test_it_is_given_up_after_the_last_retry(model_server, connect, ask):
    model_server.script(*[Reply.error(503, f"No. {n}") for n in range(9)])
    client = connect(model_server, retries=QUICK)
    with pytest.raises(errors.ModelUnavailableError, match="after 4 attempts") as caught:
        await client.complete(ask)
    assert len(model_server.requests) == 4
    assert caught.value.call.response["error"]["message"] == "No. 3"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7.0), ({"retry-after-ms": "2500"}, 2.5)],
    ids=["seconds", "milliseconds"],
)
async def test_a_server_is_left_alone_as_long_as_it_asks(
    model_server, connect, ask, clock, headers, seconds
):
    model_server.script(Reply.error(429, headers=headers), "ok")
    await connect(model_server, clock=clock).complete(ask)
    assert clock.slept == [pytest.approx(seconds * 1.05)]


async def test_a_wait_beyond_the_deadline_is_not_begun(model_server, connect, ask, clock):
    model_server.script(Reply.error(429, retry_after=120), "never")
    client = connect(model_server, clock=clock)
    with pytest.raises(errors.ModelUnavailableError, match=r"due in 126\.0 s, after the call"):
        await client.complete(ask, timeout=60)
    assert clock.slept == []


@pytest.mark.parametrize(
    ("value", "tries"), [("true", 2), ("false", 1)], ids=["retry", "do not retry"]
)
async def test_a_server_may_say_whether_to_retry(model_server, connect, ask, clock, value, tries):
    status = 400 if value == "true" else 500
    model_server.script(Reply.error(status, headers={"x-should-retry": value}), "ok")
    client = connect(model_server, clock=clock)
    if value == "true":
        await client.complete(ask)
    else:
        with pytest.raises(errors.ModelRefusedError):
            await client.complete(ask)
    assert len(model_server.requests) == tries


async def test_a_quota_that_is_used_up_does_not_heal(model_server, connect, ask):
    model_server.script(Reply.error(429, code="insufficient_quota"))
    with pytest.raises(errors.ModelRefusedError, match="insufficient_quota"):
        await connect(model_server).complete(ask)


@pytest.mark.parametrize("cut", ["before", "within"])
async def test_a_connection_that_is_cut_is_made_again(model_server, connect, ask, cut):
    model_server.script(Reply("lost", cut=cut), "ok")
    call = await connect(model_server, retries=QUICK).complete(ask)
    assert call.text == "ok"


GARBAGE = {
    "no JSON": b"<html>It works!</html>",
    "cut JSON": b'{"choices": [{"mess',
    "no bytes": b"",
    "no object": b"[]",
    "null": b"null",
    "no choices": b'{"choices": []}',
    "no message": b'{"choices": [{}]}',
    "no text": b'{"choices": [{"message": {"content": 3}}]}',
    "no UTF-8": b'"\xff\xfe"',
}


@pytest.mark.parametrize("body", GARBAGE.values())
async def test_garbage_is_no_reply(model_server, connect, ask, body):
    model_server.script(Reply(body=body), Reply(body=body))
    client = connect(model_server, retries=models.RetryPolicy(max_retries=1, first_delay=0))
    with pytest.raises(errors.ModelUnavailableError, match="did not answer with") as caught:
        await client.complete(ask)
    assert len(model_server.requests) == 2
    assert caught.value.call.error


async def test_a_gateway_may_hide_an_error_in_a_success(model_server, connect, ask, clock):
    body = b'{"error": {"message": "upstream is down", "code": 503}}'
    model_server.script(Reply(body=body), "ok")
    assert (await connect(model_server, clock=clock).complete(ask)).text == "ok"
    assert len(clock.slept) == 1


OVERFLOWS = {
    "openai": {"status": 400, "code": "context_length_exceeded"},
    "vllm": {"status": 400, "type": "BadRequestError", "param": "input_tokens"},
    "llama.cpp": {"status": 400, "type": "exceed_context_size_error"},
    "too many bytes": {"status": 413},
    **{
        f"text {number}": {"status": 400, "message": f"Sorry: {text} 4096."}
        for number, text in enumerate(replies.OVERFLOW_TEXTS)
    },
}


@pytest.mark.parametrize("error", OVERFLOWS.values())
async def test_a_conversation_may_be_too_long(model_server, connect, ask, error):
    model_server.script(Reply.error(**error))
    with pytest.raises(errors.ContextOverflowError, match="too long for the model") as caught:
        await connect(model_server).complete(ask)
    assert len(model_server.requests) == 1
    assert caught.value.call.error


@pytest.mark.parametrize("vendor", ["vllm", "openai"])
async def test_a_context_that_is_full_is_told_by_fields(connect, ask, vendor):
    with FakeModelServer(vendor=vendor, max_model_len=40) as server:
        client = connect(server)
        await client.complete(ask)
        with pytest.raises(errors.ContextOverflowError):
            await client.complete([*ask, *ask])


async def test_a_bad_request_that_speaks_of_length_is_no_overflow(model_server, connect, ask):
    model_server.script(Reply.error(400, "temperature is too long", param="max_tokens"))
    with pytest.raises(errors.ModelRefusedError):
        await connect(model_server).complete(ask)


async def test_nobody_listens(model_server, connect, ask):
    client = connect(model_server, retries=QUICK)
    model_server.stop()
    with pytest.raises(errors.ModelUnavailableError, match="model server runs there") as caught:
        await client.complete(ask)
    assert caught.value.call.messages == ({"role": "user", "content": "What now?"},)
    assert caught.value.call.provider == "openai"


async def test_one_deadline_is_over_all(model_server, connect, ask):
    model_server.script(Reply(delay=math.inf))
    client = connect(model_server, timeout=60)
    with pytest.raises(
        errors.ModelUnavailableError, match=r"within 0.2 s .*Increase the timeout"
    ) as e:
        await client.complete(ask, timeout=0.2)
    assert e.value.call.latency < 30
    await model_server.until(lambda server: server.busy == 0)


async def test_the_deadline_is_over_the_wait_for_a_turn_too(model_server, connect, ask):
    model_server.pause()
    client = connect(model_server, max_concurrency=1)
    first = asyncio.create_task(client.complete(ask))
    await model_server.until(lambda server: server.busy == 1)
    with pytest.raises(errors.ModelUnavailableError, match="never got its turn"):
        await client.complete(ask, timeout=0.05)
    model_server.resume()
    assert (await first).text == "What now?"


async def test_an_attempt_that_hangs_is_made_again(model_server, connect, ask):
    model_server.script(Reply(delay=math.inf), "ok")
    client = connect(model_server, attempt_timeout=0.5, retries=QUICK)
    assert (await client.complete(ask)).text == "ok"
    model_server.script(*[Reply(delay=math.inf)] * 2)
    client = connect(model_server, attempt_timeout=0.1, retries=NO_RETRIES)
    with pytest.raises(errors.ModelUnavailableError, match="attempt_timeout"):
        await client.complete(ask)


async def test_cancelled_calls_leave_nothing_behind(model_server, connect, ask):
    model_server.pause()
    client = connect(model_server, max_concurrency=4)
    calls = [asyncio.create_task(client.complete(ask)) for _ in range(8)]
    await model_server.until(lambda server: server.busy >= 1)
    for call in calls:
        call.cancel()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in done} == {asyncio.CancelledError}
    await model_server.until(lambda server: server.num_connections == 0)
    model_server.resume()
    # All places are free again.
    calls = [await call for call in [client.complete(ask) for _ in range(8)]]
    assert [call.error for call in calls] == [""] * 8


async def test_calls_under_way_end_when_the_client_is_closed(model_server, connect, ask):
    client = connect(model_server, retries=QUICK)
    await client.complete(ask)
    model_server.pause()
    calls = [asyncio.create_task(client.complete(ask)) for _ in range(4)]
    await model_server.until(lambda server: server.busy == 4)
    await client.aclose()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in done} == {errors.ModelRefusedError}
    await model_server.until(lambda server: server.num_connections == 0)


ADDRESSES = [
    "",
    "localhost:8000",
    "ftp://host/v1",
    "http://",
    "http://[::1",
    "/v1",
    "http://host:99999",
]


@each("url", ADDRESSES)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(errors.InvalidInputError, match="base_url"):
        models.OpenAICompatibleClient("m", url)


async def test_headers_that_are_none_do_not_heal(model_server, connect, ask):
    client = connect(model_server, headers={"x-note": "two\nlines"})
    with pytest.raises(errors.ModelRefusedError, match="Check `headers`"):
        await client.complete(ask)


def kinds(call):
    return [(failed.error, failed.status) for failed in call.failed_attempts]


async def test_each_failed_attempt_is_on_record(model_server, connect, ask, clock):
    model_server.script(
        Reply.error(503, "The key is sk-very-secret-0123456789"),
        Reply(body=b"<html>"),
        Reply("", finish_reason="abort"),
        Reply("lost", cut="before"),
        "ok",
    )
    client = connect(model_server, clock=clock, api_key="sk-very-secret-0123456789", kind="openai")
    call = await client.complete(ask)
    assert (call.text, call.error) == ("ok", "")
    expected = [("status", 503), ("reply", None), ("reply", None), ("connection", None)]
    assert kinds(call) == expected
    began = [failed.start_time - call.start_time for failed in call.failed_attempts]
    assert began == pytest.approx([0.0, 0.375, 1.125, 2.625])
    assert [failed.latency for failed in call.failed_attempts] == [0.0] * 4
    assert "secret" not in repr(call.failed_attempts)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply.error(401), [("status", 401)]),
        (Reply.error(400, code="context_length_exceeded"), [("status", 400)]),
        (Reply.error(503), [("status", 503)] * 4),
    ],
    ids=["refused", "too long", "given up"],
)
async def test_a_failed_call_has_all_its_attempts(model_server, connect, ask, reply, expected):
    model_server.script(*[reply] * 4)
    client = connect(model_server, retries=QUICK, kind="openai")
    with pytest.raises(errors.ModelError) as caught:
        await client.complete(ask)
    assert kinds(caught.value.call) == expected


async def test_attempts_that_time_out_are_on_record(model_server, connect, ask):
    client = connect(model_server, retries=QUICK, kind="openai", attempt_timeout=0.02)
    model_server.pause()
    with pytest.raises(errors.ModelUnavailableError) as caught:
        await client.complete(ask)
    assert kinds(caught.value.call) == [("timeout", None)] * 4
    client = connect(model_server, kind="openai")
    with pytest.raises(errors.ModelUnavailableError) as caught:
        await client.complete(ask, timeout=0.01)
    assert kinds(caught.value.call) == [("timeout", None)]
    model_server.resume()


async def test_what_was_never_sent_is_no_attempt(model_server, connect, ask):
    client = connect(model_server, kind="openai")
    await client.aclose()
    with pytest.raises(errors.ModelRefusedError) as caught:
        await client.complete(ask)
    assert caught.value.call.failed_attempts == ()
