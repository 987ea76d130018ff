"""Files of Orby's collector, read by the names of their fields."""

import lzma
import shutil
from pathlib import Path

import pytest

from webtraj import Outcome, errors, open_dataset
from webtraj.datasets.importers import Problem, Source, import_episodes, orby
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory


def trajectory():
    """Returns a trajectory as Orby's collector fills it."""
    made = pb.TrajectoryData(domain="shop.example", goal="Buy a lamp.")
    for i, said in enumerate(("START_OF_TRAJECTORY", "click('12')")):
        action = made.actions.add(id=f"{i:012x}")
        action.browser_gym_action.action_string = said
        state = action.after_state
        state.url = f"https://shop.example/{i}"
        state.viewport.screenshot.mime_type = "image/jpeg"
        state.viewport.screenshot.content = b"\xff\xd8\xff" + bytes([i]) * 2000
        state.browser_gym_observation.reward = float(i)
        state.browser_gym_observation.terminated = bool(i)
    made.success.answer = "done"
    return made


def read(path, **options):
    return list(orby.read(Source(path=path, **options)))


@pytest.fixture
def folder(tmp_path):
    content = trajectory().SerializeToString()
    (tmp_path / "a.pb").write_bytes(content)
    (tmp_path / "b.pb.xz").write_bytes(lzma.compress(content + b"\x0a\x00"))
    (tmp_path / "broken.pb").write_bytes(content[:-5])
    (tmp_path / "readme.txt").write_text("no trajectory")
    return tmp_path


def test_files_become_episodes_and_what_is_broken_is_reported(folder):
    assert orby.recognises(folder)
    plain, _, broken = read(folder)
    assert plain.info.goal == "Buy a lamp."
    assert [step.action for step in plain.steps] == [None, "click('12')"]
    assert plain.steps[1].reward == 1.0
    assert plain.outcome is Outcome.SUCCESS
    assert plain.info.metadata["imported"]["file"] == "a.pb"
    assert isinstance(broken, Problem)
    assert broken.where == "broken.pb"


@pytest.mark.parametrize("format_name", ["json", "pb.zst"])
def test_another_episode_of_a_known_id_is_a_problem(tmp_path, format_name):
    def recorded(goal, name):
        end = EpisodeEnd(reason=EndReason.TERMINATED)
        with DatasetWriter(tmp_path / name, format="pb") as writer:
            writer.add(EpisodeTrajectory(EpisodeInfo(episode_id="e1", goal=goal), end=end))
        return tmp_path / name / "episodes" / "e1.pb"

    one, other = recorded("a lamp", "one"), recorded("a chair", "other")
    out = tmp_path / "out"
    assert len(import_episodes(Source(path=one), out, format=format_name).imported) == 1
    moved = shutil.copy(one, tmp_path / "moved.pb")
    (skipped,) = import_episodes(Source(path=Path(moved)), out, format=format_name).skipped
    assert (skipped.where, skipped.episode_id) == ("moved.pb", "e1")
    (problem,) = import_episodes(Source(path=other), out, format=format_name).problems
    assert isinstance(problem.error, errors.StorageConflictError)
    assert open_dataset(out)[0].info.goal == "a lamp"
