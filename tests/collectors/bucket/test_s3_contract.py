"""The S3 collector keeps what every collector promises: the same tests, on it."""

import sys
from pathlib import Path

import pytest
from spool_support import QUICK

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_collector_contract import TestACollectorThatKeeps as _Keeping
from test_collector_contract import TestEveryCollector as _Every

from webtraj import S3TrajectoryCollector, open_dataset

FORMATS = ["json", "pb", "pb.zst"]


class Bucket:
    """A collector into a bucket in memory, and how to read what it has kept."""

    keeps = True

    def __init__(self, name, path):
        self._url = f"memory://{path.name}"
        self.collector = S3TrajectoryCollector(
            self._url, format=name, spool=path / "spool", **QUICK
        )

    def episodes(self):
        return {episode.episode_id: episode for episode in open_dataset(self._url)}


@pytest.fixture(params=FORMATS)
async def kind(request, tmp_path):
    kind = Bucket(request.param, tmp_path)
    yield kind
    await kind.collector.aclose()


@pytest.fixture
def keeping(kind):
    return kind


class TestS3Collector(_Every):
    pass


class TestS3CollectorThatKeeps(_Keeping):
    # These make collectors of their own, of the kinds that they name.
    test_an_id_is_taken_once = None
    test_an_id_that_cannot_name_a_file_is_refused = None
    test_an_ended_episode_takes_nothing_more = None
