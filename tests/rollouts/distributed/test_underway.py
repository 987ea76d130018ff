"""The driver's note of what is under way: of the right machines, and in nobody's way."""

import pytest

from webtraj import errors
from webtraj.rollouts.distributed.driver import Away, Underway, UnderwayNote, read_underway
from webtraj.rollouts.distributed.ledger import Lease, Member
from webtraj.rollouts.distributed.messages import Place
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
    write = UnderwayNote.write

    def written(self, underway):
        write(self, underway)
        noted.append(underway)

    monkeypatch.setattr(UnderwayNote, "write", written)
    return noted


def member(place, *episode_ids):
    """A machine that has one lease."""
    return Member(Place(place, place, 2), None, [Lease(dict.fromkeys(episode_ids))])


async def test_it_says_which_machine_plays_what_and_in_the_end_nothing(machines, run, quick):
    cluster = machines(one=2, two=3)
    results, _ = await cluster.play("ladder/climb", episodes=40, note_interval=0.002)
    ids = {result.episode_id for result in results}
    told = [away for underway in quick for away in underway.episodes.items()]
    assert told
    for episode_id, away in told:
        assert episode_id in ids
        turns = [turn for lease in cluster.lines[away.machine].accepted for turn in lease]
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
    UnderwayNote(run).write(noted)
    assert read_underway(run) == noted


def test_nothing_is_noted_after_the_end(run):
    note = UnderwayNote(run)
    note.finish()
    note.write(Underway(100.0, 10.0, {"one-000003-00": Away("10.0.0.7", 90.5)}))
    assert read_underway(run) is None


def test_the_last_note_is_empty_though_nothing_was_under_way_when_it_was_made(run):
    note = UnderwayNote(run)
    note.write(note.of([member("10.0.0.7", "one-000003-00")]))
    note.of([member("10.0.0.7")])  # It was not written any more.
    note.finish()
    assert read_underway(run).episodes == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"time": 1}', b'{"time": 1, "interval": 1, "episodes": 7}'],
    ids=["empty", "cut", "a list", "null", "members missing", "no episodes"],
)
def test_a_damaged_note_is_none(run, content):
    run.storage.write(KEY, content)
    assert read_underway(run) is None


def test_an_episode_keeps_the_time_since_when(run):
    now = iter((100.0, 110.0))
    note = UnderwayNote(run, clock=lambda: next(now))
    members = [member("10.0.0.7", "one-000003-00", "one-000004-00")]
    first, second = note.of(members), note.of(members)
    assert first.episodes == second.episodes == {"one-000003-00": Away("10.0.0.7", 100.0)}
    assert (first.time, second.time) == (100.0, 110.0)
