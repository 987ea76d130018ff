"""Episodes recorded in a real browser, and clients of a fake model over real HTTP."""

import asyncio

import pytest

from webtraj import open_dataset
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.agents.oracle import OracleAgent
from webtraj.agents.random import RandomAgent
from webtraj.rollouts import RunSpec, collect

CHANNELS = (
    "goal", "url", "axtree", "changes", "screenshot", "focused", "scroll", "last_action",
    "timings", "info",
)  # fmt: skip


@pytest.fixture(scope="session")
def recorded(tmp_path_factory, fixture_presets):
    """Episodes of MiniWoB++ and of the fixture site: an oracle's and a random agent's."""
    folder = tmp_path_factory.mktemp("recorded")

    async def record():
        options = {"environment_options": {"observe": CHANNELS}}
        solved = (
            "miniwob/click-button-sequence",
            "miniwob/enter-text",
            "miniwob/click-checkboxes",
            "fixture/log-in",
            "fixture/add-to-cart",
        )
        await collect(
            RunSpec(preset=solved, out=folder / "solved", episodes=5, **options),
            agent=OracleAgent(),
        )
        tried = ("miniwob/click-button-sequence", "miniwob/click-tab-2")
        await collect(
            RunSpec(preset=tried, out=folder / "tried", episodes=6, **options),
            agent=RandomAgent(seed=0),
        )

    asyncio.run(record())
    return (*open_dataset(folder / "solved"), *open_dataset(folder / "tried"))


@pytest.fixture
async def served():
    """Makes clients of a server, and closes them after the test."""
    clients = []

    def make(server, **options):
        client = OpenAICompatibleClient(
            "fake-model", server.url, retries=RetryPolicy(max_retries=0), **options
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.aclose()
