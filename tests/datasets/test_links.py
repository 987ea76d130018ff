"""A dataset from elsewhere may hold symbolic links: nothing outside it is written or removed."""

import os
import shutil
from pathlib import Path

import pytest

from webtraj import errors
from webtraj.datasets.place import open_place
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.blobs import BlobStore
from webtraj.store.storage import FolderStorage
from webtraj.view.labels import LabelBook

GOLDEN = Path(__file__).parents[1] / "golden"


def tree(folder):
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


@pytest.fixture(params=["v1-json", "v1-pb.zst", "v1-open"])
def dataset(request, tmp_path):
    shutil.copytree(GOLDEN / request.param, tmp_path / "ds", ignore_dangling_symlinks=True)
    return tmp_path / "ds"


def everything_that_writes(place, episode):
    yield lambda: recover(place)
    yield lambda: rebuild(place)

    def add():
        with DatasetWriter(place, format=open_place(place).header.format) as writer:
            writer.add(episode)

    def label():
        with LabelBook(open_place(place)) as book:
            book.put("golden-1-won", "success")

    yield add
    yield label


@pytest.mark.parametrize(
    "linked", ["episodes", "index", "journal", "blobs", "unshared", "labels", "blobs/ab"]
)
def test_nothing_is_written_or_removed_through_a_link(dataset, tmp_path, linked, episode):
    victim, link = tmp_path / "victim", dataset / linked
    if link.exists():
        shutil.move(link, victim)
    victim.mkdir(exist_ok=True)
    (victim / "project").mkdir(exist_ok=True)
    (victim / "project" / "thesis.txt").write_text("precious")
    (victim / f"{'ab' * 32}.png").write_bytes(b"precious")
    name = "pb.zst" if dataset.joinpath("dataset.json").read_text().count("pb.zst") else "json"
    if linked != "episodes":
        for found in sorted(dataset.glob("episodes/*"))[:1]:
            shutil.copy(found, dataset / "episodes" / f"project.{name}")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim)
    before = tree(victim)
    refused = 0
    for act in everything_that_writes(dataset, episode(1)):
        try:
            act()
        except errors.WebtrajError as error:
            refused += "is a symbolic link" in str(error)
        assert tree(victim) == before
    assert refused or linked == "blobs/ab"  # No blob of these goes there: it is passed over.
    verify(dataset)  # Reading may follow links.


def test_a_dataset_that_is_a_link_itself_is_a_dataset(dataset, tmp_path, episode):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(dataset)
    for act in everything_that_writes(link, episode(1)):
        act()
    assert verify(link).clean


def test_a_file_that_is_a_link_is_replaced_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious")
    storage = FolderStorage(tmp_path / "ds")
    storage.write("a/b", b"1")
    (tmp_path / "ds" / "a" / "c").symlink_to(tmp_path / "victim")
    storage.write("a/c", b"2")
    (tmp_path / "ds" / "a" / "d").symlink_to(tmp_path / "victim")
    storage.delete("a/d")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert storage.read("a/c") == b"2"
    assert storage.size("a/d") is None


def test_a_blob_that_is_a_link_is_not_touched(tmp_path):
    store = BlobStore(tmp_path / "blobs")
    blob = store.put(b"x" * 100, "bin")
    path = store.path(blob)
    victim = tmp_path / "victim"
    path.rename(victim)
    os.utime(victim, (1.0, 1.0))
    path.symlink_to(victim)
    assert BlobStore(tmp_path / "blobs").put(b"x" * 100, "bin") == blob
    assert victim.stat().st_mtime == 1.0
    assert not path.is_symlink()
