"""What code that knows Orby's messages alone finds in a file."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded_episodes import browser_episode, data_of

from rows import each
from webtraj import errors
from webtraj.environments.actions import Answer, ReportInfeasible
from webtraj.store.formats import format_named
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.trajectory import EpisodeEnd, EpisodeTrajectory, Outcome, StepRecord, StepType

ROOT = Path(__file__).parents[2]


def message_of(trajectory):
    data, blobs = data_of(trajectory)
    return pb.TrajectoryData.FromString(format_named("pb").encode(data, blobs))


@pytest.fixture
def message():
    return message_of(browser_episode())


def test_the_episode_itself(message):
    assert (message.goal, message.domain) == ("Find the price of tea", "shop.example")
    assert message.WhichOneof("result") == "success"
    assert len(message.actions) == 4


def test_the_first_action_is_the_start_and_no_state_is_stored_before_one(message):
    strings = [action.browser_gym_action.action_string for action in message.actions]
    assert strings == ["START_OF_TRAJECTORY", "click('1')", "scroll(0, 100)", "fill('2', 'tea')"]
    assert not any(action.HasField("before_state") for action in message.actions)
    ids = {action.id for action in message.actions}
    assert len(ids) == 4
    assert {len(each) for each in ids} == {12}


def test_each_state_has_its_page(message):
    trajectory = browser_episode()
    for action, step in zip(message.actions, trajectory.steps, strict=True):
        state, seen = action.after_state, step.observation
        assert state.url == seen["url"]
        assert state.viewport.screenshot.content == seen["screenshot"]
        assert state.viewport.screenshot.mime_type == "image/jpeg"
        assert state.viewport.viewport_rect.width == 1280
        gym = state.browser_gym_observation
        assert gym.legacy_goal == seen["goal"]
        assert list(gym.open_pages_urls) == ["https://shop.example/"]
        assert gym.focused_element_bid == "12"
        assert gym.reward == (step.reward or 0.0)
        assert gym.terminated == (step.step_type is StepType.LAST)
        assert not gym.truncated


def test_what_the_agent_thought(message):
    state = message.actions[1].agent_state
    (call,) = state.llm_interactions
    assert (state.memory, call.model_family, call.model_name) == ("tea", "vllm", "tiny")
    assert call.response == "click('1')"
    texts = [[part.text for part in each.llm_contents] for each in call.llm_messages]
    assert texts == [["You act in a browser."], ["What next?"], []]
    assert list(call.webtraj.prompt_token_ids) == [1, 2, 151_643]
    assert list(call.webtraj.logprobs) == [-0.5, float("-inf")]


def test_no_long_content_stands_twice():
    trajectory = browser_episode(3, shot_bytes=50_000)
    data, blobs = data_of(trajectory)
    content = format_named("pb").encode(data, blobs)
    for step in trajectory.steps:
        for what in (step.observation["screenshot"], step.observation["axtree"].encode()):
            assert content.count(what) == 1
        assert content.count(step.observation["url"].encode()) == 1
    assert len(content) < 1.05 * (sum(map(len, blobs.contents.values())) + 5000)


def test_browsergyms_own_observations_are_where_its_readers_look():
    seen = {
        "url": "https://a.example/",
        "axtree_object": {"nodes": [{"nodeId": "1", "name": {"value": 1.5}}]},
        "dom_object": {"strings": ["a"]},
        "extra_element_properties": {"12": {"clickable": True}},
        "last_action": "click('12')",
        "last_action_error": "gone",
        "open_pages_urls": ("https://a.example/", "https://b.example/"),
        "active_page_index": np.array([1]),
        "screenshot": np.zeros((2, 2, 3), np.uint8),
    }
    trajectory = dataclasses.replace(
        browser_episode(), steps=(StepRecord(0, StepType.FIRST, seen),)
    )
    gym = message_of(trajectory).actions[0].after_state.browser_gym_observation
    for name in ("dom", "axtree"):
        assert json.loads(getattr(gym, name)) == seen[f"{name}_object"]
    assert json.loads(gym.extra_element_properties) == seen["extra_element_properties"]
    assert (gym.last_action, gym.last_action_error) == ("click('12')", "gone")
    assert list(gym.open_pages_urls) == list(seen["open_pages_urls"])
    assert gym.active_page_index == 1


FAILURE = pb.TrajectoryData.ResultFailure


@each("outcome", list(Outcome))
def test_success_is_said_of_success_alone(outcome):
    end = EpisodeEnd(reason=1, outcome=outcome)
    message = message_of(dataclasses.replace(browser_episode(), end=_named(end)))
    expected = {Outcome.SUCCESS: "success", Outcome.UNKNOWN: None}.get(outcome, "failure")
    assert message.WhichOneof("result") == expected
    if expected == "failure":
        assert message.failure.failure_message == FAILURE.UNKNOWN_ERROR


def _named(end):
    return dataclasses.replace(end, reason=browser_episode().end.reason)


@pytest.mark.parametrize(
    ("action", "outcome", "result"),
    [
        (Answer("12 dollars"), Outcome.SUCCESS, 'success { answer: "12 dollars" }'),
        (Answer("12 dollars"), Outcome.UNKNOWN, ""),
        (Answer("13"), Outcome.FAILURE, "failure { failure_message: UNKNOWN_ERROR }"),
        (ReportInfeasible("no"), Outcome.FAILURE, "failure { failure_message: REPORT_INFEASIBLE }"),
    ],
    ids=["right", "unjudged", "wrong", "infeasible"],
)
def test_the_result(action, outcome, result):
    steps = (
        StepRecord(0, StepType.FIRST, {}),
        StepRecord(1, StepType.LAST, {}, action, 0.0, 0.0),
    )
    end = _named(EpisodeEnd(reason=1, outcome=outcome))
    message = message_of(EpisodeTrajectory(browser_episode().info, steps, end))
    message = pb.TrajectoryData(
        success=message.success if message.HasField("success") else None,
        failure=message.failure if message.HasField("failure") else None,
    )
    assert " ".join(str(message).split()) == result


READ = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("trajectory_pb2", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
message = module.TrajectoryData.FromString(open(sys.argv[2], "rb").read())
assert not [name for name in sys.modules if name.split(".")[0] == "webtraj"]
print(message.goal, len(message.actions), message.success.answer, message.webtraj.info.seed)
print(len(message.actions[3].after_state.viewport.screenshot.content))
"""


def test_protocs_own_code_reads_a_file_without_webtraj(tmp_path):
    data, blobs = data_of(browser_episode())
    file = tmp_path / "episode.pb"
    file.write_bytes(format_named("pb").encode(data, blobs))
    schema = "webtraj/v1/trajectory.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'src/webtraj/store/proto'}"]
    subprocess.run([*command, f"--python_out={tmp_path}", schema], check=True, timeout=60)
    module = tmp_path / schema.replace(".proto", "_pb2.py")
    done = subprocess.run(
        [sys.executable, "-I", "-c", READ, str(module), str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["Find the price of tea 4  3", "3003"]


class TestTheLargest:
    class Unread:
        def read(self, blob):
            raise AssertionError("a blob was read in vain")

    def big(self, size):
        blob = {"$": "blob", "sha256": "0" * 64, "ext": "bin", "size": size}
        return {
            "schema_version": 1,
            "info": {"episode_id": "big"},
            "steps": [{"index": 0, "step_type": "first", "observation": blob}],
            "end": None,
        }

    def test_an_episode_of_more_than_two_gibibytes_is_refused_before_it_is_read(self):
        with pytest.raises(errors.DatasetError, match="'big' has at least 3221225472 bytes"):
            format_named("pb").encode(self.big(3 * 2**30), self.Unread())

    def test_a_blob_that_is_not_what_its_name_says_is_not_written(self, episode):
        data, blobs = episode
        name = data["steps"][0]["observation"]["screenshot"]["sha256"]
        blobs.contents[name] = blobs.contents[name][:-1] + b"!"
        with pytest.raises(errors.CorruptDataError, match=name):
            format_named("pb").encode(data, blobs)
