"""Several model servers as one: who is asked, and what happens when one dies."""

import asyncio
import collections
import contextlib

import pytest

from webtraj import errors
from webtraj.agents import models
from webtraj.environments.local_server import LocalServer
from webtraj.testing.model_server import FakeModelServer, Reply

QUICK = models.RetryPolicy(first_delay=0.001, max_delay=0.01)


@pytest.fixture
def servers():
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(FakeModelServer(weight_version="1")) for _ in range(2)]
        yield made
    assert [server.errors for server in made] == [[], []]


@pytest.fixture
async def balance():
    clients = []

    def make(servers, **options):
        urls = [server.url for server in servers]
        options = {"rest": QUICK, **options}
        # Nothing is asked before the calls themselves.
        known = {"kind": "vllm", "policy_version": "1"}
        client_options = {**known, **options.pop("client_options", {})}
        client = models.BalancedClient.to(
            "fake-model", urls, client_options=client_options, **options
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


async def _ask(client, text="What now?", **kwargs):
    return await client.complete([models.Message.of("user", text)], **kwargs)


async def test_calls_are_shared_evenly(servers, balance):
    client = balance(servers)
    for server in servers:
        server.pause()
    calls = [asyncio.create_task(_ask(client)) for _ in range(20)]
    for server in servers:
        await server.until(lambda server: server.busy >= 1)
    assert client.loads == (10, 10)
    for server in servers:
        server.resume()
    assert [call.text for call in await asyncio.gather(*calls)] == ["What now?"] * 20
    assert client.loads == (0, 0)
    for server in servers:
        assert len(server.requests) == 10


async def test_a_slow_server_gets_less(servers, balance):
    client = balance(servers)
    servers[0].pause()
    first = [asyncio.create_task(_ask(client)) for _ in range(2)]
    await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(10):
        await _ask(client)
    assert client.loads == (1, 0)
    assert len(servers[1].requests) == 11
    servers[0].resume()
    await asyncio.gather(*first)


async def test_no_call_is_lost_when_a_server_dies(servers, balance):
    client = balance(servers)
    servers[0].pause()
    calls = [asyncio.create_task(_ask(client, f"{n}")) for n in range(40)]
    await servers[0].until(lambda server: server.busy == 20)
    servers[0].stop()
    done = await asyncio.gather(*calls)
    assert [call.text for call in done] == [f"{n}" for n in range(40)]
    assert [call.error for call in done] == [""] * 40
    assert client.resting == (0,)


async def test_a_server_that_is_back_is_asked_again(servers, balance):
    client = balance(servers)
    servers[0].stop()
    for _ in range(4):
        await _ask(client)
    assert client.resting == (0,)
    servers[0].start()
    await servers[0].until(lambda server: "/health" in server.visits)
    servers[0].script("I am back")
    while client.resting:
        await asyncio.sleep(0)
    assert "I am back" in [(await _ask(client)).text for _ in range(4)]


async def test_a_server_that_is_ill_is_left_alone_until_it_says_it_is_well(servers, balance):
    client = balance(servers)
    servers[0].overrides = {
        "/health": Reply.error(503),
        "/v1/chat/completions": Reply.error(500),
    }
    for _ in range(10):
        await _ask(client)
    await servers[0].until(lambda server: server.visits.count("/health") >= 3)
    assert len(servers[0].requests) == 1
    servers[0].overrides = {}
    while client.resting:
        await asyncio.sleep(0)
    for _ in range(2):
        await _ask(client)
    assert len(servers[0].requests) == 2


async def test_calls_wait_while_all_rest(servers, balance):
    client = balance(servers)
    for server in servers:
        server.stop()
    calls = [asyncio.create_task(_ask(client)) for _ in range(5)]
    while client.resting != (0, 1):
        await asyncio.sleep(0)
    servers[1].start()
    assert [call.text for call in await asyncio.gather(*calls)] == ["What now?"] * 5


async def test_the_deadline_ends_the_wait(servers, balance):
    client = balance(servers)
    for server in servers:
        server.stop()
    with pytest.raises(errors.ModelUnavailableError, match="None of 2 model servers") as caught:
        await _ask(client, timeout=0.1)
    assert caught.value.call.messages == ({"role": "user", "content": "What now?"},)
    assert caught.value.call.error == str(caught.value)
    with pytest.raises(errors.ModelUnavailableError, match="All of them rest") as caught:
        await _ask(client, timeout=0.05)
    assert caught.value.call.messages == ({"role": "user", "content": "What now?"},)


async def test_a_server_that_accepts_and_never_answers_is_left(servers, balance):
    async def hang(reader, writer):
        await reader.read()

    async with LocalServer(hang) as hung:
        client = models.BalancedClient.to(
            "fake-model",
            [f"http://{hung.address}", servers[0].url],
            client_options={"kind": "vllm", "policy_version": "1"},
            rest=models.RetryPolicy(first_delay=600.0, max_delay=600.0),
        )
        try:
            views = [client.sticky(key) for key in "abcdefgh"]
            asked = [_ask(view, timeout=0.5) for view in views]
            first = await asyncio.gather(*asked, return_exceptions=True)
            assert any(isinstance(found, errors.ModelUnavailableError) for found in first)
            assert client.resting == (0,)
            again = await asyncio.gather(*(_ask(view, timeout=30) for view in views))
            assert [call.text for call in again] == ["What now?"] * 8
        finally:
            await client.aclose()


@pytest.mark.parametrize("status", [400, 401])
async def test_a_refusal_is_one_at_all_servers(servers, balance, status):
    client = balance(servers)
    for server in servers:
        server.script(Reply.error(status))
    with pytest.raises(errors.ModelRefusedError):
        await _ask(client)
    assert client.resting == ()
    assert sum(len(server.requests) for server in servers) == 1


async def test_an_episode_stays_with_its_server(servers, balance):
    client = balance(servers)
    places = collections.defaultdict(set)
    for _ in range(3):
        for episode in range(20):
            before = [len(server.requests) for server in servers]
            await _ask(client.sticky(f"episode-{episode}"))
            after = [len(server.requests) for server in servers]
            places[episode].add([a - b for a, b in zip(after, before, strict=True)].index(1))
    assert {len(where) for where in places.values()} == {1}
    # And they are spread.
    assert {where for places_of in places.values() for where in places_of} == {0, 1}


async def test_an_episode_moves_on_when_its_server_dies(servers, balance):
    client = balance(servers)
    views = [client.sticky(f"episode-{n}") for n in range(20)]
    for view in views:
        await _ask(view)
    servers[0].stop()
    assert [(await _ask(view)).text for view in views] == ["What now?"] * 20


async def test_versions_are_said_to_all(servers, balance):
    client = balance(servers)
    client.set_policy_version("5")
    assert {(await _ask(client)).policy_version for _ in range(2)} == {"5"}
    client.set_policy_version(None)
    assert {(await _ask(client)).policy_version for _ in range(2)} == {"1"}
    for server in servers:
        server.weight_version = "2"
    client.invalidate_policy_version()
    assert {(await _ask(client)).policy_version for _ in range(2)} == {"2"}


async def test_the_attempts_at_all_servers_are_on_record(servers, balance):
    client = balance(servers)
    for server in servers:
        server.script(Reply.error(503))
    call = await _ask(client)
    assert [(one.error, one.status) for one in call.failed_attempts] == [("status", 503)] * 2
