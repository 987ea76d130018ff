"""The blob store: bytes kept once each, and names that lead nowhere else."""

import threading

import pytest

from rows import each
from webtraj import errors
from webtraj.store.blobs import Blob, BlobStore, LazyBlobs

SHA = "0" * 64


@pytest.fixture
def store(tmp_path):
    return BlobStore(tmp_path / "blobs")


@pytest.mark.parametrize("data", [b"", b"x", bytes(10**6)], ids=len)
def test_what_was_put_can_be_read(store, data):
    blob = store.put(data, "bin")
    assert (blob.size, store.path(blob).name) == (len(data), f"{blob.sha256}.bin")
    assert store.holds(blob)
    assert store.read(blob) == data


def test_a_blob_is_written_once(store):
    path = store.path(store.put(b"same", "bin"))
    before = path.stat()
    BlobStore(store.root).put(b"same", "bin")
    assert path.stat().st_ino == before.st_ino


def test_a_blob_cut_short_is_written_again(store):
    blob = store.put(b"whole", "bin")
    store.path(blob).write_bytes(b"who")
    assert not store.holds(blob)
    assert BlobStore(store.root).put(b"whole", "bin") == blob
    assert store.read(blob) == b"whole"


def test_writers_at_once_leave_one_whole_blob(store):
    data = bytes(300_000)
    threads = [
        threading.Thread(target=lambda: BlobStore(store.root).put(data, "bin")) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (path,) = (path for path in store.root.rglob("*") if path.is_file())
    assert path.read_bytes() == data


@each(
    ("sha256", "ext"),
    [
        ("../../etc/passwd", "txt"),
        (SHA, "../x"),
        (SHA, ""),
        (SHA, "x/y"),
        (SHA.replace("0", "A"), "bin"),
        (SHA + "\n", "bin"),
        ("/" * 64, "bin"),
        (None, "bin"),
        (["0"] * 64, None),
    ],
)
def test_names_that_no_store_gives_are_refused(store, sha256, ext):
    blob = Blob(sha256, ext, 1)
    for call in (store.path, store.read, store.holds):
        with pytest.raises(errors.CorruptDataError, match="Invalid blob name"):
            call(blob)
    lazy = LazyBlobs(store).load(blob, text=False)
    with pytest.raises(errors.CorruptDataError, match="Invalid blob name"):
        lazy.load()
