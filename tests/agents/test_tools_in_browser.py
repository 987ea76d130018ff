"""A model plays in a real browser by tool calls, through the API of each provider."""

import io

import pytest
from PIL import Image
from sdk_types import accepted, understood

from webtraj import Outcome, open_dataset
from webtraj.agents.options import ModelOptions
from webtraj.datasets.verification import verify
from webtraj.environments import actions as a
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer, Reply

pytestmark = pytest.mark.browser

GOAL_HEIGHT = 50
"""CSS pixels that a page's own display of the goal takes."""


def button_in(picture):
    """Returns the middle of the one button in a screenshot."""
    page = Image.open(io.BytesIO(picture)).convert("L").crop((0, GOAL_HEIGHT, 160, 210))
    left, top, right, bottom = page.point(lambda grey: 255 * (200 < grey < 245)).getbbox()
    return round((left + right) / 2), GOAL_HEIGHT + round((top + bottom) / 2)


def model(request):
    """A model that looks first, and then clicks the button."""
    looked = "screenshot" in str(request.messages[1:])
    if "click" in request.tools:
        wanted = request.text.partition("] button")[0].rpartition("[")[2]
        name, arguments = ("click", {"bid": wanted}) if looked else ("screenshot", {})
        return Reply("Let me see.", calls=[{"name": name, "arguments": arguments}])
    x, y = button_in(request.images[-1])
    if request.api == "responses":
        click = {"type": "click", "button": "left", "x": x, "y": y}
        actions = [{"type": "move", "x": x, "y": y}, click] if looked else [{"type": "screenshot"}]
        return Reply(calls=[{"type": "computer_call", "actions": actions}])
    action, given = ("left_click", {"coordinate": [x, y]}) if looked else ("screenshot", {})
    if request.tools == ["computer"]:
        return Reply(calls=[{"name": "computer", "arguments": {"action": action, **given}}])
    return Reply(calls=[{"name": action, "toolset_name": "computer", "arguments": given}])


TOOLSET = "anthropic:computer_toolset_20260801"
CASES = {
    "functions": ("fake-model", {"tools": True}),
    "azure": ("azure:fake-model", {"tools": True}),
    "anthropic": ("anthropic:fake-model", {"mode": "coordinates", "dialect": TOOLSET}),
    "bedrock": ("bedrock:fake-model", {"mode": "coordinates", "dialect": "anthropic"}),
    "vertex": ("vertex:fake-model", {"mode": "coordinates", "dialect": "anthropic"}),
    "responses": ("responses:fake-model", {"mode": "coordinates", "dialect": "openai"}),
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch):
    settings = {
        "OPENAI_API_VERSION": "2026-10-01",
        "AZURE_OPENAI_API_KEY": "azure-key-0123456789abcdef",
        "AWS_REGION": "eu-central-1",
        "AWS_BEARER_TOKEN_BEDROCK": "bedrock-key-0123456789",
        "CLOUD_ML_REGION": "global",
        "ANTHROPIC_VERTEX_PROJECT_ID": "shop",
        "VERTEX_TOKEN": "ya29.token-0123456789abcdef",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("provider", CASES)
async def test_a_model_solves_a_task_by_tool_calls(provider, tmp_path):
    name, given = CASES[provider]
    with FakeModelServer(model) as server:
        root = server.url.removesuffix("/v1")
        url = root if provider in ("azure", "bedrock") else server.url
        key = {"api_key_variable": "VERTEX_TOKEN"} if provider == "vertex" else {}
        agent = ModelOptions(model=name, base_url=url, **given, **key).make()
        observe = {"observe": agent.channels}
        out = tmp_path / "data"
        await collect(
            RunSpec(preset="miniwob/click-test", out=out, environment_options=observe), agent=agent
        )
        await agent.aclose()
        assert not server.errors
        for request in server.requests:
            accepted(request)
    assert agent.tools
    assert verify(out).clean
    (trajectory,) = open_dataset(out)
    assert trajectory.outcome is Outcome.SUCCESS
    decisions = [step.decision for step in trajectory.steps[1:]]
    assert decisions[0].action == a.Screenshot()
    assert isinstance(decisions[-1].action, a.Click | a.ClickAt)
    assert all(decision.metadata["tools"] for decision in decisions)
    calls = [call for decision in decisions for call in decision.model_calls]
    assert len(calls) == len(server.requests) == 2
    for request, call in zip(server.requests, calls, strict=True):
        understood(request, call.response)
        assert call.sampling["tools"]
    pictures = [step.observation.get("screenshot") for step in trajectory.steps[:2]]
    if pictures[0] is not None:
        assert server.requests[1].images[-len(pictures) :] == pictures
