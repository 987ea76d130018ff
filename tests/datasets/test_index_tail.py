"""The tail of an index gives each line once, and all of them again where lines have gone."""

import secrets

import pytest

from removal import remove
from webtraj import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory
from webtraj.datasets.dataset import IndexTail
from webtraj.datasets.recovery import rebuild
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import open_storage


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    return str(tmp_path / "d") if request.param == "folder" else f"memory://{secrets.token_hex(8)}"


def add(place, *names):
    with DatasetWriter(place) as writer:
        for name in names:
            end = EpisodeEnd(reason=EndReason.TERMINATED)
            writer.add(EpisodeTrajectory(EpisodeInfo(episode_id=name), end=end))


def read(tail):
    anew, summaries = tail.read()
    return anew, sorted(summary.episode_id for summary in summaries)


def test_each_line_is_given_once(place):
    DatasetWriter(place).close()
    tail = IndexTail(open_storage(place))
    assert read(tail) == (True, [])
    assert read(tail) == (False, [])  # None at all is known, too.
    add(place, "a", "b")
    assert read(tail) == (False, ["a", "b"])
    add(place, "c")
    assert read(tail) == (False, ["c"])
    assert read(tail) == (False, [])
    tail.forget()
    assert read(tail) == (True, ["a", "b", "c"])


def test_an_index_made_anew_makes_it_begin_anew(place):
    add(place, "a", "b")
    add(place, "c")
    tail = IndexTail(open_storage(place))
    assert read(tail) == (True, ["a", "b", "c"])
    remove(place, "b")
    assert read(tail) == (True, ["a", "c"])
    add(place, "d")
    assert read(tail) == (False, ["d"])
    rebuild(place)
    assert read(tail) == (True, ["a", "c", "d"])
    assert read(tail) == (False, [])


def test_a_line_counts_when_it_is_whole(tmp_path):
    DatasetWriter(tmp_path / "d").close()
    path = tmp_path / "d" / "index" / "w.jsonl"
    path.parent.mkdir(exist_ok=True)
    line = EpisodeSummary(episode_id="a").to_line()
    path.write_bytes(line[:30])
    tail = IndexTail(open_storage(str(tmp_path / "d")))
    assert read(tail) == (True, [])
    path.write_bytes(line)
    assert read(tail) == (False, ["a"])
    path.write_bytes(line + line.replace(b'"a"', b'"b"') + b"{")
    assert read(tail) == (False, ["b"])
