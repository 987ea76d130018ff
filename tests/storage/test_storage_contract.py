"""What every storage must do, on each of them: a folder, memory, and real S3 servers."""

import contextlib
import itertools
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bucket_servers import QUICK, running
from rows import each
from webtraj import errors
from webtraj.store.places import open_storage
from webtraj.store.storage import Entry

KINDS = ("folder", "file URL", "memory", "rclone", "moto")
ATOMIC = tuple(kind for kind in KINDS if kind != "rclone")
"""rclone does not refuse the second of two writers at the same moment, and who reads what is being
replaced may get the bytes of the one version in the length of the other."""

_names = itertools.count()


@pytest.fixture(params=KINDS)
def place(request, tmp_path, s3_servers):
    """A function that opens one and the same place, each time anew."""
    kind = request.param
    if kind in ("rclone", "moto"):
        server = running(s3_servers, kind)
        url = f"{server.make_bucket()}/some/pre.fix"
        return lambda: open_storage(url, server.options(**QUICK))
    if kind == "memory":
        url = f"memory://place{next(_names)}-{os.getpid()}/some/prefix"
        return lambda: open_storage(url)
    if kind == "file URL":
        return lambda: open_storage(f"file://{tmp_path}/with%20space/and/more")
    return lambda: open_storage(tmp_path / "new" / "folder")


@pytest.fixture
def storage(place):
    return place()


@pytest.mark.slow
@each("size", [0, 1, 1000, 9 << 20])
@each("overwrite", [True, False])
def test_what_was_written_is_read(storage, size, overwrite):
    data = random.Random(size).randbytes(size)
    key = f"a/{size}-{overwrite}.bin"
    storage.write(key, data, overwrite=overwrite)
    read = storage.read(key)
    assert type(read) is bytes
    assert read == data
    assert storage.size(key) == size


def test_a_write_that_must_not_overwrite_does_not(storage):
    storage.write("a", b"first", overwrite=False)
    with pytest.raises(errors.StorageConflictError, match=r"there already|exists"):
        storage.write("a", b"second", overwrite=False)
    assert storage.read("a") == b"first"


def test_a_large_write_that_must_not_overwrite_does_not(storage):
    first = bytes(9 << 20)
    storage.write("a", first, overwrite=False)
    with pytest.raises(errors.StorageConflictError):
        storage.write("a", b"\1" + first, overwrite=False)
    assert storage.read("a") == first


def test_what_is_not_there_is_missing(storage):
    storage.write("folder/a", b"")
    for key in ("a", "folder", "folder/b", "folder/a/b"):
        with pytest.raises(errors.StorageMissingError, match=key):
            storage.read(key)
        assert storage.size(key) is None
    for key in ("a", "folder/b"):
        storage.delete(key)
    assert storage.read("folder/a") == b""


def test_a_deleted_object_is_gone(storage):
    storage.write("a/b", b"")
    storage.write("a/c", b"")
    storage.delete("a/b")
    storage.delete("a/b")
    assert storage.size("a/b") is None
    assert list(storage.list()) == [Entry("a/c", 0)]
    storage.write("a/b", b"again", overwrite=False)
    assert storage.read("a/b") == b"again"


def test_a_listing_tells_keys_and_sizes(storage):
    assert list(storage.list()) == []
    assert list(storage.list("none/")) == []
    sizes = {"top": 3, "a/b": 1, "a/c/d": 2, "a.b/c": 0, "ab/c": 4, "a-b": 5}
    for key, size in sizes.items():
        storage.write(key, bytes(size))
    assert {entry.key: entry.size for entry in storage.list()} == sizes
    assert {entry.key for entry in storage.list("a/")} == {"a/b", "a/c/d"}
    assert {entry.key for entry in storage.list("a/c/")} == {"a/c/d"}
    assert list(storage.list("top/")) == []


@pytest.mark.slow
def test_a_listing_has_more_than_one_page(storage):
    keys = {f"many/{number:04}.json" for number in range(1203)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: storage.write(key, b"{}"), keys))
    storage.write("other", b"")
    entries = list(storage.list("many/"))
    assert len(entries) == len(keys)
    assert {entry.key for entry in entries} == keys
    assert {entry.size for entry in entries} == {2}


OUTSIDE = (
    "", "/", "/etc/passwd", "..", "../a", "a/../../b", "a/..", "./a", "a/./b", "a//b", "a/", "/a",
    "~/a", "~", "a\\..\\b", "C:a", "a b", "a\nb", "a\0", "%2e%2e/a", "a?b", "a#b", "s3://b/a",
    ".hidden", "a/.hidden", "-option", "é", "a" * 256, "/".join(["a" * 100] * 9),
)  # fmt: skip


@pytest.mark.gate
@pytest.mark.slow
@each("key", OUTSIDE)
def test_a_key_that_could_lead_out_is_refused(storage, tmp_path, key):
    storage.write("inside", b"")
    before = sorted(tmp_path.rglob("*"))
    for call in (
        lambda: storage.read(key),
        lambda: storage.write(key, b"x"),
        lambda: storage.write(key, b"x", overwrite=False),
        lambda: storage.size(key),
        lambda: storage.delete(key),
    ):
        with pytest.raises(errors.InvalidInputError, match="Invalid object key"):
            call()
    assert sorted(tmp_path.rglob("*")) == before
    assert [entry.key for entry in storage.list()] == ["inside"]


@each("prefix", ["a", "/", "../", "a//", "/a/", "./", "a/../"])
def test_a_prefix_that_is_none_is_refused(storage, prefix):
    with pytest.raises(errors.InvalidInputError, match="Invalid key prefix"):
        next(storage.list(prefix))


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("place", ATOMIC, indirect=True)
def test_of_many_writers_at_once_exactly_one_wins(place):
    for round_number in range(5):
        key = f"race/{round_number}"
        barrier = threading.Barrier(8)

        def write(number, key=key, barrier=barrier):
            storage = place()
            barrier.wait()
            try:
                storage.write(key, f"writer {number}".encode(), overwrite=False)
            except errors.StorageConflictError:
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            winners = [number for number in pool.map(write, range(8)) if number is not None]
        assert len(winners) == 1
        assert place().read(key) == f"writer {winners[0]}".encode()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("place", ATOMIC, indirect=True)
def test_nobody_sees_half_of_an_object(storage):
    versions = [bytes([number]) * (300_000 + number) for number in range(4)]
    storage.write("a", versions[0])
    done = threading.Event()

    def keep_writing():
        with contextlib.ExitStack() as stack:
            stack.callback(done.set)
            for turn in range(40):
                storage.write("a", versions[turn % 4])

    def keep_reading():
        while True:
            last = done.is_set()
            assert storage.read("a") in versions
            if last:
                return

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(keep_writing), *(pool.submit(keep_reading) for _ in "ab")]:
            future.result()
