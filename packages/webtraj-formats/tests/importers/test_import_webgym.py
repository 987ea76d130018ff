"""WebGym's trajectory files, saved by torch from classes of WebGym's names and fields."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import webgym_shapes
from imported_validity import assert_valid

from webtraj import errors, open_dataset
from webtraj.datasets.importers import Problem, Skipped, Source, import_episodes
from webtraj.environments.actions import Answer, ClickAt, Scroll
from webtraj.metrics import measure
from webtraj.trajectory import EpisodeTrajectory
from webtraj_formats.importers import webgym

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


def test_an_import_that_finds_more_pictures_replaces_the_one_before(tmp_path):
    out, images = tmp_path / "out", tmp_path / "images"
    source = Source(path=Path(shutil.copy(FILE, tmp_path / "f.pt")))

    def again(**options):
        import_episodes(dataclasses.replace(source, **options), out, system="webgym")
        dataset = open_dataset(out)
        rate = measure(dataset, steps=False).overall.success_rate.counts
        return len(dataset), len(dataset.superseded), rate

    assert again() == (9, 0, (1, 3))
    assert again() == (9, 0, (1, 3))
    folder = images / "task_0000_abc"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"step_{number:03d}.png").write_bytes(b"\x89PNG\r\n\x1a\n picture")
    found = again(images=images)
    assert found == again(images=images)
    assert found[2] == (1, 3)
    assert found[0] == 9 + found[1] > 9


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


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_read(tmp_path):
    shutil.copy(FILE, tmp_path / "b.pt")
    (tmp_path / "a.pt").write_bytes(FILE.read_bytes()[:5000])
    shutil.copy(DATA / "torch" / "tensors.pt", tmp_path / "c.pt")
    found = read(tmp_path)
    problems = [one for one in found if isinstance(one, Problem)]
    assert [one.where for one in problems] == ["a.pt", "c.pt"]
    assert all(isinstance(one.error, errors.CorruptDataError) for one in problems)
    assert sum(isinstance(one, EpisodeTrajectory) for one in found) == len(ENDS)
