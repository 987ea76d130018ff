"""A model server under supervision: real processes, which a stand-in for vLLM runs in."""

import asyncio
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from webtraj import errors
from webtraj.serving import ModelServer, RestartPolicy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is left")


async def seen(server):
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{server.url}/seen")).json()


async def tell(server, path):
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.post(f"{server.url}{path}")


async def test_server_is_healthy_inside_and_gone_afterwards(stand_in):
    async with stand_in.server() as server:
        assert server.healthy
        assert server.model == "tiny"
        assert server.base_url == f"{server.url}/v1"
        assert (await seen(server))["version"] == "default"
        ((pid, child),) = stand_in.processes
        assert server.pid == pid
        assert sorted(stand_in.survivors) == sorted((pid, child))
    assert not stand_in.survivors
    assert server.pid is None
    assert not server.healthy


async def test_server_that_is_deaf_to_sigterm_is_killed_with_its_children(stand_in):
    async with stand_in.server(trouble={"STAND_IN_DEAF": "1"}, patience=0.1):
        assert len(stand_in.survivors) == 2
    assert not stand_in.survivors


async def test_port_that_is_taken_is_refused(stand_in):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.InvalidInputError, match=f"port {port}.*Use port 0"):
            async with stand_in.server(port=port):
                pass
    assert not stand_in.processes


async def test_end_of_the_log_tells_why_a_start_failed(stand_in):
    stand_in.log.write_text("what a server before this one said\n")
    with pytest.raises(errors.ModelUnavailableError) as caught:
        async with stand_in.server(trouble={"STAND_IN_FAIL": "1"}):
            pass
    message = str(caught.value)
    assert "exited with status 1 before it became healthy" in message
    assert message.endswith(
        f"The end of its log, {stand_in.log}:\n  stand-in: there is no such model"
    )
    assert not stand_in.survivors


async def test_start_has_a_deadline(stand_in):
    with pytest.raises(errors.ModelUnavailableError, match=r"did not become healthy within 1\.5 s"):
        async with stand_in.server(trouble={"STAND_IN_UNREADY": "1"}, start_timeout=1.5):
            pass
    assert not stand_in.survivors


async def test_start_can_be_cancelled(stand_in):
    entering = asyncio.ensure_future(
        stand_in.server(trouble={"STAND_IN_UNREADY": "1"}).__aenter__()
    )
    await stand_in.until(lambda: stand_in.processes)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not stand_in.survivors


@pytest.mark.parametrize("given", ["argument", "variable"])
async def test_server_with_an_api_key_becomes_ready(stand_in, given):
    trouble = {"VLLM_API_KEY": "k=1"} if given == "variable" else {}
    extra = ("--seed=3", "--api-key=k=1") if given == "argument" else ()
    async with stand_in.server(trouble=trouble, launch={"extra_args": extra}) as server:
        assert server.healthy
        assert httpx.get(f"{server.base_url}/models", trust_env=False).status_code == 401


async def test_server_that_answers_by_another_name_is_not_ours(stand_in):
    launch = stand_in.launch(extra_args=("--served-model-name=another",))
    with pytest.raises(errors.ModelUnavailableError, match="did not become healthy within"):
        async with ModelServer(launch, log_file=stand_in.log, start_timeout=1.5):
            pass


@pytest.mark.parametrize("victim", [0, 1], ids=["server", "guard"])
async def test_server_that_is_killed_is_started_again_at_its_address(stand_in, victim):
    async with stand_in.server() as server:
        url = server.url
        ((pid, _),) = stand_in.processes
        os.kill((pid, parent_of(pid))[victim], signal.SIGKILL)
        await stand_in.until(lambda: server.num_restarts == 1)
        await server.wait_healthy(60)
        assert server.url == url
        assert server.pid == stand_in.processes[1][0] != pid
        if victim == 0:  # Else its child is an orphan that nobody adopts.
            assert sorted(stand_in.survivors) == sorted(stand_in.processes[1])
        else:
            os.kill(stand_in.processes[0][1], signal.SIGKILL)
        assert (await seen(server))["calls"] == []


async def test_server_that_hangs_is_started_again(stand_in, caplog):
    async with stand_in.server(health_interval=0.05, health_timeout=0.5) as server:
        await tell(server, "/hang")
        await stand_in.until(lambda: server.num_restarts == 1)
        await server.wait_healthy(60)
        assert len(stand_in.processes) == 2
    assert "has not answered for 0.5 s and is started again" in caplog.text


@pytest.mark.slow
async def test_restarts_are_bounded(stand_in):
    trouble = {"STAND_IN_FAIL": "starts:2"}
    policy = RestartPolicy(limit=3, first_pause=0.01)
    async with stand_in.server(trouble=trouble, restarts=policy) as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(errors.ModelUnavailableError, match="3 restarts in a row") as caught:
            await server.wait()
        assert "stand-in: there is no such model" in str(caught.value)
        with pytest.raises(errors.ModelUnavailableError, match="3 restarts in a row"):
            await server.wait_healthy()
    assert len(stand_in.processes) == 1 + 3


async def test_waiting_for_health_has_a_deadline(stand_in):
    policy = RestartPolicy(first_pause=3600.0, longest_pause=3600.0)
    async with stand_in.server(restarts=policy) as server:
        os.kill(server.pid, signal.SIGKILL)
        await stand_in.until(lambda: not server.healthy)
        with pytest.raises(
            errors.ModelUnavailableError, match=r"not become healthy again within 0\.1 s"
        ):
            await server.wait_healthy(0.1)


async def test_weights_are_replaced_in_an_order_that_keeps_labels_true(stand_in):
    folder = stand_in.weights("better")
    async with stand_in.server() as server:
        assert await server.weight_version() == "default"
        await server.reload_weights(folder, "policy-7")
        assert await server.weight_version() == "policy-7"
        state = await seen(server)
    assert state["weights"] == str(folder)
    assert not state["paused"]
    assert state["calls"] == [
        "/pause?mode=wait",
        "/collective_rpc reload_weights",
        "/collective_rpc repack_weights",
        "/reset_mm_cache",
        "/reset_encoder_cache",
        "/reset_prefix_cache",
        "/update_weight_version",
        "/resume",
    ]


async def test_weights_survive_a_restart(stand_in):
    folder = stand_in.weights("better")
    async with stand_in.server() as server:
        await server.reload_weights(folder, "policy-7")
        os.kill(server.pid, signal.SIGKILL)
        await stand_in.until(lambda: not server.healthy)
        await server.wait_healthy(60)
        state = await seen(server)
    assert (state["weights"], state["version"]) == (str(folder), "policy-7")


async def test_weights_that_are_refused_leave_the_server_with_those_it_had(stand_in):
    async with stand_in.server(trouble={"STAND_IN_REFUSE": "1"}) as server:
        with pytest.raises(errors.ModelRefusedError, match=r"answered 500: .*no such parameter"):
            await server.reload_weights(stand_in.weights("worse"), "policy-8")
        await server.wait_healthy(60)
        assert server.num_restarts == 1
        assert await server.weight_version() == "default"
        assert not (await seen(server))["paused"]


@pytest.mark.parametrize("version", ["", "default"])
async def test_weights_need_a_version_of_their_own(stand_in, version):
    async with stand_in.server() as server:
        with pytest.raises(errors.InvalidInputError, match="version"):
            await server.reload_weights(stand_in.weights("better"), version)
        assert (await seen(server))["calls"] == []


async def test_folder_without_weights_is_refused(stand_in):
    async with stand_in.server() as server:
        with pytest.raises(errors.InvalidInputError, match="safetensors"):
            await server.reload_weights(stand_in.folder / "nowhere", "policy-7")
        assert (await seen(server))["calls"] == []


KILLED_PARENT = """
import asyncio, os, signal, sys
from webtraj.serving import ModelServer, VllmLaunch

async def main():
    launch = VllmLaunch(model=sys.argv[1], python=sys.argv[2])
    async with ModelServer(launch, log_file=sys.argv[3], patience=0.2):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("deaf", [False, True], ids=["polite", "deaf"])
async def test_nothing_outlives_a_parent_that_is_killed(stand_in, deaf):
    trouble = {"STAND_IN_DEAF": "1"} if deaf else {}
    parent = subprocess.run(
        [sys.executable, "-c", KILLED_PARENT, stand_in.model, stand_in.python, stand_in.log],
        env={**os.environ, **stand_in.variables, **trouble},
        check=False,
    )
    assert parent.returncode == -signal.SIGKILL
    assert len(stand_in.processes) == 1
    await stand_in.until(lambda: not stand_in.survivors)


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return int(file.read().rpartition(")")[2].split()[1])
