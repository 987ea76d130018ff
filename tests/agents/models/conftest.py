import asyncio

import pytest

from webtraj.agents import models

PNG = b"\x89PNG\r\n\x1a\n"


class FakeClock:
    """Time passes when somebody sleeps, and takes no time."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def time(self):
        return 1_700_000_000.0 + self.now

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def jitter(self):
        return 0.5


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def connect():
    """Makes clients, and closes them after the test."""
    clients = []

    def make(server, client_class=models.OpenAICompatibleClient, **options):
        client = client_class(options.pop("model", "fake-model"), server.url, **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def image():
    return models.Image(PNG + bytes(range(256)) * 400)


@pytest.fixture
def ask():
    return [models.Message.of("user", "What now?")]
