"""Files of Orby's collector, read by the names of their fields."""

import lzma

import pytest

from webtraj import Outcome, errors
from webtraj.datasets.importers import Problem, Skipped, Source, orby
from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb


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


def test_what_is_there_already_is_left_out(folder):
    (episode,) = read(folder / "a.pb")
    (skipped,) = read(folder / "a.pb", have=(episode.episode_id,))
    assert isinstance(skipped, Skipped)


def test_a_schema_of_ones_own(folder, tmp_path):
    from google.protobuf import descriptor_pb2

    schema = descriptor_pb2.FileDescriptorSet()

    def add(file):
        for dependency in file.dependencies:
            add(dependency)
        file.CopyToProto(schema.file.add())

    add(pb.DESCRIPTOR)
    descriptor = tmp_path / "orby.binpb"
    descriptor.write_bytes(schema.SerializeToString())
    (episode,) = read(folder / "a.pb", descriptor=descriptor)
    assert episode.steps[1].action == "click('12')"
    with pytest.raises(errors.InvalidInputError, match="Cannot read the schema"):
        read(folder / "a.pb", descriptor=tmp_path / "none")
