"""The driver's note of what is under way: of the right machines, and in nobody's way."""

import time

import pytest

from webtraj import errors
from webtraj.rollouts import Deadlines, RolloutSettings
from webtraj.rollouts.distributed import driver
from webtraj.rollouts.distributed.driver import Away, Underway, read_underway, write_underway
from webtraj.runs.run import Run
from webtraj.store.places import open_storage

KEY = "runs/one/underway.json"


@pytest.fixture
def run(tmp_path):
    return Run(open_storage(tmp_path / "out"), "one")


@pytest.fixture
def quick(monkeypatch):
    """Notes often, and keeps what was noted."""
    noted = []

    def written(run, underway):
        write_underway(run, underway)
        noted.append(underway)

    monkeypatch.setattr(driver, "write_underway", written)
    return noted


async def test_it_says_which_machine_plays_what_and_in_the_end_nothing(
    machines, run, quick, slow_climber
):
    cluster = machines(one=2, two=3)
    cluster.agent = slow_climber
    results, _ = await cluster.play("ladder/climb", episodes=40, note_interval=0.002)
    ids = {result.episode_id for result in results}
    told = [away for underway in quick for away in underway.episodes.items()]
    assert told
    for episode_id, away in told:
        assert episode_id in ids
        turns = cluster.lines[away.machine].accepted
        assert episode_id in {run.episode_id(turn) for turn in turns}
    for underway in quick:
        machines_of = [away.machine for away in underway.episodes.values()]
        assert machines_of.count("one") <= 2
        assert machines_of.count("two") <= 3
    left = read_underway(run)
    assert left is None or left.episodes == {}


@pytest.mark.slow
async def test_store_that_takes_no_note_is_no_trouble(machines, run, monkeypatch, quick):
    storage = type(run.storage)
    write = storage.write

    def failing(self, key, data, **options):
        if key == KEY:
            raise errors.StorageUnavailableError("The store is away.")
        return write(self, key, data, **options)

    monkeypatch.setattr(storage, "write", failing)
    results, _ = await machines(one=2).play("ladder/climb", episodes=20, note_interval=0.002)
    assert len(results) == 20
    assert quick
    assert read_underway(run) is None


def test_what_is_written_is_read(run):
    noted = Underway(100.0, 10.0, {"one-000003-00": Away("10.0.0.7", 90.5)})
    write_underway(run, noted)
    assert read_underway(run) == noted


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"time": 1}', b'{"time": 1, "interval": 1, "episodes": 7}'],
    ids=["empty", "cut", "a list", "null", "members missing", "no episodes"],
)
def test_a_damaged_note_is_none(run, content):
    run.storage.write(KEY, content)
    assert read_underway(run) is None


async def test_an_episode_keeps_the_time_since_when_and_in_the_end_nothing_is_noted(
    machines, run, quick
):
    settings = RolloutSettings(deadlines=Deadlines(run=0.3))
    await machines(one=1).play("ladder/hang", settings=settings, note_interval=0.02)
    told = [underway for underway in quick if underway.episodes]
    (since,) = {underway.episodes["one-000000-00"].since for underway in told}
    assert len(told) > 1
    assert time.time() - 60 < since <= told[0].time
    assert quick[-1].episodes == read_underway(run).episodes == {}
