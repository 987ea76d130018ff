"""Worlds of an application: apart from each other, quick to make, gone with their owner."""

import asyncio
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

import webtraj
from processes import lives
from webtraj import errors, registry
from webtraj_apps import app as app_lib


async def fetch(world, method="GET", body=""):
    """Send a request to a world, as a browser's proxy would hand it over."""
    reader, writer = await world._host.connect()
    writer.write(
        f"WORLD {world.name}\n{method} / HTTP/1.1\r\nHost: errands.test\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def texts(world):
    return [row["text"] for row in world.read()["errand"].values()]


async def test_what_happens_in_one_world_happens_in_no_other(errands):
    one, two, fresh = [await errands.world(0) for _ in range(3)]
    await asyncio.gather(
        fetch(one, "POST", "add=1&text=Erster"),
        fetch(two, "POST", "add=1&text=Zweiter"),
    )
    assert "Erster" in texts(one)
    assert "Zweiter" in texts(two)
    again = await errands.world(app_lib.CONTENTS)
    assert texts(one)[:-1] == texts(two)[:-1] == texts(fresh) == texts(again)
    assert "Erster" in await fetch(one)
    assert "Erster" not in await fetch(two)


async def test_a_server_that_died_is_started_again_and_its_worlds_are_as_they_were(errands):
    world = await errands.world()
    await fetch(world, "POST", "add=1&text=kept")
    process = world._host.start()
    process.kill()
    process.wait()
    assert "kept" in await fetch(world)
    assert world._host.start().pid != process.pid


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process")
async def test_a_server_that_hangs_is_replaced_and_its_worlds_are_as_they_were(
    errands, monkeypatch
):
    monkeypatch.setattr(app_lib, "_PING_SECONDS", 0.3)
    world = await errands.world()
    await fetch(world, "POST", "add=1&text=kept")
    process = world._host.start()
    process.send_signal(signal.SIGSTOP)
    await errands.world()
    assert process.poll() is not None
    assert "kept" in await fetch(world)


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process")
async def test_a_server_that_fails_in_an_episode_is_no_failure_of_the_agent(
    errands, monkeypatch, tmp_path
):
    monkeypatch.setattr(app_lib, "_PING_SECONDS", 0.3)
    monkeypatch.setattr(app_lib, "_SILENT_SECONDS", 1)
    collector = webtraj.MemoryTrajectoryCollector()
    async with webtraj.make("apps/errands/add", trajectory_collector=collector) as environment:
        for harm in (signal.SIGSTOP, signal.SIGKILL):
            await environment.reset()
            (world,) = environment.app_task.worlds.values()
            world._host.start().send_signal(harm)
            if harm == signal.SIGKILL:
                monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path))  # It cannot start again.
            with pytest.raises(errors.BrowserError, match="The server of"):
                await environment.step("goto('http://errands.test/?again')")
    outcomes = [(one.outcome, one.total_reward) for one in collector.trajectories]
    assert outcomes == [(webtraj.Outcome.ENV_ERROR, None)] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process")
async def test_a_killed_server_failed_although_its_end_does_not_show_yet(errands, monkeypatch):
    world = await errands.world()
    process = world._host.start()
    process.send_signal(signal.SIGSTOP)  # It does not answer before it is killed.
    connect, connected = world._host.connect, asyncio.Event()

    async def connecting():
        stream = await connect()
        connected.set()
        return stream

    monkeypatch.setattr(world._host, "connect", connecting)
    page, proxy = socket.socketpair()
    with page:
        near = await asyncio.open_connection(sock=proxy)
        serving = asyncio.ensure_future(world.serve(*near, b"GET / HTTP/1.1\r\n\r\n"))
        await connected.wait()
        monkeypatch.setattr(process, "poll", lambda: None)
        process.kill()
        await serving
        near[1].close()
    assert "ended while it answered" in str(world.failure)


def test_an_application_that_is_not_installed_says_how_to_install_it(
    errands, monkeypatch, tmp_path
):
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path))
    with pytest.raises(errors.MissingDependencyError, match="webtraj apps install errands"):
        errands.facts(0)
    with pytest.raises(errors.MissingDependencyError, match="webtraj apps install errands"):
        registry.make("apps/errands/add")


OWNER = """
import asyncio, time
import errands
world = asyncio.run(errands.APP.world())
print(world._host.start().pid, world.folder, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_server_and_its_worlds_go_with_their_owner(errands, number):
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pid, folder = owner.stdout.readline().split()
    host = psutil.Process(int(pid))
    assert Path(folder).exists()
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    while lives(host):
        time.sleep(0.05)
    while Path(folder).parent.exists():
        time.sleep(0.05)
