"""What is special about folders."""

import os
from pathlib import Path

import pytest

from webtraj import errors
from webtraj.store import files
from webtraj.store.storage import Entry, FolderStorage


@pytest.fixture
def storage(tmp_path):
    return FolderStorage(tmp_path / "root")


def test_nothing_is_made_before_the_first_write(storage):
    assert list(storage.list()) == []
    assert storage.size("a") is None
    storage.delete("a/b")
    with pytest.raises(errors.StorageMissingError):
        storage.read("a")
    assert not storage.root.exists()


def test_folders_and_hidden_files_and_links_to_folders_are_no_objects(storage, tmp_path):
    storage.write("a/b", b"12")
    (storage.root / "a" / ".b.1234.tmp").write_bytes(b"half")
    (storage.root / "empty").mkdir()
    (storage.root / ".git").mkdir()
    (storage.root / ".git" / "config").touch()
    (storage.root / "elsewhere").symlink_to(tmp_path)
    (storage.root / "dangling").symlink_to(tmp_path / "nothing")
    assert list(storage.list()) == [Entry("a/b", 2)]
    storage.delete("a")
    assert storage.read("a/b") == b"12"


def test_no_key_is_anothers_folder(storage):
    storage.write("a/b", b"1")
    for key in ("a", "a/b/c"):
        for overwrite in (True, False):
            with pytest.raises(errors.StorageError, match=key):
                storage.write(key, b"2", overwrite=overwrite)
    assert list(storage.list()) == [Entry("a/b", 1)]
    assert storage.read("a/b") == b"1"


@pytest.mark.parametrize("overwrite", [True, False], ids=["overwrite", "create"])
def test_a_full_disk_leaves_nothing_half_written(storage, monkeypatch, overwrite):
    storage.write("a", b"before")

    def full(descriptor, data):
        os.write(descriptor, data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    for key in ("a", "new") if overwrite else ("new",):
        with pytest.raises(errors.StorageError, match="No space left"):
            storage.write(key, b"after", overwrite=overwrite)
    monkeypatch.undo()
    assert [entry.name for entry in storage.root.iterdir()] == ["a"]
    assert storage.read("a") == b"before"


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "no sync"])
def test_every_new_folder_and_file_is_waited_for(tmp_path, monkeypatch, sync):
    waited = []
    real = os.fsync

    def fsync(descriptor):
        waited.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    FolderStorage(tmp_path / "x" / "y", sync=sync).write("a/b", b"1")
    folders = [str(tmp_path / part) for part in ("", "x", "x/y", "x/y/a")]
    if sync:
        assert [path for path in waited if path in folders] == folders
        assert len(waited) == 5
    else:
        assert waited == []
