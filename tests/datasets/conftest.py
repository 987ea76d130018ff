"""Episodes to write, and the kinds of place that they are written to."""

import secrets

import pytest

from webtraj import trajectory as trajectory_lib
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, Outcome, StepRecord, StepType

SHOT = b"\xff\xd8\xff" + bytes(range(256)) * 20


def make_episode(number, *, shot=SHOT, **info):
    """Returns an episode with a screenshot that all share and one of its own."""
    info = {"episode_id": f"e{number}", "task": f"t{number % 2}", "seed": number, **info}
    return trajectory_lib.EpisodeTrajectory(
        EpisodeInfo(**info),
        (
            StepRecord(0, StepType.FIRST, {"shot": shot, "n": number}),
            StepRecord(1, StepType.LAST, shot + bytes([number % 256]), "click", 1.0, 0.0),
        ),
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS),
        start_time=1000.0 + number,
        end_time=1001.0 + number,
    )


@pytest.fixture
def episode():
    return make_episode


@pytest.fixture
def episodes():
    return [make_episode(number) for number in range(5)]


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    """A place for a dataset that is not there yet: a folder's path, and a URL."""
    if request.param == "folder":
        return str(tmp_path / "dataset")
    pytest.importorskip("obstore")
    return f"memory://{secrets.token_hex(8)}/dataset"
