"""What people say of episodes: kept, the latest counting, whatever dies."""

import asyncio
import shutil
import signal
import subprocess
import sys

import orjson
import pytest
from viewer_server_support import HEADERS, get, served, small_episode, write

from webtraj import errors
from webtraj.cli.view import view
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.place import open_place
from webtraj.datasets.verification import verify
from webtraj.judging.environment import EnvironmentJudge
from webtraj.judging.quality import evaluate, read_labels, write_labels
from webtraj.view.labels import LabelBook, judge_labels, read_person_labels


@pytest.fixture
def place(tmp_path):
    return write(tmp_path / "d", *map(small_episode, range(4)))


def book_of(place, **options):
    return LabelBook(open_place(place), **options)


def lines_of(place):
    folder = open_place(place).layout.root / "labels"
    return [orjson.loads(line) for p in folder.iterdir() for line in p.read_bytes().splitlines()]


async def test_a_label_is_kept_and_shown(place):
    async with served(place, person="anna") as (client, _):
        path = "/api/labels/d/e1"
        label = {"label": "failure", "note": "It bought the BLUE lamp."}
        reply = await client.put(path, json=label, headers=HEADERS)
        assert reply.status_code == 200
        assert reply.json()["source"] == "anna"
        (row,) = (await get(client, "/api/episodes", q="blue"))["rows"]
        assert (row["id"], row["label"], row["note"]) == ("e1", "failure", label["note"])
        page = await get(client, "/api/episodes", label="none")
        assert page["total"] == 3
        assert page["facets"]["label"] == [["failure", 1]]
        assert (await get(client, "/api/episodes/d/e1"))["note"] == label["note"]
        for given, stored in (("success", "success"), ("", "note")):  # The note is kept.
            reply = await client.put(path, json={"label": given}, headers=HEADERS)
            assert (reply.json()["label"], reply.json()["note"]) == (stored, label["note"])
        taken_back = await client.put(path, json={"label": "", "note": ""}, headers=HEADERS)
        assert taken_back.status_code == 200
        assert (await get(client, "/api/episodes", label="none"))["total"] == 4
        assert (await get(client, "/api/episodes/d/e1"))["label"] == ""
    assert [line["label"] for line in lines_of(place)] == ["failure", "success", "note", ""]
    assert verify(place).clean


def test_a_label_is_kept_after_the_dataset_was_recorded_anew(place, tmp_path):
    with book_of(place) as book:
        book.put("e1", "success")
        shutil.rmtree(tmp_path / "d/labels")
        book.put("e2", "failure")
        shutil.rmtree(place)
        with pytest.raises(errors.StorageError, match="Cannot write labels/"):
            book.put("e1", "success")
        write(place, small_episode(3))
        book.put("e3", "success")
        assert read_person_labels(place).keys() == {"e3"}


REFUSED = [
    (b'{"label": "success"}', {"Content-Type": "application/json"}, 415),
    (b'{"label": "success"}', {**HEADERS, "Content-Type": "text/plain"}, 415),
    (b"label=success", {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}, 415),
    (b'{"label": "success"}', {**HEADERS, "Origin": "http://evil.example"}, 403),
    (b'{"label": "success"}', {**HEADERS, "Sec-Fetch-Site": "cross-site"}, 403),
    (b"{", HEADERS, 400),
    (b"[]", HEADERS, 400),
    (b'{"note": "n"}', HEADERS, 400),
    (b'{"label": 1}', HEADERS, 400),
    (b'{"label": "great"}', HEADERS, 400),
    (b'{"label": "note", "other": 1}', HEADERS, 400),
    (b'{"label": "note", "note": "' + b"n" * 10_001 + b'"}', HEADERS, 400),
    (b'{"label": "note", "note": "' + b"n" * 70_000 + b'"}', HEADERS, 413),
]


async def test_what_is_no_label_is_refused_and_nothing_is_written(place, tmp_path):
    async with served(place) as (client, _):
        for body, headers, status in REFUSED:
            headers = {"Content-Type": "application/json", **headers}
            reply = await client.put("/api/labels/d/e1", content=body, headers=headers)
            assert reply.status_code == status, body
            assert reply.json()["error"]
        for method in ("GET", "POST", "DELETE"):
            reply = await client.request(method, "/api/labels/d/e1", headers=HEADERS)
            assert reply.status_code == 405
        good = {"label": "success"}
        for path in ("/api/labels/d/nothing", "/api/labels/d/..%2f..%2fx", "/api/labels/no/e1"):
            assert (await client.put(path, json=good, headers=HEADERS)).status_code == 404
    assert not (tmp_path / "d/labels").exists()


def test_the_latest_counts_whatever_the_clock_says(place):
    with book_of(place, clock=lambda: 100.0) as one, book_of(place, clock=lambda: 5.0) as late:
        one.put("e1", "success")
        late.refresh()
        late.put("e1", "failure")
        one.refresh()
        assert one.labels["e1"].label == late.labels["e1"].label == "failure"
    assert read_person_labels(place)["e1"].label == "failure"


def test_lines_that_are_none_are_passed_over(place, tmp_path):
    with book_of(place) as book:
        book.put("e1", "success")
    folder = tmp_path / "d/labels"
    (folder / "bad.jsonl").write_bytes(
        b'nothing\n[]\n{"episode_id": "../x", "label": "success"}\n'
        b'{"episode_id": "e2", "label": 1}\n{"episode_id": "e2", "label": "great"}\n'
        b'{"episode_id": "e3", "label": "failure", "more": 1, "time": 1}\n'
        b'{"episode_id": "e2", "label": "success"}'  # Torn: it does not count.
    )
    with book_of(place) as book:
        book.refresh()
        assert {key: found.label for key, found in book.labels.items()} == {
            "e1": "success",
            "e3": "failure",
        }
        assert len(book.problems) == 5
        with (folder / "bad.jsonl").open("ab") as file:
            file.write(b"\n")
        assert book.refresh()
        assert book.labels["e2"].label == "success"


KILLED = """
import os, sys
from webtraj.datasets.place import open_place
from webtraj.view.labels import LabelBook
book = LabelBook(open_place(sys.argv[1]))
for number in range(10_000):
    book.put(f"e{number % 4}", "success" if number % 2 else "failure", f"{number} " + "n" * 3000)
    os.write(1, b"%d\\n" % number)
"""


def test_what_was_said_is_there_after_a_kill(place):
    process = subprocess.Popen([sys.executable, "-c", KILLED, place], stdout=subprocess.PIPE)
    told = [int(process.stdout.readline()) for _ in range(20)]
    process.kill()
    told += map(int, process.stdout.read().split())
    process.communicate()
    last = max(told)
    found = read_person_labels(place)
    # One more may have been written before it could be told.
    assert max(int(label.note.split()[0]) for label in found.values()) in (last, last + 1)
    for number in range(last - 3, last + 1):
        assert int(found[f"e{number % 4}"].note.split()[0]) in (number, number + 4)


def test_a_disk_that_is_full_keeps_no_half_label(place):
    resource = pytest.importorskip("resource")
    with book_of(place) as book:
        book.put("e1", "success")
        (file,) = (open_place(place).layout.root / "labels").iterdir()
        size = file.stat().st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, before[1]))
        try:
            with pytest.raises(errors.StorageError, match="Cannot write labels/"):
                book.put("e1", "failure")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert book.labels["e1"].label == "success"
        assert file.stat().st_size == size
        book.put("e1", "failure")
    assert read_person_labels(place)["e1"].label == "failure"


async def test_a_dataset_that_cannot_be_written_keeps_no_label(place, tmp_path):
    (tmp_path / "d/labels").write_bytes(b"")  # As root, no folder is read-only.
    async with served(place) as (client, _):
        reply = await client.put("/api/labels/d/e1", json={"label": "success"}, headers=HEADERS)
        assert reply.status_code == 503
        assert "Cannot write labels/" in reply.json()["error"]
        assert (await get(client, "/api/episodes/d/e1"))["label"] == ""


def test_judges_are_measured_by_what_people_say(place, tmp_path, capsys):
    with book_of(place) as book:
        for episode_id, label in (("e0", "success"), ("e1", "failure"), ("e2", "note")):
            book.put(episode_id, label, "n", "anna")
    file = tmp_path / "labels.jsonl"
    view([place], write_labels=str(file))
    assert capsys.readouterr().out == f"{file}: 2 labels\n"
    labels = read_labels(file)
    assert labels["e1"].source == "anna"
    report = asyncio.run(evaluate(EnvironmentJudge(), open_dataset(place), labels))
    assert (report.overall.judged, report.overall.agreement.value) == (2, 0.5)
    again = tmp_path / "again.jsonl"
    write_labels(again, judge_labels(read_person_labels(place).values()))
    assert again.read_bytes() == file.read_bytes()
