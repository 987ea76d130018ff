"""Model agents whose model is a fake server, over real HTTP."""

import pytest

from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy

NO_RETRIES = RetryPolicy(max_retries=0)


@pytest.fixture
async def served_agent():
    """Makes agents, and closes their clients after the test."""
    agents = []

    def make(server, *, client=OpenAICompatibleClient, client_options=None, **options):
        made = client("fake-model", server.url, retries=NO_RETRIES, **(client_options or {}))
        agents.append(ModelAgent(client=made, **options))
        return agents[-1]

    yield make
    for agent in agents:
        await agent.aclose()
