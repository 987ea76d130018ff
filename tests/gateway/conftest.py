"""Fixtures: a gateway before a fake model server."""

import contextlib

import pytest

from webtraj.gateway import Gateway
from webtraj.testing.model_server import FakeModelServer


@pytest.fixture
def gateway_before(tmp_path):
    """Starts a gateway before a fake server with these replies; yields both."""

    @contextlib.asynccontextmanager
    async def start(replies=None, observer=None, **options):
        with FakeModelServer(replies, **options) as server:
            gateway = Gateway(tmp_path / "calls.jsonl", base_urls=server.url, observer=observer)
            async with gateway:
                yield gateway, server

    return start


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "calls.jsonl"
