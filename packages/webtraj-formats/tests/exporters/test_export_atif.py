"""ATIF: files that follow the format, and come back as the episodes that they were."""

import copy
import dataclasses
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pydantic
import pytest

from export_episodes import ACTIONS_READ, picture
from rows import each
from webtraj import EndReason, open_dataset
from webtraj.datasets.importers import Source, import_episodes
from webtraj.datasets.writer import DatasetWriter
from webtraj_formats.exporters import atif

ROOT = Path(__file__).parents[4]


@pytest.fixture
def round_trip(export, tmp_path):
    """Exports a dataset and imports it again; gives the episodes by their old ids."""

    def run(dataset):
        out, report = export(dataset, "atif")
        imported = import_episodes(Source(path=out), tmp_path / "again", system="atif")
        assert not imported.problems
        assert not imported.skipped
        again = open_dataset(tmp_path / "again")
        by_id = {e.info.metadata["webtraj"]["info"]["episode_id"]: e for e in again}
        assert by_id.keys() == set(dataset.episode_ids)
        return by_id, report

    return run


def load(out, episode_id):
    return json.loads((out / f"{episode_id}.json").read_text())


def test_an_episode_comes_back_the_same(shop, round_trip):
    by_id, report = round_trip(shop)
    assert report.notes == ()
    for old in shop:
        new = by_id[old.episode_id]
        assert (new.end_reason, new.outcome) == (old.end_reason, old.outcome)
        assert len(new.steps) == len(old.steps)
        assert [s.step_type for s in new.steps] == [s.step_type for s in old.steps]
        assert [s.reward for s in new.steps] == [s.reward for s in old.steps]
        assert [s.discount for s in new.steps][1:] == [s.discount for s in old.steps][1:]
        assert tuple(s.action for s in new.steps[1:]) == ACTIONS_READ[: old.num_steps]
        for name in ("task", "goal", "site", "seed", "environment", "policy"):
            assert getattr(new.info, name) == getattr(old.info, name)
        assert new.total_reward == old.total_reward
        for old_step, new_step in zip(old.steps, new.steps, strict=True):
            assert new_step.observation["screenshot"] == old_step.observation["screenshot"]
            assert abs(new_step.end_time - old_step.end_time) < 1e-5
        for old_step, new_step in zip(old.steps[1:], new.steps[1:], strict=True):
            for name in ("goal", "url", "axtree", "active_tab"):
                assert new_step.observation[name] == old_step.observation[name]
            assert new_step.observation["boxes"] == old_step.observation["boxes"].tolist()
        for old_step, new_step in zip(old.steps[2:], new.steps[2:], strict=True):
            assert new_step.decision.thought == old_step.decision.thought
            (call,) = new_step.decision.model_calls
            given = old_step.decision.model_calls[-1]
            for name in ("model", "text", "prompt_token_ids", "completion_token_ids", "logprobs"):
                assert getattr(call, name) == getattr(given, name)
        assert new.steps[1].decision.model_calls == ()


@pytest.mark.parametrize(("lost", "indices"), [(2, [0, 1, 3, 4]), (0, [0, 2, 3, 4, 5])])
def test_a_step_that_was_lost_is_still_missing(shop, round_trip, tmp_path, lost, indices):
    whole = shop[0]
    steps = tuple(step for step in whole.steps if step.index != lost)
    end = dataclasses.replace(whole.end, recording_errors=("StorageError: disk full",))
    with DatasetWriter(tmp_path / "gap") as writer:
        writer.add(dataclasses.replace(whole, steps=steps, end=end))
    by_id, _ = round_trip(open_dataset(tmp_path / "gap"))
    again = by_id[whole.episode_id]
    assert [step.index for step in again.steps] == indices
    assert len(list(again.transitions())) == len(steps) - (2 if lost else 1)
    assert again.end.recording_errors == ("StorageError: disk full",)


def test_what_the_format_has_no_field_for_is_under_extra(shop, export):
    out, _ = export(shop, "atif")
    data = load(out, shop.episode_ids[0])
    system, user, first, second, *_ = data["steps"]
    assert system["message"] == "You act in a browser."
    assert user["message"][0] == {"type": "text", "text": "Buy tea"}
    assert "metrics" not in first
    assert first["llm_call_count"] == 0
    assert (first["extra"]["reward"], first["extra"]["discount"]) == (0.25, 1.0)
    assert first["extra"]["url"] == "https://shop.example/1"
    assert second["llm_call_count"] == 2
    assert second["metrics"]["prompt_tokens"] == 5  # Of both calls, as the format has it.
    assert second["metrics"]["extra"]["policy_version"] == "7"
    assert second["metrics"]["extra"]["other_calls"][0]["error"] == "overloaded"
    assert second["tool_calls"][0]["extra"]["memory"] == "memory 2"
    assert data["extra"]["seed"] == shop[0].info.seed
    assert data["extra"]["webtraj"]["info"]["metadata"]["split"] == "train"
    assert data["agent"]["version"] == "1.2"
    assert data["agent"]["model_name"] == "tiny"


def test_pictures_are_written_once_and_named_by_what_they_hold(shop, export):
    out, _ = export(shop, "atif")
    files = sorted((out / "images").iterdir())
    assert len(files) == 5  # Of 8 observations and 4 prompts.
    for path in files:
        assert path.stem == hashlib.sha256(path.read_bytes()).hexdigest()
    named = load(out, shop.episode_ids[0])["steps"][1]["message"][1]["source"]["path"]
    assert (out / named).read_bytes() == picture(0)


_JUDGE = """
import json, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
validator = TrajectoryValidator()
print(json.dumps({path: [validator.validate(path), validator.errors] for path in sys.argv[1:]}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "reader"), [("1.7", "1.7"), ("1.7", "1.8"), ("1.8", "1.8"), ("1.8", "1.7")]
)
def test_harbor_takes_the_versions_that_it_knows(version, reader, shop, wrecks, catch, export):
    python = ROOT / ".venv-inspect/bin/python"
    if not python.exists():
        pytest.skip("needs .venv-inspect")
    models = python.parents[1] / f"atif-{reader}"
    files = []
    for number, dataset in enumerate((shop, wrecks, catch)):
        options = {"schema_version": version}
        out, _ = export(dataset, "atif", name=f"out{number}", options=options)
        files += map(str, out.glob("*.json"))
    done = subprocess.run(
        [python, "-c", _JUDGE, *files],
        env={**os.environ, "PYTHONPATH": str(models)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    verdicts = json.loads(done.stdout)
    assert len(verdicts) == len(files) == 8
    assert {valid for valid, _ in verdicts.values()} == {version <= reader}
    if version > reader:
        assert "schema_version" in str(verdicts[files[0]][1])


def test_episodes_that_came_to_no_end_are_kept_and_flagged(wrecks, export, round_trip):
    by_id, report = round_trip(wrecks)
    reasons = [wrecks[i].end_reason for i in range(3)]
    assert sorted(reasons) == [EndReason.ERRORED, EndReason.ERRORED, EndReason.CRASHED]
    assert [w.finished for w in report.written] == [False] * 3
    for old in wrecks:
        new = by_id[old.episode_id]
        assert new.end_reason is old.end_reason
        end = new.info.metadata["webtraj"]["end"]
        if old.end.error is not None:
            assert end["error"]["message"] == old.end.error.message
        if old.end.action_in_flight:
            assert end["in_flight_action"]
        assert "did not come to its end" in new.info.metadata["atif"]["notes"]
    (note,) = report.notes
    empty = next(e for e in wrecks if not e.steps)
    assert note.episode_id == empty.episode_id
    assert "no FIRST step" in note.why


# The validator.

WHOLE = {
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "a", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Buy tea."},
        {
            "step_id": 2, "source": "agent", "timestamp": "2026-11-20T10:00:02Z",
            "message": [{"type": "text", "text": "I go."}],
            "tool_calls": [{"tool_call_id": "c", "function_name": "goto", "arguments": {}}],
            "metrics": {"prompt_token_ids": [1], "logprobs": [-0.5, 0]},
            "observation": {"results": [{"source_call_id": "c", "content": None}]},
            "llm_call_count": 1, "extra": {"reward": 1.0},
        },
    ],
    "subagent_trajectories": [],
}  # fmt: skip

WRONG = {
    "a reward at the root": ([], "reward", 1.0),
    "another version": ([], "schema_version", "ATIF-v1.9"),
    "no steps": ([], "steps", []),
    "steps that are not counted": (["steps", 1], "step_id", 3),
    "another source": (["steps", 0], "source", "tool"),
    "a user with metrics": (["steps", 0], "metrics", {}),
    "a user who calls tools": (["steps", 0], "tool_calls", []),
    "metrics without a model call": (["steps", 1], "llm_call_count", 0),
    "a key that is not known": (["steps", 1], "reward", 1.0),
    "a time that is none": (["steps", 1], "timestamp", "today"),
    "a result of no call": (["steps", 1, "observation", "results", 0], "source_call_id", "d"),
    "token ids that are text": (["steps", 1, "metrics"], "prompt_token_ids", ["1"]),
    "arguments that are no object": (["steps", 1, "tool_calls", 0], "arguments", "x"),
    "an image without a source": (["steps", 1, "message", 0], "type", "image"),
    "text with a source": (
        ["steps", 1, "message", 0], "source", {"media_type": "image/png", "path": "a"}
    ),
    "a subagent without a name": ([], "subagent_trajectories", [{**copy.deepcopy(WHOLE)}]),
    "an agent without a version": ([], "agent", {"name": "a"}),
}  # fmt: skip


def test_what_follows_the_format_is_valid():
    read = atif.Trajectory.model_validate(copy.deepcopy(WHOLE))
    assert read.steps[1].metrics.logprobs == [-0.5, 0]


@each("case", WRONG)
def test_what_does_not_follow_the_format_is_refused(case):
    path, key, value = WRONG[case]
    data = copy.deepcopy(WHOLE)
    target = data
    for part in path:
        target = target[part]
    target[key] = value
    with pytest.raises(pydantic.ValidationError):
        atif.Trajectory.model_validate(data)
