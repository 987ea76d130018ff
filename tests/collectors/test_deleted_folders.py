"""What a collector says when somebody deletes its folder while episodes are open."""

import shutil

import pytest

from webtraj import errors
from webtraj.collectors.local import JsonTrajectoryCollector, ProtobufTrajectoryCollector
from webtraj.trajectory import EpisodeInfo, StepRecord, StepType

GONE = {
    "": "deleted or moved, with everything recorded there",
    "journal": "Its steps are lost",
}


@pytest.mark.parametrize("below", GONE)
@pytest.mark.parametrize("format_class", [JsonTrajectoryCollector, ProtobufTrajectoryCollector])
async def test_a_step_into_a_deleted_folder_fails_and_nothing_is_said_to_be_kept(
    tmp_path, format_class, below
):
    folder = tmp_path / "runs; rm"
    collector = format_class(folder)
    recorder = collector.begin_episode(EpisodeInfo(episode_id="one"))
    shutil.rmtree(folder / below)
    step = StepRecord(index=0, step_type=StepType.FIRST, observation=bytes(5000))
    with pytest.raises(errors.CollectorError, match=f"journal was deleted. .*{GONE[below]}"):
        recorder.record_step(step)
    assert folder.exists() is bool(below)
    with pytest.raises(errors.CollectorError, match=GONE[below]):
        await collector.aclose()


async def test_a_moved_dataset_is_not_said_to_be_safe_where_it_was(tmp_path):
    collector = JsonTrajectoryCollector(tmp_path / "runs")
    (tmp_path / "runs").rename(tmp_path / "moved")
    with pytest.raises(errors.CollectorError, match="deleted or moved"):
        collector.begin_episode(EpisodeInfo(episode_id="one"))
    await collector.aclose()
