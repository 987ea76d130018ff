"""A browser as it is run by default, and sites that it may and may not reach."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hostile_web import Site, UdpListener

from webtraj.environments.browser.pool import BrowserPool, PoolLimits


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    limits = PoolLimits(call=10.0, close=3.0)
    async with BrowserPool(limits=limits) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """The site that may be reached."""
    async with Site() as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def forbidden() -> AsyncIterator[Site]:
    """The site that may not."""
    async with Site() as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def udp() -> AsyncIterator[UdpListener]:
    """A listener for UDP on the loopback interface."""
    loop = asyncio.get_running_loop()
    transport, listener = await loop.create_datagram_endpoint(
        UdpListener, local_addr=("127.0.0.1", 0)
    )
    yield listener
    transport.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of uploads, with ways out of it."""
    made = tmp_path / "uploads"
    (made / "sub").mkdir(parents=True)
    (made / "ok.txt").write_text("fine")
    (made / "sub" / "deep.txt").write_text("fine")
    (tmp_path / "secret.txt").write_text("secret")
    (made / "link").symlink_to(tmp_path / "secret.txt")
    (made / "linked").symlink_to(tmp_path)
    (made / "loop").symlink_to(made / "loop")
    os.mkfifo(made / "fifo")
    return made
