"""What a collector says when somebody deletes its folder while episodes are open."""

import asyncio
import shutil

import pytest

from webtraj import errors
from webtraj.collectors.local import JsonTrajectoryCollector
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo


async def _ended_in(folder, delete):
    async with JsonTrajectoryCollector(folder) as collector:
        recorder = collector.begin_episode(EpisodeInfo(episode_id="one"))
        delete()
        recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED))


@pytest.mark.parametrize("below", ["", "journal"])
def test_a_deleted_journal_is_not_said_to_be_kept(tmp_path, below):
    folder = tmp_path / "runs; rm"
    with pytest.raises(errors.CollectorError) as raised:
        asyncio.run(_ended_in(folder, lambda: shutil.rmtree(folder / below)))
    assert "Its journal is gone" in str(raised.value)
    assert "is kept" not in str(raised.value)
