"""What goes wrong between us and a bucket, done to real servers: what may heal does heal."""

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fault_proxy import Fault
from rows import each
from webtraj import errors
from webtraj.store.places import open_storage
from webtraj.store.storage import Entry

pytestmark = pytest.mark.slow

SMALL = random.Random(1).randbytes(100_000)
LARGE = random.Random(2).randbytes(12 << 20)
"""Goes in two parts."""

FAULTS = {
    "throttled": Fault(status=503, code="SlowDown"),
    "too many requests": Fault(status=429, code="TooManyRequests"),
    "internal error": Fault(status=500),
    "bad gateway": Fault(status=502, code=""),
    "gateway timeout": Fault(status=504, code=""),
    "the request took too long": Fault(status=400, code="RequestTimeout"),
    "reset": Fault(refuse=True),
    "cut in the request": Fault(cut_request_after=100),
    "cut before the answer": Fault(cut_response_after=0),
    "the answer is lost": Fault(status=500, applied=True),
    "cut in the answer": Fault(cut_response_after=100),
    "changed in the request": Fault(flip_request_at=50),
    "no answer in time": Fault(delay=60),
    "slow": Fault(bytes_per_second=20 << 20),
}


@pytest.fixture
def direct(bucket_url, bucket_options):
    return open_storage(bucket_url, bucket_options)


@pytest.fixture
def storage(bucket_url, proxied_options):
    return open_storage(bucket_url, {**proxied_options, "timeout": 1.0})


@pytest.mark.gate
@each("fault", FAULTS.values())
@each("overwrite", [True, False])
def test_a_write_survives(storage, direct, fault_proxy, fault, overwrite):
    fault_proxy.clear()
    direct.delete("a/b")
    rule = fault_proxy.inject(fault, method="PUT", times=2)
    storage.write("a/b", SMALL, overwrite=overwrite)
    assert rule.injected
    assert direct.read("a/b") == SMALL
    with pytest.raises(errors.StorageConflictError):
        storage.write("a/b", b"", overwrite=False)
    assert direct.read("a/b") == SMALL


IN_THE_GATE = ("throttled", "cut in the request", "the answer is lost", "no answer in time")
REQUESTS = {
    "begin": ("POST", "?uploads"),
    "part": ("PUT", "partNumber=2"),
    "end": ("POST", "?uploadId="),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.gate if name in IN_THE_GATE else ()) for name in FAULTS],
)
@each("request_of", REQUESTS)
def test_an_upload_in_parts_survives(storage, direct, fault_proxy, name, request_of):
    fault, (method, path) = FAULTS[name], REQUESTS[request_of]
    if fault.flip_request_at and request_of != "part":
        return  # What is not data is protected by TLS, which these servers do without.
    fault_proxy.clear()
    rule = fault_proxy.inject(fault, method=method, path=path, times=2)
    storage.write("a/b", LARGE)
    assert rule.injected
    assert direct.read("a/b") == LARGE


@pytest.mark.gate
def test_an_upload_that_failed_leaves_no_parts_behind(storage, bucket_url, fault_proxy, s3_server):
    fault_proxy.inject(Fault(status=400, code="InvalidRequest"), path="partNumber=2")
    with pytest.raises(errors.StorageError, match="InvalidRequest"):
        storage.write("a", LARGE)
    listing = s3_server.client().list_multipart_uploads(Bucket=bucket_url.removeprefix("s3://"))
    assert "Uploads" not in listing
    assert storage.size("a") is None


@pytest.mark.gate
@each("fault", FAULTS.values())
@pytest.mark.parametrize("size", [100_000, 5 << 20], ids=["small", "large"])
def test_a_read_survives(storage, direct, fault_proxy, fault, size):
    fault_proxy.clear()
    direct.write("a/b", LARGE[:size])
    rule = fault_proxy.inject(fault, method="GET", times=2)
    assert storage.read("a/b") == LARGE[:size]
    assert rule.injected


# What has no body does not tell why its status is 400.
@each("fault", [fault for fault in FAULTS.values() if fault.status != 400])
def test_a_look_and_a_listing_and_a_deletion_survive(storage, direct, fault_proxy, fault):
    direct.write("a/b", b"123")
    for call, expected in (
        (lambda: storage.size("a/b"), 3),
        (lambda: storage.size("a/c"), None),
        (lambda: list(storage.list()), [Entry("a/b", 3)]),
        (lambda: storage.delete("a/b"), None),
        (lambda: direct.size("a/b"), None),
    ):
        fault_proxy.clear()
        fault_proxy.inject(fault, times=2)
        assert call() == expected


@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_a_read_goes_on_where_it_was_cut(storage, direct, fault_proxy):
    direct.write("a/b", LARGE)
    # Each attempt gets 5 MiB further, and none of them to the end of all.
    rule = fault_proxy.inject(Fault(cut_response_after=5 << 20), method="GET")
    assert storage.read("a/b") == LARGE
    assert rule.injected == 3
    starts = [seen.headers.get("range", "bytes=0-") for seen in fault_proxy.seen]
    positions = [int(start.removeprefix("bytes=").rstrip("-")) for start in starts]
    assert positions == sorted(set(positions))
    assert positions[-1] > 6 << 20


@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_a_read_of_what_is_replaced_meanwhile_is_of_one_version(storage, direct, fault_proxy):
    first, second = bytes(5 << 20), bytes([1]) * (5 << 20)
    direct.write("a/b", first)
    replaced = threading.Event()

    def replace(seen):
        if "range" in seen.headers and not replaced.is_set():
            assert seen.headers["if-match"]
            direct.write("a/b", second)
            replaced.set()
        return False

    fault_proxy.inject(Fault(), when=replace)
    fault_proxy.inject(Fault(cut_response_after=2 << 20), method="GET", times=1)
    assert storage.read("a/b") == second
    assert replaced.is_set()


@pytest.mark.gate
def test_every_third_request_fails_and_nothing_is_lost(storage, direct, fault_proxy):
    for fault in (Fault(status=500), Fault(status=503, code="SlowDown"), Fault(refuse=True)):
        fault_proxy.inject(fault, every=3)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: storage.write(f"e/{n}", SMALL[:n], overwrite=False), range(200)))
    assert {entry.key: entry.size for entry in direct.list()} == {f"e/{n}": n for n in range(200)}


def test_a_lost_answer_is_no_conflict_with_ourselves(storage, direct, fault_proxy):
    rule = fault_proxy.inject(Fault(status=500, applied=True), method="PUT", times=1)
    storage.write("a", b"ours", overwrite=False)
    assert rule.injected == 1
    assert direct.read("a") == b"ours"


@pytest.mark.gate
@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_a_lost_answer_hides_no_conflict_with_others(
    bucket_url, proxied_options, direct, fault_proxy
):
    storage = open_storage(bucket_url, {**proxied_options, "conditional_writes": True})

    def other_is_faster(seen):
        if seen.method == "PUT" and direct.size("a") is None:
            direct.write("a", b"theirs", overwrite=False)
        return False

    fault_proxy.inject(Fault(), when=other_is_faster)
    fault_proxy.inject(Fault(status=500), method="PUT", times=1)
    with pytest.raises(errors.StorageConflictError):
        storage.write("a", b"ours", overwrite=False)
    assert direct.read("a") == b"theirs"


@pytest.mark.gate
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
def test_a_server_that_is_killed_and_started_again_loses_nothing(
    bucket_url, proxied_options, fault_proxy, s3_server
):
    storage = open_storage(bucket_url, {**proxied_options, "timeout": 5.0})
    numbers = itertools.count()
    stop = threading.Event()

    def keep_writing():
        written = []
        while not (stop.is_set() or len(written) >= 100):
            key = f"small/{next(numbers)}"
            storage.write(key, SMALL[:5000], overwrite=False)
            written.append(key)
        return written

    fault_proxy.inject(Fault(bytes_per_second=30 << 20), path="partNumber")
    with ThreadPoolExecutor(5) as pool:
        writers = [pool.submit(keep_writing) for _ in range(4)]
        upload = pool.submit(storage.write, "large", LARGE * 2)
        try:
            fault_proxy.wait_for(2, path="partNumber")
            s3_server.kill()
            fault_proxy.wait_for(len(fault_proxy.seen) + 10)
            s3_server.start()
            upload.result()
        finally:
            stop.set()
        keys = [key for writer in writers for key in writer.result()]
    assert storage.read("large") == LARGE * 2
    assert {entry.key for entry in storage.list("small/")} == set(keys)
    assert all(storage.read(key) == SMALL[:5000] for key in keys)


def test_who_is_refused_until_the_deadline_is_told(bucket_url, proxied_options, fault_proxy):
    retry = {"deadline": 600, "first_contact": 0.3}
    storage = open_storage(bucket_url, {**proxied_options, "retry": retry})
    fault_proxy.refuse()
    for call in (
        lambda: storage.write("a/b", b""),
        lambda: storage.write("a/b", LARGE),
        lambda: storage.write("a/b", b"", overwrite=False),
        lambda: storage.read("a/b"),
        lambda: storage.size("a/b"),
        lambda: list(storage.list("a/")),
        lambda: storage.delete("a/b"),
    ):
        with pytest.raises(errors.StorageUnavailableError, match="Connection refused") as caught:
            call()
        assert f"{bucket_url}/a/" in str(caught.value)
        assert f"cannot reach the store at {proxied_options['endpoint']!r}" in str(caught.value)
        (note,) = caught.value.__notes__
        assert note.startswith("Given up after")
    fault_proxy.accept()
    storage.write("a/b", b"1")
    assert storage.read("a/b") == b"1"


REFUSALS = {
    "a bad request": (400, "InvalidRequest", errors.StorageError),
    "an expired token": (400, "ExpiredToken", errors.StorageDeniedError),
    "unknown credentials": (401, "", errors.StorageDeniedError),
    "denied": (403, "AccessDenied", errors.StorageDeniedError),
    "no bucket": (404, "NoSuchBucket", errors.StorageMissingError),
    "no such method": (405, "MethodNotAllowed", errors.StorageError),
    "not implemented": (501, "NotImplemented", errors.StorageError),
    "elsewhere": (301, "PermanentRedirect", errors.StorageError),
}


@each(("status", "code", "kind"), REFUSALS.values())
def test_what_does_not_heal_is_not_tried_again(storage, fault_proxy, status, code, kind):
    fault_proxy.clear()
    fault_proxy.inject(Fault(status=status, code=code))
    for call in (
        lambda: storage.write("a", b""),
        lambda: storage.read("a"),
        lambda: list(storage.list()),
        lambda: storage.delete("a"),
    ):
        before = len(fault_proxy.seen)
        with pytest.raises(errors.StorageError) as caught:
            call()
        assert type(caught.value) is kind
        assert len(fault_proxy.seen) == before + 1


@pytest.mark.parametrize("status", [500, 503, 429])
def test_it_is_told_what_the_store_said(bucket_url, proxied_options, fault_proxy, status):
    storage = open_storage(bucket_url, {**proxied_options, "retry": {"deadline": 0}})
    fault_proxy.inject(Fault(status=status, code="Melting"))
    with pytest.raises(errors.StorageUnavailableError, match=f"status {status}.*Melting"):
        storage.read("a")
