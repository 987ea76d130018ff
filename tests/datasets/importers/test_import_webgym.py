"""WebGym's trajectory files, saved by torch from classes of WebGym's names and fields."""

import json
import shutil
from pathlib import Path

import pytest
import webgym_shapes
from imported_validity import assert_valid

from webtraj import errors
from webtraj.datasets.importers import Problem, Skipped, Source, webgym
from webtraj.datasets.importers.webgym import end_of
from webtraj.environments.actions import Answer, ClickAt, InvalidAction, Scroll
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EpisodeTrajectory

DATA = Path(__file__).parent / "data"
FOLDER = DATA / "webgym"
FILE = FOLDER / "train_trajectories" / "train_trajectories.pt.iteration1"

# Each trajectory of webgym_shapes: how it ended, what it was worth, its reward.
ENDS = [
    ("terminated", "success", 1.0),
    ("terminated", "failure", 0.0),
    ("terminated", "unknown", None),  # Its grade was pending: -1.
    ("terminated", "judge_error", None),
    ("terminated", "blocked", None),
    ("truncated", "failure", 0.0),  # Graded as unanswered.
    ("truncated", "unknown", None),  # Never graded: the reward is a placeholder.
    ("errored", "timeout", None),  # A dummy for a task that did not finish.
    ("errored", "env_error", None),  # A dummy behind a real step.
]


def read(path, **options):
    return list(webgym.read(Source(path=path, **options)))


def episodes(path, **options):
    return [found for found in read(path, **options) if isinstance(found, EpisodeTrajectory)]


def make(name, **fields):
    return OpaqueRecord(f"webgym.data.components.{name}", fields)


@pytest.mark.parametrize(
    "path", [FILE, DATA / "torch" / "legacy.pt.iteration1"], ids=["zip", "old"]
)
def test_every_end_is_told_apart(path):
    found = episodes(path)
    for episode in found:
        assert_valid(episode)
    told = [
        (
            episode.end.reason.name.lower(),
            episode.outcome.name.lower(),
            episode.steps[-1].reward if episode.steps and episode.steps[-1].last else None,
        )
        for episode in found
    ]
    assert told == ENDS


def test_what_was_not_graded_has_no_reward_anywhere():
    for episode, (_, outcome, _) in zip(episodes(FILE), ENDS, strict=True):
        rewards = [step.reward for step in episode.steps[1:]]
        graded = outcome in ("success", "failure")
        assert all((reward is not None) == graded for reward in rewards)


def test_actions_are_read_from_the_replies():
    first, second, last = episodes(FILE)[0].steps
    assert first.action is None
    assert second.action == ClickAt(x=640.0, y=192.0)  # (500, 250) of 1000 on 1280 by 768.
    assert last.action == Answer("9 to 17")
    assert last.observation == {}  # WebGym does not look again.
    assert last.last
    assert episodes(FILE)[5].steps[-1].action == Scroll(dx=0, dy=768)


def test_what_was_seen_and_said():
    first, second, _ = episodes(FILE)[0].steps
    assert first.observation == {
        "url": "https://zoo.example/",
        "title": "Zoo",
        "axtree": "1, About, a",
        "image_path": "images/task_0000_abc/step_000.png",
    }
    decision = second.decision
    assert (decision.thought, decision.memory, decision.parse_error) == ("go on", "{}", "")
    assert decision.metadata["executed"]["action"]["key"] == "click"
    (call,) = decision.model_calls
    assert call.model == "qwen3-instruct"
    assert list(call.messages) == webgym_shapes.PROMPT
    assert call.text.startswith("Memory:")


def test_what_is_known_of_the_episode():
    info = episodes(FILE)[0].info
    assert (info.task, info.goal) == ("webgym/17", "Find the opening hours.")
    assert info.site == "https://zoo.example"
    assert info.policy == "qwen3-instruct"
    assert info.metadata["task"]["reference_answer"] == "9 to 17"
    assert info.metadata["webgym"]["iteration"] == 1
    assert info.metadata["steps"][0]["trajectory_metadata"] == {"keypoint_step_ids": [1]}
    assert info.metadata["rewards"][1]["evaluation"] == "SUCCESS: all facts"
    assert info.metadata["imported"]["index"] == 0


def test_dummies_are_errors_and_no_steps():
    timeout, broken = episodes(FILE)[7:]
    assert timeout.steps == ()
    assert timeout.end.error.type == "GRACE_PERIOD_INCOMPLETE"
    assert timeout.info.metadata["dummies"][0]["error_type"] == "GRACE_PERIOD_INCOMPLETE"
    assert len(broken.steps) == 1
    assert broken.end.error.message == "HTTP 500"
    assert broken.end.in_flight_action == ClickAt(x=640.0, y=192.0)


def test_screenshots_are_found_beside_and_counted_if_not(tmp_path):
    picture = b"\x89PNG\r\n\x1a\n first"
    (tmp_path / "train_trajectories").mkdir()
    path = Path(shutil.copy(FILE, tmp_path / "train_trajectories"))
    images = tmp_path / "images" / "task_0000_abc"
    images.mkdir(parents=True)
    (images / "step_000.png").write_bytes(picture)
    (images / "step_001.png").write_bytes(b"no picture")
    found = read(tmp_path)
    assert found[0].steps[0].observation["screenshot"] == picture
    assert "screenshot" not in found[0].steps[1].observation
    assert isinstance(found[-1], Skipped)
    assert "7 of its screenshots" in found[-1].why
    elsewhere = episodes(shutil.copy(FILE, tmp_path / "a.pt"), images=tmp_path / "images")
    assert elsewhere[0].steps[0].observation["screenshot"] == picture
    assert path.exists()


def test_odd_paths_and_ids_cost_their_own_values_only(tmp_path, monkeypatch):
    good = webgym_shapes.trajectories(make)[0]
    first = good[0]["observation"].fields
    odd = {
        **first,
        "image_path": "x" * 400 + ".png",
        "task": make("Task", **{**first["task"].fields, "task_id": 10**5000}),
    }
    data = [good, [{**good[0], "observation": make("Observation", **odd)}, *good[1:]], good[:1]]
    monkeypatch.setattr(webgym, "read_torch_file", lambda *_, **__: data)
    (tmp_path / "list.pt").write_bytes(b"x")
    found = [one for one in read(tmp_path / "list.pt") if not isinstance(one, Skipped)]
    assert [one.info.task for one in found][:2] == [found[0].info.task, "webgym"]
    assert len(found) == 3


@pytest.mark.parametrize(
    "path", ["../../secret.png", "/etc/../secret.png", "..\\secret.png", "link/secret.png"]
)
def test_a_screenshot_path_leads_nowhere_else(tmp_path, path):
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n secret")
    inside = tmp_path / "a" / "b" / "c"
    inside.mkdir(parents=True)
    (inside / "link").symlink_to(tmp_path)
    source = Source(path=shutil.copy(FILE, inside / "f.pt"))
    file = webgym._File(Source(path=Path(source.path)), Path(source.path), "f.pt")
    assert file._picture(path) is None
    assert file._missing == 1


def test_the_same_trajectory_in_two_files_is_one_episode(tmp_path):
    for name in ("t.pt.iteration1", "t.pt.iteration1_rank_0.checkpoint"):
        shutil.copy(FILE, tmp_path / name)
    found = read(tmp_path)
    assert sum(isinstance(one, EpisodeTrajectory) for one in found) == len(ENDS)
    again = [one for one in found if isinstance(one, Skipped) and one.episode_id]
    assert len(again) == len(ENDS)
    assert "another file" in again[0].why


def test_attempts_at_one_task_have_ids_of_their_own():
    assert len({episode.episode_id for episode in episodes(FILE)}) == len(ENDS)


def test_what_is_there_already_is_left_out():
    have = {episode.episode_id for episode in episodes(FILE)}
    assert episodes(FILE, have=have) == []


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_read(tmp_path):
    shutil.copy(FILE, tmp_path / "b.pt")
    (tmp_path / "a.pt").write_bytes(FILE.read_bytes()[:5000])
    shutil.copy(DATA / "torch" / "tensors.pt", tmp_path / "c.pt")
    found = read(tmp_path)
    problems = [one for one in found if isinstance(one, Problem)]
    assert [one.where for one in problems] == ["a.pt", "c.pt"]
    assert all(isinstance(one.error, errors.CorruptDataError) for one in problems)
    assert sum(isinstance(one, EpisodeTrajectory) for one in found) == len(ENDS)


def test_a_trajectory_that_is_none_is_reported(tmp_path, monkeypatch):
    good = webgym_shapes.trajectories(make)[0]
    data = [good, [], None, "x", [{}], [{**good[0], "response": None, "action": None}]]
    monkeypatch.setattr(webgym, "read_torch_file", lambda *_, **__: data)
    (tmp_path / "list.pt.iteration4").write_bytes(b"x")
    found = read(tmp_path / "list.pt.iteration4")
    kinds = [type(one).__name__ for one in found]
    assert kinds == [
        "EpisodeTrajectory", "Skipped", "Skipped", "Problem", "Problem", "EpisodeTrajectory",
        "Skipped",
    ]  # fmt: skip
    assert found[0].info.metadata["webgym"]["iteration"] == 4  # By the file's name.
    assert "metadata" not in found[0].info.metadata


def changed(index, **fields):
    """Returns a trajectory of webgym_shapes with another last reward."""
    steps = webgym_shapes.trajectories(make)[index]
    last = steps[-1]
    reward = make("Reward", **{**last["reward"].fields, **fields})
    return [*steps[:-1], {**last, "reward": reward}]


@pytest.mark.parametrize("value", [None, float("nan"), "1", -1, -1.0], ids=str)
def test_a_grade_that_is_none_is_unknown(value):
    end = end_of(changed(0, reward=value))
    assert (end.reward, end.outcome.name) == (None, "UNKNOWN")


def test_a_reply_without_an_action_is_no_action(monkeypatch, tmp_path):
    steps = webgym_shapes.trajectories(make)[0]
    response = make("Response", raw_response="I do not know.", answering_tokens={}, raw_prompt="{")
    steps[0] = {**steps[0], "response": response}
    monkeypatch.setattr(webgym, "read_torch_file", lambda *_, **__: {"trajectories": [steps]})
    (tmp_path / "a.pt").write_bytes(b"x")
    step = read(tmp_path / "a.pt")[0].steps[1]
    # WebGym waits or clicks in the middle then: what it did is kept, and is not the action.
    assert isinstance(step.action, InvalidAction)
    assert step.decision.parse_error
    assert step.decision.metadata["executed"]["action"]["key"] == "click"
    assert step.decision.model_calls[0].messages == ("{",)


def test_labels_are_read_too(monkeypatch, tmp_path):
    call = {"name": "web_interaction", "arguments": {"action": "click", "element_id": "7"}}
    steps = webgym_shapes.trajectories(make)[0]
    said = f"<tool_call>{json.dumps(call)}</tool_call>"
    response = make("Response", raw_response=said, answering_tokens={}, raw_prompt="")
    steps[0] = {**steps[0], "response": response}
    monkeypatch.setattr(webgym, "read_torch_file", lambda *_, **__: {"trajectories": [steps]})
    (tmp_path / "a.pt").write_bytes(b"x")
    assert read(tmp_path / "a.pt")[0].steps[1].action.ref == "7"


@pytest.mark.parametrize(
    ("name", "iteration"),
    [
        ("iteration0.pt", 0),
        ("iteration5_rank_0.pt", 5),
        ("iteration_12.pt", 12),
        ("train_trajectories.pt.iteration7_rank_1.checkpoint", 7),
        ("my_iteration3.pt", 3),
        ("reiteration3.pt", None),
        ("all.pt", None),
    ],
)
def test_the_iteration_is_read_from_every_name_that_webgym_writes(
    tmp_path, monkeypatch, name, iteration
):
    data = [webgym_shapes.trajectories(make)[0]]  # A checkpoint without metadata.
    monkeypatch.setattr(webgym, "read_torch_file", lambda *_, **__: data)
    (tmp_path / name).write_bytes(b"x")
    (found,) = episodes(tmp_path / name)
    assert found.info.metadata["webgym"]["iteration"] == iteration
