"""New weights for a running server, again and again: what it is told, and what is left of failures.

The server is a stand-in for vLLM in a real process; `tests/vllm` does the same with a real one.
"""

import asyncio
import os
import signal

import httpx
import pytest

from webtraj import errors
from webtraj.serving import UpdateWay, VllmLaunch, make_updater, prepare_launch
from webtraj.serving.control import LoadAdapter, ReadWeights


async def seen(server):
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{server.url}/seen")).json()


def server_for(stand_in, way, **trouble):
    return stand_in.server(trouble=trouble, launch={"runtime_lora": way == "lora"})


def folder_for(stand_in, way, name):
    return stand_in.adapter(name) if way == "lora" else stand_in.weights(name)


def updater_for(way, server):
    return make_updater(way, server, adapter="clicker", hold=0.0)


WAYS = ["reload", "lora", "restart"]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_each_update_has_its_name(stand_in, way):
    async with server_for(stand_in, way) as server:
        updater = updater_for(way, server)
        assert updater.model == "tiny"
        for version in ("round-1", "round-2"):
            await updater.update(folder_for(stand_in, way, version), version)
            assert await server.weight_version() == updater.label(version)
        state = await seen(server)
        assert not state["paused"]
        assert server.num_restarts == 0
        assert len(stand_in.processes) == (3 if way == "restart" else 1)
    newest = str(stand_in.folder / "round-2")
    if way == "lora":
        assert updater.label("round-2") == "clicker@round-2"
        assert updater.model == "clicker"
        assert state["adapters"] == {"clicker": newest}
    else:
        assert updater.model == "tiny"
        assert f"--model={newest}" in state["arguments"] or state["weights"] == newest


@pytest.mark.parametrize("way", WAYS)
async def test_weights_survive_a_server_that_is_killed(stand_in, way):
    async with server_for(stand_in, way) as server:
        updater = updater_for(way, server)
        await updater.update(folder_for(stand_in, way, "round-1"), "round-1")
        os.kill(server.pid, signal.SIGKILL)
        await stand_in.until(lambda: server.num_restarts == 1)
        await server.wait_healthy(60)
        assert await server.weight_version() == updater.label("round-1")
        state = await seen(server)
    # What it has before it is given them is not to answer anybody.
    assert state["held"] is (way != "restart")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "trouble", "error", "restarts"),
    [
        ("reload", {"STAND_IN_REFUSE": "round-2"}, errors.ModelRefusedError, 1),
        ("lora", {"STAND_IN_REFUSE": "round-2"}, errors.ModelRefusedError, 0),
        ("restart", {"STAND_IN_FAIL": "model:round-2"}, errors.ModelUnavailableError, 1),
    ],
    ids=WAYS,
)
async def test_failed_update_leaves_the_weights_before(stand_in, way, trouble, error, restarts):
    async with server_for(stand_in, way, **trouble) as server:
        updater = updater_for(way, server)
        await updater.update(folder_for(stand_in, way, "round-1"), "round-1")
        with pytest.raises(error):
            await updater.update(folder_for(stand_in, way, "round-2"), "round-2")
        await server.wait_healthy(60)
        assert server.num_restarts == restarts
        assert await server.weight_version() == updater.label("round-1")
        assert not (await seen(server))["paused"]
        await updater.update(folder_for(stand_in, way, "round-3"), "round-3")
        assert await server.weight_version() == updater.label("round-3")


async def test_adapter_takes_its_place_while_generation_is_paused(stand_in):
    async with server_for(stand_in, "lora") as server:
        await updater_for("lora", server).update(stand_in.adapter("round-1"), "round-1")
        assert (await seen(server))["calls"] == [
            "/pause?mode=wait",
            "/v1/load_lora_adapter",
            "/reset_mm_cache",
            "/reset_encoder_cache",
            "/reset_prefix_cache",
            "/update_weight_version",
            "/resume",
        ]


async def test_generation_waits_until_older_versions_that_clients_have_read_are_void(stand_in):
    """With a hold that never ends, the new version is named and nobody is answered."""
    async with server_for(stand_in, "reload") as server:
        change = ReadWeights(stand_in.weights("round-1"), "round-1", hold=3600.0)
        changing = asyncio.ensure_future(server.change_weights(change))
        while await server.weight_version() != "round-1":
            await asyncio.sleep(0.01)
        assert (await seen(server))["paused"]
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing
        await stand_in.until(lambda: server.num_restarts == 1)
        await server.wait_healthy(60)
        assert await server.weight_version() == "default"


async def test_restart_that_was_cancelled_goes_on_and_is_named(stand_in):
    async with server_for(stand_in, "restart") as server:
        folder = stand_in.weights("round-1")
        updating = asyncio.ensure_future(updater_for("restart", server).update(folder, "round-1"))
        await stand_in.until(lambda: not server.healthy)
        updating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await updating
        await server.wait_healthy(60)
        assert await server.weight_version() == "round-1"
        assert server.num_restarts == 0


async def test_what_is_wrong_is_seen_before_the_server_is_touched(stand_in, monkeypatch):
    stand_in.adapter("adapter")
    monkeypatch.chdir(stand_in.folder)
    async with server_for(stand_in, "lora") as server:
        for change, match in (
            (LoadAdapter("clicker", "nowhere", "1"), r"No adapter_model\.safetensors in"),
            (LoadAdapter("a@b", "adapter", "1"), "separates it from its version"),
            (LoadAdapter("", "adapter", "1"), "not empty"),
            (LoadAdapter("clicker", "adapter", "default"), "'default'"),
            (ReadWeights("adapter", ""), "Invalid version of the weights ''"),
        ):
            with pytest.raises(errors.InvalidInputError, match=match):
                await server.change_weights(change)
        assert (await seen(server))["calls"] == []


def test_way_and_launch_have_to_fit(stand_in):
    with pytest.raises(
        errors.InvalidInputError,
        match="Unknown way to update weights 'push'; expected one of reload, lora",
    ):
        prepare_launch("push", VllmLaunch(model="m"))
    with pytest.raises(errors.InvalidInputError, match="launched with runtime_lora=True"):
        make_updater("lora", stand_in.server())
    with pytest.raises(errors.InvalidInputError, match="update weights 'push'"):
        make_updater("push", stand_in.server())
    assert UpdateWay.__args__ == tuple(WAYS)


def test_launch_is_prepared_for_its_way():
    launch = VllmLaunch(model="m")
    assert prepare_launch("restart", launch) == launch
    assert prepare_launch("reload", launch).dev_mode
    lora = prepare_launch("lora", launch, lora_rank=8)
    assert (lora.dev_mode, lora.runtime_lora, lora.max_lora_rank) == (True, True, 8)
