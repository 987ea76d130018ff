"""Trajectories of Orby's collector, by the names of its fields and by any numbers."""

import subprocess
import sys

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from recorded_episodes import browser_episode, data_of

from rows import each
from webtraj import errors
from webtraj.store.formats import format_named
from webtraj.store.protobuf.orby import read_orby
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.testing.strategies import same
from webtraj.trajectory import EndReason, Outcome, StepType

# The same names as in webtraj's schema, other numbers, several files and packages, and more fields.
FILES = {
    "fm/llm_data.proto": """
syntax = "proto3";
package fm;
message LLMContent { oneof content { string text = 3; string image_url = 4; } }
message LLMMessage { string role = 5; repeated LLMContent llm_contents = 2; }
message LLMInteraction {
  string model_family = 8; string model_name = 9;
  repeated LLMMessage llm_messages = 1; string response = 4; double cost = 5;
}
""",
    "pb/document.proto": """
syntax = "proto3";
package pb;
message DocumentBlob { bytes content = 1; string mime_type = 2; }
message Element {
  string tag = 1; repeated Element children = 2; map<string, string> attributes = 3;
}
""",
    "fm/action_data.proto": """
syntax = "proto3";
package fm;
import "fm/llm_data.proto";
import "pb/document.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message Rect { int32 x = 1; int32 y = 2; int32 width = 3; int32 height = 4; }
message Viewport { Rect viewport_rect = 1; pb.DocumentBlob screenshot = 2; }
message BrowserGymObservation {
  message ChatMessage {
    string role = 1; google.protobuf.Timestamp timestamp = 2; string message = 3;
  }
  repeated ChatMessage chat_messages = 1;
  string legacy_goal = 2;
  repeated LLMContent goals = 3;
  repeated string open_pages_urls = 4;
  int32 active_page_index = 5;
  bytes dom = 6; bytes axtree = 7; bytes extra_element_properties = 8;
  string focused_element_bid = 9; string last_action = 10; string last_action_error = 11;
  google.protobuf.Duration elapsed_time = 12;
  float reward = 13; bool terminated = 14; bool truncated = 15;
}
message WebState {
  string fingerprint = 7; string url = 9; Viewport viewport = 1; pb.Element root_element = 2;
  BrowserGymObservation browser_gym_observation = 12;
}
message AgentState {
  repeated LLMInteraction llm_interactions = 2; string memory = 1;
  AgentState previous_failed_agent_state = 3;
}
message BrowserGymAction { string action_string = 2; }
message RecordedAction { string description = 1; }
message ActionData {
  string id = 2; string domain = 1; WebState before_state = 10; WebState after_state = 11;
  AgentState agent_state = 12; bytes playwright_trace = 13;
  BrowserGymAction browser_gym_action = 20; RecordedAction action = 21;
}
""",
    "fm/trajectory_data.proto": """
syntax = "proto3";
package fm;
import "fm/action_data.proto";
message TrajectoryData {
  message ResultSuccess { string answer = 2; }
  message ResultFailure {
    enum FailureMessage {
      FAILURE_MESSAGE_UNSPECIFIED = 0; REPORT_INFEASIBLE = 1; MAX_STEPS_EXCEEDED = 2;
      UNKNOWN_ERROR = 3; REPETITIVE_ACTIONS = 4;
    }
    FailureMessage failure_message = 4;
  }
  string base_url = 1; string domain = 2; string goal = 4; repeated ActionData actions = 3;
  oneof result { ResultSuccess success = 8; ResultFailure failure = 9; }
}
""",
}


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """Returns a schema like Orby's, as a descriptor set."""
    folder = tmp_path_factory.mktemp("schema")
    for name, source in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(source)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    command += [f"--descriptor_set_out={folder}/set", *FILES]
    subprocess.run(command, check=True, timeout=60)
    return (folder / "set").read_bytes()


@pytest.fixture(scope="module")
def make(schema):
    """Returns the class of its trajectories."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(schema).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fm.TrajectoryData"))


def state(number, **gym):
    return {
        "fingerprint": f"{number:016x}",
        "url": f"https://a.example/{number}",
        "viewport": {
            "screenshot": {"mime_type": "image/jpeg", "content": b"\xff\xd8\xff%d" % number},
            "viewport_rect": {"width": 1280, "height": 720},
        },
        "root_element": {"tag": "html", "children": [{"tag": "p"}], "attributes": {"id": "x"}},
        "browser_gym_observation": {
            "legacy_goal": "tea",
            "goals": [{"text": "tea"}, {"image_url": "https://a.example/tea.png"}],
            "axtree": b'{"nodes": [1.0]}',
            "dom": b"not JSON",
            "extra_element_properties": b"{}",
            "open_pages_urls": ["https://a.example/"],
            "chat_messages": [{"role": "user", "timestamp": {"seconds": 5}, "message": "tea"}],
            "elapsed_time": {"seconds": 2, "nanos": 500_000_000},
            **gym,
        },
    }


def action(string, **more):
    return {
        "id": "0123456789ab",
        "domain": "a.example",
        "browser_gym_action": {"action_string": string},
        **more,
    }


def trajectory(make, actions, **more):
    return make(goal="tea", domain="a.example", actions=actions, **more).SerializeToString()


def after_only(make, **more):
    """As the collector's README says: the state after each action."""
    actions = [
        action("START_OF_TRAJECTORY", after_state=state(0)),
        action("click('1')", after_state=state(1), agent_state=AGENT),
        action("click('2')", after_state=state(2, reward=1.0, terminated=True)),
    ]
    return trajectory(make, actions, **more)


AGENT = {
    "memory": "tea",
    "llm_interactions": [
        {
            "model_family": "anthropic",
            "model_name": "m",
            "llm_messages": [
                {"role": "user", "llm_contents": [{"text": "Go"}, {"image_url": "data:x"}]}
            ],
            "response": "click('1')",
            "cost": 0.5,
        }
    ],
    "previous_failed_agent_state": {"memory": "coffee"},
}


def test_a_trajectory(make, schema):
    episode = read_orby(after_only(make), "it", descriptor_set=schema)
    assert_valid_trajectory(episode)
    assert (episode.info.goal, episode.info.site) == ("tea", "a.example")
    kinds = [step.step_type for step in episode.steps]
    assert kinds == [StepType.FIRST, StepType.MID, StepType.LAST]
    assert [step.action for step in episode.steps] == [None, "click('1')", "click('2')"]
    assert [step.reward for step in episode.steps] == [None, 0.0, 1.0]
    assert [step.discount for step in episode.steps] == [None, 1.0, 0.0]
    assert episode.end_reason is EndReason.TERMINATED


def test_an_observation_has_browsergyms_keys(make, schema):
    seen = read_orby(after_only(make), "it", descriptor_set=schema).steps[1].observation
    assert seen == {
        "url": "https://a.example/1",
        "screenshot": b"\xff\xd8\xff1",
        "goal": "tea",
        "dom_object": b"not JSON",
        "axtree_object": {"nodes": [1.0]},
        "extra_element_properties": {},
        "open_pages_urls": ["https://a.example/"],
        "active_page_index": 0,
        "chat_messages": [{"role": "user", "timestamp": 5.0, "message": "tea"}],
        "goal_object": [
            {"type": "text", "text": "tea"},
            {"type": "image_url", "image_url": {"url": "https://a.example/tea.png"}},
        ],
        "elapsed_time": 2.5,
        "orby": {
            "fingerprint": f"{1:016x}",
            "viewport": {"viewport_rect": {"width": 1280, "height": 720}},
            "screenshot": {"mime_type": "image/jpeg"},
            "root_element": {
                "tag": "html",
                "children": [{"tag": "p"}],
                "attributes": {"id": "x"},
            },
        },
    }


def test_a_decision(make, schema):
    decision = read_orby(after_only(make), "it", descriptor_set=schema).steps[1].decision
    (call,) = decision.model_calls
    assert (decision.action, decision.memory) == ("click('1')", "tea")
    assert (call.provider, call.model, call.text) == ("anthropic", "m", "click('1')")
    assert call.messages == (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Go"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
            ],
        },
    )
    assert call.response == {"orby": {"cost": 0.5}, "response": "click('1')"}
    assert decision.metadata == {
        "previous_failed_agent_state": {"memory": "coffee"},
        "orby": {"id": "0123456789ab", "domain": "a.example"},
    }


def test_what_has_no_field_is_kept(make, schema):
    actions = [
        action("START_OF_TRAJECTORY", after_state=state(0, reward=0.5)),
        action("", after_state=state(1), playwright_trace=b"PK", action={"description": "typed"}),
    ]
    content = trajectory(make, actions, base_url="https://a.example/")
    episode = read_orby(content, "it", descriptor_set=schema)
    assert episode.info.metadata["orby"] == {"base_url": "https://a.example/"}
    assert episode.steps[0].reward is None
    assert episode.steps[0].decision.metadata["orby"]["reward"] == 0.5
    assert episode.steps[1].action == {"description": "typed"}
    assert episode.steps[1].decision.metadata["orby"]["playwright_trace"] == b"PK"


@each(("result", "reward", "outcome", "reason"), [
        ({}, 0.0, Outcome.UNKNOWN, EndReason.CLOSED),
        ({"success": {"answer": "12"}}, 0.0, Outcome.UNKNOWN, EndReason.TRUNCATED),
        ({"success": {"answer": "12"}}, 1.0, Outcome.SUCCESS, EndReason.TRUNCATED),
        ({"success": {}}, 1.0, Outcome.SUCCESS, EndReason.TRUNCATED),
        ({"failure": {}}, 0.0, Outcome.UNKNOWN, EndReason.CLOSED),
        ({"failure": {"failure_message": 1}}, 0.0, Outcome.FAILURE, EndReason.TRUNCATED),
        ({"failure": {"failure_message": 2}}, 0.0, Outcome.FAILURE, EndReason.TRUNCATED),
        ({"failure": {"failure_message": 2}}, 1.0, Outcome.UNKNOWN, EndReason.TRUNCATED),
        ({"failure": {"failure_message": 3}}, 0.0, Outcome.UNKNOWN, EndReason.CLOSED),
        ({"failure": {"failure_message": 4}}, 0.0, Outcome.FAILURE, EndReason.TRUNCATED),
        ({"failure": {"failure_message": 9}}, 0.0, Outcome.UNKNOWN, EndReason.CLOSED),
    ])  # fmt: skip
def test_a_claim_is_no_outcome_and_zero_is_unknown(make, schema, result, reward, outcome, reason):
    actions = [
        action("START_OF_TRAJECTORY", after_state=state(0)),
        action("click('1')", after_state=state(1, reward=reward)),
    ]
    episode = read_orby(trajectory(make, actions, **result), "it", descriptor_set=schema)
    assert (episode.end.outcome, episode.end.reason) == (outcome, reason)
    assert episode.info.metadata["result"].keys() == result.keys()


class TestWithoutASchema:
    def test_a_file_of_webtrajs_comes_back_as_it_was(self):
        data, blobs = data_of(browser_episode())
        for name in ("pb", "pb.zst"):
            content = format_named(name).encode(data, blobs)
            assert same(read_orby(content, "it"), browser_episode())

    def test_webtrajs_messages_without_its_own_fields_are_read_by_orbys(self):
        from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb

        data, blobs = data_of(browser_episode())
        message = pb.TrajectoryData.FromString(format_named("pb").encode(data, blobs))
        message.ClearField("webtraj")
        for one in message.actions:
            one.ClearField("webtraj")
            one.agent_state.ClearField("webtraj")
        episode = read_orby(message.SerializeToString(), "it")
        assert [step.action for step in episode.steps[1:]] == [
            "click('1')", "scroll(0, 100)", "fill('2', 'tea')",
        ]  # fmt: skip
        assert episode.end_reason is EndReason.TERMINATED
        assert episode.outcome is Outcome.SUCCESS  # The environment's reward says so, too.

    def test_other_numbers_are_not_guessed_at(self, make):
        with pytest.raises(errors.CorruptDataError, match="descriptor_set"):
            read_orby(after_only(make), "it")

    @pytest.mark.parametrize("content", [b"", b"\x00", b"hello"], ids=["empty", "zero", "text"])
    def test_what_is_no_trajectory_is_refused(self, content):
        with pytest.raises(errors.CorruptDataError, match="'it'"):
            read_orby(content, "it")
