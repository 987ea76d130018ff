"""What holds for every format: whole or not at all, the same each time, and everything told."""

import dataclasses
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys

import pytest

from export_episodes import NEEDS, info, play_shop, recorded, shop_script
from webtraj import errors, open_dataset
from webtraj.datasets.exporters import MANIFEST, export_dataset, read_manifest
from webtraj.datasets.exporters.base import all_formats, make_exporter
from webtraj.store.places import open_storage

NAME = "shop-v0"

"""A name that every format takes."""


@pytest.fixture(params=all_formats())
def format_name(request):
    pytest.importorskip(NEEDS.get(request.param, "numpy"))
    return request.param


def snapshot(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_dataset_gives_the_same_bytes(format_name, shop, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(shop.path, copied)
    export_dataset(shop, tmp_path / "a" / NAME, format=format_name)
    export_dataset(open_dataset(copied), tmp_path / "b" / NAME, format=format_name)
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")


def test_the_manifest_says_what_there_is(format_name, shop, wrecks, export):
    out, report = export(wrecks, format_name, NAME, selection={"where": "num_steps >= 0"})
    header, episodes = read_manifest(out)
    assert header["format"] == format_name
    assert header["selection"] == {"where": "num_steps >= 0"}
    assert header["num_episodes"] == len(report.written)
    assert header["options"] == dataclasses.asdict(make_exporter(format_name))
    files = snapshot(out)
    del files[MANIFEST]
    assert files.keys() == header["files"].keys()
    for name, data in files.items():
        said = header["files"][name]
        assert (said["size"], said["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert [line["episode_id"] for line in episodes] == list(wrecks.episode_ids)
    for line, summary in zip(episodes, wrecks.summaries, strict=True):
        assert line["sha256"] == summary.sha256
        assert ("left_out" in line) or line["finished"] is False
    noted = {(line["episode_id"], n["field"]) for line in episodes for n in line.get("notes", ())}
    assert noted == {(note.episode_id, note.field) for note in report.notes}
    assert {w.episode_id for w in report.written} | {x.episode_id for x in report.left_out} == set(
        wrecks.episode_ids
    )


@pytest.fixture
def damaged(tmp_path):
    """A dataset one of whose episodes cannot be read; gives that one's id too."""
    for number in (1, 2, 3):
        recorded(tmp_path / "data", shop_script(), play_shop, info(number))
    dataset = open_dataset(tmp_path / "data")
    broken = dataset.episode_ids[1]
    (tmp_path / "data" / "episodes" / f"{broken}.json").write_bytes(b"{")
    return open_dataset(tmp_path / "data"), broken


def test_an_episode_that_cannot_be_read_is_told_and_the_others_go_on(format_name, damaged, export):
    dataset, broken = damaged
    out, report = export(dataset, format_name, NAME)
    (left,) = report.left_out
    assert (left.episode_id, left.failed) == (broken, True)
    assert not report.complete
    assert [w.episode_id for w in report.written] == [i for i in dataset.episode_ids if i != broken]
    _, episodes = read_manifest(out)
    assert "cannot be read" in episodes[1]["left_out"]


def test_a_failure_in_the_middle_leaves_nothing(format_name, shop, tmp_path):
    out = tmp_path / "new" / NAME
    seen = []

    def fail(episode):
        seen.append(episode)
        if len(seen) == 2:
            raise RuntimeError("the transform broke")
        return episode

    with pytest.raises(RuntimeError, match="broke"):
        export_dataset(shop, out, format=format_name, transform=fail)
    assert list(out.parent.iterdir()) == []


KILLED = """
import os, signal, sys
from webtraj import open_dataset
from webtraj.datasets.exporters import export_dataset

seen = []

def die(episode):
    seen.append(episode)
    if len(seen) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return episode

export_dataset(open_dataset(sys.argv[1]), sys.argv[2], format=sys.argv[3], transform=die)
"""


def test_a_kill_in_the_middle_leaves_nothing_of_that_name(format_name, shop, tmp_path):
    passes = 2 if format_name == "minari" else 1
    code = KILLED.replace("== 4", f"== {2 * passes}")  # At the last reading of the last episode.
    out = tmp_path / NAME
    command = [sys.executable, "-c", code, str(shop.path), str(out), format_name]
    died = subprocess.run(command, check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL
    assert not out.exists()
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    export_dataset(shop, out, format=format_name)
    assert (out / MANIFEST).exists()


def test_what_is_there_stays_unless_it_is_an_export_and_to_be_replaced(shop, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    export_dataset(shop, out, format="atif")  # An empty folder is as good as none.
    before = snapshot(out)
    with pytest.raises(errors.InvalidInputError, match="an earlier export"):
        export_dataset(shop, out, format="html")
    with pytest.raises(RuntimeError):
        export_dataset(shop, out, format="html", overwrite=True, transform=_broken)
    assert snapshot(out) == before
    export_dataset(shop, out, format="html", overwrite=True)
    assert {name.rpartition(".")[2] for name in snapshot(out)} == {"html", "jsonl"}
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("all of it")
    for overwrite in (False, True):
        with pytest.raises(errors.InvalidInputError, match="choose a new folder"):
            export_dataset(shop, other, format="atif", overwrite=overwrite)
    with pytest.raises(errors.InvalidInputError, match="not a folder"):
        export_dataset(shop, other / "thesis.txt", format="atif", overwrite=True)
    assert snapshot(other) == {"thesis.txt": b"all of it"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


@pytest.mark.parametrize("where", ["folder", "bucket"])
@pytest.mark.parametrize("name", ["notes.txt", "nested/webtraj-export.jsonl", "images/mine.png"])
def test_an_earlier_export_is_not_replaced_while_other_files_are_there(shop, tmp_path, where, name):
    out = str(tmp_path / "out")
    if where == "bucket":
        pytest.importorskip("obstore")
        out = f"memory://{secrets.token_hex(8)}/out"
    export_dataset(shop, out, format="atif")
    storage = open_storage(out)
    storage.write(name, b"mine")
    before = {entry.key for entry in storage.list()}
    with pytest.raises(errors.InvalidInputError, match=f"holds '{name}', which the earlier"):
        export_dataset(shop, out, format="html", overwrite=True)
    assert {entry.key for entry in storage.list()} == before
    storage.delete(name)
    export_dataset(shop, out, format="html", overwrite=True)
    assert {entry.key.rpartition(".")[2] for entry in storage.list()} == {"html", "jsonl"}


def _broken(episode):
    raise RuntimeError("the transform broke")


def test_a_dataset_is_no_place_for_exports(shop):
    for out in (shop.path, shop.path / "exports" / "a"):
        with pytest.raises(errors.InvalidInputError, match="only episodes"):
            export_dataset(shop, out, format="atif", overwrite=True)


def test_a_bucket_gets_the_same_bytes_and_the_manifest_last(format_name, shop, tmp_path, request):
    pytest.importorskip("obstore")
    url = f"memory://export-{os.getpid()}-{format_name}/deep/{NAME}"
    export_dataset(shop, url, format=format_name)
    export_dataset(shop, tmp_path / NAME, format=format_name)
    storage = open_storage(url)
    local = snapshot(tmp_path / NAME)
    assert {entry.key for entry in storage.list()} == local.keys()
    assert all(storage.read(key) == data for key, data in local.items())
    with pytest.raises(errors.InvalidInputError, match="an earlier export"):
        export_dataset(shop, url, format=format_name)
    one = export_dataset(shop[:1], url, format=format_name, overwrite=True)
    assert len(one.written) == 1
    header = json.loads(storage.read(MANIFEST).splitlines()[0])
    assert {entry.key for entry in storage.list()} == {*header["files"], MANIFEST}


def test_a_transform_makes_what_is_exported_and_is_named(format_name, shop, export):
    out, _ = export(shop, format_name, NAME, transform=without_screenshots)
    header, _ = read_manifest(out)
    assert header["transform"] == "test_exporting.without_screenshots"
    assert not any(b"\x89PNG" in data for data in snapshot(out).values())


def without_screenshots(episode):
    """Returns an episode without its pictures."""
    steps = [
        dataclasses.replace(
            step,
            observation={k: v for k, v in step.observation.items() if k != "screenshot"},
            decision=None,
        )
        for step in episode.steps
    ]
    return dataclasses.replace(episode, steps=tuple(steps))


UNKNOWN = {
    "atfi": "Did you mean 'atif'",
    "huggingfaces": "Did you mean 'huggingface'",
    "ATIF": "Did you mean 'atif'",
    "lance": "The formats are .*huggingface, html",
}
