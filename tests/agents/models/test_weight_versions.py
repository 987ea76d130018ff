"""Which weights answered, on record."""

import asyncio

from webtraj.testing.model_server import FakeModelServer, Reply


async def test_the_version_is_on_record(connect, ask):
    with FakeModelServer(weight_version="step-40") as server:
        assert (await connect(server).complete(ask)).policy_version == "step-40"


async def test_it_is_read_again_when_it_is_old(model_server, connect, ask, clock):
    client = connect(model_server, version_interval=5.0, clock=clock)
    await client.complete(ask)
    model_server.weight_version = "2"
    clock.now += 4.9
    assert (await client.complete(ask)).policy_version == "1"
    clock.now += 0.2
    assert (await client.complete(ask)).policy_version == "2"


async def test_a_change_during_the_call_is_told(model_server, connect, ask, clock):
    client = connect(model_server, clock=clock)
    model_server.pause()
    call = asyncio.create_task(client.complete(ask))
    model_server.resume()
    await call
    model_server.pause()
    call = asyncio.create_task(client.complete(ask))
    await model_server.until(lambda server: len(server.requests) == 2)
    model_server.weight_version = "2"
    clock.now += 60
    model_server.resume()
    assert (await call).policy_version == "1..2"
    assert (await client.complete(ask)).policy_version == "2"


async def test_without_an_interval_each_record_is_exact(model_server, connect, ask):
    client = connect(model_server, version_interval=0.0)
    for version in ("1", "2", "3"):
        model_server.weight_version = version
        assert (await client.complete(ask)).policy_version == version
    assert model_server.visits.count("/weight_info") == 6


async def test_a_read_under_way_during_a_change_is_not_trusted(model_server, connect, ask, clock):
    client = connect(model_server, kind="vllm", clock=clock)
    model_server.pause()
    call = asyncio.create_task(client.complete(ask))
    await model_server.until(lambda server: server.visits == ["/weight_info"])
    client.invalidate_policy_version()
    model_server.resume()
    await call
    assert model_server.visits.count("/weight_info") == 2


async def test_a_server_that_does_not_tell_is_asked_once(model_server, connect, ask):
    model_server.overrides["/weight_info"] = Reply.error(404)
    client = connect(model_server, version_interval=0.0)
    for _ in range(3):
        assert (await client.complete(ask)).policy_version == ""
    assert model_server.visits.count("/weight_info") == 1


async def test_the_prefix_cache_can_be_kept_apart_by_version(model_server, connect, ask):
    await connect(model_server, salt_cache=True).complete(ask)
    await connect(model_server).complete(ask)
    salts = [request.json.get("cache_salt") for request in model_server.requests]
    assert salts == ["1", None]
