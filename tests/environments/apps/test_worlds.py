"""Worlds of an application: apart from each other, quick to make, gone with their owner."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import httpx
import pytest

from webtraj import errors, registry
from webtraj.environments.apps import app as app_lib
from webtraj.environments.apps import find_app
from webtraj.environments.apps.opening import open_app

EXAMPLES = Path(__file__).parents[3] / "examples/own_application"


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
    assert texts(one)[:-1] == texts(two)[:-1] == texts(fresh) == texts(await errands.world(2))
    assert "Erster" in await fetch(one)
    assert "Erster" not in await fetch(two)


async def test_many_worlds_at_once(errands):
    worlds = [await errands.world(number) for number in range(64)]

    async def use(number, world):
        for step in range(3):
            await fetch(world, "POST", f"add=1&text=w{number}-{step}")

    await asyncio.gather(*(use(number, world) for number, world in enumerate(worlds)))
    for number, world in enumerate(worlds):
        assert texts(world)[-3:] == [f"w{number}-{step}" for step in range(3)]
        world.discard()
        assert not world.folder.exists()
    assert "410" in (await fetch(worlds[0])).partition("\r\n")[0]


async def test_a_world_that_was_discarded_says_so_and_discarding_is_idempotent(errands):
    world = await errands.world()
    world.discard()
    world.discard()
    assert "This world is over." in await fetch(world)


async def test_a_server_that_died_is_started_again_and_its_worlds_are_as_they_were(errands):
    world = await errands.world()
    await fetch(world, "POST", "add=1&text=kept")
    process = world._host.start()
    process.kill()
    process.wait()
    assert "kept" in await fetch(world)
    assert world._host.start().pid != process.pid


def test_an_application_that_is_not_installed_says_how_to_install_it(
    errands, monkeypatch, tmp_path
):
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path))
    with pytest.raises(errors.MissingDependencyError, match="webtraj apps install errands"):
        errands.facts(0)
    with pytest.raises(errors.MissingDependencyError, match="webtraj apps install errands"):
        registry.make("apps/errands/add")


def test_installing_again_does_nothing_and_removing_removes(errands, monkeypatch, tmp_path):
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path))
    said = []
    errands.install(said.append)
    assert said[0] == "Installing Errands (errands 1.0)."
    errands.install(said.append)
    assert len(said) == 2
    errands.remove()
    assert not errands.installed
    assert [path.name for path in tmp_path.iterdir()] == ["errands.lock"]


def test_a_failed_installation_says_why_and_is_none(errands, monkeypatch, tmp_path):
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path / "home"))
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "host.py").write_text("def build(state, seed):\n    raise ValueError('no content')\n")
    broken = app_lib.App(
        name="broken", title="Broken", package="broken 1", license="MIT", folder=folder
    )
    with pytest.raises(errors.InvalidInputError, match=r"(?s)Cannot fill its worlds.*no content"):
        broken.install()
    assert not broken.installed


async def test_a_server_that_does_not_start_says_why(errands, monkeypatch, tmp_path):
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path / "home"))
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "host.py").write_text(
        "def build(state, seed):\n    return {}\n"
        "def open_application(root):\n    raise ValueError('no application')\n"
    )
    broken = app_lib.App(
        name="broken", title="Broken", package="broken 1", license="MIT", folder=folder
    )
    broken.install()
    with pytest.raises(errors.BrowserError, match="no application"):
        await broken.world()


OWNER = """
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
import errands
world = asyncio.run(errands.APP.world())
print(world._host.start().pid, world.folder, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_server_and_its_worlds_go_with_their_owner(errands, number):
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(EXAMPLES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pid, folder = owner.stdout.readline().split()
    assert Path(folder).exists()
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    while Path(f"/proc/{pid}").exists() and "zombie" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.05)
    while Path(folder).parent.exists():
        time.sleep(0.05)


async def test_a_persons_browser_sees_a_world_at_a_port(errands):
    async with open_app(errands) as address:
        assert address.startswith("http://errands.localhost:")
        async with httpx.AsyncClient() as client:
            page = await client.get(address.replace("errands.localhost", "127.0.0.1"))
    assert "Buy stamps (1)" in page.text
    assert find_app("errands") is errands
    assert os.path.isabs(errands.home)  # noqa: PTH117
