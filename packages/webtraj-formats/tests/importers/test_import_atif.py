"""ATIF: each agent step a step, and nothing invented that it does not tell."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported_validity import assert_valid

from rows import each
from webtraj import EndReason, Outcome, errors
from webtraj.datasets.importers import Problem, Source
from webtraj.environments.actions import Click, ClickAt, Fill, Goto
from webtraj.trajectory import EpisodeTrajectory
from webtraj_formats.importers import atif

PICTURE = b"\x89PNG\r\n\x1a\n picture"


def call(name, **arguments):
    return {"tool_call_id": "c1", "function_name": name, "arguments": arguments}


def image(path):
    return {"type": "image", "source": {"media_type": "image/png", "path": path}}


WHOLE = {
    "schema_version": "ATIF-v1.8",
    "session_id": "s1",
    "agent": {"name": "tester", "version": "1.2", "model_name": "m-1", "extra": {"seedling": 1}},
    "notes": "made by hand",
    "extra": {
        "task": "shop/buy", "seed": 7, "site": "shop.example", "environment": "web",
        "end_reason": "terminated", "outcome": "success", "viewport": [1000, 500], "run": "r9",
    },
    "steps": [
        {"step_id": 1, "source": "system", "message": "You act in a browser."},
        {
            "step_id": 2, "source": "user", "timestamp": "2026-11-20T10:00:00Z",
            "message": [{"type": "text", "text": "Buy a lamp."}, image("images/first.png")],
        },
        {
            "step_id": 3, "source": "agent", "timestamp": "2026-11-20T10:00:02Z",
            "message": "I go there.", "reasoning_content": "A shop sells lamps.",
            "tool_calls": [call("goto", url="https://shop.example/")],
            "metrics": {
                "prompt_tokens": 11, "completion_tokens": 3, "cached_tokens": 2, "cost_usd": 0.5,
                "prompt_token_ids": [1, 2], "completion_token_ids": [3, 4, 5],
                "logprobs": [-0.5, -0.25, 0], "extra": {"queue": 1},
            },
            "observation": {
                "results": [{"source_call_id": "c1", "content": [image("images/second.png")]}]
            },
            "extra": {"reward": 0.25, "url": "https://shop.example/", "axtree": "lamp"},
        },
        {"step_id": 4, "source": "user", "message": "Hurry."},
        {
            "step_id": 5, "source": "agent", "message": "", "model_name": "m-2",
            "timestamp": "2026-11-20T10:00:09Z",
            "tool_calls": [call("computer_use", action="left_click", coordinate=[500, 500])],
            "extra": {"reward": 1.0},
        },
    ],
    "final_metrics": {"total_steps": 5},
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """Writes a trajectory, changed, with its pictures, and reads it."""

    def read(data=WHOLE, pictures=True, **changes):
        (tmp_path / "images").mkdir(exist_ok=True)
        for name in ("first", "second") if pictures else ():
            (tmp_path / "images" / f"{name}.png").write_bytes(PICTURE + name.encode())
        (tmp_path / "t.json").write_text(json.dumps({**data, **changes}))
        return list(atif.read(Source(path=tmp_path / "t.json")))

    return read


@pytest.fixture
def whole(write):
    (episode,) = write()
    assert_valid(episode)
    return episode


def test_agent_steps_are_steps(whole):
    assert [step.action for step in whole.steps] == [
        None,
        Goto("https://shop.example/"),
        ClickAt(500.0, 250.0),  # Of 1000 by 1000, on the viewport that is told.
    ]
    assert [step.reward for step in whole.steps] == [None, 0.25, 1.0]
    assert [step.discount for step in whole.steps] == [None, 1.0, 0.0]
    assert (whole.end.reason, whole.outcome) == (EndReason.TERMINATED, Outcome.SUCCESS)


def test_observations_are_results_and_the_messages_until_the_next_act(whole):
    first, second, last = (step.observation for step in whole.steps)
    assert [message["source"] for message in first["messages"]] == ["system", "user"]
    assert first["screenshot"] == PICTURE + b"first"
    assert first["messages"][1]["message"][1]["data"] == first["screenshot"]
    assert second["screenshot"] == PICTURE + b"second"
    assert second["results"][0]["source_call_id"] == "c1"
    assert [message["message"] for message in second["messages"]] == ["Hurry."]
    assert (second["url"], second["axtree"]) == ("https://shop.example/", "lamp")
    assert last == {}


def test_token_ids_and_logprobs_are_the_model_calls(whole):
    decision = whole.steps[1].decision
    (made,) = decision.model_calls
    assert decision.thought == "A shop sells lamps."
    assert made.model == "m-1"
    assert made.text == "I go there."
    assert made.usage == {"prompt_tokens": 11, "completion_tokens": 3, "cached_tokens": 2}
    assert made.prompt_token_ids == (1, 2)
    assert made.completion_token_ids == (3, 4, 5)
    assert made.logprobs == (-0.5, -0.25, 0.0)
    assert decision.metadata["metrics"] == {"cost_usd": 0.5, "extra": {"queue": 1}}
    assert decision.metadata["tool_calls"][0]["function_name"] == "goto"
    assert whole.steps[2].decision.model_calls[0].model == "m-2"


def test_what_is_known_of_the_episode(whole):
    info = whole.info
    assert (info.task, info.seed, info.site) == ("shop/buy", 7, "shop.example")
    assert (info.goal, info.policy, info.versions) == ("Buy a lamp.", "tester", {"tester": "1.2"})
    assert info.environment == "web"
    assert info.metadata["atif"]["session_id"] == "s1"
    assert info.metadata["atif"]["notes"] == "made by hand"
    assert info.metadata["agent"]["extra"] == {"seedling": 1}
    assert info.metadata["run"] == "r9"
    assert info.metadata["imported"]["schema_version"] == "ATIF-v1.8"
    assert whole.end_time - whole.start_time == 9


def test_what_atif_does_not_tell_is_not_invented(write):
    (episode,) = write(extra={})
    assert_valid(episode)
    assert (episode.end.reason, episode.outcome) == (EndReason.CLOSED, Outcome.UNKNOWN)
    assert not any(step.last for step in episode.steps)
    plain = copy.deepcopy(WHOLE)
    for step in plain["steps"]:
        step.pop("extra", None)
    (episode,) = write(plain, extra=None)
    assert [step.reward for step in episode.steps] == [None, None, None]
    (episode,) = write(plain, extra={"reward": 0.5, "end_reason": "truncated"})
    assert [step.reward for step in episode.steps] == [None, None, 0.5]
    assert episode.steps[-1].discount == 1.0


ACTIONS = {
    "BrowserGym": (call("click", bid="12"), Click("12")),
    "webtraj": (call("fill", bid="3", value="x"), Fill("3", "x")),
    "labels": (call("web_interaction", action="click", element_id="4"), Click("4")),
    "Anthropic": (call("computer", action="left_click", coordinate=[3, 4]), ClickAt(3, 4)),
    "OpenAI": (call("computer", type="click", x=3, y=4, button="left"), ClickAt(3, 4)),
    "no action of the web": (
        call("bash", keystrokes="ls\n"),
        {"name": "bash", "arguments": {"keystrokes": "ls\n"}},
    ),
    "arguments that are wrong": (
        call("click", bid=[]), {"name": "click", "arguments": {"bid": []}},
    ),
    "nothing": ({}, {"name": None, "arguments": None}),
}  # fmt: skip


@each("case", ACTIONS)
def test_tool_calls_are_read_by_the_dialect_that_knows_them(case, write):
    given_call, expected = ACTIONS[case]
    steps = [{"step_id": 1, "source": "agent", "message": "", "tool_calls": [given_call]}]
    (episode,) = write(steps=steps)
    assert episode.steps[1].action == expected


def test_subagents_are_episodes_with_a_parent(write):
    inner = {**WHOLE, "session_id": "s2"}
    parent, first, second = write(subagent_trajectories=[inner, inner])
    assert first.info.parent_episode_id == second.info.parent_episode_id == parent.episode_id
    assert len({parent.episode_id, first.episode_id, second.episode_id}) == 3
    assert "subagent_trajectories" not in parent.info.metadata["atif"]


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "link.png", "t.json", "", "a\0b"])
def test_a_picture_path_leads_nowhere_else(write, tmp_path, path):
    outside = tmp_path.parent / "secret.png"
    outside.write_bytes(PICTURE)
    (tmp_path / "link.png").symlink_to(outside)
    steps = [{"source": "user", "message": [image(path)]}, *WHOLE["steps"][2:]]
    episode, *_ = write(steps=steps)
    assert "screenshot" not in episode.steps[0].observation


@each("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_all_versions_are_read(write, version):
    (episode,) = write(schema_version=version)
    assert isinstance(episode, EpisodeTrajectory)


BROKEN = {
    "a newer version": ({"schema_version": "ATIF-v1.9"}, errors.UnsupportedSchemaError),
    "a much newer one": ({"schema_version": "ATIF-v2.0"}, errors.UnsupportedSchemaError),
    "no version": ({"schema_version": None}, errors.CorruptDataError),
    "another format": ({"schema_version": "1"}, errors.CorruptDataError),
    "no steps": ({"steps": []}, errors.CorruptDataError),
    "steps that are none": ({"steps": [1]}, errors.CorruptDataError),
    "another source": ({"steps": [{"source": "cat"}]}, errors.CorruptDataError),
}


@each("case", BROKEN)
def test_what_is_not_atif_is_reported(case, write):
    changes, kind = BROKEN[case]
    (problem,) = write(**changes)
    assert isinstance(problem, Problem)
    assert type(problem.error) is kind
    assert "'t.json'" in str(problem.error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
PATHS = [
    ("agent",), ("extra",), ("extra", "viewport"), ("extra", "seed"), ("extra", "end_reason"),
    ("extra", "reward"), ("steps", 1, "message"), ("steps", 1, "timestamp"), ("steps", 2, "extra"),
    ("steps", 2, "tool_calls"), ("steps", 2, "tool_calls", 0), ("steps", 2, "metrics"),
    ("steps", 2, "tool_calls", 0, "arguments"), ("steps", 2, "tool_calls", 0, "function_name"),
    ("steps", 2, "metrics", "logprobs"), ("steps", 2, "metrics", "completion_token_ids"),
    ("steps", 2, "observation"), ("steps", 2, "observation", "results"),
    ("steps", 2, "observation", "results", 0, "content", 0, "source"), ("subagent_trajectories",),
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PATHS), JSON)
def test_any_value_anywhere_is_read_or_reported(tmp_path_factory, path, value):
    data = copy.deepcopy(WHOLE)
    target = data
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    folder = tmp_path_factory.mktemp("any")
    (folder / "t.json").write_text(json.dumps(data))
    for found in atif.read(Source(path=folder)):
        if isinstance(found, EpisodeTrajectory):
            assert_valid(found)
