"""An episode's position on the command line: -1 is the last one, and a misspelt option is none."""

import pytest
from typer.testing import CliRunner

from webtraj import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory, StepRecord, errors
from webtraj.cli.app import make_app
from webtraj.datasets.writer import DatasetWriter
from webtraj.trajectory import StepType


@pytest.fixture
def show(tmp_path):
    """Runs `webtraj show` on a dataset of two episodes."""
    with DatasetWriter(tmp_path) as writer:
        for number, name in enumerate(("former", "latter")):
            steps = (
                StepRecord(0, StepType.FIRST, {"url": "a"}),
                StepRecord(1, StepType.LAST, {"url": "b"}, "go", 0.0, 0.0),
            )
            end = EpisodeEnd(reason=EndReason.TERMINATED)
            info = EpisodeInfo(episode_id=name)
            writer.add(EpisodeTrajectory(info, steps, end, start_time=float(number)))

    def show(*arguments):
        return CliRunner().invoke(make_app(), ["show", str(tmp_path), *arguments])

    return show


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-1",), "latter"),
        (("-2",), "former"),
        (("--", "-2"), "former"),
        (("--step", "1", "-2"), "LAST, action go"),
        (("-2", "--step=1"), "LAST, action go"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_position_is_no_option(show, arguments, told):
    result = show(*arguments)
    assert result.exit_code == 0, result.output
    assert told in result.output


def test_position_that_there_is_not_is_told(show):
    with pytest.raises(
        errors.UnknownEpisodeError, match="No episode matches '-3'; the dataset has 2"
    ):
        raise show("-3").exception
