"""A server that leaves its memory to others for a while, in a real process of a stand-in's."""

import os
import signal

import httpx
import pytest

from webtraj import errors


async def seen(server):
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{server.url}/seen")).json()


@pytest.mark.parametrize(
    ("how", "calls"),
    [
        ("pause", ["/pause?mode=wait", "/resume"]),
        ("sleep", ["/sleep?level=1&mode=wait", "/wake_up"]),
        (
            "drop",
            [
                "/sleep?level=2&mode=wait",
                "/wake_up?tags=weights",
                "/collective_rpc reload_weights",
                "/collective_rpc repack_weights",
                "/reset_mm_cache",
                "/reset_encoder_cache",
                "/reset_prefix_cache",
                "/wake_up?tags=kv_cache",
            ],
        ),
    ],
    ids=["pause", "sleep", "drop"],
)
async def test_server_rests_and_goes_on(stand_in, how, calls):
    server = stand_in.server(launch={"sleep_mode": True})
    async with server:
        async with server.resting(how):
            assert (await seen(server))["paused"]
        state = await seen(server)
        assert state["calls"] == calls
        assert not state["paused"]
        assert not state["asleep"]
        assert server.num_restarts == 0


async def test_server_that_is_stopped_holds_nothing_and_comes_back_as_it_was(stand_in):
    async with stand_in.server() as server:
        await server.reload_weights(stand_in.weights("better"), "round-1")
        async with server.resting("stop"):
            assert not stand_in.survivors
            assert not server.healthy
        assert server.healthy
        assert server.num_restarts == 0
        assert await server.weight_version() == "round-1"
        assert len(stand_in.processes) == 2


async def test_server_that_is_stopped_comes_back_with_the_weights_that_it_is_given(stand_in):
    async with stand_in.server() as server:
        folder = stand_in.weights("better")
        async with server.resting("stop"):
            await server.restart(server.launch.with_weights(stand_in.model, "round-0"))
            await server.restart(server.launch.with_weights(folder, "round-1"))
        assert await server.weight_version() == "round-1"
        assert f"--model={folder}" in (await seen(server))["arguments"]
        assert len(stand_in.processes) == 2


async def test_stopped_server_that_does_not_start_with_new_weights_comes_back_with_the_old(
    stand_in,
):
    async with stand_in.server(trouble={"STAND_IN_FAIL": "model:worse"}) as server:
        launch = server.launch.with_weights(stand_in.weights("worse"), "round-1")
        with pytest.raises(errors.ModelUnavailableError, match="no such model"):
            async with server.resting("stop"):
                await server.restart(launch)
        await server.wait_healthy(60)
        assert await server.weight_version() == "default"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pause", "sleep"])
async def test_server_that_dies_while_it_rests_leaves_the_memory_alone(stand_in, how):
    server = stand_in.server(launch={"sleep_mode": True})
    async with server:
        async with server.resting(how):
            os.kill(server.pid, signal.SIGKILL)
            await stand_in.until(lambda: not server.healthy)
            assert not stand_in.survivors
            assert len(stand_in.processes) == 1
        assert server.healthy
        assert len(stand_in.processes) == 2


async def test_server_that_does_not_wake_up_is_started_again(stand_in, caplog):
    server = stand_in.server(launch={"sleep_mode": True}, trouble={"STAND_IN_COMA": "1"})
    async with server:
        async with server.resting("sleep"):
            pass
        assert server.healthy
        assert server.num_restarts == 1
    assert "does not wake up" in caplog.text


async def test_server_that_does_not_fall_asleep_says_so(stand_in):
    server = stand_in.server(launch={"sleep_mode": True}, trouble={"STAND_IN_INSOMNIA": "1"})
    async with server:
        with pytest.raises(errors.ModelRefusedError, match="put to sleep but is still awake"):
            async with server.resting("sleep"):
                pytest.fail("it is awake")
        await server.wait_healthy(60)


async def test_error_in_the_block_gets_out_and_the_server_goes_on(stand_in):
    async with stand_in.server() as server:
        with pytest.raises(ZeroDivisionError):
            async with server.resting("pause"):
                1 / 0  # noqa: B018
        assert not (await seen(server))["paused"]


async def test_what_cannot_be_is_refused(stand_in):
    async with stand_in.server() as server:
        for how in ("sleep", "drop"):
            with pytest.raises(errors.InvalidInputError, match="only with sleep_mode=True"):
                async with server.resting(how):
                    pytest.fail("it is awake")
        with pytest.raises(
            errors.InvalidInputError, match="Unknown kind of rest 'doze'; expected one of pause"
        ):
            async with server.resting("doze"):
                pytest.fail("it is awake")
        async with server.resting("pause"):
            with pytest.raises(
                errors.InvalidInputError, match=r"is resting \(pause\) and cannot change"
            ):
                await server.reload_weights(stand_in.weights("better"), "round-1")
            with pytest.raises(errors.InvalidInputError, match="is already resting"):
                async with server.resting("pause"):
                    pytest.fail("it rests")
