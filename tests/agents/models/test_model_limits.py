"""Limits on calls: at once, by the minute, in tokens; and who gets the next turn."""

import asyncio

import pytest

from webtraj.agents import models
from webtraj.agents.models import limits
from webtraj.testing.model_server import Reply


async def _turns(limit, times, clock, tokens=0):
    """Takes turns one after the other, and returns when each came."""
    came = []
    for _ in range(times):
        async with limit.turn(tokens):
            came.append(clock.now - 1000)
    return came


async def test_requests_go_out_evenly(clock):
    limit = limits.Limits(8, requests_per_minute=30, clock=clock)
    assert await _turns(limit, 5, clock) == pytest.approx([0, 2, 4, 6, 8])


async def test_no_minute_has_more_than_its_share(clock):
    limit = limits.Limits(8, requests_per_minute=100, clock=clock)
    came = await _turns(limit, 1000, clock)
    for start in range(0, 500, 10):
        assert sum(start <= time < start + 60 for time in came) <= 102


async def test_tokens_are_limited_too(clock):
    limit = limits.Limits(8, tokens_per_minute=6000, clock=clock)
    # More than a second's worth: the first may go, the next pays its debt.
    assert await _turns(limit, 3, clock, tokens=1000) == pytest.approx([0, 10, 20])


async def test_what_was_really_used_counts(clock):
    limit = limits.Limits(8, tokens_per_minute=6000, clock=clock)
    async with limit.turn(100) as turn:
        turn.report_used(600)
    async with limit.turn(100) as turn:
        assert clock.now - 1000 == pytest.approx(6)
        turn.report_used(None)
    async with limit.turn(100):
        assert clock.now - 1000 == pytest.approx(7)


async def test_turns_come_in_order(clock):
    limit = limits.Limits(8, requests_per_minute=60, clock=clock)
    order = []

    async def take(number):
        async with limit.turn():
            order.append(number)

    await asyncio.gather(*(take(number) for number in range(30)))
    assert order == list(range(30))


async def test_a_large_call_is_not_passed_by_small_ones(clock):
    limit = limits.Limits(99, tokens_per_minute=600, clock=clock)
    order = []

    async def take(name, tokens):
        async with limit.turn(tokens):
            order.append(name)

    await asyncio.gather(take("a", 10), take("large", 500), *(take("b", 1) for _ in range(5)))
    assert order == ["a", "large", "b", "b", "b", "b", "b"]


async def test_no_more_go_at_once_than_allowed(model_server, connect, ask):
    model_server.pause()
    client = connect(model_server, max_concurrency=3, kind="openai")
    calls = [asyncio.create_task(client.complete(ask)) for _ in range(9)]
    await model_server.until(lambda server: server.busy == 3)
    model_server.resume()
    await asyncio.gather(*calls)
    assert model_server.peak == 3
    assert model_server.num_connections == 3


async def test_a_call_that_waits_to_try_again_lets_others_go(model_server, connect, ask, clock):
    model_server.script(Reply.error(503), "second", "first, again")
    slept, others = asyncio.Event(), asyncio.Event()

    async def sleep(seconds):
        slept.set()
        await others.wait()

    clock.sleep = sleep
    client = connect(model_server, max_concurrency=1, kind="openai", clock=clock)
    first = asyncio.create_task(client.complete(ask))
    await slept.wait()
    assert (await client.complete(ask)).text == "second"
    others.set()
    assert (await first).text == "first, again"


async def test_the_client_keeps_to_its_limits(model_server, connect, ask, clock):
    client = connect(model_server, kind="openai", requests_per_minute=60, clock=clock)
    for _ in range(4):
        await client.complete(ask)
    assert clock.now - 1000 == pytest.approx(3)


async def test_the_client_counts_tokens_as_the_server_does(model_server, connect, ask, clock):
    client = connect(model_server, kind="openai", tokens_per_minute=60, clock=clock)
    calls = [await client.complete(ask) for _ in range(3)]
    total = sum(call.usage["total_tokens"] for call in calls[:2])
    assert clock.now - 1000 == pytest.approx(total)


def test_waits_double_and_stay_below_the_most(clock):
    policy = models.RetryPolicy(first_delay=1, max_delay=10)
    delays = [policy.delay(retries, None, clock) for retries in (0, 1, 2, 3, 4, 10**6)]
    assert delays == pytest.approx([0.75, 1.5, 3, 6, 7.5, 7.5])
