"""A model plays in a real browser, over real HTTP, and all of it is on record."""

import io
import json
import re
import subprocess
import sys

import pytest
from PIL import Image

from webtraj import EndReason, Outcome, open_dataset
from webtraj.agents.contexts import ContextSettings
from webtraj.agents.models import Sampling
from webtraj.datasets.verification import verify
from webtraj.environments import actions as a
from webtraj.metrics.facts import phase_times
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer, Reply

pytestmark = pytest.mark.browser


def reader(request):
    """A model that reads: it does what the tasks of these tests ask for."""
    goal = re.search(r"Task: (.*)", request.parts(1)[0]["text"])[1]
    page = request.text
    wanted = re.search(r'"(.*?)"', goal)
    if "into the text field" in goal and f'value="{wanted[1]}"' not in page:
        return (
            f"Thought: The field is empty.\nAction: fill('{ref(page, 'textbox')}', '{wanted[1]}')"
        )
    name = wanted[1] if wanted and "text field" not in goal else None
    return f"Thought: I press it.\nAction: click('{ref(page, 'button', name)}')"


def ref(page, role, name=None):
    named = "" if name is None else f' "{re.escape(name)}"'
    return re.search(rf"\[(\w+)\] {role}{named}", page)[1]


async def roll_out(agent, out, *presets, **options):
    environment_options = {"observe": [*agent.channels, "timings", "info"]}
    await collect(
        RunSpec(preset=presets, out=out, environment_options=environment_options, **options),
        agent=agent,
    )
    assert verify(out).clean
    return open_dataset(out)


async def test_reading_model_solves_tasks_and_leaves_all_that_training_needs(
    tmp_path, served_agent
):
    tasks = ("miniwob/click-test", "miniwob/click-button", "miniwob/enter-text")
    with FakeModelServer(reader) as server:
        agent = served_agent(server, sampling=Sampling(temperature=1.0))
        dataset = await roll_out(agent, tmp_path / "data", *tasks, episodes=6, parallel=3)
        assert not server.errors
    assert [t.outcome for t in dataset] == [Outcome.SUCCESS] * 6
    assert {t.info.policy for t in dataset} == {"model/openai/fake-model"}
    for trajectory in dataset:
        for step in trajectory.steps[1:]:
            (call,) = step.decision.model_calls
            assert step.decision.thought
            assert call.policy_version == "1"
            assert call.prompt_token_ids
            assert len(call.completion_token_ids) == len(call.logprobs) > 0
            assert call.messages[0]["role"] == "system"
            assert step.decision.metadata["prompt"]["version"] == "v1"
            assert step.action == step.decision.action
        times = phase_times(trajectory)
        assert times.model > 0
        assert times.settle + times.observe > 0


def looker(request):
    """A model that sees: it finds the one button in the picture, and points at its middle."""
    picture = Image.open(io.BytesIO(request.images[-1])).convert("L")
    page = picture.crop((0, GOAL_HEIGHT, 160, 210))
    left, top, right, bottom = page.point(lambda grey: 255 * (200 < grey < 245)).getbbox()
    x = (left + right) / 2 / picture.width
    y = (GOAL_HEIGHT + (top + bottom) / 2) / picture.height
    point = [round(1000 * x), round(1000 * y)]
    call = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": point}}
    said = "Memory: {}\nIntention: Press it.\nAction: Click the button.\n"
    return f"{said}<tool_call>\n{json.dumps(call)}"


GOAL_HEIGHT = 50
"""CSS pixels that a page's own display of the goal takes."""


@pytest.mark.smoke
async def test_model_that_looks_and_points(tmp_path, served_agent):
    with FakeModelServer(looker) as server:
        agent = served_agent(
            server,
            dialect="webgym",
            prompt="webgym_complete",
            context=ContextSettings(mode="coordinates"),
        )
        dataset = await roll_out(agent, tmp_path / "data", "miniwob/click-test", episodes=3)
        assert not server.errors
        assert all("] button" not in request.text for request in server.requests)
    assert [t.outcome for t in dataset] == [Outcome.SUCCESS] * 3
    for trajectory in dataset:
        assert {type(step.action) for step in trajectory.steps[1:]} == {a.ClickAt}
        assert trajectory.steps[1].decision.memory == "{}"
        assert trajectory.steps[1].decision.thought == "Press it."


async def test_server_that_fails_is_a_model_error_with_the_call_on_record(tmp_path, served_agent):
    def rule(request):
        failed = len(request.messages) > 2
        return Reply.error(500, "Out of memory.") if failed else "Thought: Wait.\nAction: noop(0)"

    with FakeModelServer(rule) as server:
        (trajectory,) = await roll_out(
            served_agent(server), tmp_path / "data", "miniwob/click-test"
        )
    assert trajectory.end_reason is EndReason.ERRORED
    assert trajectory.outcome is Outcome.MODEL_ERROR
    assert trajectory.end.error.type == "webtraj.errors.ModelUnavailableError"
    assert not trajectory.end.action_in_flight
    (call,) = trajectory.end.in_flight_decision.model_calls
    assert "Out of memory" in call.error
    assert call.latency is not None
    assert trajectory.num_steps == 1


def test_model_plays_from_the_command_line(tmp_path):
    with FakeModelServer(reader) as server:
        options = ("--model", "fake-model", "--base-url", server.url, "--out", "data")
        more = ("--agent-set", "temperature=0.5", "--agent-set", "full_rounds=2")
        done = subprocess.run(
            [sys.executable, "-m", "webtraj", "rollout", "--preset", "miniwob/click-test",
             *options, *more],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert not server.errors
    (trajectory,) = open_dataset(tmp_path / "data")
    assert trajectory.outcome is Outcome.SUCCESS
    assert trajectory.steps[1].decision.model_calls[0].sampling["temperature"] == 0.5
    assert "info" in trajectory.steps[0].observation
    assert "1/1 (100%)" in done.stdout
